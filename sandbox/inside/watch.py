"""Watches a running job: passes on what it writes, and ends it when it goes beyond a limit."""

from __future__ import annotations

import mmap
import os
import resource
import select
import signal
import time
from typing import Any, Optional

from . import frames, plain
from .cell import Cell, Limits, World
from .harness import NOTES

_PIECE = 1 << 16
_PIECES = 4
_TICK = 0.025
_AFTER_TESTS = 0.5
_REAP_LIMIT = 10.0
_PAGE = resource.getpagesize()
_CLOCK = os.sysconf("SC_CLK_TCK")


class Passage:
    """The way out to the host: frames gather here until they are many or the job is over, for each has its price.

    Its memory is not inherited by forked processes, so that no later job finds there what an earlier one said.
    """

    def __init__(self) -> None:
        memory = mmap.mmap(-1, _PIECES * (frames.HEADER.size + _PIECE))
        memory.madvise(mmap.MADV_DONTFORK)
        self._memory = memoryview(memory)
        self._used = 0

    def take(self, kind: bytes, descriptor: int, most: int) -> int:
        """Take in a piece that waits at a descriptor, `most` bytes of it; how many there were.

        Raises:
            BlockingIOError: there is nothing yet.
        """
        start = self._start(_PIECE)
        count = os.readv(descriptor, [self._memory[start : start + _PIECE]])
        if taken := min(count, most):
            self._end(kind, start, taken)
        return count

    def add(self, kind: bytes, content: bytes) -> None:
        """Add a frame of the zygote's own, of at most a piece."""
        start = self._start(len(content))
        self._memory[start : start + len(content)] = content
        self._end(kind, start, len(content))

    def flush(self) -> None:
        """Write all that is here."""
        frames.write_all(1, self._memory[: self._used])
        self._used = 0

    def _start(self, length: int) -> int:
        if self._used + frames.HEADER.size + length > len(self._memory):
            self.flush()
        return self._used + frames.HEADER.size

    def _end(self, kind: bytes, start: int, length: int) -> None:
        frames.HEADER.pack_into(self._memory, self._used, kind, length)
        self._used = start + length


class Stream:
    """One pipe from the job to the host, with the most that may pass."""

    def __init__(self, kind: bytes, most: int, passage: Passage) -> None:
        self.passage = passage
        self.kind = kind
        self.left = most
        self.cut = False
        self.descriptor, self.theirs = os.pipe()
        os.set_blocking(self.descriptor, False)

    def pass_on(self) -> bool:
        """Pass on what is there; whether there may be more."""
        try:
            count = self.passage.take(self.kind, self.descriptor, self.left)
        except BlockingIOError:
            return False
        taken = min(count, self.left)
        self.left -= taken
        self.cut = self.cut or taken < count
        return count > 0 and not self.cut

    def close(self) -> None:
        """Close our end."""
        os.close(self.descriptor)


