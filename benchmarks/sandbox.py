"""Runs a second of the sandbox beside what else would run a program: all in one go, for the machine's mood changes.

    python benchmarks/sandbox.py [--seconds 2] [--repeats 3] [--at-once 1 2 4] [--json FILE]

The ways: a bare `python -I -S` process (no isolation), bubblewrap for each run, `docker run`, the SDK's exec in a warm
container, and the two backends. The programs: `print(1 + 1)`, and a solution with its tests as HumanEval has them.
Last, 1,024 completions with 20 tests each. What a way cannot do here is left out, and the reason is said.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import rlvr
import rlvr.sandbox
from rlvr.sandbox import Call, Limits, Program, SandboxFault, TestProgram
from rlvr.sandbox.docker import available_image, daemon, image_present
from rlvr.verifiers import UserError

PRINT = "print(1 + 1)"
HUMANEVAL = '''
from typing import List
import math


def has_close_elements(numbers: List[float], threshold: float) -> bool:
    """Check if in given list of numbers, are any two numbers closer to each other than given threshold."""
    for idx, elem in enumerate(numbers):
        for idx2, elem2 in enumerate(numbers):
            if idx != idx2:
                distance = abs(elem - elem2)
                if distance < threshold:
                    return True
    return False


def check(candidate):
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.3) == True
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) == False
    assert candidate([1.0, 2.0, 5.9, 4.0, 5.0], 0.95) == True
    assert candidate([1.0, 2.0, 5.9, 4.0, 5.0], 0.8) == False
    assert candidate([1.0, 2.0, 3.0, 4.0, 5.0, 2.0], 0.1) == True
    assert candidate([1.1, 2.2, 3.1, 4.1, 5.1], 1.0) == True
    assert candidate([1.1, 2.2, 3.1, 4.1, 5.1], 0.5) == False


check(has_close_elements)
print(2)
'''
PROGRAMS = {"print": PRINT, "HumanEval": HUMANEVAL}
PYTHON_OPTIONS = ("-I", "-S", "-c")
COMPLETIONS = 1024

Run = Callable[[str], bytes]
"""Runs a program, and returns what it printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a block lasts")
    parser.add_argument("--repeats", type=int, default=3, help="blocks of each kind, of which the median counts")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2, 4], help="how many programs run at a time")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    arguments = parser.parse_args()
    console = Console()
    rates: dict[str, dict[str, dict[int, float]]] = {}
    for at_once in arguments.at_once:
        measure(arguments.ways, at_once, arguments.seconds, arguments.repeats, rates, console)
    for program in PROGRAMS:
        console.print(rate_table(program, rates, arguments.at_once))
    batches = measure_batches([way for way in ("docker", "namespace") if way in rates], arguments.repeats)
    console.print(batch_table(batches))
    if arguments.json:
        arguments.json.write_text(json.dumps({"runs_per_second": rates, "batch_seconds": batches}, indent=2) + "\n")


# The ways. Each is entered once for a number of programs at a time.


@contextmanager
def bare_process(at_once: int) -> Iterator[Run]:
    yield lambda source: output_of([sys.executable, *PYTHON_OPTIONS, source])


@contextmanager
def bubblewrap(at_once: int) -> Iterator[Run]:
    if shutil.which("bwrap") is None:
        raise Missing("bubblewrap is not installed")
    options = ["bwrap", "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", "--unshare-all"]
    yield lambda source: output_of([*options, sys.executable, *PYTHON_OPTIONS, source])


@contextmanager
def docker_run(at_once: int) -> Iterator[Run]:
    if shutil.which("docker") is None:
        raise Missing("there is no command docker")
    options = ["docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--log-driver=none"]
    image = present_image()
    yield lambda source: output_of([*options, image, "python3", *PYTHON_OPTIONS, source])


@contextmanager
def docker_exec(at_once: int) -> Iterator[Run]:
    image, client = present_image(), daemon().client
    forever = ["python3", "-c", "import signal; signal.pause()"]
    settings = client.create_host_config(network_mode="none", auto_remove=True, init=True)
    container = client.create_container(image, forever, host_config=settings)["Id"]
    client.start(container)

    def run(source: str) -> bytes:
        made = client.exec_create(container, ["python3", *PYTHON_OPTIONS, source])
        return bytes(client.exec_start(made["Id"]))

    try:
        yield run
    finally:
        client.remove_container(container, force=True)


def backend(name: str) -> Callable[[int], AbstractContextManager[Run]]:
    @contextmanager
    def way(at_once: int) -> Iterator[Run]:
        with rlvr.sandbox.open(name, pool=at_once) as box:
            yield lambda source: box.run(Program(source)).stdout

    return way


class Missing(Exception):
    """Something that a way needs is not here."""


def present_image() -> str:
    image = available_image()
    if not image_present(image):
        raise Missing(f"the image {image} is not there")
    return image


def output_of(command: list[str]) -> bytes:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env={}, check=True).stdout


WAYS: dict[str, Callable[[int], AbstractContextManager[Run]]] = {
    "bare process": bare_process,
    "bubblewrap": bubblewrap,
    "docker run": docker_run,
    "docker exec": docker_exec,
    "docker": backend("docker"),
    "namespace": backend("namespace"),
}


# Measuring.


