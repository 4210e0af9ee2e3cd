"""Running coroutine functions from plain code: one thread with an event loop, where many wait at the same time."""

from __future__ import annotations

import asyncio
import contextlib
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

_MOST_TRIES = 3  # of a call, where another blocks the loop
_HELD_UP = object()


def run_all(function: Callable[..., Any], calls: Sequence[dict[str, Any]], limit: float) -> list[Any]:
    """One entry for each call, in order: what the coroutine returned, or the exception that it raised.

    Args:
        function: a coroutine function.
        calls: keyword arguments, one dict a call.
        limit: seconds for each; then it is cancelled and its entry is OutOfPatience. So it is where the
            function blocks the loop instead of waiting: the loop is then left to itself, and the calls that it held
            up, which may be anybody's, are made again on another.
    """
    outcomes: list[Any] = [_HELD_UP] * len(calls)
    for _ in range(_MOST_TRIES):
        left = [index for index, outcome in enumerate(outcomes) if outcome is _HELD_UP]
        if not left:
            break
        _run_on_a_loop(function, calls, left, limit, outcomes)
    return [OutOfPatience(limit) if outcome is _HELD_UP else outcome for outcome in outcomes]


def _run_on_a_loop(
    function: Callable[..., Any],
    calls: Sequence[dict[str, Any]],
    left: Sequence[int],
    limit: float,
    outcomes: list[Any],
) -> None:
    """Put down the outcomes of the calls in `left`, except of those that the loop did not get to."""
    loop = _loop()
    tasks: dict[asyncio.Task[None], int] = {}
    found: dict[int, Any] = {}
    context = contextvars.copy_context()
    future = asyncio.run_coroutine_threadsafe(_all(function, calls, left, limit, found, tasks, context), loop)
    # The rounds that the calls need if each takes its limit, and some time to be cancelled in.
    rounds = math.ceil(len(left) / CONCURRENCY) + 1
    lives = True
    try:
        for _ in range(rounds):
            if _finished(future, limit + 1):
                break
            lives = _alive(loop, limit + 1)
            if not lives:
                break
        if not future.done():
            blocking = None if lives else asyncio.current_task(loop)
            if blocking in tasks:
                found.setdefault(tasks[blocking], OutOfPatience(limit))
            if not lives:
                _abandon(loop)
            future.cancel()
    except BaseException:
        future.cancel()
        raise
    for index in left:
        # On a loop that lives, whatever has not ended by now does not heed that it was cancelled.
        outcomes[index] = found.get(index, OutOfPatience(limit) if lives else _HELD_UP)


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
    left: Sequence[int],
    limit: float,
    found: dict[int, Any],
    tasks: dict[asyncio.Task[None], int],
    context: contextvars.Context,
) -> None:
    free = asyncio.Semaphore(CONCURRENCY)

    async def one(index: int) -> None:
        async with free:
            try:
                # Not `wait_for`, whose TimeoutError could as well be one that the function raised.
                async with asyncio.timeout(limit) as deadline:
                    found[index] = await function(**calls[index])
            except BaseException as error:
                found[index] = OutOfPatience(limit) if deadline.expired() else error

    tasks.update({asyncio.create_task(one(index), context=context.copy()): index for index in left})
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
    try:
        loop.call_soon_threadsafe(answered.set)
    except RuntimeError:
        return False  # somebody else gave it up, and it has ended
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
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(loop.stop)


_current: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
_lock = threading.Lock()
_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _forget() -> None:
    global _current, _lock
    _current, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
