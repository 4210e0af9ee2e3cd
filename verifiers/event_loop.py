"""Running coroutine functions from plain code: one thread with an event loop, where many wait at the same time."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from .patience import OutOfPatience

T = TypeVar("T")

CONCURRENCY = 64
"""How many calls of one function wait at a time."""


def run_all(function: Callable[..., Any], calls: Sequence[dict[str, Any]], limit: float) -> list[Any]:
    """One entry for each call, in order: what the coroutine returned, or the exception that it raised.

    Args:
        function: a coroutine function.
        calls: keyword arguments, one dict a call.
        limit: seconds for each; then it is cancelled and its entry is OutOfPatience. So it is where the
            function blocks the loop instead of waiting: the loop is then left to itself.
    """
    outcomes: list[Any] = [OutOfPatience(limit)] * len(calls)
    loop = _loop()
    context = contextvars.copy_context()
    future = asyncio.run_coroutine_threadsafe(_all(function, calls, limit, outcomes, context), loop)
    # The rounds that the calls need if each takes its limit, and some time to be cancelled in.
    rounds = math.ceil(len(calls) / CONCURRENCY) + 1
    try:
        for _ in range(rounds):
            if _finished(future, limit + 1) or not _alive(loop, limit + 1):
                break
        if not future.done():
            _abandon(loop)
            future.cancel()
    except BaseException:
        future.cancel()
        raise
    return list(outcomes)


async def in_a_thread(call: Callable[[], T]) -> T:
    """What `call` returns, from a thread of its own, so that the running loop goes on meanwhile.

    The thread does not outlive the program, unlike those of `asyncio.to_thread`, which are waited for at its end.
    """
    gate = _gates.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(CONCURRENCY))
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(call)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    async with gate:
        future.set_running_or_notify_cancel()
        threading.Thread(target=work, name="rlvr-averify", daemon=True).start()
        return await asyncio.wrap_future(future)


async def _all(
    function: Callable[..., Any],
    calls: Sequence[dict[str, Any]],
    limit: float,
    outcomes: list[Any],
    context: contextvars.Context,
) -> None:
    free = asyncio.Semaphore(CONCURRENCY)

    async def one(index: int) -> None:
        async with free:
            try:
                # Not `wait_for`, whose TimeoutError could as well be one that the function raised.
                async with asyncio.timeout(limit) as deadline:
                    outcomes[index] = await function(**calls[index])
            except BaseException as error:
                outcomes[index] = OutOfPatience(limit) if deadline.expired() else error

    tasks = [asyncio.create_task(one(index), context=context.copy()) for index in range(len(calls))]
    await asyncio.gather(*tasks)


def _finished(future: Future[None], seconds: float) -> bool:
    try:
        future.result(seconds)
    except TimeoutError:
        return future.done()
    except CancelledError:
        pass
    return True


def _alive(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    """Whether the loop still runs what it is given."""
    answered = threading.Event()
    loop.call_soon_threadsafe(answered.set)
    return answered.wait(seconds)


def _loop() -> asyncio.AbstractEventLoop:
    global _current
    with _lock:
        # A coroutine that calls plain code which waits for another coroutine holds up its own loop meanwhile.
        inside = _current is not None and _current[1] is threading.current_thread()
        if _current is not None and not inside:
            return _current[0]
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run, args=(loop,), name="rlvr-async-verifiers", daemon=True)
        thread.start()
        _current = (loop, thread)
        return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    global _current
    with _lock:
        if _current is not None and _current[0] is loop:
            _current = None
    loop.call_soon_threadsafe(loop.stop)


_current: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
_lock = threading.Lock()
_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _forget() -> None:
    global _current, _lock
    _current, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
