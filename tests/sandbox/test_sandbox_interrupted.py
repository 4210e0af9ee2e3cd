"""Who stops waiting for programs ends them: they keep no slot, and no interpreter, until their limits do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Set
from pathlib import Path

import psutil
import pytest

import rlvr.sandbox
from rlvr.sandbox import Box, Limits, Program

LONG = Limits(cpu_seconds=300, wall_seconds=300)
"""A program may take much longer than a test waits."""
WAIT = 60.0
SLEEP = "import os, time\nos.fork()\ntime.sleep(300)"

OWNER = """
import signal, threading, time
# It may be ignored, as in what a shell starts in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
import rlvr.sandbox
from rlvr.sandbox import Limits, Program
box = rlvr.sandbox.open({backend!r}, pool=2, limits=Limits(cpu_seconds=300, wall_seconds=300))
def tell():
    while sum(slot.jobs for slot in list(box._pool._all)) < 2:
        time.sleep(0.01)
    print("at work", flush=True)
threading.Thread(target=tell, daemon=True).start()
programs = [Program({sleep!r})] * 5
"""
ENDINGS = {
    "in a with statement": "with box: box.map(programs)",
    "left open": "box.map(programs)",
    "used again": "try: box.map(programs)\nexcept KeyboardInterrupt: print(box.run(Program('print(6 * 7)')).text())",
    "asyncio": "import asyncio\nasync def main(): await asyncio.gather(*map(box.arun, programs))\nasyncio.run(main())",
}


def containers(owner: int, backend: str) -> set[str]:
    """Those of a process."""
    if backend != "docker":
        return set()
    from rlvr.sandbox.docker import daemon

    found = daemon().client.containers(all=True, filters={"label": f"rlvr.sandbox.process={owner}"})
    return {container["Id"] for container in found}


def left_by(owner: int, inside: set[int], backend: str, before: Set[str] = frozenset()) -> list[object]:
    """Its processes and its containers that are still there after a time in which they should end."""
    deadline = time.monotonic() + WAIT
    while True:
        left: list[object] = [process for process in inside if Path(f"/proc/{process}").exists()]
        left += containers(owner, backend) - before
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interrupted_process_ends_and_leaves_nothing(backend: str, ending: str) -> None:
    source = OWNER.format(backend=backend, sleep=SLEEP) + ENDINGS[ending]
    owner = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"at work\n"
            inside = {child.pid for child in psutil.Process(owner.pid).children(recursive=True)}
            owner.send_signal(signal.SIGINT)
            said, traceback = owner.communicate(timeout=WAIT)
        finally:
            owner.kill()
    if ending == "used again":
        assert (said, traceback, owner.returncode) == (b"42\n\n", b"", 0)
    else:
        assert traceback.rstrip().endswith(b"KeyboardInterrupt")
        assert b"rlvr-sandbox" not in traceback
    assert left_by(owner.pid, inside, backend) == []


@pytest.fixture
def own_box(backend: str) -> Box:
    return rlvr.sandbox.open(backend, pool=1, limits=LONG)


def test_a_cancelled_run_gives_its_slot_back(own_box: Box) -> None:
    async def cancelled() -> str:
        waiting = [asyncio.create_task(own_box.arun(Program(SLEEP))) for _ in range(3)]
        while not any(slot.jobs for slot in list(own_box._pool._all)):
            await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        return (await asyncio.wait_for(own_box.arun(Program("print(6 * 7)")), WAIT)).text()

    with own_box:
        assert asyncio.run(cancelled()) == "42\n"


def test_a_mistake_in_one_program_of_many_ends_the_others(own_box: Box) -> None:
    from rlvr.sandbox import Call
    from rlvr.verifiers import UserError

    with own_box:
        with pytest.raises(UserError, match="cannot be handed over"):
            own_box.map([Program("def f(x): pass", call=Call("f", [object()])), Program(SLEEP)])
        future = own_box.submit(Program("print(6 * 7)"))
        assert future.result(WAIT).text() == "42\n"


def test_closing_ends_what_waits(backend: str) -> None:
    # Those of other tests' sandboxes, in this very process.
    before = containers(os.getpid(), backend)
    own_box = rlvr.sandbox.open(backend, pool=1, limits=LONG)
    future = own_box.submit(Program(SLEEP))
    while not any(slot.jobs for slot in list(own_box._pool._all)):
        time.sleep(0.01)
    own_box.close()
    with pytest.raises(rlvr.sandbox.SandboxFault):
        future.result(WAIT)
    assert left_by(os.getpid(), set(), backend, before) == []
