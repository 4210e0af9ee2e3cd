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

    Leaving it with `Stopped`, or with what a library that was interrupted made of it, is leaving it in good order.

    Attributes:
        received: the last signal, if there was one.
        stopped: whether it was left before its work was done.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.stopped = False
        self._trainer: Trainer | None = None
        self._previous: dict[int, Any] = {}
        self._at = 0.0
        self._echo = _ECHO if "WORLD_SIZE" in os.environ else 0.0

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended: 130 after SIGINT, 143 after SIGTERM; else 0.

        Of several processes that stop together, all have that of the signal that one of them got.
        """
        agreed = None if self.stopped or self._trainer is None else self._trainer.stop_signal
        number = agreed or self.received
        return 0 if number is None else 128 + number

    def __enter__(self) -> StopSignals:
        self._previous = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self.stopped = _comes_from_a_signal(error)
        return self.stopped

    def watch(self, trainer: Trainer) -> None:
        """From now on a signal asks this trainer to stop.

        Raises:
            Stopped: if a signal came before and its exception was swallowed on the way, as in a callback of C code.
        """
        self.check()
        self._trainer = trainer

    def check(self) -> None:
        """To be called where a program without a trainer comes by now and then.

        Raises:
            Stopped: if a signal came before and its exception was swallowed on the way, as in a callback of C code.
        """
        if self.received is not None:
            raise Stopped

    def _receive(self, number: int, frame: FrameType | None) -> None:
        first, self.received = self.received is None, number
        before, self._at = self._at, time.monotonic()
        if self._trainer is None or not (first or self._at - before < self._echo):
            raise Stopped
        self._trainer.stop_signal = self._trainer.stop_signal or number
        self._trainer.stop_requested = True
        # The signal may have come in the middle of a line that is being written.
        with contextlib.suppress(RuntimeError):
            self._trainer.reporter.say("stopping after this step; once more stops at once")


def _comes_from_a_signal(error: BaseException | None) -> bool:
    """Whether it is `Stopped`, or what an import that it interrupted raised in its place."""
    while error is not None:
        if isinstance(error, Stopped):
            return True
        error = error.__cause__ or error.__context__
    return False
