"""One process in a cage: forked, closed in, and only then told what to run."""

from __future__ import annotations

# Without the enums around it, which take a dozen times as long.
import _signal
import contextlib
import fcntl
import marshal
import math
import mmap
import os
import resource
import struct
import sys
from typing import Callable, Optional

from . import frames, kernel, oom, seccomp

ENDED = struct.Struct("!i?")
"""What the first process of a job's pid namespace reports: the program's wait status, and whether its disk is full."""

_SET_UP_FAILED = 70
_STACK_BYTES = 64 << 20
_SPARE_BYTES = 512 << 20
_SAME_FOR_ALL = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_STACK: _STACK_BYTES,
    resource.RLIMIT_MSGQUEUE: 0,
    resource.RLIMIT_SIGPENDING: 1024,
    resource.RLIMIT_MEMLOCK: 64 << 10,
    resource.RLIMIT_RTPRIO: 0,
    resource.RLIMIT_NICE: 0,
}
"""Limits that the zygote takes on itself, and every job with it: what is done once is not done for each."""
_OWN = (
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_AS,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
)

_SHARED = ("/dev/shm", "/dev/mqueue")


class World:
    """What is the same for all jobs of a zygote."""

    def __init__(self, settings: dict) -> None:
        self.mode: str = settings["mode"]
        self.uid_base: int = settings.get("uid_base", 0)
        self.own_uid: bool = settings.get("own_uid", self.mode != "plain")
        self.scratch: str = settings.get("scratch", "/tmp")
        self.spare_processes: int = 0 if self.own_uid else settings.get("spare_processes", 4)
        self.filter: Optional[seccomp.Filter] = None if settings.get("no_filter") else seccomp.Filter()
        self.jobs = 0
        self.notes = mmap.mmap(-1, mmap.PAGESIZE)
        self.oom_counter = oom.OomCounter() if self.mode == "uids" else None
        self.most = {kind: resource.getrlimit(kind)[1] for kind in _OWN}
        self.at_fork: list = settings.get("at_fork", [])
        self.own_pids: Optional[int] = None
        if self.mode == "namespaces":
            self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)

    def left_behind(self, cells: list) -> bool:
        """Wipe the scratch folders of a job that has ended; whether anything is left of it."""
        if self.mode == "namespaces":
            return False  # its processes, files and queues ended with its namespaces
        for cell in cells:
            try:
                os.rmdir(cell.folder)
            except OSError:
                _wipe(self, cell)
        return any(_entries(folder) for folder in {self.scratch, *_SHARED} if folder != self.scratch or self.own_uid)

    def next_uid(self) -> int:
        """A uid that no job of this zygote had."""
        self.jobs += 1
        return self.uid_base + self.jobs


class Limits:
    """The limits of a job, as they come in its first frame."""

    def __init__(self, content: bytes) -> None:
        (
            self.wall,
            self.cpu,
            self.memory,
            self.output,
            self.disk,
            self.processes,
            self.files,
            self.open_files,
            self.tests,
            self.values,
        ) = frames.LIMITS.unpack(content)


