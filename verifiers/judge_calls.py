"""Calls to an OpenAI-compatible endpoint: clients, how many at a time, and how many in all."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..sandbox.errors import UserError

if TYPE_CHECKING:
    import asyncio


class BudgetSpentError(Exception):
    """The process has made as many calls, or used as many tokens, as it may."""


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served and how to speak to it.

    Attributes:
        base_url: the endpoint's address, such as "http://localhost:8000/v1"; None for OpenAI's own.
        api_key_env: the environment variable that holds the key.
        timeout: seconds for one request.
        retries: how often a request is sent again after a failed connection, a timeout, 408, 409, 429 or 5xx,
            after a wait that doubles each time or that the server asks for.
        concurrency: how many requests may be open at a time.
    """

    base_url: str | None
    api_key_env: str
    timeout: float
    retries: int
    concurrency: int


@dataclass
class Spending:
    """The calls and tokens that this process has spent on one model of one endpoint."""

    calls: int = 0
    tokens: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def begin_call(self, max_calls: int | None, max_tokens: int | None) -> None:
        """Count a call, or raise BudgetSpentError if none is left."""
        with self._lock:
            if max_calls is not None and self.calls >= max_calls:
                raise BudgetSpentError(f"the budget of {max_calls} calls is spent")
            if max_tokens is not None and self.tokens >= max_tokens:
                raise BudgetSpentError(f"the budget of {max_tokens} tokens is spent")
            self.calls += 1

    def add_tokens(self, tokens: int) -> None:
        """Count the tokens of a reply and its request."""
        with self._lock:
            self.tokens += tokens


_spendings: dict[tuple[str | None, str], Spending] = {}
_spendings_lock = Lock()


def spending(base_url: str | None, model: str) -> Spending:
    """What this process has spent on a model so far."""
    with _spendings_lock:
        return _spendings.setdefault((base_url, model), Spending())


@dataclass
class _OfLoop:
    """What belongs to one event loop: connections, semaphores and locks cannot be shared between loops."""

    clients: dict[Endpoint, Any] = field(default_factory=dict)
    gates: dict[Endpoint, asyncio.Semaphore] = field(default_factory=dict)
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = WeakKeyDictionary()


def turn(key: str) -> asyncio.Lock:
    """A lock of the running event loop by name: equal questions ask one after the other, so that one is paid for."""
    import asyncio

    turns = _of_loop().turns
    lock = turns.get(key)
    if lock is None:
        lock = turns[key] = asyncio.Lock()
    return lock


async def complete(endpoint: Endpoint, model: str, messages: list[dict[str, str]], **sampling: Any) -> Any:
    """The endpoint's chat completion, as the `openai` SDK has it.

    Raises:
        UserError: `openai` is not installed, or the key is not set where OpenAI itself is called.
        openai.APIError: the request failed for good.
    """
    import asyncio

    own = _of_loop()
    if endpoint not in own.clients:
        own.clients[endpoint] = _client(endpoint)
        own.gates[endpoint] = asyncio.Semaphore(endpoint.concurrency)
    async with own.gates[endpoint]:
        return await own.clients[endpoint].chat.completions.create(model=model, messages=messages, **sampling)


def _of_loop() -> _OfLoop:
    import asyncio

    loop = asyncio.get_running_loop()
    if loop not in _loops:
        _loops[loop] = _OfLoop()
    return _loops[loop]


def _client(endpoint: Endpoint) -> Any:
    try:
        from openai import AsyncOpenAI
    except ModuleNotFoundError:
        raise UserError(
            "rlvr/judge-v1 needs the package 'openai'; install it with: pip install 'rlvr[judge]'."
        ) from None
    key = os.environ.get(endpoint.api_key_env)
    if not key:
        if endpoint.base_url is None:
            raise UserError(
                f"The environment variable {endpoint.api_key_env!r} holds no key for the judge; set it, or pass "
                "base_url= to call another endpoint."
            )
        # Servers of one's own ask for no key, but the SDK insists on one.
        key = "none"
    return AsyncOpenAI(api_key=key, base_url=endpoint.base_url, timeout=endpoint.timeout, max_retries=endpoint.retries)
