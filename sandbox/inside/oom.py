"""How often the kernel killed a process because the memory of the container was full."""

from __future__ import annotations

import os

_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Of the container's own group, with version 2 and version 1 of control groups."""


class OomCounter:
    """The kernel's count; where it is not shown, it stays 0."""

    def __init__(self) -> None:
        self._descriptor = -1
        for path in _COUNTERS:
            try:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break
            except OSError:
                continue

    def read(self) -> int:
        """The count by now."""
        if self._descriptor < 0:
            return 0
        for line in os.pread(self._descriptor, 4096, 0).splitlines():
            name, _, count = line.partition(b" ")
            if name == b"oom_kill":
                return int(count)
        return 0


def be_killed_first() -> None:
    """Have the kernel kill this process, and what it starts, rather than the zygote."""
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(descriptor, b"1000")
    os.close(descriptor)
