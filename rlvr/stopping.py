"""What SIGINT and SIGTERM do to a run: the first one ends it in good order, the second at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainers.loop import Trainer

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# torchrun passes the signals that it gets on to its processes, which have them from the terminal already. Seconds.
_ECHO = 3.0


class Stopped(KeyboardInterrupt):
    """A signal asks the program to end now; what surrounds the work still cleans up."""


class StopSignals:
    """Handles SIGINT and SIGTERM while it is entered, in the main thread.

    Where a trainer runs, the first signal asks it to stop after the step, with a checkpoint. Any other raises
    `Stopped`: there is nothing to keep before the first step, and whoever asks twice does not want to wait. But what a
    launcher of several processes repeats at once counts as one.

    Attributes:
        trainer: what is asked to stop; None while there is none.
        received: the last signal, if there was one.
    """

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.received: int | None = None
        self._previous: dict[int, Any] = {}
        self._at = 0.0
        self._echo = _ECHO if "WORLD_SIZE" in os.environ else 0.0

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended: 130 after SIGINT, 143 after SIGTERM; else 0."""
        return 0 if self.received is None else 128 + self.received

    def __enter__(self) -> StopSignals:
        self._previous = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        first, self.received = self.received is None, number
        before, self._at = self._at, time.monotonic()
        if self.trainer is None or not (first or self._at - before < self._echo):
            raise Stopped
        self.trainer.stop_requested = True
        # The signal may have come in the middle of a line that is being written.
        with contextlib.suppress(RuntimeError):
            self.trainer.reporter.say("stopping after this step; once more stops at once")
