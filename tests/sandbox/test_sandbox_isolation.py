"""What a program can see and touch, and what one run leaves for the next: nothing."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr.sandbox import Box, Program

# As other tests, and with our own set-up of namespaces where bubblewrap would do it.
BACKENDS = ("namespace", "namespace without bubblewrap", "docker")
pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True, scope="session")

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def said(box: Box, source: str) -> str:
    result = box.run(Program(source))
    assert result.status == "ok", result.text("stderr")
    return result.text().strip()


def refused(box: Box, source: str) -> None:
    """Each of these ends in an OSError."""
    attempt = f"{LIBC}try:\n    {source}\nexcept OSError as error:\n    print('refused', error.errno)\nelse:\n    print('done')"
    assert said(box, attempt).startswith("refused"), source


def refused_call(box: Box, call: str) -> None:
    assert said(box, f"{LIBC}print({call}, ctypes.get_errno() != 0)") == "-1 True", call


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_no_network(box: Box, listener: int) -> None:
    for line in (
        f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)",
        "import socket; socket.create_connection(('1.1.1.1', 53), 2)",
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
        "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    ):
        refused(box, line)


def test_no_unix_socket_of_the_host(box: Box) -> None:
    name = f"\0rlvr-canary-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        refused(box, f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})")
    refused(box, "import socket; socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')")


@pytest.mark.parametrize("folder", [tempfile.gettempdir(), str(Path.home()), str(Path.cwd()), "/dev/shm", "/var/tmp"])
def test_no_file_of_the_host(box: Box, folder: str) -> None:
    try:
        descriptor, name = tempfile.mkstemp(prefix="rlvr-canary-", dir=folder)
    except OSError:
        pytest.skip(f"{folder} cannot be written")
    try:
        os.write(descriptor, b"canary")
        os.fchmod(descriptor, 0o644)
        refused(box, f"open({name!r}).read()")
        refused(box, f"open('/proc/1/root' + {name!r}).read()")
    finally:
        os.close(descriptor)
        Path(name).unlink()


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/proc/kcore", "/proc/1/environ", "/proc/1/mem", "/dev/mem", "/dev/kmsg"]
)
def test_no_secret_of_the_system(box: Box, path: str) -> None:
    refused(box, f"open({path!r}, 'rb').read(1)[0] or os.listdir('/none')")


def test_no_environment_of_the_host(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVR_CANARY", "canary")
    text = said(box, "import os\nprint(sorted(os.environ), open('/proc/self/environ', 'rb').read())")
    names = text.partition("]")[0]
    assert set(names.strip("[").replace("'", "").split(", ")) <= {"HOME", "LANG", "PATH", "TMPDIR", "LC_CTYPE"}
    assert "RLVR" not in text
    assert str(Path.home()) + "/.cache" not in text


def test_no_other_process(box: Box) -> None:
    """It sees at most its own processes and the first of its namespace or container, and cannot touch that one."""
    text = said(
        box,
        "import os\nprint(len([p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]))\n"
        "for n in range(1, 65):\n    try:\n        os.kill(1, n)\n    except OSError:\n        pass\n"
        "for p in range(2, 400):\n    if p != os.getpid():\n        try:\n            os.kill(p, 9)\n        except OSError:\n            continue\n"
        "        print('killed', p)",
    )
    assert text == "0"


def test_no_descriptor_inherited(box: Box) -> None:
    assert said(box, "import os\nprint([n for n in range(3, 1024) if os.path.exists(f'/proc/self/fd/{n}')])") == "[]"
    assert (
        said(
            box,
            "import fcntl\nfor n in range(3, 3000):\n    try: print(n, fcntl.fcntl(n, 1))\n    except OSError: pass",
        )
        == ""
    )


def test_no_device_and_no_mount(box: Box) -> None:
    refused_call(box, "libc.mknod(b'disk', 0o60666, 0x800)")
    refused_call(box, "libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)")
    refused_call(box, "libc.umount2(b'/proc', 2)")
    refused_call(box, "libc.chroot(b'.')")
    text = said(box, "import os\nprint(*sorted(os.listdir('/dev')))")
    assert not {name for name in text.split() if name.startswith(("sd", "vd", "nvme", "loop", "kvm", "fuse", "mem"))}
    for path in ("/dev/ptmx", "/dev/pts/ptmx", "/dev/tty", "/dev/console", "/dev/mqueue/x", "/dev/shm/../pts/x"):
        refused(box, f"os.close(os.open({path!r}, os.O_RDWR | os.O_CREAT))")


@pytest.mark.parametrize(
    "call",
    [
        "libc.ptrace(0, 0, 0, 0)",
        "libc.unshare(0x10000000)",
        "libc.unshare(0x00020000)",
        "libc.setns(0, 0)",
        "libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
        "libc.syscall(435, 0, 88)",
        "libc.syscall(250, 0, -3, 1)",
        "libc.syscall(248, b'user', b'x', b'y', 1, -2)",
        "libc.syscall(321, 0, 0, 0)",
        "libc.syscall(298, 0, 0, -1, -1, 0)",
        "libc.syscall(323, 0)",
        "libc.syscall(425, 1, 0)",
        "libc.syscall(310, 1, 0, 0, 0, 0, 0)",
        "libc.syscall(246, 0, 0, 0, 0)",
        "libc.syscall(438, 1, 0, 0)",
        "libc.syscall(304, 0, 0, 0)",
        "libc.syscall(430, b'tmpfs', 0)",
        "libc.shmget(0, 4096, 0o1666)",
        "libc.semget(0, 1, 0o1666)",
        "libc.msgget(0, 0o1666)",
        "libc.syscall(240, b'q', 0o102, 0o666, 0)",
        "libc.sethostname(b'x', 1)",
        "libc.personality(0x0040000)",
        "libc.reboot(0)",
        "libc.setuid(0)",
        "libc.setgid(0)",
        "libc.prctl(38, 0, 0, 0, 0)",
    ],
)
def test_no_such_system_call(box: Box, call: str) -> None:
    if os.uname().machine != "x86_64" and "syscall" in call:
        pytest.skip("the numbers are those of x86_64")
    refused_call(box, call)


def test_no_privileges(box: Box) -> None:
    status = dict(
        line.split(":", 1) for line in said(box, "print(open('/proc/self/status').read())").splitlines() if ":" in line
    )
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    if os.geteuid() == 0:
        assert status["Uid"].split()[0] != "0"


def test_no_write_outside_its_scratch(box: Box) -> None:
    source = (
        "import os\nfor top in ('/', '/usr', '/opt', '/proc', '/etc', '/root', '/var', os.path.dirname(os.__file__)):\n"
        "    for name in ('x', 'json/x'):\n        try:\n            open(f'{top}/{name}', 'w')\n        except OSError: pass\n"
        "        else: print('wrote', top)\n    try:\n        os.chmod(top, 0o777)\n        print('changed', top)\n    except OSError: pass"
    )
    assert said(box, source) == ""


def test_writes_inside_its_scratch(box: Box) -> None:
    assert (
        said(
            box,
            "import tempfile\nopen('x', 'w').write('y')\nprint(open('x').read(), tempfile.TemporaryFile().write(b'abc'))",
        )
        == "y 3"
    )


LEFT = [
    ("open('left', 'w').write('x')", "import os; print(os.path.exists('left'))"),
    (
        "import os; os.makedirs('a/b/c'); open('a/b/c/d', 'w').close(); os.chmod('a', 0)",
        "import os; print(os.path.exists('a'))",
    ),
    ("open('/tmp/left', 'w').write('x')", "import os; print(os.path.exists('/tmp/left'))"),
    (
        "try: open('/dev/shm/left', 'w').write('x')\nexcept OSError: pass",
        "import os; print(os.path.exists('/dev/shm/left'))",
    ),
    (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\n    os._exit(0)",
        "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]) > 2)",
    ),
    (
        "import socket, os, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0left'); s.listen()\nif os.fork() == 0: time.sleep(60)\nos._exit(0)",
        "import socket\ntry: socket.socket(socket.AF_UNIX).connect('\\0left'); print(True)\nexcept OSError: print(False)",
    ),
    ("import os; os.environ['LEFT'] = 'x'", "import os; print('LEFT' in os.environ)"),
    (
        "import builtins, json; builtins.left = json.left = 1",
        "import builtins, json; print(hasattr(builtins, 'left') or hasattr(json, 'left'))",
    ),
    (
        "try:\n    from multiprocessing import shared_memory as m; m.SharedMemory('left', True, 64)\nexcept OSError: pass\nimport os; os._exit(0)",
        "from multiprocessing import shared_memory as m\ntry: m.SharedMemory('left'); print(True)\nexcept OSError: print(False)",
    ),
    # The pages that a program shares with the zygote, found as it would find them.
    (
        "import ctypes\nfor line in open('/proc/self/maps'):\n    if ' rw-s ' in line:\n"
        "        ctypes.memmove(int(line.split('-')[0], 16) + 64, b'left', 4)",
        "import ctypes\nfound = []\nfor line in open('/proc/self/maps'):\n    if ' rw-s ' in line:\n"
        "        a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "        found.append(b'left' in ctypes.string_at(a, b - a))\nprint(any(found))",
    ),
]


@pytest.mark.parametrize(("first", "second"), LEFT)
def test_nothing_passes_to_the_next_run(box: Box, first: str, second: str) -> None:
    assert box.run(Program(first)).status == "ok"
    # More often than there are slots, so that the one that ran the first comes again.
    for _ in range(2 * box.size):
        assert said(box, second) == "False"


def test_no_trace_of_other_programs_in_memory(box: Box) -> None:
    """Neither of another's source, nor of its input, output or arguments; the zygote never holds them."""
    marks = [secrets.token_hex(12) for _ in range(4)]
    program = Program(
        f"import sys\n# {marks[0]}\nprint(sys.stdin.read())\nsys.stderr.write('{marks[1]}')", stdin=marks[2]
    )
    for _ in range(2 * box.size):
        assert marks[2] in box.run(program).text()
    own = secrets.token_hex(12)
    # As patterns that do not match themselves; the last one is a control that must be found.
    patterns = [f"[{mark[0]}]{mark[1:]}" for mark in (*marks[:3], own)]
    source = (
        f"import re\n# {own}\npatterns = [re.compile(p.encode()) for p in {patterns}]\nfound = set()\n"
        "memory = open('/proc/self/mem', 'rb')\nfor line in open('/proc/self/maps'):\n"
        "    a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "    try:\n        memory.seek(a); content = memory.read(b - a)\n    except (OSError, ValueError, OverflowError): continue\n"
        "    found |= {n for n, p in enumerate(patterns) if p.search(content)}\nprint(sorted(found))"
    )
    for _ in range(2 * box.size):
        assert said(box, source) == "[3]"


def test_random_numbers_differ_between_runs(box: Box) -> None:
    assert len({said(box, "import random; print(random.random())") for _ in range(6)}) == 6


def test_what_modules_do_after_a_fork_is_done_for_the_programs_own(box: Box) -> None:
    source = (
        "import os, random, threading\nr, w = os.pipe()\nthreading.Thread(target=r.bit_length).start()\n"
        "if os.fork() == 0:\n    os.write(w, f'{random.random()} {threading.active_count()}'.encode())\n    os._exit(0)\n"
        "os.wait()\nnumber, count = os.read(r, 100).decode().split()\nprint(number != str(random.random()), count)"
    )
    assert said(box, source) == "True 1"


def test_two_at_once_do_not_meet(box: Box) -> None:
    results: list[str] = []
    source = "import os, time\nopen('/tmp/here', 'x').close()\ntime.sleep(0.3)\nprint(sorted(os.listdir('/tmp')).count('here'))"
    if box.backend == "docker":
        source = "import time\nopen('here', 'x').close()\ntime.sleep(0.3)\nprint(1)"
    threads = [threading.Thread(target=lambda: results.append(said(box, source))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["1", "1"]
