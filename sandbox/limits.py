"""What a program may use."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from .errors import UserError

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one program may use, with all the processes that it starts.

    Judge time by CPU seconds: on a loaded machine even a healthy program stalls for seconds. The wall limit is there
    for programs that sleep or wait, and by default lies well behind the CPU limit.

    Args:
        cpu_seconds: processor time.
        wall_seconds: time on the clock, counted from when the program was handed over; by default
            3 x cpu_seconds + 2.
        memory_bytes: memory of all its processes together.
        output_bytes: bytes of stdout, and as many of stderr; more ends the program.
        processes: processes and threads at a time.
        disk_bytes: bytes in its scratch folder (which lies in memory).
        files: files and folders in its scratch folder.
        open_files: descriptors of a process.
    """

    cpu_seconds: float = 5.0
    wall_seconds: float | None = None
    memory_bytes: int = 512 * MIB
    output_bytes: int = 1 * MIB
    processes: int = 64
    disk_bytes: int = 64 * MIB
    files: int = 4096
    open_files: int = 256

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "wall_seconds":
                continue
            seconds = field.name.endswith("seconds")
            right = isinstance(value, int | float if seconds else int) and not isinstance(value, bool)
            if not right or not math.isfinite(value) or value <= 0:
                kind = "number of seconds" if seconds else "whole number"
                raise UserError(f"The sandbox limit {field.name} is {value!r}, but has to be a {kind} above 0.")

    @staticmethod
    def checked(limits: object) -> Limits:
        """The argument, if it is one; raises UserError otherwise."""
        if isinstance(limits, Limits):
            return limits
        raise UserError(
            f"The limits of the sandbox are {limits!r:.80}, but have to be Limits, such as Limits(cpu_seconds=2)."
        )

    @property
    def wall(self) -> float:
        """The wall limit in seconds, worked out from the CPU limit where none was given."""
        return 3 * self.cpu_seconds + 2 if self.wall_seconds is None else self.wall_seconds

    def with_changes(self, **changes: Any) -> Limits:
        """A copy with some of the limits changed."""
        return dataclasses.replace(self, **changes)