class Watch:
    """A job from its start to its last trace."""

    def __init__(self, world: World, limits: Limits, wake: int, passage: Passage) -> None:
        self.world = world
        self.limits = limits
        self.wake = wake
        self.cells: list[Cell] = []
        self.killed = ""
        self.pids_full = False
        self.peak = 0
        self.largest = 0  # kB
        self.cpu = 0.0
        self.last_stop: Optional[float] = None
        self.streams = {
            "stdout": Stream(frames.STDOUT, limits.output, passage),
            "stderr": Stream(frames.STDERR, limits.output, passage),
        }
        # The whole page: a program can write to all of it, and the next one could read what it says.
        world.notes[:] = bytes(len(world.notes))
        if limits.values:
            self.streams["values"] = Stream(frames.VALUES, plain.MAX_BYTES, passage)
        if limits.tests:
            self.streams["report"] = Stream(frames.REPORT, plain.MAX_BYTES, passage)

    def begin(self) -> None:
        """The clock starts."""
        self.started = time.monotonic()
        self.cpu_before = _children_cpu()
        self.oom_before = self._oom_kills()
        for stream in self.streams.values():
            os.close(stream.theirs)

    def until_end(self) -> None:
        """Pass on output until the job has ended, or was beyond a limit.

        Raises:
            HangUp: the host is gone.
        """
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        by_descriptor = {stream.descriptor: stream for stream in self.streams.values()}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        deadline = self.started + self.limits.wall
        next_look = self.started + _TICK
        self.reap()
        while not self._over():
            now = time.monotonic()
            if now >= deadline:
                # What else it has done by now says more than the clock.
                self._look()
                self.killed = self.killed or "wall"
                break
            if now >= next_look:
                next_look = now + max(_TICK, 4 * self._look())
                continue
            for descriptor, _ in poll.poll(max(0.0, min(deadline, next_look) - now) * 1000 + 0.5):
                if descriptor == 0:
                    raise frames.HangUp
                if descriptor == self.wake:
                    _drain(self.wake)
                    self.reap()
                elif not by_descriptor[descriptor].pass_on():
                    if by_descriptor[descriptor].cut:
                        self.killed = "output"
                    poll.unregister(descriptor)
        self.wall = time.monotonic() - self.started

    def _over(self) -> bool:
        if self.killed or self.cells[-1].status is not None:
            if self.killed or len(self.cells) == 1 or self.cells[0].status is not None:
                return True
            # The tests are through; the program sees its pipe closed and ends by itself.
            if self.last_stop is None:
                self.last_stop = time.monotonic() + _AFTER_TESTS
            return time.monotonic() > self.last_stop
        return False

    def reap(self) -> None:
        """Take the status of whatever has ended."""
        while True:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            self.largest = max(self.largest, usage.ru_maxrss)
            for cell in self.cells:
                if cell.process == process:
                    cell.ended(status)

    def _look(self) -> float:
        """Judge what the processes of the job use by now; the seconds that looking took."""
        began = time.monotonic()
        cpu = _children_cpu() - self.cpu_before
        count = memory = largest = 0
        own = {cell.process for cell in self.cells} if self.world.mode == "namespaces" else set()
        processes = self._processes()
        for process, fields in processes.items():
            cpu += sum(int(value) for value in fields[11:15]) / _CLOCK
            if process not in own:
                count += int(fields[17])
                memory += int(fields[21]) * _PAGE
                largest = max(largest, int(fields[21]) * _PAGE)
        if memory > self.limits.memory >= largest:
            memory = max(largest, sum(_share(process) for process in processes if process not in own))
        self.peak = max(self.peak, memory)
        # What is killed with its namespace is not counted as a child's later.
        self.cpu = max(self.cpu, cpu)
        self.pids_full = self.pids_full or count >= self.limits.processes
        if cpu > self.limits.cpu + (2.0 if self.limits.tests else 0.0):
            self.killed = "cpu"
        elif memory > self.limits.memory or self._oom_kills() > self.oom_before:
            self.killed = "memory"
        return time.monotonic() - began

    def _processes(self) -> dict:
        found = {}
        me = os.getpid()
        for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
            if name.isdigit() and int(name) != me:
                try:
                    with open(f"/proc/{name}/stat", "rb") as file:
                        found[int(name)] = file.read().rpartition(b")")[2].split()
                except OSError:
                    continue
        if self.world.mode != "plain":
            return found
        kin = {me}
        for _ in range(len(found)):
            more = {process for process, fields in found.items() if int(fields[1]) in kin} - kin
            if not more:
                break
            kin |= more
        return {process: fields for process, fields in found.items() if process in kin}

    def finish(self) -> None:
        """Kill what is left of the job, pass on the rest of its output, and reap everything."""
        deadline = time.monotonic() + _REAP_LIMIT
        while self._kill() and time.monotonic() < deadline:
            self.reap()
            select.select([self.wake], [], [], 0.02)
            _drain(self.wake)
        self.reap()
        self.cpu = max(self.cpu, _children_cpu() - self.cpu_before)
        for stream in self.streams.values():
            while stream.pass_on():
                pass
            stream.close()
            if stream.cut and not self.killed:
                self.killed = "output"

    def _kill(self) -> bool:
        """Kill everything of the job; whether anything was there."""
        if self.world.mode == "namespaces":
            for cell in self.cells:
                if cell.status is None:
                    os.kill(cell.process, signal.SIGKILL)
                    # Only its end is the end of all that is in its pid namespace.
                    _, status, usage = os.wait4(cell.process, 0)
                    self.largest = max(self.largest, usage.ru_maxrss)
                    cell.ended(status)
            return False
        if os.getpid() == 1:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
        else:
            for process in self._processes():
                try:
                    os.kill(process, signal.SIGKILL)
                except OSError:
                    pass
        self.reap()
        return not _childless()

    def _oom_kills(self) -> int:
        counter = self.world.oom_counter
        return 0 if counter is None else counter.read()

    def numbers(self) -> dict[str, Any]:
        """What the host is told at the end."""
        status = self.cells[0].status
        code: Optional[int] = None
        ended_by: Optional[int] = None
        if status is not None and os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
        elif status is not None:
            ended_by = os.WTERMSIG(status)
        return {
            "exit": code,
            "signal": ended_by,
            "killed": self.killed,
            "wall": self.wall,
            "cpu": self.cpu,
            "peak": max(self.peak, self.largest * 1024),
            "pids": self.pids_full,
            "oom": self._oom_kills() > self.oom_before,
            "notes": [name for place, name in enumerate(NOTES) if self.world.notes[place]],
            "disk": any(cell.disk_full for cell in self.cells),
            "stdout_cut": self.streams["stdout"].cut,
            "stderr_cut": self.streams["stderr"].cut,
        }


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _share(process: int) -> int:
    """Bytes of memory of a process, shared pages counted by their share; 0 where that may not be read."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def _childless() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass
