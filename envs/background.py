"""Calls that run in threads of their own while the caller goes on, a bounded number at a time."""

from __future__ import annotations

import contextvars
import os
import queue
import threading
from collections.abc import Callable

AT_ONCE = 32
"""How many calls run at the same time; those beyond wait for their turn.

Enough for functions that wait for something. Those that compute take turns, so each lasts as many times longer as there
are, which must not use up the patience that it is waited for with.
"""


class Background:
    """Threads that run what they are given, in its order. They end with the program, whatever they still do.

    Args:
        most: how many threads there may be; one is started only where all others have something to do.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0

    def run(self, call: Callable[[], object]) -> None:
        """Run `call`, which raises nothing, as soon as a thread is free, with the caller's context variables."""
        context = contextvars.copy_context()
        with self._lock:
            self._unfinished += 1
            if self._threads < min(self._unfinished, self.most):
                self._threads += 1
                threading.Thread(target=self._work, name="rlvr-background", daemon=True).start()
        self._waiting.put(lambda: context.run(call))

    def _work(self) -> None:
        while True:
            self._waiting.get()()
            with self._lock:
                self._unfinished -= 1


def background() -> Background:
    """That of this process, which all environments share."""
    return _shared


def _forget() -> None:
    # Threads do not live on in a forked child.
    global _shared
    _shared = Background(AT_ONCE)


_shared = Background(AT_ONCE)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
