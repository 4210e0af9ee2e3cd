"""Programs that use more than they may: ended in time, with the right status, while others go on."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

import threading
import time

import pytest

from rlvr.sandbox import Box, Program, Result

# As other tests, and with our own set-up of namespaces where bubblewrap would do it.
BACKENDS = ("namespace", "namespace without bubblewrap", "docker")
pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True, scope="session")

WALL = 1.0
LATE = 2.5  # half a second by promise; more here, since the machine that runs the tests may be busy

FORK_BOMB = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
SPINNING_THREADS = (
    "import threading, time\nfor _ in range(1000): threading.Thread(target=time.sleep, args=(60,)).start()"
)

CASES = {
    "endless loop, by the clock": ("while True: pass", {"wall_limit"}, {}),
    "sleep": ("import time; time.sleep(60)", {"wall_limit"}, {}),
    "cpu": ("while True: pass", {"cpu_limit"}, {"cpu_seconds": 0.3, "wall_seconds": 8.0}),
    "cpu in a child": (
        "import os\nif os.fork():\n    os.wait()\nelse:\n    while True: pass",
        {"cpu_limit"},
        {"cpu_seconds": 0.3, "wall_seconds": 8.0},
    ),
    "fork bomb": (FORK_BOMB, {"pids_limit"}, {}),
    "fork until it fails": ("import os, time\nwhile os.fork(): pass\ntime.sleep(60)", {"pids_limit"}, {}),
    "thread bomb": (SPINNING_THREADS, {"pids_limit"}, {}),
    "memory in one process": (
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        {"memory_limit"},
        {"wall_seconds": 8.0},
    ),
    "a thread's stack": (
        "import threading\nthreading.stack_size(1 << 30)\nthreading.Thread(target=print).start()",
        {"memory_limit"},
        {},
    ),
    "memory at once": ("x = bytearray(1 << 33)", {"memory_limit"}, {}),
    "memory in many": (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(os.urandom(1 << 20)) * 40\n"
        "        time.sleep(60)\ntime.sleep(60)",
        {"memory_limit"},
        {"wall_seconds": 8.0},
    ),
    "shared memory": (
        "import mmap, time\nx = []\nwhile True:\n    m = mmap.mmap(-1, 8 << 20)\n    m.write(b'x' * (8 << 20))\n"
        "    x.append(m)\n    time.sleep(0.02)",
        {"memory_limit"},
        {"wall_seconds": 8.0},
    ),
    "disk": ("f = open('x', 'wb')\nwhile True: f.write(b'x' * 65536)", {"disk_limit"}, {"wall_seconds": 8.0}),
    "disk in many files": (
        "n = 0\nwhile True:\n    n += 1\n    open(f'x{n}', 'wb').write(b'x' * (1 << 20))",
        {"disk_limit"},
        {"wall_seconds": 8.0},
    ),
    "inodes": ("n = 0\nwhile True:\n    n += 1\n    open(f'x{n}', 'w').close()", {"disk_limit"}, {"wall_seconds": 8.0}),
    "stdout flood": ("while True: print('x' * 10000)", {"output_limit"}, {"wall_seconds": 8.0}),
    "stderr flood": (
        "import sys\nwhile True: print('x' * 10000, file=sys.stderr)",
        {"output_limit"},
        {"wall_seconds": 8.0},
    ),
    "flood of a child": (
        "import os\nif os.fork():\n    os.wait()\nelse:\n    while True: os.write(1, b'x' * 4096)",
        {"output_limit"},
        {"wall_seconds": 8.0},
    ),
    "deep recursion": ("def f(n): return f(n + 1)\nf(0)", {"nonzero_exit"}, {}),
    "recursion in C": (
        "import sys\nsys.setrecursionlimit(1 << 30)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\nA().x",
        {"signalled", "memory_limit", "nonzero_exit"},
        {"wall_seconds": 8.0},
    ),
    "ignored signals": (
        "import signal, time\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\ntime.sleep(60)",
        {"wall_limit"},
        {},
    ),
    "stopped": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", {"wall_limit"}, {}),
    "waits for itself": ("import os\nr, w = os.pipe()\nos.read(r, 1)", {"wall_limit"}, {}),
    "a child that is stopped": (
        "import os, signal\np = os.fork()\nif p == 0:\n    os.kill(os.getpid(), signal.SIGSTOP)\nos.waitpid(p, 0)",
        {"wall_limit"},
        {},
    ),
    "kills all that it can": (
        "import os\ntry: os.kill(-1, 9)\nexcept OSError: pass\nprint('alive')",
        {"ok", "signalled"},
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_ended_in_time_with_the_right_status(box: Box, name: str) -> None:
    source, statuses, changes = CASES[name]
    limits = box.limits.with_changes(**{"wall_seconds": WALL, **changes})
    began = time.monotonic()
    result = box.run(Program(source), limits)
    took = time.monotonic() - began
    assert result.status in statuses, result
    assert took < limits.wall + LATE
    assert len(result.stdout) <= limits.output_bytes
    assert box.run(Program("print(1 + 1)")).stdout == b"2\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_is_cut_at_the_limit(box: Box, stream: str) -> None:
    result = box.run(Program(f"import sys\nwhile True: sys.{stream}.write('x' * 1000)"))
    assert getattr(result, stream) == b"x" * box.limits.output_bytes
    assert getattr(result, f"{stream}_truncated")


def test_output_up_to_the_limit_passes(box: Box) -> None:
    result = box.run(Program(f"print('x' * {box.limits.output_bytes}, end='')"))
    assert (result.status, len(result.stdout)) == ("ok", box.limits.output_bytes)


def test_a_grandchild_that_keeps_stdout_open(box: Box) -> None:
    source = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\n"
        "    os._exit(0)\nprint('done', flush=True)\nos._exit(0)"
    )
    result = box.run(Program(source))
    assert (result.status, result.stdout) == ("ok", b"done\n")
    assert result.wall_seconds < 5


def test_zombies(box: Box) -> None:
    source = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: os._exit(0)\ntime.sleep(0.1)\nprint('done')"
    assert box.run(Program(source)).stdout == b"done\n"


def test_orphans_do_not_fill_the_process_limit(box: Box) -> None:
    source = (
        "import os\nfor _ in range(60):\n    if os.fork() == 0:\n        if os.fork() == 0: os._exit(0)\n        os._exit(0)\n"
        "    os.wait()\nprint('done')"
    )
    assert box.run(Program(source)).stdout == b"done\n"


def test_exit_codes_that_look_like_kills_are_no_limits(box: Box) -> None:
    assert box.run(Program("import os; os._exit(137)")).status == "nonzero_exit"
    assert box.run(Program("import os; os.kill(os.getpid(), 9)")).status == "signalled"


def test_a_caught_memory_error_is_the_programs_business(box: Box) -> None:
    result = box.run(Program("try:\n    x = bytearray(1 << 33)\nexcept MemoryError:\n    print('caught')"))
    assert (result.status, result.stdout) == ("ok", b"caught\n")


def test_neighbours_go_on(box: Box) -> None:
    """While one slot has a fork bomb and a flood, the other finishes its programs."""
    done: list[Result] = []
    bombs = [Program(FORK_BOMB), Program("while True: print('x' * 10000)")]
    limits = box.limits.with_changes(wall_seconds=2.0)
    thread = threading.Thread(target=lambda: [box.run(bomb, limits) for bomb in bombs])
    thread.start()
    while thread.is_alive():
        done.append(box.run(Program("print(sum(range(1000)))")))
    thread.join()
    assert done
    assert {(result.status, result.stdout) for result in done} == {("ok", b"499500\n")}


def test_memory_that_belongs_to_nobody_is_refused(box: Box) -> None:
    result = box.run(Program("import os\ntry: os.memfd_create('x')\nexcept OSError as e: print(e.errno)"))
    assert result.stdout == b"38\n"
