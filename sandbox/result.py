"""What came of running a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal[
    "ok",
    "nonzero_exit",
    "signalled",
    "wall_limit",
    "cpu_limit",
    "memory_limit",
    "output_limit",
    "pids_limit",
    "disk_limit",
]


@dataclass(frozen=True)
class CallResult:
    """What came of one call.

    All of it is the program's word: plain data that its process sent, to be compared outside. A program can send any
    values it likes, but nothing that it was not told; so a value is right only if the program knew it.

    Attributes:
        outcome: `returned`; `raised` an exception; `opaque`: it returned something that is no plain data or too
            large; `missing`: the process ended, or sent nonsense, before this call was answered.
        value: what it returned, where `returned`.
        args: the positional arguments after the call, for functions that change them in place; None where missing or
            no longer plain.
        kwargs: the keyword arguments after the call; None as for `args`.
        error_type: the exception's type name (`raised`), or that of the value (`opaque`).
        error_message: the start of the exception's text (`raised`), or why the value did not cross (`opaque`).
    """

    outcome: Literal["returned", "raised", "opaque", "missing"]
    value: Any = None
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    error_type: str = ""
    error_message: str = ""


@dataclass(frozen=True)
class TestReport:
    """What the tests said.

    Attributes:
        tests_run: tests that ran to a verdict (`asserts`: assert statements that were reached).
        tests_passed: those that passed each time; skipped and expected failures are not passed.
        completed: whether the tests ran to their end; without it the program has failed, whatever the counts say.
        trusted: whether everything was decided by the process with the tests alone. False where tests ran inside the
            program's process, or where an object of the program's own class took part in a comparison or an operator.
            (Such an object never equals a built-in value.)
        needs_inside: whether the tests had something to hand over that is no plain data (an object of a class that
            they define), or asked for what only the program's process has (the signature of a function, the type of
            an object, what has become of a global list), so that they can only run with `TestProgram(inside=True)`.
        first_failure: the name of the first test that did not pass; "" if none.
        message: the start of what that failure said.
        passed_names: the names of the tests that passed, in order (bounded in number).
    """

    __test__ = False

    tests_run: int = 0
    tests_passed: int = 0
    completed: bool = False
    trusted: bool = True
    needs_inside: bool = False
    first_failure: str = ""
    message: str = ""
    passed_names: tuple[str, ...] = ()

    @property
    def all_passed(self) -> bool:
        """Whether the tests ran to their end, there was at least one, and every one passed."""
        return self.completed and 0 < self.tests_run == self.tests_passed


@dataclass(frozen=True)
class Result:
    """What came of running a program.

    Attributes:
        status: how it ended. `memory_limit` only where the memory limit was seen at work, never from a signal alone.
        exit_code: its exit code; None where a signal ended it.
        signal: the signal that ended it; None where it exited.
        stdout: the start of its output, in bytes.
        stderr: the start of its error output, in bytes.
        stdout_truncated: whether it wrote more than that.
        stderr_truncated: whether it wrote more than that.
        values: one entry for each call asked for, in order.
        tests: what the tests said, where there were any.
        wall_seconds: time on the clock.
        cpu_seconds: processor time of all its processes.
        peak_memory_bytes: the most memory seen in use.
    """

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    values: tuple[CallResult, ...] = ()
    tests: TestReport | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether it ran to its end with exit code 0 and within all limits."""
        return self.status == "ok"

    def text(self, stream: Literal["stdout", "stderr"] = "stdout") -> str:
        """One of the streams as text, with the replacement character for what is no UTF-8."""
        return (self.stdout if stream == "stdout" else self.stderr).decode("utf-8", "replace")
