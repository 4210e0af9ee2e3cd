"""Tests that pytest runs."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from typing import Any

from . import frames, harness, identity, imports, opposite

_LENGTH = 2000
_NOT_STARTED = 4  # `pytest.ExitCode.USAGE_ERROR`: a conftest.py that cannot be imported, say


def run(job: dict, channel: harness.Channel) -> None:
    """Run the tests against the program's process; ends the process."""
    try:
        tests = [content.decode("utf-8", "replace") for content in job["files"].values()]
        conduct(job, channel, opposite.Opposite(tests))
    finally:
        harness.leave(0)


def conduct(job: dict, channel: harness.Channel, program: Any) -> None:
    """Run the tests and report them."""
    for path, content in job["files"].items():
        harness.write_file(path, content)
    sys.dont_write_bytecode = True
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        pytest: Any = importlib.import_module("pytest")
    except ImportError as error:
        channel.send(frames.TEST, ["pytest", False, f"pytest is not installed in the sandbox: {error}"])
        channel.send(frames.END, [False, program.trusted, False])
        return
    sys.modules[job["module"]] = program.as_module(job["module"])
    one = identity.Identity(program)
    one.install()
    if any(b"assertIs" in content for content in job["files"].values()):
        importlib.import_module("unittest")
        one.judge_cases()
    record = _Record(channel, job)
    # The same order and the same folder everywhere; nothing of the scratch folder configures it but the tests' files.
    options = ["-q", "-p", "no:cacheprovider", "--rootdir=.", "--override-ini=addopts=", "."]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = int(pytest.main(options, plugins=[record]))
    if code == _NOT_STARTED:
        name = "conftest" if program.asked else "pytest did not start"
        channel.send(frames.TEST, [name, False, said.getvalue()[-_LENGTH:]])
    completed = code in (0, 1) and record.done == record.collected > 0 and not record.broken
    program.look_again()
    channel.send(frames.END, [completed, program.trusted, program.needs_inside])


class _Record:
    """A plugin of pytest that reports each test."""

    def __init__(self, channel: harness.Channel, job: dict) -> None:
        self.channel = channel
        self.job = job
        self.collected = self.done = 0
        self.broken = False
        self.failure: dict = {}
        self.passed: set = set()

    def pytest_collection_finish(self, session: Any) -> None:
        self.collected = len(session.items)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken = True
            why = self.missing_import(report.nodeid) or str(report.longrepr)[-_LENGTH:]
            self.channel.send(frames.TEST, [report.nodeid or "collection", False, why])

    def missing_import(self, path: str) -> str:
        """What a file that was not collected imports in vain, as pytest would say it; "" if nothing."""
        source = self.job["files"].get(path, b"").decode("utf-8", "replace")
        gone = imports.missing_import(source, self.job["module"])
        return f"{path}:{gone[0]}: ModuleNotFoundError: No module named {gone[1]!r}" if gone else ""

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Any:
        """Run a coroutine as a test; there is no plugin for it."""
        import asyncio
        import inspect

        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        asyncio.run(pyfuncitem.obj(**arguments))
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.passed.add(name)
        elif report.failed or report.skipped or hasattr(report, "wasxfail"):
            self.passed.discard(name)
            # Before anything runs, pytest looks for the fixtures; the program has no part in that.
            when = "fixture lookup" if type(report.longrepr).__name__ == "FixtureLookupErrorRepr" else report.when
            self.failure.setdefault(name, f"{when} {report.outcome}: {str(report.longrepr)[-_LENGTH:]}")
        if report.when == "teardown":
            self.done += 1
            passed = name in self.passed and name not in self.failure
            self.channel.send(frames.TEST, [name, passed, self.failure.get(name, "")])
