"""The engine `vllm-server`: one or more vLLM servers over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import httpx2

from ...verifiers import UserError
from ..seeding import derive
from .base import Completion, Engine, Sampling
from .server_client import WORKER_EXTENSION, Segment, ServerClient, ServerFacts, Unanswered
from .server_loop import BackgroundLoop
from .server_pool import Routing, Server, ServerPool
from .server_process import ServerProcess
from .server_weights import WeightTransfer

if TYPE_CHECKING:
    from torch import Tensor

_MOST_FAILURES = 3  # of one request, on servers that live
_QUIET_WITHIN = 30.0  # seconds; what a paused server has not given back by then is asked for again


class ServerEngine(Engine):
    """Generates on vLLM servers; any thread may ask for completions.

    A request that fails, or is not answered in time, is made again on another server with the same seed. A server that
    does not answer is taken out, and taken back with the latest weights once it does. Where `sync` comes while
    completions are generated, they are interrupted, and go on with the new weights from the tokens they have: each
    token is stamped with the version that it was drawn under, and has the log-prob that it had under that version.

    Args:
        servers: their addresses.
        eos_ids: every id that ends a completion.
        vocabulary: how many tokens the tokenizer has; a sampled id beyond is an error.
        make_transfer: makes what brings the weights to these servers.
        routing: `least_busy`, or `round_robin`.
        request_timeout: seconds that a completion may take.
        say: is told in a sentence what happens to servers; called from another thread.
        probe_every: seconds between looks at a lost server.
        own: the process of the only server, where it was started for this engine; it ends with it.
        run: a name that the engines of all processes of a run share, and those of no other run.

    Raises:
        UserError: if a server does not answer, or was started without what training needs.
    """

    def __init__(
        self,
        servers: Sequence[str],
        eos_ids: Collection[int],
        vocabulary: int,
        make_transfer: Callable[[Sequence[Server]], WeightTransfer],
        *,
        routing: Routing = "least_busy",
        request_timeout: float = 600.0,
        say: Callable[[str], None] = lambda sentence: None,
        probe_every: float = 2.0,
        own: ServerProcess | None = None,
        run: str | None = None,
    ) -> None:
        self.version = 0
        self.retries = 0
        self._closed = False
        self._eos_ids = frozenset(eos_ids)
        self._vocabulary = vocabulary
        self._request_timeout = request_timeout
        self._say = say
        self._own = own
        self._run = secrets.token_hex(4) if run is None else run
        self._loop = BackgroundLoop()
        try:
            connected = self._loop.run(self._connect(servers))
            self.max_length = min(server.facts.max_length for server in connected)
            self._transfer = make_transfer(connected)
        except BaseException:
            self._loop.close()
            raise
        cure = "start them again, and go on with --resume"
        if own is not None:
            cure = f"{own.log} has its last words; go on with --resume"
        self._pool = ServerPool(connected, routing, say, self._take_back, probe_every, cure)
        self._renewing = asyncio.Lock()

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`; prompts that are appended are asked for at once."""
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds; give one seed a prompt")
        finished: queue.SimpleQueue[tuple[int, Completion | BaseException]] = queue.SimpleQueue()

        async def fetch(place: int, prompt: list[int], seed: int) -> None:
            try:
                finished.put((place, await self._complete(prompt, sampling, seed)))
            except BaseException as error:
                finished.put((place, error))
                raise

        jobs: list[Future[None]] = []
        told = 0
        try:
            while True:
                for place in range(len(jobs), len(prompts)):
                    prompt = list(prompts[place])
                    self._check_length(prompt, sampling.max_tokens)
                    jobs.append(self._loop.start(fetch(place, prompt, seeds[place])))
                if told == len(jobs):
                    return
                place, outcome = finished.get()
                if isinstance(outcome, asyncio.CancelledError):
                    raise RuntimeError("the engine was closed while it generated")
                if isinstance(outcome, BaseException):
                    raise outcome
                told += 1
                yield place, outcome
        finally:
            for job in jobs:
                job.cancel()

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `Engine.sync`; completions under way are interrupted and go on under the new version.

        Raises:
            UserError: if a server does not take the weights, or has others than it was given.
        """
        self._transfer.prepare(weights, version)
        self._loop.run(self._lock())
        try:
            paused = self._loop.run(self._pause())
            failures = self._transfer.send(paused, self._loop)
            self._loop.run(self._settle(paused, failures, version))
            self._transfer.finish()
            self.version = version
        finally:
            self._loop.call(self._renewing.release)

    def close(self) -> None:
        """Give up what is being generated, and remove the weights that were put down for the servers."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._loop.run(self._leave())
        self._loop.close()
        self._transfer.close()
        if self._own is not None:
            self._own.close()

    @property
    def lost(self) -> int:
        """How many servers are lost at the moment."""
        return len(self._pool.servers) - len(self._pool.up)

    def _check_length(self, prompt: Sequence[int], max_tokens: int) -> None:
        if self.max_length is not None and len(prompt) + max_tokens > self.max_length:
            raise UserError(
                f"A prompt of {len(prompt)} tokens and {max_tokens} new ones do not fit in the {self.max_length} "
                "positions of the servers; lower max_tokens, shorten the prompt, or start them with a larger "
                "--max-model-len."
            )

    async def _connect(self, urls: Sequence[str]) -> list[Server]:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx2.AsyncClient(limits=limits, trust_env=False)
        return list(await asyncio.gather(*map(self._meet, urls)))

    async def _meet(self, url: str) -> Server:
        client = ServerClient(url, self._http)
        try:
            facts = await client.facts()
        except Unanswered as error:
            raise UserError(
                f"No vLLM server answers at {url} ({error}); start one by `rlvr serve MODEL`, or correct "
                "engine.servers."
            ) from None
        if (unfit := _unfit(facts)) is not None:
            reason, flag = unfit
            raise UserError(
                f"The server {url} is not fit to train with: {reason}; start it by `rlvr serve`, or {flag}."
            )
        return Server(client, facts, is_open=True)

    async def _complete(self, prompt: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        draft = _Draft(list(prompt), seed, sampling)
        failures = 0
        failed_on: Server | None = None
        while True:
            server = await self._pool.claim(failed_on)
            version = server.version
            try:
                segment = await self._ask(server, draft)
            except Unanswered as error:
                self.retries += 1
                failed_on = server
                await self._pool.suspect(server, str(error))
                failures += server.is_up
                if failures >= _MOST_FAILURES:
                    raise UserError(
                        f"A completion failed {failures} times (at last on {server.url}: {error}); look at the log of "
                        "the server, or raise engine.request_timeout, and go on with --resume."
                    ) from None
                if server.is_up:
                    self._say(f"warning: a completion is asked for again ({server.url}: {error})")
                continue
            self._check_ids(server, segment)
            draft.add(segment, version)
            reason = draft.ended(segment, self._eos_ids)
            if reason is not None:
                return Completion(draft.ids, draft.logprobs, None, reason, draft.versions)

    async def _ask(self, server: Server, draft: _Draft) -> Segment:
        """What the server adds to the draft; nothing if it was interrupted for others' sake."""
        request = server.client.complete(
            server.facts.model, [*draft.prompt, *draft.ids], draft.left, draft.segment_seed, self._eos_ids
        )
        task = asyncio.ensure_future(request)
        server.running.add(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._request_timeout)
            if not done:
                raise Unanswered(f"a completion took more than {self._request_timeout:g} s")
            if task.cancelled():
                self.retries += 1
                return Segment([], [], "abort")
            server.has_served = True
            return task.result()
        finally:
            task.cancel()
            server.running.discard(task)
            self._pool.release(server)

    def _check_ids(self, server: Server, segment: Segment) -> None:
        strange = [token for token in segment.ids if not 0 <= token < self._vocabulary]
        if strange:
            raise UserError(
                f"The server {server.url} sampled the token id {strange[0]}, but the tokenizer has {self._vocabulary} "
                "tokens; the model's padded vocabulary has learnt to be drawn, so lower the learning rate, or set the "
                "logits of those ids to -inf."
            )

    async def _leave(self) -> None:
        """Leave no server paused."""
        self._pool.forget()
        paused = [server.client.resume() for server in self._pool.up if not server.is_open]
        await asyncio.gather(*paused, return_exceptions=True)
        await self._http.aclose()

    async def _lock(self) -> None:
        await self._renewing.acquire()

    async def _pause(self) -> list[Server]:
        """Have every server generate nothing; those that could be told."""
        servers = self._pool.up
        outcomes = await asyncio.gather(*map(self._quiet, servers), return_exceptions=True)
        for server, outcome in zip(servers, outcomes, strict=True):
            if isinstance(outcome, Unanswered):
                self._pool.lose(server, str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
        self._pool.check_some_left()
        return [server for server in servers if server.is_up]

    async def _quiet(self, server: Server) -> None:
        server.is_open = False
        await self._check_untouched(server)
        await server.client.pause()
        deadline = asyncio.get_running_loop().time() + _QUIET_WITHIN
        while server.running:
            await asyncio.wait(set(server.running), timeout=0.25)
            if server.running and asyncio.get_running_loop().time() > deadline:
                server.interrupt()
                await asyncio.sleep(0)
            elif server.running:
                # A request that reached the server after the pause waits in its queue.
                await server.client.abort()

    async def _check_untouched(self, server: Server) -> None:
        """Refuse to have learnt from completions of weights that are not those the server was given."""
        if server.label is None or not server.has_served:
            return
        found = await server.client.weight_version()
        if found != server.label:
            raise UserError(
                f"The server {server.url} generated with weights labelled {found!r} instead of {server.label!r}: it "
                "was restarted, or another run trains on it; give each run servers of its own, and go on with --resume."
            )

    async def _settle(self, servers: Sequence[Server], failures: dict[Server, Unanswered], version: int) -> None:
        """Have the servers that took the weights generate again."""
        for server, failure in failures.items():
            await self._pool.suspect(server, str(failure))
            if server.is_up:
                raise UserError(_refused(server, failure))
        loaded = [server for server in servers if server.is_up]
        outcomes = await asyncio.gather(*(self._renewed(server, version) for server in loaded), return_exceptions=True)
        for server, outcome in zip(loaded, outcomes, strict=True):
            if isinstance(outcome, Unanswered):
                self._pool.lose(server, str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                self._pool.open(server)
        self._pool.check_some_left()

    async def _renewed(self, server: Server, version: int) -> None:
        """Check that a server with new weights says so, has forgotten the old ones, and generates."""
        label = self._label(version)
        await server.client.reset_prefix_cache()
        await server.client.set_weight_version(label)
        found = await server.client.weight_version()
        if found != label:
            raise UserError(
                f"The server {server.url} says that its weights are {found!r} after it was given {label!r}; restart "
                "it, and go on with --resume."
            )
        await server.client.resume()
        server.version, server.label, server.has_served = version, label, False

    async def _take_back(self, server: Server) -> bool:
        """Give the latest weights to a server that answers again."""
        async with self._renewing:
            if not self._transfer.can_repeat:
                return False
            try:
                await server.client.facts()
                await server.client.pause()
                await self._transfer.repeat(server)
                await self._renewed(server, self.version)
            except Unanswered:
                return False
            except UserError as error:
                self._say(f"warning: the server {server.url} answers again but is of no use: {error}")
                return False
            return True

    def _label(self, version: int) -> str:
        """By which servers tell our versions from those of another run."""
        return f"{self._run}/{version}"


class FollowingServerEngine(ServerEngine):
    """The engine of a process that another one brings the weights for: of all but the first process of a run.

    All processes call `sync` before any of them generates again.
    """

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `Engine.sync`; takes part in gathering the weights, which the servers have from the first process."""
        for _ in weights:
            pass

        async def note() -> None:
            for server in self._pool.up:
                server.version, server.label = version, self._label(version)

        self._loop.run(note())
        self.version = version

    async def _take_back(self, server: Server) -> bool:
        """A server that answers again is fit once the first process has given it the weights."""
        try:
            if await server.client.weight_version() != self._label(self.version):
                return False
        except (Unanswered, UserError):
            return False
        server.version, server.label = self.version, self._label(self.version)
        return True


@dataclass
class _Draft:
    """A completion in the making, of segments that were each drawn under one version."""

    prompt: list[int]
    seed: int
    sampling: Sampling
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    @property
    def left(self) -> Sampling:
        """How the rest is drawn."""
        return replace(self.sampling, max_tokens=self.sampling.max_tokens - len(self.ids))

    @property
    def segment_seed(self) -> int:
        """The seed of what comes next; after an interruption the server's random numbers would begin anew."""
        return derive(self.seed, "from", len(self.ids)) if self.ids else self.seed

    def add(self, segment: Segment, version: int) -> None:
        """Add what was generated under a version."""
        self.ids += segment.ids
        self.logprobs += segment.logprobs
        self.versions += [version] * len(segment.ids)

    def ended(self, segment: Segment, eos_ids: Collection[int]) -> Literal["stop", "length"] | None:
        """Why the completion is over, if it is."""
        if segment.finish_reason != "abort":
            return segment.finish_reason
        if segment.ids and segment.ids[-1] in eos_ids:
            return "stop"
        return "length" if len(self.ids) >= self.sampling.max_tokens else None


def _unfit(facts: ServerFacts) -> tuple[str, str] | None:
    """What is wrong with how a server was started, and what would mend it."""
    if not facts.processed:
        return (
            "its log-probs are not those of the distribution that it draws from",
            "--logprobs-mode processed_logprobs",
        )
    if facts.on_cpu and facts.chunks:
        return (
            "it is on a CPU, where vLLM ends when it reads a prompt with a seed in parts",
            "--no-enable-chunked-prefill",
        )
    if facts.on_cpu and not facts.checks:
        return (
            "it is on a CPU, where vLLM keeps copies of some weights that new ones do not reach",
            f"--worker-extension-cls {WORKER_EXTENSION}",
        )
    return None


def _refused(server: Server, failure: Unanswered) -> str:
    return (
        f"The server {server.url} could not take the weights ({failure}); it must serve a model of the same shape, and "
        "see the folder of the run under the same name, so correct that and start it again."
    )
