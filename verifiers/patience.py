"""Waiting no longer than a limit for a function that runs in a thread, which cannot be killed."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any


class OutOfPatience(TimeoutError):
    """A function did not return within the limit.

    Attributes:
        limit: the limit, in seconds.
        thread: the thread that is left to itself, if there is one.
    """

    def __init__(self, limit: float, thread: threading.Thread | None = None) -> None:
        super().__init__(limit)
        self.limit = limit
        self.thread = thread


class NotRun(RuntimeError):
    """A function was not called, since too many calls of it still hang.

    Attributes:
        stuck: how many.
    """

    def __init__(self, stuck: int) -> None:
        super().__init__(stuck)
        self.stuck = stuck


class _Here(threading.local):
    helping = False


class _Helper(threading.Thread):
    """A thread that runs one call at a time, and ends after one that nobody waited for."""

    def __init__(self) -> None:
        super().__init__(name="rlvr-verifier", daemon=True)
        self._wake = threading.Semaphore(0)
        self._call: Callable[[], Any] = _nothing
        self._done = threading.Semaphore(0)
        self._result: Any = None
        self._error: BaseException | None = None
        self.abandoned = False
        self.start()

    def run(self) -> None:
        _here.helping = True
        while True:
            self._wake.acquire()
            try:
                self._result = self._call()
            except BaseException as error:
                self._error = error
            self._call = _nothing
            if self.abandoned:
                return
            self._done.release()

    def wait_for(self, call: Callable[[], Any], limit: float) -> Any:
        self._call, self._result, self._error = call, None, None
        self._wake.release()
        try:
            done = self._done.acquire(timeout=limit)
        except BaseException:
            self.abandoned = True
            raise
        if not done:
            self.abandoned = True
            raise OutOfPatience(limit, self)
        result, error, self._result, self._error = self._result, self._error, None, None
        _idle.append(self)
        if error is not None:
            raise error
        return result


def call_with_patience(function: Callable[..., Any], kwargs: dict[str, Any], limit: float) -> Any:
    """What `function(**kwargs)` returns or raises, from a helper thread with the caller's context variables.

    A call from inside another runs there: the outer one's limit holds for both.

    Raises:
        OutOfPatience: it took longer than `limit` seconds.
    """
    if _here.helping:
        return function(**kwargs)
    context = contextvars.copy_context()
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    return helper.wait_for(lambda: context.run(function, **kwargs), limit)


def _nothing() -> None:
    pass


# Threads do not live on in a forked child, which must not wait for one.
_idle: list[_Helper] = []
_here = _Here()


def _forget() -> None:
    _idle.clear()
    _here.helping = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
