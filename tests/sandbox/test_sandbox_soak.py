"""Ten thousand runs: nothing is left of them, and the owner does not grow."""

from __future__ import annotations

import gc
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

import rlvr.sandbox
from rlvr.sandbox import Box, Call, Limits, Program, Result, TestProgram

RUNS = 10_000
WARM = 1_000
# What the allocator and the caches of a busy process move by; a leak of 1 KiB a run would be 9 MiB.
MOST_GROWTH = 4 << 20

ADD = "def add(a, b):\n    return a + b\n"
# What is left behind, what ends badly, and each way to be asked; most runs are the ordinary kind.
ODD = (
    Program(ADD, call=[Call("add", (n, n)) for n in range(5)]),
    Program(ADD, test=TestProgram("asserts", source="assert add(1, 2) == 3", entry_point="add")),
    Program("raise ValueError"),
    Program("import os; os.kill(os.getpid(), 9)"),
    Program("open('left', 'w').write('x' * 10000)"),
    Program("print('x' * 20000)", stdin="y" * 20000),
    Program("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)"),
)


def held_memory() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def traces(box: Box) -> dict[str, Any]:
    """What could be left: descriptors, threads, processes, folders and, for Docker, containers."""
    # Spent slots are replaced when they are asked for.
    box._pool.warm(box.size)
    gc.collect()
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "processes": len(descendants()),
        "descriptors of the slots": sorted(map(open_files, descendants())),
        # But for those of others' containers, which come and go.
        "mounts": len([line for line in mounts if not re.search("docker|containerd|overlay|netns|nsfs", line)]),
        "folders": sorted(path.name for path in Path(tempfile.gettempdir()).glob("rlvr-sandbox*")),
        "containers": containers(box.backend),
    }


def descendants() -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    kin = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in kin} - kin:
        kin |= more
    return sorted(kin - {os.getpid()})


def open_files(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def containers(backend: str) -> int:
    if backend != "docker":
        return 0
    from rlvr.sandbox.docker import daemon
    from rlvr.sandbox.reaper import owned_by

    found = daemon().client.containers(all=True, filters={"label": "rlvr.sandbox"})
    return sum(owned_by(each["Labels"]) == daemon().owner for each in found)


def run(box: Box, count: int) -> None:
    programs = [ODD[n // 20 % len(ODD)] if n % 20 == 0 else Program(f"print({n})") for n in range(count)]
    for start in range(0, count, 500):
        results = box.map(programs[start : start + 500])
        for number, result in enumerate(results, start):
            assert isinstance(result, Result), result
            assert number % 20 == 0 or result.stdout == b"%d\n" % number


@pytest.mark.slow
def test_ten_thousand_runs_leave_nothing_and_the_owner_does_not_grow(backend: str) -> None:
    limits = Limits(cpu_seconds=3, memory_bytes=128 << 20, processes=32, disk_bytes=8 << 20)
    with rlvr.sandbox.open(backend, pool=2, limits=limits) as box:
        empty = traces(box)
    with rlvr.sandbox.open(backend, pool=2, limits=limits) as box:
        run(box, WARM)
        before, memory = traces(box), held_memory()
        run(box, RUNS - WARM)
        after, grown = traces(box), held_memory() - memory
    assert after == before
    assert grown < MOST_GROWTH
    with rlvr.sandbox.open(backend, pool=2, limits=limits) as box:
        assert traces(box) == empty
