"""Programs that are waited for together, and given up together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from .faults import SandboxFault
from .slot import Slot


class Batch:
    """What one caller waits for: when it stops waiting, programs at work end, and the others do not begin.

    Otherwise they would keep their slots, and the threads that wait for them the interpreter, until a limit ends them.
    As a context manager it is given up where an exception, such as KeyboardInterrupt, leaves the block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: set[Slot] = set()
        self._given_up = False

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        if kind is not None:
            self.give_up()

    def give_up(self) -> None:
        """End what is at work and let nothing begin; does not wait for the ends."""
        with self._lock:
            self._given_up = True
            for slot in self._slots:
                slot.transport.interrupt()

    def go_on(self) -> None:
        """Raises SandboxFault if it was given up."""
        if self._given_up:
            raise SandboxFault("The program was given up by who waited for it.")

    @contextlib.contextmanager
    def at_work(self, slot: Slot) -> Iterator[None]:
        """Inside, the slot runs a program of the batch.

        Raises:
            SandboxFault: the batch was given up.
        """
        with self._lock:
            self.go_on()
            self._slots.add(slot)
        try:
            yield
        finally:
            with self._lock:
                self._slots.discard(slot)
