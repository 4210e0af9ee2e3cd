"""One vLLM server, as its HTTP interface: token ids in, token ids out, and the calls that renew its weights."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

import httpx2

from ...verifiers import UserError
from .base import Sampling
from .model_sizes import ModelSizes, sizes_in, told_sizes
from .server_process import WORKER_EXTENSION

_SOON = 5.0  # seconds within which a server that lives says so
# Of vLLM's metrics: requests that wait, and tokens that it has read and generated.
_LOAD = ("vllm:num_requests_waiting", "vllm:prompt_tokens_total", "vllm:generation_tokens_total")


class Unanswered(Exception):
    """The server gave no usable answer: the connection broke, or the server failed."""


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself.

    Attributes:
        model: the name under which it serves its model.
        max_length: how many tokens prompt and completion may have together.
        processed: whether its log-probs are those of the distribution that is drawn from.
        checks: whether its workers look that they have the weights that they were given.
        on_cpu: whether it runs on a CPU.
        chunks: whether it reads long prompts in parts.
        dtype: of its weights, by torch's name.
        room: how many completions it generates at a time; more wait in its queue.
        transfer: how it takes weights from a trainer's device, `nccl` say; None if only from a folder.
        sizes: of its model, as far as it tells.
    """

    model: str
    max_length: int
    processed: bool
    checks: bool
    on_cpu: bool
    chunks: bool
    dtype: str
    room: int
    transfer: str | None
    sizes: ModelSizes

    def check(self, url: str, policy: ModelSizes | None) -> None:
        """Refuse a server that was started without what training needs, or with another model than the policy's.

        Raises:
            UserError: if it was.
        """
        for reason, flags in self._faults():
            raise UserError(
                f"The server {url} is not fit to train with: {reason}; start it by `rlvr serve`, or with {flags}."
            )
        differ = [] if policy is None else self.sizes.differences(policy)
        if policy is not None and differ:
            has = ", ".join(f"{name} {self.sizes.sizes[name]}" for name in differ)
            wants = ", ".join(str(policy.sizes[name]) for name in differ)
            raise UserError(
                f"The server {url} has another model than the policy: {self.sizes.name!r} has {has}, where the policy "
                f"({policy.name!r}) has {wants}; start one with the policy's model by `rlvr serve`, or correct "
                "engine.servers."
            )

    def _faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with how it was started, and the flags that would mend it."""
        if not self.processed:
            yield (
                "its log-probs are not those of the distribution that it draws from",
                "--logprobs-mode processed_logprobs",
            )
        if self.on_cpu and self.chunks:
            yield (
                "it is on a CPU, where vLLM ends when it reads a prompt with a seed in parts",
                "--no-enable-chunked-prefill",
            )
        if self.on_cpu and not self.checks:
            yield (
                "it is on a CPU, where vLLM keeps copies of some weights that new ones do not reach",
                f"--worker-extension-cls {WORKER_EXTENSION}",
            )


@dataclass(frozen=True)
class Segment:
    """A completion, or the part of one that was generated until it was interrupted.

    Attributes:
        ids: sampled tokens; an EOS is the last of them.
        logprobs: of each under the distribution it was drawn from.
        finish_reason: `abort` if the server was told to stop in the middle.
    """

    ids: list[int]
    logprobs: list[float]
    finish_reason: Literal["stop", "length", "abort"]


@dataclass(frozen=True)
class ServerLoad:
    """What a server has to do.

    Attributes:
        waiting: requests in its queue, of whomever.
        tokens: how many it has read and generated since it was started.
    """

    waiting: int
    tokens: int


class ServerClient:
    """Speaks to one server; all calls are coroutines.

    Args:
        url: such as `http://127.0.0.1:8000`.
        http: makes the connections, for all servers.
    """

    def __init__(self, url: str, http: httpx2.AsyncClient) -> None:
        self.url = url.rstrip("/")
        self._http = http

    async def facts(self) -> ServerFacts:
        """What it says of itself.

        Raises:
            Unanswered: if there is no server.
            UserError: if it was started without what training needs.
        """
        listed = await self._call("GET", "/v1/models", timeout=_SOON)
        info = await self._call("GET", "/server_info", params={"config_format": "json"}, timeout=60)
        await self.weight_version()
        try:
            config = info["vllm_config"]
            transfer = config.get("weight_transfer_config") or {}
            checks = config["parallel_config"].get("worker_extension_cls") == WORKER_EXTENSION
            served = str(config["model_config"].get("model") or listed["data"][0]["id"])
            sizes = ModelSizes(served, await self._sizes(checks) or sizes_in(served))
            return ServerFacts(
                model=listed["data"][0]["id"],
                max_length=int(listed["data"][0]["max_model_len"]),
                processed=config["model_config"]["logprobs_mode"] == "processed_logprobs",
                checks=checks,
                on_cpu="cpu" in str(config["device_config"]).lower(),
                chunks=bool(config["scheduler_config"]["enable_chunked_prefill"]),
                dtype=str(config["model_config"]["dtype"]).removeprefix("torch."),
                room=int(config["scheduler_config"]["max_num_seqs"]),
                transfer=transfer.get("backend"),
                sizes=sizes,
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"The server {self.url} describes itself in a way that is not known here ({error!r}); use vLLM 0.32, "
                "started by `rlvr serve`."
            ) from None

    async def _sizes(self, checks: bool) -> dict[str, int]:
        """Those of its model; none if nobody there tells them, as in a server of an earlier version."""
        if not checks:
            return {}
        try:
            answer = await self._call("POST", "/collective_rpc", json={"method": "model_sizes"}, timeout=60)
        except Unanswered:
            return {}
        return told_sizes(answer["results"][0])

    async def is_healthy(self) -> bool:
        """Whether it answers, and says that it can generate."""
        try:
            # Over a connection of its own: after an error a server closes those that it has, and is well.
            async with httpx2.AsyncClient(trust_env=False) as http:
                answer = await http.get(f"{self.url}/health", timeout=_SOON)
        except (httpx2.HTTPError, OSError):
            return False
        return answer.status_code == HTTPStatus.OK

    async def load(self) -> ServerLoad | None:
        """What it has to do; None if it does not say."""
        try:
            answer = await self._http.get(f"{self.url}/metrics", timeout=_SOON)
        except (httpx2.HTTPError, OSError):
            return None
        return _load(answer.text) if answer.status_code == HTTPStatus.OK else None

    async def complete(
        self, model: str, prompt: Sequence[int], sampling: Sampling, seed: int, eos_ids: Collection[int]
    ) -> Segment:
        """Generate one completion; the caller sees to it that this does not take for ever.

        Raises:
            Unanswered: if it could not.
        """
        request = {
            "model": model,
            "prompt": list(prompt),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "seed": seed,
            "logprobs": 0,  # those of the sampled tokens alone
            "return_token_ids": True,
            # The tokens that end a completion are ours, not what the server reads in its folder.
            "ignore_eos": True,
            "stop_token_ids": sorted(eos_ids),
        }
        answer = await self._call("POST", "/v1/completions", json=request, timeout=None)
        return self._segment(answer)

    async def pause(self) -> None:
        """Interrupt all that is generated, forget what was cached, and generate nothing until `resume`."""
        await self._call("POST", "/pause", params={"mode": "abort", "clear_cache": "true"}, timeout=60)

    async def resume(self) -> None:
        """Generate again."""
        await self._call("POST", "/resume", timeout=60)

    async def abort(self) -> None:
        """Interrupt what is generated now."""
        await self._call("POST", "/abort_requests", json={}, timeout=60)

    async def reset_prefix_cache(self) -> None:
        """Forget keys and values of earlier prompts, which older weights computed."""
        answer = await self._call("POST", "/reset_prefix_cache", timeout=60)
        if isinstance(answer, dict) and not answer.get("success", True):
            raise UserError(
                f"The server {self.url} kept what it had cached under older weights; let nobody else use it while it "
                "is trained with."
            )

    async def load_folder(self, folder: str, timeout: float, checks: bool) -> None:
        """Load the safetensors of a folder that it sees under the same name; `checks` as in its facts.

        Raises:
            UserError: if it then has others.
        """
        method, argument = ("load_checked", "folder") if checks else ("reload_weights", "weights_path")
        request = {"method": method, "kwargs": {argument: folder}}
        answer = await self._call("POST", "/collective_rpc", json=request, timeout=timeout)
        workers = answer.get("results", []) if isinstance(answer, dict) else []
        stale = [name for worker in workers if isinstance(worker, list) for name in worker]
        if stale:
            raise UserError(
                f"The server {self.url} did not take over {len(stale)} of the weights it was given ({stale[0]} first), "
                "so it would generate with stale ones; its version may not fit (this is written for vLLM 0.32)."
            )

    async def devices(self) -> int:
        """How many processes hold its weights, all copies counted."""
        return int((await self._call("GET", "/get_world_size", timeout=60))["world_size"])

    async def post(self, path: str, body: dict[str, Any] | None, timeout: float) -> None:
        """A call whose answer says nothing but that it went well."""
        await self._call("POST", path, json=body, timeout=timeout)

    async def set_weight_version(self, label: str) -> None:
        """Label the weights that it has now."""
        await self._call("POST", "/update_weight_version", json={"new_version": label}, timeout=60)

    async def weight_version(self) -> str:
        """The label of the weights that it has."""
        answer = await self._call("GET", "/weight_info", timeout=60)
        return str(answer.get("weight_version")) if isinstance(answer, dict) else str(answer)

    async def _call(self, method: str, path: str, *, timeout: float | None, **request: Any) -> Any:
        try:
            answer = await self._http.request(
                method, f"{self.url}{path}", timeout=httpx2.Timeout(timeout, connect=_SOON), **request
            )
        except (httpx2.HTTPError, OSError) as error:
            raise Unanswered(str(error) or type(error).__name__) from None
        if answer.status_code == HTTPStatus.NOT_FOUND and path != "/v1/completions":
            raise UserError(
                f"The server {self.url} has no {path}; start it by `rlvr serve`, or with VLLM_SERVER_DEV_MODE=1 in its "
                "environment."
            )
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unanswered(f"{path} failed with status {answer.status_code}: {_reason(answer)}")
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            raise UserError(f"The server {self.url} refused {path} ({_reason(answer)}); correct what it was asked.")
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise Unanswered(f"{path} was answered with {answer.content[:80]!r}, which is no JSON") from None

    def _segment(self, answer: Any) -> Segment:
        try:
            (choice,) = answer["choices"]
            ids = choice["token_ids"] or []
            logprobs = (choice["logprobs"] or {}).get("token_logprobs") or []
            reason = choice["finish_reason"]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Unanswered(f"a completion came without its tokens: {str(answer)[:200]}") from None
        if reason not in ("stop", "length", "abort"):
            raise Unanswered(f"a completion ended because of {reason!r}")
        if len(ids) != len(logprobs) or not all(_is_number(value) for value in logprobs):
            raise Unanswered(f"a completion of {len(ids)} tokens came with the log-probs {str(logprobs)[:200]}")
        return Segment(list(ids), [float(value) for value in logprobs], reason)


def _load(text: str) -> ServerLoad | None:
    """Of metrics in Prometheus' format, `name{labels} value` a line; several engines have a line each."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in _LOAD:
            with contextlib.suppress(ValueError, OverflowError):
                found[name] = found.get(name, 0) + int(float(line.rpartition(" ")[2]))
    if len(found) < len(_LOAD):
        return None
    waiting, *tokens = (found[name] for name in _LOAD)
    return ServerLoad(waiting, sum(tokens))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _reason(answer: httpx2.Response) -> str:
    """What the server says went wrong, on one line."""
    try:
        body = answer.json()
        error = body.get("error", body.get("detail", body))
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(text.split())[:300] or "no reason given"
