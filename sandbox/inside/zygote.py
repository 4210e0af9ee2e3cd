"""The zygote: a small trusted fork server inside the sandbox, one forked process for each job.

It never holds what a job is told or says: the program is read by the process forked for it, and output passes through
memory that is not inherited. It watches its stdin also while a job runs, and ends with it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from typing import Any

from . import asserts, enclosure, frames, harness, kernel, pytest_tests, serve
from .cell import Cell, Limits, World, prepare
from .watch import Passage, Watch

# What programs import most; forked, they need not be imported again.
_PRELOAD = (
    "typing collections collections.abc re math itertools functools heapq bisect string random copy operator "
    "threading json datetime decimal fractions contextlib dataclasses enum traceback statistics"
).split()


def main(settings: dict) -> None:
    """Serve jobs until stdin ends."""
    try:
        if settings.get("enclose"):
            enclosure.enter(settings["enclose"])
        elif settings.get("leave_root"):
            enclosure.leave_root()
        world, wake = _prepare(settings)
        passage = Passage()
        frames.write_frame(1, frames.READY, json.dumps(_about(world)).encode())
    except BaseException as error:
        _fault(error)
        os._exit(1)
    try:
        while True:
            kind, content = frames.read_frame(0, 1 << 10)
            if kind != frames.JOB:
                break
            _serve(world, Limits(content), wake, passage)
    except (frames.HangUp, BrokenPipeError) as error:
        if str(error):
            _fault(error)
    except BaseException as error:
        _fault(error)
    os._exit(0)


def _fault(error: BaseException) -> None:
    try:
        frames.write_frame(1, frames.FAULT, f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:2000])
    except OSError:
        pass


def _about(world: World) -> dict[str, Any]:
    return {
        "mode": world.mode,
        "python": ".".join(map(str, sys.version_info[:3])),
        "seccomp": world.filter is not None,
        "pid": os.getpid(),
    }


def _prepare(settings: dict) -> tuple[World, int]:
    settings["at_fork"] = _import_all([*_PRELOAD, *settings.get("preload", ())])
    _add_site_names()
    sys.path[:] = [entry for entry in sys.path if entry]
    if settings.get("packages"):
        sys.path.append(settings["packages"])
    kernel.few_arenas()
    kernel.adopt_orphans()
    kernel.set_dumpable(False)
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    world = World(settings)
    prepare(world)
    gc.collect()
    gc.freeze()
    gc.disable()
    return world, wake


def _import_all(names: list) -> list:
    """Import them, and return what they would have run after each fork.

    A job is the first process of its program, so for it there is nothing to mend; the program's own forks run it.
    """
    handlers: list = []
    register = os.register_at_fork
    os.register_at_fork = lambda **given: handlers.append(given)
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        os.register_at_fork = register
    return handlers


def _add_site_names() -> None:
    """`exit`, `quit` and the like, which the site module gives every script, without the paths that it adds."""
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()


def _serve(world: World, limits: Limits, wake: int, passage: Passage) -> None:
    watch = Watch(world, limits, wake, passage)
    given = [watch.streams[name].theirs for name in ("stdout", "stderr", "values") if name in watch.streams]
    if limits.tests:
        calls, ask = os.pipe()
        hear, answers = os.pipe()
        # At the same places in both; the values' place is taken, though nothing is said there.
        report = watch.streams["report"].theirs
        nowhere = os.open("/dev/null", os.O_WRONLY)
        watch.cells.append(Cell(world, limits, frames.PROGRAM, [*given, nowhere, calls, answers], _program))
        os.close(calls)
        os.close(answers)
        watch.cells.append(Cell(world, limits, frames.TESTS, [nowhere, nowhere, report, ask, hear], _tests))
        for descriptor in (nowhere, ask, hear):
            os.close(descriptor)
    else:
        watch.cells.append(Cell(world, limits, frames.PROGRAM, given, _program))
    watch.begin()
    watch.until_end()
    watch.finish()
    numbers = watch.numbers()
    numbers["dirty"] = world.left_behind(watch.cells)
    passage.add(frames.DONE, json.dumps(numbers).encode())
    passage.flush()


def _program(world: World, job: dict) -> None:
    """The body of the program's process: fd 3 takes values, if any; fds 4 and 5 lead to the tests, if any."""
    _forget_zygote()
    channel = harness.Channel(3, world.notes)
    if "serve" in job:
        serve.run(job, channel)
    harness.run(job, channel)


def _tests(world: World, job: dict) -> None:
    """The body of the process with the tests: fd 3 takes reports; fds 4 and 5 lead to the program."""
    _forget_zygote()
    (asserts if job["form"] == "asserts" else pytest_tests).run(job, harness.Channel(3, bytearray(8)))


_INSIDE = [name for name in sys.modules if name == "inside" or name.startswith("inside.")]


def _forget_zygote() -> None:
    gc.enable()
    for name in _INSIDE:
        del sys.modules[name]
    sys.argv[:] = ["solution.py"]
