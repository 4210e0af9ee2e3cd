"""The slots of a sandbox: started when needed, handed to one job at a time, replaced when spent or dirty."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from typing import Protocol

from . import protocol
from .batch import Batch
from .faults import SandboxFault, SlotLost
from .limits import Limits
from .program import Program
from .reading import result_of
from .result import CallResult, Result, TestReport
from .slot import Slot

MAX_JOBS = 1000
MAX_AGE = 30 * 60.0
"""Jobs and seconds after which a slot is replaced."""

_TRIES = 3
_PROBE = Program("print(1 + 1)")


class Backend(Protocol):
    """Where slots come from."""

    name: str

    def start(self) -> Slot:
        """A new slot; raises SandboxFault, or UserError where this backend cannot be used here."""

    def close(self) -> None:
        """Free what the slots shared; may be called again."""


class SlotPool:
    """At most `size` slots of a backend. Safe to use from any thread; in a forked child it starts afresh."""

    def __init__(self, backend: Backend, size: int) -> None:
        self.backend = backend
        self.size = size
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._free = threading.Semaphore(self.size)
        self._idle: deque[Slot] = deque()
        self._all: set[Slot] = set()

    def run(self, program: Program, limits: Limits, batch: Batch | None = None) -> Result:
        """What came of the program; waits for a free slot.

        A slot that is lost in the middle is taken for an accident, and the job tried on another, at most twice.
        If that one is lost as well while other programs run well, the program is what does it.

        Args:
            program: what to run.
            limits: what it may use.
            batch: what it is given up with.

        Raises:
            SandboxFault: the infrastructure failed, or the batch was given up.
        """
        batch = batch or Batch()
        message = protocol.job_message(program, limits)
        began = time.monotonic()
        for _ in range(_TRIES):
            try:
                return self._run_once(program, message, limits, batch)
            except SlotLost:
                if self._closed:
                    raise
        self._run_once(_PROBE, protocol.job_message(_PROBE, Limits()), Limits(), batch)
        return Result(
            status="signalled",
            signal=9,
            values=tuple(CallResult("missing") for _ in program.calls),
            tests=None if program.test is None else TestReport(),
            wall_seconds=time.monotonic() - began,
        )

    def _run_once(self, program: Program, message: bytes, limits: Limits, batch: Batch) -> Result:
        batch.go_on()
        with self._slot() as slot, batch.at_work(slot):
            return result_of(program, limits, slot.run(message, limits))

    @contextlib.contextmanager
    def _slot(self):  # type: ignore[no-untyped-def]
        if os.getpid() != self._owner:
            self._begin()
        with self._free:
            slot = self._take()
            try:
                yield slot
            except BaseException:
                # Nobody knows how far its job has come.
                slot.close()
                raise
            finally:
                self._give_back(slot)

    def _take(self) -> Slot:
        while True:
            with self._lock:
                slot = self._idle.pop() if self._idle else None
            if slot is None:
                break
            if slot.transport.quiet():
                return slot
            # It ended while it was idle, which is no job's doing.
            with self._lock:
                self._all.discard(slot)
            slot.close()
        return self._started()

    def _started(self) -> Slot:
        """A new slot, unless the sandbox is closed or was while the slot started."""
        if not self._closed:
            slot = self.backend.start()
            with self._lock:
                if not self._closed:
                    self._all.add(slot)
                    return slot
            slot.close()
        raise SandboxFault("The sandbox is closed.")

    def _give_back(self, slot: Slot) -> None:
        old = slot.jobs >= MAX_JOBS or time.monotonic() - slot.born > MAX_AGE
        with self._lock:
            if not (slot.dirty or old or self._closed):
                self._idle.append(slot)
                return
            self._all.discard(slot)
        slot.close()

    def warm(self, count: int = 1) -> None:
        """Have so many slots ready.

        Raises:
            UserError: the backend cannot be used here.
            SandboxFault: a slot did not start.
        """
        while len(self._all) < min(count, self.size):
            slot = self._started()
            with self._lock:
                self._idle.append(slot)

    def close(self) -> None:
        """End all slots, those at work too; may be called again."""
        if os.getpid() != self._owner:
            self._closed = True
            return
        with self._lock:
            self._closed = True
            slots = list(self._all)
            self._all.clear()
            self._idle.clear()
        for slot in slots:
            slot.close()
        self.backend.close()
