"""What is left of a sandbox: nothing, however its owner ends."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rlvr.sandbox
from rlvr.sandbox import Box, Program, SandboxFault
from rlvr.sandbox.slot import Slot

OWNER = """
import signal, sys, threading, time
# It may be ignored, as in what a shell starts in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
import rlvr.sandbox
from rlvr.sandbox import Program
box = rlvr.sandbox.open("namespace", pool=2)
threading.Thread(target=box.run, args=[Program({source!r})], daemon=True).start()
box.run(Program("print(1)"))
print("ready", flush=True)
{then}
"""
SET_UP = """
import os, pathlib, signal, sys
import rlvr.sandbox
from rlvr.sandbox import Limits, Program
# Loaded as root, since another user may not be able to read this interpreter's folders.
import rlvr.sandbox.namespace, rlvr.sandbox.docker
rlvr.sandbox.open("namespace", pool=1).close()
from rlvr.sandbox.inside import kernel
path, user = sys.argv[1], int(sys.argv[2])
os.environ["PATH"] = path
# Where the interpreter lies in a folder of root's, show it to everybody, in a mount namespace of our own.
closed = [path for path in pathlib.Path(sys.base_prefix).resolve().parents if not path.stat().st_mode & 1]
if user and closed:
    kernel.unshare(kernel.NEWNS)
    kernel.mount(None, "/", None, kernel.REC | kernel.PRIVATE)
    below = pathlib.Path(sys.base_prefix).resolve().relative_to(closed[-1]).parts[0]
    kept = os.open(closed[-1] / below, os.O_PATH)
    kernel.mount("tmpfs", str(closed[-1]), "tmpfs", 0, "mode=755")
    (closed[-1] / below).mkdir()
    kernel.mount(f"/proc/self/fd/{kept}", str(closed[-1] / below), None, kernel.BIND)
    os.close(kept)
if user:
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
limits = Limits(cpu_seconds=3, wall_seconds=4, memory_bytes=128 << 20, processes=16, disk_bytes=8 << 20, files=100)
try:
    box = rlvr.sandbox.open("namespace", pool=1, packages=(), limits=limits)
except (rlvr.UserError, rlvr.sandbox.SandboxFault, PermissionError) as error:
    print("cannot", error)
    sys.exit()
PROGRAMS = {
    "no capabilities": "status = dict(l.split(':', 1) for l in open('/proc/self/status'))\\n"
    "print(*(status[n].strip() for n in ('CapEff', 'NoNewPrivs', 'Seccomp')))",
    "processes": "import os\\nprint([p for p in os.listdir('/proc') if p.isdigit()], os.uname().nodename)",
    "host files": "import os\\nprint(os.path.exists('/etc/passwd'), os.path.exists('/var'), os.listdir('/etc'))",
    "devices": "print(open('/dev/null', 'w').write('abc'))",
    "network": "import socket\\nsocket.create_connection(('127.0.0.1', 1), 1)",
    "writes": "import os\\nfound = []\\nfor top in ('/', '/etc', '/dev', os.path.dirname(os.__file__)):\\n"
    "    try: open(top + '/x', 'w')\\n    except OSError as e: found.append(e.errno)\\nprint(found)",
    "kill": "import os\\nos.kill(1, 9)\\nos.kill(os.getpid(), 9)",
    "memory": "x = []\\nwhile True: x.append(bytearray(1 << 20))",
    "forks": "import os, time\\nwhile os.fork(): pass\\ntime.sleep(60)",
    "disk": "f = open('x', 'wb')\\nwhile True: f.write(b'x' * 65536)",
    "wall": "import time\\ntime.sleep(60)",
    "left behind": "import os, time\\nopen('/tmp/x', 'w').close()\\nif os.fork() == 0:\\n    os.setsid()\\n    time.sleep(60)",
    "nothing left": "import os\\nprint(sorted(os.listdir('/tmp')), os.listdir('.'))",
}
print("bubblewrap", box._pool.backend._bubblewrap is not None)
for name, source in PROGRAMS.items():
    result = box.run(Program(source))
    print(name, result.status, *result.text().split("\\n")[:1] if result.text() else ())
parents = {}
for entry in pathlib.Path("/proc").iterdir():
    if entry.name.isdigit():
        try:
            parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            pass
kin = {os.getpid()}
while more := {process for process, parent in parents.items() if parent in kin} - kin:
    kin |= more
