from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from rlvr.verifiers.pool import JobFailed, Pool, PoolTimeout, WorkerDied, shared_pool

DEADLINE = 60.0


def gone(process: int) -> bool:
    """Whether no process of this number runs; a zombie runs no more."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(condition) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def double(x):
    return 2 * x


def hold_the_interpreter_lock():
    return 9**9**9


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as pool:
        yield pool
        processes = pool.process_ids()
    assert all(map(gone, processes))


def test_a_result_comes_back(pool):
    assert pool.run(double, 21, timeout=60) == 42
    assert pool.run(lambda a, b: a + b, "x", "y", timeout=60) == "xy"
    assert pool.run(os.getpid, timeout=60) != os.getpid()


def test_a_big_power_is_killed_and_its_neighbours_keep_their_results(pool):
    work = lambda x: 9**9**9 if x == 3 else x  # noqa: E731
    results = pool.map(work, [(x,) for x in range(8)], timeout=1)
    assert isinstance(results.pop(3), PoolTimeout)
    assert results == [0, 1, 2, 4, 5, 6, 7]
    with pytest.raises(PoolTimeout, match=r"0\.5 s"):
        pool.run(hold_the_interpreter_lock, timeout=0.5)
    assert pool.run(double, 1, timeout=60) == 2


def test_a_killed_worker_is_really_gone(pool, tmp_path):
    note = tmp_path / "process"

    def work():
        Path(note).write_text(str(os.getpid()))
        return 9**9**9

    with pytest.raises(PoolTimeout):
        pool.run(work, timeout=1)
    assert gone(int(note.read_text()))


def test_what_a_job_started_is_killed_with_it(pool, tmp_path):
    note = tmp_path / "process"

    def work():
        child = subprocess.Popen(["sleep", "1000"])
        Path(note).write_text(str(child.pid))
        child.wait()

    with pytest.raises(PoolTimeout):
        pool.run(work, timeout=1)
    wait_until(lambda: gone(int(note.read_text())))


def test_the_clock_starts_when_a_worker_takes_the_job():
    with Pool(1) as pool:
        # Together far beyond the limit of each.
        assert pool.map(lambda x: time.sleep(0.3) or x, [(x,) for x in range(6)], timeout=1.2) == list(range(6))


def test_importing_the_functions_module_is_not_on_the_clock(pool, tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(1)\ndef f(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import slow_to_import

    assert pool.run(slow_to_import.f, 3, timeout=0.5) == 3


def test_a_worker_killed_from_outside_fails_only_its_job(pool):
    first = pool.submit(lambda: (time.sleep(0.2), os.kill(os.getpid(), signal.SIGKILL)), timeout=60)
    second = pool.submit(lambda: time.sleep(0.6) or "kept", timeout=60)
    assert isinstance(first.exception(), WorkerDied)
    assert first.exception().exit_code == -9
    assert second.result() == "kept"


def test_an_idle_worker_killed_from_outside_fails_no_job(pool):
    for _ in range(3):
        worker = pool.run(os.getpid, timeout=60)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda worker=worker: gone(worker))
        assert pool.run(os.getpid, timeout=60) != worker


def test_a_killed_fork_server_is_replaced(pool):
    pool.run(double, 1, timeout=60)
    server, *workers = pool.process_ids()
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: all(map(gone, [server, *workers])))
    assert pool.map(double, [(x,) for x in range(10)], timeout=60) == [2 * x for x in range(10)]


@pytest.mark.parametrize(
    ("work", "kind", "words"),
    [
        (lambda: 1 / 0, ZeroDivisionError, "division"),
        (lambda: sys.exit(3), JobFailed, "SystemExit: 3"),
        (lambda: os._exit(3), WorkerDied, "exit code 3"),
        (lambda: os.abort(), WorkerDied, "signal 6"),
        (lambda: threading.Lock(), JobFailed, "result, a lock"),
        (lambda: (x for x in ()), JobFailed, "result, a generator"),
        (lambda: bytearray(8 << 30), MemoryError, None),
        (lambda: _raise_what_cannot_travel(), JobFailed, "Stubborn: stays here"),
    ],
)
def test_whatever_a_job_does_is_its_own_failure(pool, work, kind, words):
    with pytest.raises(kind, match=words):
        pool.run(work, timeout=60)
    assert pool.run(double, 4, timeout=60) == 8


def _raise_what_cannot_travel():
    class Stubborn(Exception):
        def __init__(self, one, two):
            super().__init__(one)
            self.lock = threading.Lock()

    raise Stubborn("stays here", 2)


def test_memory_is_bounded_step_by_step_too():
    def grow():
        kept = []
        while True:
            kept.append(bytearray(1 << 20))

    with Pool(1, memory_bytes=400 << 20) as pool:
        with pytest.raises(MemoryError):
            pool.run(grow, timeout=60)
        assert pool.run(double, 1, timeout=60) == 2


def test_payloads_beyond_any_buffer(pool):
    text = "x" * 30_000_000
    assert pool.run(len, text, timeout=60) == len(text)
    assert pool.run(lambda n: "y" * n, 30_000_000, timeout=60) == "y" * 30_000_000


def test_printing_does_not_disturb(pool, capfd):
    def talk():
        print("a" * 100_000)
        os.write(1, b"raw\n")
        sys.stdout.write("no newline")
        return "quiet"

    assert pool.run(talk, timeout=60) == "quiet"
    out, _ = capfd.readouterr()
    assert out == ""


def test_arguments_and_functions_of_the_main_module_travel():
    code = (
        "import dataclasses\n"
        "from rlvr.verifiers.pool import Pool\n"
        "print('main')\n"
        "@dataclasses.dataclass\n"
        "class Point:\n    x: int\n"
        "def move(point):\n    return Point(point.x + 1)\n"
        "class Odd(Exception):\n    pass\n"
        "def fail():\n    raise Odd('x')\n"
        "pool = Pool(1)\n"  # no guard: nothing imports the main module again
        "print(pool.run(move, Point(1), timeout=60) == Point(2))\n"
        "try:\n    pool.run(fail, timeout=60)\n"
        "except Odd as error:\n    print('caught', error)\n"
    )
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["main", "True", "caught x", ""]


def test_a_file_loaded_by_its_path_travels(pool, tmp_path):
    from rlvr.config import import_extensions

    path = tmp_path / "loaded_by_path_for_the_pool.py"
    path.write_text("LIMIT = 3\ndef helper(x):\n    return x + LIMIT\ndef f(x):\n    return helper(x)\n")
    import_extensions([str(path)])
    assert pool.run(sys.modules[path.stem].f, 1, timeout=60) == 4
    del sys.modules[path.stem]


def test_workers_never_load_torch_or_the_main_module():
    code = (
        "import sys, torch, pytest; from rlvr.verifiers.pool import Pool\n"
        "loaded = Pool(1).run(lambda: {'torch', 'transformers', 'pytest'} & sys.modules.keys(), timeout=60)\n"
        "print(loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_modules_are_preloaded_and_missing_ones_left_out():
    with Pool(1, preload=["sympy", "no_such_module_anywhere"]) as pool:
        assert pool.run(lambda: "sympy" in sys.modules, timeout=60)


def test_a_worker_is_replaced_after_its_share_of_jobs():
    with Pool(1, max_jobs=3) as pool:
        workers = [pool.run(os.getpid, timeout=60) for _ in range(7)]
    assert [workers.count(worker) for worker in dict.fromkeys(workers)] == [3, 3, 1]


def test_many_threads_share_a_pool(pool):
    results: dict[int, list] = {}

    def work(k):
        results[k] = [pool.run(lambda x: x * x, k * 100 + i, timeout=60) for i in range(20)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [(k * 100 + i) ** 2 for i in range(20)] for k in range(8)}


def test_asyncio_waits_for_the_future(pool):
    async def work():
        futures = [asyncio.wrap_future(pool.submit(double, x, timeout=60)) for x in range(20)]
        slow = asyncio.wrap_future(pool.submit(hold_the_interpreter_lock, timeout=0.5))
        with pytest.raises(PoolTimeout):
            await slow
        return await asyncio.gather(*futures)

    assert asyncio.run(work()) == [2 * x for x in range(20)]


def test_submit_waits_while_the_queue_is_full():
    with Pool(1, max_queued=1) as pool:
        submitted = []

        def submit():
            for x in range(4):
                submitted.append(pool.submit(lambda x: time.sleep(0.5) or x, x, timeout=60))

        thread = threading.Thread(target=submit)
        thread.start()
        wait_until(lambda: len(submitted) >= 2)
        # One runs and one waits; the third and fourth are not taken before the first is done.
        assert len(submitted) < 4
        thread.join()
        assert [future.result() for future in submitted] == [0, 1, 2, 3]


def test_closing_fails_what_runs_and_waits():
    pool = Pool(1)
    futures = [pool.submit(hold_the_interpreter_lock, timeout=100) for _ in range(3)]
    wait_until(lambda: futures[0].running() and len(pool.process_ids()) == 2)
    processes = pool.process_ids()
    pool.close()
    for future in futures:
        with pytest.raises((WorkerDied, RuntimeError, CancelledError)):
            future.result(DEADLINE)
    assert all(map(gone, processes))
    with pytest.raises(RuntimeError, match="closed"):
        pool.run(double, 1, timeout=1)


def test_a_forked_child_gets_processes_of_its_own():
    with Pool(1) as pool:
        worker = pool.run(os.getpid, timeout=60)
        processes = set(pool.process_ids())
        child = os.fork()
        if child == 0:
            status = 1
            try:
                right = pool.run(double, 4, timeout=60) == 8
                status = 0 if right and processes.isdisjoint(pool.process_ids()) else 2
                pool.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pool.run(os.getpid, timeout=60) == worker


def test_a_daemonic_process_may_have_a_pool(tmp_path):
    code = (
        "import multiprocessing\n"
        "def child(results):\n"
        "    from rlvr.verifiers.pool import shared_pool\n"
        "    results.put(shared_pool().run(abs, -3, timeout=60))\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    results = context.Queue()\n"
        "    process = context.Process(target=child, args=(results,), daemon=True)\n"
        "    process.start()\n"
        "    print(results.get(timeout=30))\n"
        "    process.join()\n"
    )
    path = tmp_path / "daemonic.py"
    path.write_text(code)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def test_a_job_may_use_a_pool(pool):
    def outer():
        from rlvr.verifiers.pool import shared_pool

        return shared_pool().workers, shared_pool().run(abs, -5, timeout=60)

    assert pool.run(outer, timeout=40) == (1, 5)


PROGRAM = """
import os, sys, threading
from rlvr.verifiers.pool import Pool
pool = Pool(2)
futures = [pool.submit(lambda: 9**9**9, timeout=1000) for _ in range(3)]
while len(pool.process_ids()) < 3:
    pass