class Cell:
    """A running process in its cage, as the zygote sees it.

    Args:
        world: the zygote's settings.
        limits: the job's.
        expected: the kind of frame that tells the process what to run.
        descriptors: the process's descriptors from 1 on, in order.
        body: what to run, given what the frame says; it never returns.
    """

    def __init__(
        self, world: World, limits: Limits, expected: bytes, descriptors: list, body: Callable[..., None]
    ) -> None:
        self.uid = world.next_uid()
        self.status: Optional[int] = None
        self.disk_full = False
        self.folder = f"{world.scratch}/j{self.uid}" if world.mode != "namespaces" else ""
        ready, self._tell_ready = os.pipe()
        self._ended, self._tell_ended = os.pipe() if world.mode == "namespaces" else (-1, -1)
        if world.own_pids is not None:
            # The namespace for the next child; made anew each time, since one ends with its first process.
            kernel.setns(world.own_pids, kernel.NEWPID)
            kernel.unshare(kernel.NEWPID)
        self.process = os.fork()
        if self.process == 0:
            try:
                if world.mode == "namespaces":
                    self._be_first(world, limits, expected == frames.TESTS)
                self._be_program(world, limits, expected, descriptors, body)
            except BaseException as error:
                # The zygote reads this as its own fault: nothing of the program has run yet.
                os.write(self._tell_ready, str(error).encode("utf-8", "replace")[:500])
            finally:
                os._exit(_SET_UP_FAILED)
        os.close(self._tell_ready)
        if self._tell_ended >= 0:
            os.close(self._tell_ended)
        said = os.read(ready, 512)
        os.close(ready)
        if said != b"+":
            raise frames.HangUp(f"the cage of a job could not be built: {said.decode('utf-8', 'replace')}")

    def ended(self, status: int) -> None:
        """Take the wait status of the process; in namespaces, that of the program from the first process's report."""
        if self._ended < 0:
            self.status = status
            return
        report = os.read(self._ended, ENDED.size)
        os.close(self._ended)
        self._ended = -1
        if len(report) == ENDED.size:
            self.status, self.disk_full = ENDED.unpack(report)
        else:
            self.status = status

    def _be_first(self, world: World, limits: Limits, alone: bool) -> None:
        """Be the first process of the pid namespace, and fork the program; returns only in the program.

        Tests, which are trusted, need nobody to reap what they leave or to say how they ended: they are that process
        themselves (`alone`), which is a fork less.
        """
        kernel.set_dumpable(False)
        _signal.set_wakeup_fd(-1)
        for number in (_signal.SIGINT, _signal.SIGCHLD, _signal.SIGPIPE):
            _signal.signal(number, _signal.SIG_DFL)
        kernel.unshare(kernel.NEWNS)
        options = f"size={limits.disk},nr_inodes={limits.files + 3},mode=1777"
        kernel.mount("tmpfs", world.scratch, "tmpfs", kernel.NOSUID | kernel.NODEV, options)
        kernel.mount("proc", "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC | kernel.RDONLY)
        for name in ("shm", "work"):
            folder = f"{world.scratch}/{name}"
            os.mkdir(folder, 0o700)
            if world.own_uid:
                os.chown(folder, self.uid, self.uid)
        if alone or (program := os.fork()) == 0:
            return
        os.dup2(self._tell_ended, 0)
        os.closerange(1, 1 << 20)
        while True:
            process, status = os.waitpid(-1, 0)
            if process == program:
                space = os.statvfs(world.scratch)
                os.write(0, ENDED.pack(status, space.f_bavail == 0 or space.f_favail == 0))
                os._exit(0)

    def _be_program(
        self, world: World, limits: Limits, expected: bytes, descriptors: list, body: Callable[..., None]
    ) -> None:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
        kind, content = frames.read_frame(0)
        if kind != expected:
            raise frames.HangUp("another frame was expected")
        job = marshal.loads(content)
        del content
        os.setsid()
        if world.mode == "uids":
            oom.be_killed_first()
        self._become_nobody(world)
        self._make_home(world)
        told = fcntl.fcntl(self._tell_ready, fcntl.F_DUPFD_CLOEXEC, 100)
        _arrange(descriptors, job.pop("stdin", b""))
        os.closerange(len(descriptors) + 1, told)
        os.closerange(told + 1, 1 << 20)
        _limit(limits, world)
        kernel.no_new_privileges()
        kernel.drop_capabilities()
        if world.filter is not None:
            world.filter.install()
        os.write(told, b"+")
        os.close(told)
        _fresh_interpreter(world, job.pop("env", None), self.home(world))
        body(world, job)

    def _become_nobody(self, world: World) -> None:
        if world.own_uid:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)
        # Else its own /proc/self would belong to root.
        kernel.set_dumpable(True)

    def home(self, world: World) -> str:
        """The working folder of the program."""
        return f"{world.scratch}/work" if world.mode == "namespaces" else self.folder

    def _make_home(self, world: World) -> None:
        if world.mode != "namespaces":
            os.mkdir(self.folder, 0o700)
        os.chdir(self.home(world))


