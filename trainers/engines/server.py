"""The engine `vllm-server`: one or more vLLM servers over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import httpx2

from ...verifiers import UserError
from .base import Completion, Engine, Sampling
from .model_sizes import ModelSizes
from .server_client import Segment, ServerClient, Unanswered
from .server_loop import BackgroundLoop
from .server_pool import Routing, Server, ServerPool
from .server_process import ServerProcess
from .server_queue import RequestPatience
from .server_renewal import Renewal
from .server_segments import SegmentedCompletion
from .server_weights import WeightTransfer

if TYPE_CHECKING:
    from torch import Tensor

_GOODBYE = 10.0  # seconds that servers have to go on after a pause when the engine is closed
_MOST_FAILURES = 3  # of one request, on servers that live


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
        request_timeout: seconds that a completion may take, besides what it may have spent in a server's queue.
        say: is told in a sentence what happens to servers; called from another thread.
        probe_every: seconds between looks at a lost server.
        own: the process of the only server, where it was started for this engine; it ends with it.
        run: a name that the engines of all processes of a run share, and those of no other run.
        go_on: what the user can do, in the words of an order, once servers that were lost are back.
        policy: what servers must have a model of the size of; None: whatever they have.

    Raises:
        UserError: if a server does not answer, or was started without what training needs or with another model.
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
        go_on: str = "go on with --resume",
        policy: ModelSizes | None = None,
    ) -> None:
        self.version = 0
        self.retries = 0
        self._closed = False
        self._eos_ids = frozenset(eos_ids)
        self._vocabulary = vocabulary
        self._patience = RequestPatience(request_timeout)
        self._say = say
        self._own = own
        self._policy = policy
        self._loop = BackgroundLoop()
        try:
            connected = self._loop.run(self._connect(servers))
            self.max_length = min(server.facts.max_length for server in connected)
            self.dtype = " and ".join(sorted({server.facts.dtype for server in connected}))
            self._transfer = make_transfer(connected)
        except BaseException:
            self._loop.close()
            raise
        self._go_on = go_on
        cure = f"start them again, and {go_on}" if own is None else f"{own.log} has its last words; {go_on}"
        self._pool = ServerPool(connected, routing, say, self._take_back, probe_every, cure)
        run = secrets.token_hex(4) if run is None else run
        self._renewal = Renewal(self._pool, self._transfer, run, say, go_on, policy)

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`; prompts that are appended are asked for at once.

        Raises:
            UserError: if no server is left, or if one has generated with weights that it was not given.
        """
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds; give one seed a prompt")
        self._check_open()
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
                    self._loop.run(self._renewal.check_all())
                    return
                try:
                    place, outcome = finished.get(timeout=1.0)
                except queue.Empty:
                    self._check_open()  # what was asked for at the very end is never answered
                    continue
                if isinstance(outcome, asyncio.CancelledError):
                    self._check_open()
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
        try:
            paused = self._loop.run(self._renewal.begin())
            failures = self._transfer.send(paused, self._loop)
            self._loop.run(self._renewal.settle(paused, failures, version))
            self._transfer.finish()
            self.version = version
        finally:
            self._loop.call(self._renewal.end)

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

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the engine was closed while it generated")

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
        facts.check(url, self._policy)
        return Server(client, facts, is_open=True)

    async def _complete(self, prompt: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        draft = SegmentedCompletion(list(prompt), seed, sampling)
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
                        f"the server, or raise engine.request_timeout, and {self._go_on}."
                    ) from None
                if server.is_up:
                    self._say(f"warning: a completion is asked for again ({server.url}: {error})")
                continue
            self._check_ids(server, segment)
            draft.add(segment, version)
            completion = draft.finished(segment, self._eos_ids)
            if completion is not None:
                return completion

    async def _ask(self, server: Server, draft: SegmentedCompletion) -> Segment:
        """What the server adds to the draft; nothing if it was interrupted for others' sake."""
        request = server.client.complete(
            server.facts.model, [*draft.prompt, *draft.ids], draft.left, draft.segment_seed, self._eos_ids
        )
        task = asyncio.ensure_future(request)
        server.running.add(task)
        try:
            if not await self._patience.wait(server, task):
                raise Unanswered(f"a completion took more than {self._patience.limit:g} s")
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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await asyncio.gather(*paused, return_exceptions=True)
        await self._http.aclose()

    async def _take_back(self, server: Server) -> bool:
        return await self._renewal.take_back(server)


class FollowingServerEngine(ServerEngine):
    """The engine of a process that another one brings the weights for: of all but the first process of a run.

    All processes call `sync` before any of them generates again. Which servers have the weights then is asked when
    it generates for the first time after that: the first process may have gone on without some of them.
    """

    _looked = True

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`."""
        if not self._looked:
            self._loop.run(self._look())
            self._looked = True
        yield from super().stream(prompts, sampling, seeds)

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `Engine.sync`; takes part in gathering the weights, which the servers have from the first process."""
        for _ in weights:
            pass

        async def note() -> None:
            for server in self._pool.up:
                server.version, server.label = version, self._renewal.label(version)

        self._loop.run(note())
        self.version = version
        self._looked = False

    async def _look(self) -> None:
        """Take out the servers that do not have the weights."""
        servers = self._pool.up
        labels = await asyncio.gather(*(server.client.weight_version() for server in servers), return_exceptions=True)
        for server, found in zip(servers, labels, strict=True):
            if isinstance(found, Unanswered):
                self._pool.lose(server, str(found))
            elif isinstance(found, BaseException):
                raise found
            elif found != server.label:
                self._pool.lose(server, f"it has the weights {found!r} instead of {server.label!r}")

    async def _take_back(self, server: Server) -> bool:
        """A server that answers again is fit once the first process has given it the weights."""
        try:
            if await server.client.weight_version() != self._renewal.label(self.version):
                return False
        except (Unanswered, UserError):
            return False
        server.version, server.label = self.version, self._renewal.label(self.version)
        return True