def measure(
    names: list[str],
    at_once: int,
    seconds: float,
    repeats: int,
    rates: dict[str, dict[str, dict[int, float]]],
    console: Console,
) -> None:
    """The median rates of every way; blocks of the ways alternate, so that a busy minute hits all of them."""
    blocks: dict[tuple[str, str], list[float]] = {}
    for turn in range(repeats):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            try:
                with WAYS[name](at_once) as run:
                    for program, source in PROGRAMS.items():
                        blocks.setdefault((name, program), []).append(rate(run, source, at_once, seconds))
            except (Missing, UserError, SandboxFault) as error:
                if turn == 0:
                    console.print(f"without {name}: {error}", markup=False)
    for (name, program), measured in blocks.items():
        rates.setdefault(name, {}).setdefault(program, {})[at_once] = statistics.median(measured)


def rate(run: Run, source: str, at_once: int, seconds: float) -> float:
    """Runs a second, so many at a time; every output is checked."""
    done, lock = 0, threading.Lock()

    def worker(ends: float) -> None:
        nonlocal done
        while time.perf_counter() < ends:
            output = run(source)
            if output != b"2\n":
                raise AssertionError(f"the program printed {output!r}")
            with lock:
                done += 1

    with ThreadPoolExecutor(at_once) as executor:
        # All at once here as well, for slots start when they are needed.
        for _ in range(2):
            list(executor.map(run, [source] * at_once))
        started = time.perf_counter()
        for future in [executor.submit(worker, started + seconds) for _ in range(at_once)]:
            future.result()
        return done / (time.perf_counter() - started)


def batch(form: str) -> list[Program]:
    """1,024 different completions, with 20 tests each."""
    programs = []
    for number in range(COMPLETIONS):
        source = completion(number)
        if form == "calls":
            programs.append(Program(source, call=[Call("add", (case, case + 1)) for case in range(20)]))
        elif form == "script":
            tests = "".join(f"assert add({case}, {case + 1}) == {2 * case + 1}\n" for case in range(20))
            programs.append(Program(source + tests))
        else:
            programs.append(Program(source, test=TestProgram("asserts", source=assertions(), entry_point="add")))
    return programs


def measure_batches(names: list[str], repeats: int) -> dict[str, dict[str, float]]:
    """Seconds for such a batch, by backend and by the form of the tests; the slots are warm."""
    seconds: dict[str, dict[str, float]] = {}
    for name in names:
        with rlvr.sandbox.open(name, pool=2, limits=Limits(cpu_seconds=2)) as box:
            for form in ("script", "calls", "asserts"):
                programs = batch(form)
                box.map(programs[:16])
                measured = []
                for _ in range(repeats):
                    started = time.perf_counter()
                    results = box.map(programs)
                    measured.append(time.perf_counter() - started)
                    for result in results:
                        passed(form, result)
                seconds.setdefault(name, {})[form] = statistics.median(measured)
        seconds[name]["graded"] = graded_batch(name, repeats)
    return seconds


def graded_batch(name: str, repeats: int) -> float:
    """Seconds for the verdicts of `rlvr/code-v1` on such a batch, whose tests are assertions."""
    tests = {"form": "asserts", "entry_point": "add", "source": assertions()}
    options = {"tests": tests, "backend": name, "limits": {"cpu_seconds": 2}}
    rows = [
        {"completion": f"Like this:\n\n```python\n{completion(number)}```", **options} for number in range(COMPLETIONS)
    ]
    rlvr.verify_many("rlvr/code-v1", rows[:16])
    measured = []
    for _ in range(repeats):
        started = time.perf_counter()
        verdicts = rlvr.verify_many("rlvr/code-v1", rows)
        measured.append(time.perf_counter() - started)
        if not all(verdict.passed for verdict in verdicts):
            raise AssertionError("a right completion did not pass")
    return statistics.median(measured)


def completion(number: int) -> str:
    return f"def add(a, b):\n    # completion {number}\n    return a + b\n"


def assertions() -> str:
    lines = "".join(f"    assert candidate({case}, {case + 1}) == {2 * case + 1}\n" for case in range(20))
    return f"def check(candidate):\n{lines}"


def passed(form: str, result: Any) -> None:
    right = result.ok
    if form == "calls":
        right = [value.value for value in result.values] == [2 * case + 1 for case in range(20)]
    elif form == "asserts":
        right = result.tests is not None and result.tests.tests_passed == result.tests.tests_run == 20
    if not right:
        raise AssertionError(f"a right completion came out as {result}")


def rate_table(program: str, rates: dict[str, dict[str, dict[int, float]]], at_once: list[int]) -> Table:
    table = Table(title=f"{program}: runs a second", title_justify="left")
    for column in ("way", *(f"{count} at once" for count in at_once), "to bare"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for name, measured in rates.items():
        found = measured.get(program, {})
        bare = rates.get("bare process", {}).get(program, {})
        best = max(found.values(), default=0.0) / max(bare.values(), default=float("nan"))
        table.add_row(name, *(f"{found[count]:,.0f}" if count in found else "" for count in at_once), f"{best:.2f}")
    return table


def batch_table(batches: dict[str, dict[str, float]]) -> Table:
    table = Table(title=f"{COMPLETIONS:,} completions with 20 tests each, 2 at once: seconds", title_justify="left")
    for column in ("backend", "in the script", "calls", "asserts, split", "asserts, graded by code-v1"):
        table.add_column(column, justify="left" if column == "backend" else "right")
    for name, seconds in batches.items():
        table.add_row(name, *(f"{seconds[form]:.2f}" for form in ("script", "calls", "asserts", "graded")))
    return table


if __name__ == "__main__":
    main()