def _arrange(descriptors: list, stdin: bytes) -> None:
    """Put stdin at 0 and the given descriptors from 1 on."""
    source = os.memfd_create("stdin")
    frames.write_all(source, stdin)
    os.lseek(source, 0, os.SEEK_SET)
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in [source, *descriptors]]
    for target, descriptor in enumerate(high):
        os.dup2(descriptor, target, inheritable=target < 3)


def prepare(world: World) -> None:
    """Do once, in the zygote, what would be the same in each job: there every page touched is copied."""
    os.umask(0o022)
    for kind, most in _SAME_FOR_ALL.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # gVisor has some of these for reading only, and nothing behind them.
        with contextlib.suppress(ValueError):
            resource.setrlimit(kind, (most, most))
    kernel.bound_capabilities()
    os.environ.clear()
    os.environ.update(_environment(f"{world.scratch}/work", world.scratch))
    _prepare_stdin()


def _prepare_stdin() -> None:
    """Open stdin as a job will find it, on a file in memory, and take ours back."""
    kept, like = os.dup(0), os.memfd_create("stdin")
    os.dup2(like, 0)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    os.dup2(kept, 0)
    os.close(kept)
    os.close(like)


def _environment(home: str, scratch: str) -> dict:
    return {"HOME": home, "TMPDIR": scratch, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def _limit(limits: Limits, world: World) -> None:
    seconds = math.ceil(limits.cpu) + 1
    # Not only the address space, which threads and libraries reserve far beyond what they use.
    space = 2 * limits.memory + _SPARE_BYTES
    processes = limits.processes + world.spare_processes
    wanted = (seconds + 1, limits.memory, space, limits.disk, limits.open_files, processes)
    for kind, value in zip(_OWN, wanted):
        most = world.most[kind]
        hard = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (min(seconds, hard) if kind == resource.RLIMIT_CPU else hard, hard))


def _fresh_interpreter(world: World, env: Optional[dict], home: str) -> None:
    """Leave the program an interpreter as if it had been started for it."""
    if world.mode != "namespaces":
        os.environ["HOME"] = os.environ["TMPDIR"] = home
    if env:
        os.environ.update(env)
    sys.path.insert(0, home)
    for handlers in world.at_fork:
        os.register_at_fork(**handlers)
    random = sys.modules.get("random")
    if random is not None:
        random.seed()


def _entries(folder: str) -> list:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _wipe(world: World, cell: Cell) -> None:
    """Remove what a job left, as the job, who alone may."""
    process = os.fork()
    if process == 0:
        try:
            if world.own_uid:
                os.setgroups([])
                os.setresgid(cell.uid, cell.uid, cell.uid)
                os.setresuid(cell.uid, cell.uid, cell.uid)
            for folder in (cell.folder, *((world.scratch, *_SHARED) if world.own_uid else ())):
                _remove_inside(folder)
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    try:
        os.rmdir(cell.folder)
    except OSError:
        pass


def _remove_inside(folder: str) -> None:
    """Remove everything in a folder that may be removed; without recursion, since the tree may be very deep."""
    waiting = [folder]
    emptied = []
    while waiting:
        here = waiting.pop()
        emptied.append(here)
        try:
            os.chmod(here, 0o700)
        except OSError:
            pass
        try:
            entries = list(os.scandir(here))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    os.unlink(entry.path)
            except OSError:
                pass
    for here in reversed(emptied):
        try:
            os.rmdir(here)
        except OSError:
            pass