print(*pool.process_ids(), flush=True)
{ending}
"""


def processes_of_a_program(ending: str) -> tuple[subprocess.Popen[str], list[int]]:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(ending=ending)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Under nohup, a hang-up would be ignored by all that is started.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    processes = [int(word) for word in program.stdout.readline().split()]
    assert len(processes) == 3
    return program, processes


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_process_outlives_a_program_that_is_killed(number):
    program, processes = processes_of_a_program("futures[0].result()")
    # The whole group, as a terminal does with Ctrl-C.
    os.killpg(program.pid, number)
    program.communicate(timeout=DEADLINE)
    assert program.returncode != 0
    wait_until(lambda: all(map(gone, processes)))


@pytest.mark.parametrize("ending", ["", "sys.exit(1)", "os._exit(1)", "1 / 0", "os.fork() or os._exit(0)"])
def test_no_process_outlives_a_program_that_ends(ending):
    program, processes = processes_of_a_program(ending)
    program.communicate(timeout=DEADLINE)
    wait_until(lambda: all(map(gone, processes)))


def test_no_process_outlives_a_killed_program_whose_forked_child_lives_on():
    ending = "child = os.fork()\nif child == 0:\n    import time; time.sleep(1000)\nprint(child, flush=True)\n"
    program, processes = processes_of_a_program(ending + "futures[0].result()")
    child = int(program.stdout.readline())
    program.kill()
    program.wait()
    try:
        wait_until(lambda: all(map(gone, processes)))
        assert not gone(child)
    finally:
        os.kill(child, signal.SIGKILL)
        program.communicate()


def test_an_interrupt_gets_through_at_once_and_the_pool_goes_on():
    code = (
        "import os, signal, threading\n"
        "from rlvr.verifiers.pool import Pool\n"
        "pool = Pool(1)\n"
        "pool.run(abs, 1, timeout=60)\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    pool.run(lambda: 9**9**9, timeout=1000)\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
        "print(pool.run(abs, -7, timeout=60))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n7\n"


def test_a_pool_that_is_forgotten_ends_its_processes():
    pool = Pool(1)
    pool.run(double, 1, timeout=60)
    processes = pool.process_ids()
    del pool
    wait_until(lambda: all(map(gone, processes)))


def test_the_shared_pool_is_one():
    assert shared_pool() is shared_pool()
    assert shared_pool().run(double, 3, timeout=60) == 6


@pytest.mark.parametrize("options", [{"workers": 0}, {"max_jobs": 0}, {"max_queued": 0}])
def test_senseless_sizes(options):
    with pytest.raises(ValueError, match="at least 1"):
        Pool(**options)


@pytest.mark.parametrize(
    "start",
    ["[threading.Thread(target=work).start() for _ in '12']", "e = ThreadPoolExecutor(2); e.submit(work)"],
)
def test_threads_that_still_grade_do_not_hold_up_an_interrupted_program(tmp_path, start):
    # Each would go on grading for minutes.
    path = tmp_path / "program.py"
    path.write_text(
        "import os, signal, threading, time, rlvr\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "@rlvr.verifier('test/hang-v1', timeout=40)\n"
        "def hang(completion):\n    time.sleep(40)\n"
        "def work():\n"
        "    for _ in range(9):\n"
        "        print(rlvr.verify('test/hang-v1', completion='').status, flush=True)\n"
        f"{start}\n"
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "threading.Event().wait()\n"
    )
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=30)
    assert "KeyboardInterrupt" in done.stderr
    # The threads print at the same time, so that lines may run together.
    assert "error" in done.stdout
    assert not done.stdout.replace("error", "").strip()


def test_threads_that_outlive_the_main_one_still_grade(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import threading, rlvr\n"
        "@rlvr.verifier('test/fine-v1', timeout=40)\n"
        "def fine(completion):\n    return True\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    print(rlvr.verify('test/fine-v1', completion='').status, flush=True)\n"
        "threading.Thread(target=work).start()\n"
    )
    assert subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=50).stdout == "ok\n"
