"""A slot: the near end of one zygote, which runs one job at a time."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from . import protocol
from .faults import SandboxFault, SlotLost
from .inside import frames
from .limits import Limits

GRACE = 20.0
"""Seconds that a zygote may be late with the end of a job before its slot counts as hung."""

_START_LIMIT = 60.0
_FRAME_LIMIT = 1 << 20


class Transport(Protocol):
    """The two streams of a zygote, and its end. A backend brings one of its own."""

    def send(self, content: bytes, deadline: float) -> None:
        """Write all of it by `deadline` (of `time.monotonic()`); raises OSError (TimeoutError if late)."""

    def receive(self, deadline: float) -> bytes:
        """Some bytes of what it wrote, b"" at the end; raises OSError (TimeoutError if late)."""

    def quiet(self) -> bool:
        """Whether it stands and has nothing to say, as is right between two jobs; never raises."""

    def interrupt(self) -> None:
        """Have whoever sends or receives, in another thread, meet the end now; does not wait, and never raises."""

    def close(self) -> None:
        """End the zygote and everything it started, and free what belongs to it; may be called again, never raises."""

    def last_words(self) -> str:
        """What it said on stderr, for the message of a fault; "" if nothing."""


@dataclass
class Outcome:
    """What a zygote sent for one job."""

    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    values: bytearray = field(default_factory=bytearray)
    report: bytearray = field(default_factory=bytearray)
    numbers: dict[str, Any] = field(default_factory=dict)


class Slot:
    """The near end of a zygote.

    Args:
        transport: its streams.
        settings: what `protocol.boot_message` takes.

    Raises:
        SandboxFault: the zygote did not start.
    """

    def __init__(self, transport: Transport, settings: dict[str, Any]) -> None:
        self.transport = transport
        self.jobs = 0
        self.born = time.monotonic()
        self.dirty = False
        self._splitter = frames.Splitter(_FRAME_LIMIT)
        self._waiting: list[tuple[bytes, bytes]] = []
        deadline = self.born + _START_LIMIT
        try:
            transport.send(protocol.boot_message(settings), deadline)
            kind, content = self._next(deadline)
            if kind != frames.READY:
                raise SandboxFault(f"The zygote did not start: {content.decode('utf-8', 'replace')}")
            self.about: dict[str, Any] = json.loads(content)
        except (OSError, ValueError, SlotLost) as error:
            words = transport.last_words()
            transport.close()
            raise SandboxFault(f"The zygote did not start ({_said(error)}){': ' if words else '.'}{words}") from error
        except BaseException:
            transport.close()
            raise

    def run(self, message: bytes, limits: Limits) -> Outcome:
        """What came of the job that `protocol.job_message` wrote.

        Raises:
            SlotLost: the slot ended or hung, and is closed.
        """
        self.jobs += 1
        deadline = time.monotonic() + limits.wall + GRACE
        try:
            self.transport.send(message, deadline)
            return self._outcome(limits, deadline)
        except SlotLost:
            self.close()
            raise
        except (OSError, ValueError) as error:
            self.close()
            raise SlotLost(f"The slot was lost while it ran a job ({_said(error)}).") from error
        except BaseException:
            self.close()
            raise

    def _outcome(self, limits: Limits, deadline: float) -> Outcome:
        outcome = Outcome()
        streams = {
            frames.STDOUT: outcome.stdout,
            frames.STDERR: outcome.stderr,
            frames.VALUES: outcome.values,
            frames.REPORT: outcome.report,
        }
        while True:
            kind, content = self._next(deadline)
            if kind in streams:
                streams[kind] += content
            elif kind == frames.DONE:
                outcome.numbers = json.loads(content)
                self.dirty = self.dirty or bool(outcome.numbers["dirty"])
                return outcome
            else:
                raise SlotLost(f"The slot was lost while it ran a job ({content[:500].decode('utf-8', 'replace')}).")

    def _next(self, deadline: float) -> tuple[bytes, bytes]:
        while not self._waiting:
            content = self.transport.receive(deadline)
            if not content:
                raise SlotLost("The zygote ended.")
            self._waiting = self._splitter.feed(content)[::-1]
        return self._waiting.pop()

    def close(self) -> None:
        """End it; may be called again."""
        self.dirty = True
        with contextlib.suppress(OSError):
            self.transport.close()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