kin -= {os.getpid()}
print("as root", [(folder / "comm").read_text().strip() for folder in (pathlib.Path("/proc", str(k)) for k in kin) if not folder.stat().st_uid])
print(*kin, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
BUSY = "import time\nwhile True: time.sleep(0.01)"


@pytest.fixture
def own_box() -> Iterator[Box]:
    with rlvr.sandbox.open("namespace", pool=1) as box:
        yield box


def descendants(top: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    kin = {top}
    while more := {process for process, parent in parents.items() if parent in kin} - kin:
        kin |= more
    return kin - {top}


def gone(processes: set[int], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{process}").exists() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def mounts() -> int:
    """Those of this machine, but for containers' that come and go."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return len([line for line in lines if not re.search("docker|containerd|overlay|netns|nsfs", line)])


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def comes_to(expected: tuple[int, ...], count: Callable[[], tuple[int, ...]], seconds: float = 60.0) -> bool:
    """Whether a count is as expected, at once or soon: a search for leftovers of other boxes may have a file open."""
    deadline = time.monotonic() + seconds
    while count() != expected:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_nothing_is_left_after_close() -> None:
    rlvr.sandbox.open("namespace", pool=1).close()
    before = (open_files(), mounts())
    others = descendants(os.getpid())
    with rlvr.sandbox.open("namespace", pool=2) as box:
        box.map([Program("print(1)")] * 4)
        inside = descendants(os.getpid()) - others
        assert len(inside) >= 4
    assert gone(inside)
    assert comes_to(before, lambda: (open_files(), mounts()))


def test_nothing_is_left_after_an_exception() -> None:
    others = descendants(os.getpid())
    inside: set[int] = set()
    with contextlib.suppress(ZeroDivisionError), rlvr.sandbox.open("namespace", pool=1) as box:
        box.run(Program("print(1)"))
        inside = descendants(os.getpid()) - others
        raise ZeroDivisionError
    assert inside
    assert gone(inside)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_nothing_is_left_when_the_owner_ends(number: signal.Signals | None) -> None:
    # A signal between Python's last look for one and the sleep itself is only heard when the sleep is over.
    then = "while True: time.sleep(0.1)" if number else "raise SystemExit"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(source=BUSY, then=then)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        inside = descendants(owner.pid)
        try:
            if number:
                assert inside
                owner.send_signal(number)
            owner.wait(60)
        finally:
            owner.kill()
    assert gone(inside)


def test_a_slot_that_died_is_replaced() -> None:
    others = descendants(os.getpid())
    with rlvr.sandbox.open("namespace", pool=1) as box:
        box.run(Program("print(1)"))
        for process in descendants(os.getpid()) - others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        assert box.run(Program("print(1)")).stdout == b"1\n"


def test_a_closed_sandbox_says_so() -> None:
    box = rlvr.sandbox.open("namespace", pool=1)
    box.close()
    with pytest.raises(SandboxFault, match="closed"):
        box.run(Program("print(1)"))


def test_closing_ends_a_program_at_work() -> None:
    box = rlvr.sandbox.open("namespace", pool=1)
    future = box.submit(Program(BUSY))
    while not future.running():
        time.sleep(0.01)
    box.close()
    with pytest.raises(SandboxFault):
        future.result(60)


def test_what_starts_while_the_sandbox_closes_is_ended(own_box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, others = own_box._pool, descendants(os.getpid())
    idle = pool._take()
    start = pool.backend.start

    def closing() -> Slot:
        own_box.close()
        return start()

    monkeypatch.setattr(pool.backend, "start", closing)
    with pytest.raises(SandboxFault, match="closed"):
        pool.run(Program(BUSY), own_box.limits)
    # One that was taken just before is found to be closed.
    assert not idle.transport.quiet()
    assert gone(descendants(os.getpid()) - others)


def test_a_forked_child_of_the_owner_starts_afresh(own_box: Box) -> None:
    own_box.run(Program("print(1)"))
    child = os.fork()
    if child == 0:
        good = own_box.run(Program("print(2)")).stdout == b"2\n"
        own_box.close()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert own_box.run(Program("print(3)")).stdout == b"3\n"


def test_slots_are_replaced_after_so_many_jobs(own_box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvr.sandbox.pool.MAX_JOBS", 2)
    numbers = [own_box.run(Program("import os\nprint(os.getuid())")).text() for _ in range(3)]
    if os.geteuid() == 0:
        # Uids rise within a slot, and the third job is the first of a new one.
        assert numbers[0] == numbers[2] != numbers[1]


def test_runs_leave_nothing_behind(own_box: Box) -> None:
    own_box.run(Program("print(1)"))
    before = (open_files(), mounts(), len(descendants(os.getpid())))
    for _ in range(200):
        own_box.run(Program("import os\nif os.fork() == 0: os.setsid()\nopen('x', 'w').close()"))
    assert comes_to(before, lambda: (open_files(), mounts(), len(descendants(os.getpid()))))


@pytest.mark.parametrize("set_up", ["bubblewrap", "own"])
@pytest.mark.parametrize("user", [0, 4321], ids=["root", "ordinary user"])
def test_root_and_ordinary_users_may_use_it_with_and_without_bubblewrap(user: int, set_up: str) -> None:
    """As another user without privileges, where the kernel allows it; for root, nothing inside is root outside."""
    if os.geteuid() != 0:
        pytest.skip("this is an ordinary user already")
    if set_up == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    path = os.environ["PATH"] if set_up == "bubblewrap" else "/nowhere"
    done = subprocess.run([sys.executable, "-c", SET_UP, path, str(user)], capture_output=True, text=True, check=False)
    if done.stdout.startswith("cannot"):
        pytest.skip(done.stdout)
    *lines, inside = done.stdout.splitlines()
    assert lines == [
        f"bubblewrap {set_up == 'bubblewrap'}",
        "no capabilities ok 0000000000000000 1 2",
        "processes ok ['1', '2'] sandbox",
        "host files ok False False []",
        "devices ok 3",
        "network nonzero_exit",
        "writes ok [30, 30, 30, 30]",
        # Root has users to spare, so that the first process is another's.
        f"kill {'signalled' if user else 'nonzero_exit'}",
        "memory memory_limit",
        "forks pids_limit",
        "disk disk_limit",
        "wall wall_limit",
        "left behind ok",
        "nothing left ok ['shm', 'work'] []",
        f"as root {['bwrap'] if set_up == 'bubblewrap' and not user else []}",
    ], done
    # It killed itself, with the sandbox open.
    assert done.returncode == -signal.SIGKILL
    assert gone(set(map(int, inside.split())))


def test_where_namespaces_are_forbidden_it_refuses_or_says_loudly_that_it_is_unsafe() -> None:
    """In a process whose own seccomp filter forbids namespaces."""
    source = textwrap.dedent(
        """
        import logging, sys
        logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
        import rlvr, rlvr.sandbox
        from rlvr.sandbox import Program
        from rlvr.sandbox.inside import kernel, seccomp
        try:
            rlvr.sandbox.open("namespace", pool=1, packages=()).close()
        except rlvr.UserError as error:
            print("already", error)
            sys.exit()
        kernel.no_new_privileges()
        # A kernel that forbids namespaces still has files in memory, which jobs get their input from.
        del seccomp._UNKNOWN["memfd_create"]
        seccomp.Filter().install()
        try:
            rlvr.sandbox.open("namespace", pool=1, packages=())
        except rlvr.UserError as error:
            print("refused", error)
        with rlvr.sandbox.open("namespace", pool=1, packages=(), allow_unsafe=True) as box:
            for source in ("print(1 + 1)", "import time\\nwhile True: time.sleep(1)", "x = bytearray(1 << 40)"):
                result = box.run(Program(source), box.limits.with_changes(wall_seconds=1.0))
                print(result.status, result.text())
        """
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert (
        "refused The sandbox backend 'namespace' cannot be used here, because the kernel forbids it" in done.stdout
    ), done
    assert "WARNING UNSAFE: namespaces are forbidden here" in done.stdout
    assert done.stdout.split()[-4:] == ["ok", "2", "wall_limit", "memory_limit"]


def test_auto_says_once_which(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "rlvr.sandbox"), rlvr.sandbox.open("auto", pool=1) as box:
        assert box.backend in ("docker", "namespace")
    said = [record.getMessage() for record in caplog.records if "auto" in record.getMessage()]
    assert said == [f"The sandbox backend 'auto' takes '{box.backend}' here."]


def test_memory_of_the_owner_does_not_hold_outputs(own_box: Box) -> None:
    mark = secrets.token_hex(8)
    assert mark in own_box.run(Program(f"print('{mark}')")).text()
    slots = own_box._pool._idle
    assert all(not slot._waiting and not slot._splitter.rest for slot in slots)
