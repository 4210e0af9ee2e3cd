"""From what a zygote sent to a `Result`. Everything that came from the program is untrusted bytes."""

from __future__ import annotations

import itertools
import signal
from typing import Any

from .inside import frames, plain
from .limits import Limits
from .program import Program
from .result import CallResult, Result, Status, TestReport
from .slot import Outcome

_OUTCOMES = ("returned", "raised", "opaque")
_NAMES = 10_000
_MOST_REPORTS = 200_000
_MESSAGE = 2_000


def result_of(program: Program, limits: Limits, outcome: Outcome) -> Result:
    """The result of a job."""
    numbers = outcome.numbers
    tests = None
    if program.test is not None:
        tests = _report(bytes(outcome.values if program.test.inside else outcome.report), program.test.inside)
    status = _status(numbers, limits)
    return Result(
        status=status,
        exit_code=numbers["exit"],
        signal=numbers["signal"],
        stdout=bytes(outcome.stdout),
        stderr=bytes(outcome.stderr),
        stdout_truncated=numbers["stdout_cut"],
        stderr_truncated=numbers["stderr_cut"],
        values=_values(program, bytes(outcome.values)),
        tests=tests,
        wall_seconds=numbers["wall"],
        cpu_seconds=numbers["cpu"],
        peak_memory_bytes=numbers["peak"],
    )


def _status(numbers: dict[str, Any], limits: Limits) -> Status:
    killed, code, ended_by = numbers["killed"], numbers["exit"], numbers["signal"]
    notes = numbers["notes"]
    if killed == "memory" or numbers.get("oom"):
        return "memory_limit"
    if killed == "output":
        return "output_limit"
    if ended_by in (signal.SIGXCPU, signal.SIGKILL) and not killed and numbers["cpu"] >= limits.cpu_seconds:
        killed = "cpu"
    if ended_by == signal.SIGXFSZ:
        return "disk_limit"
    if killed or code != 0 or ended_by is not None or notes:
        # The limit that was met first is what the program broke on, whatever it did after that.
        if "memory" in notes:
            return "memory_limit"
        if "pids" in notes or numbers["pids"]:
            return "pids_limit"
        if "disk" in notes or numbers["disk"]:
            return "disk_limit"
    if killed == "wall":
        return "wall_limit"
    if killed == "cpu":
        return "cpu_limit"
    if ended_by is not None:
        return "signalled"
    return "ok" if code == 0 else "nonzero_exit"


def _values(program: Program, content: bytes) -> tuple[CallResult, ...]:
    values: list[CallResult] = []
    wanted = len(program.calls)
    for kind, body in itertools.islice(frames.pieces(content, plain.MAX_BYTES), wanted):
        try:
            if kind != frames.CALL:
                break
            values.append(_call_result(plain.from_bytes(bytes(body))))
        except plain.NotPlain:
            # Whatever comes after it cannot be told apart.
            break
    return (*values, *[CallResult("missing")] * (wanted - len(values)))


def _call_result(tree: Any) -> CallResult:
    if not isinstance(tree, list) or len(tree) != 6 or tree[0] not in _OUTCOMES:
        raise plain.NotPlain("this is no result of a call")
    outcome, value, args, kwargs, error_type, message = tree
    if not isinstance(error_type, str) or not isinstance(message, str):
        raise plain.NotPlain("this is no result of a call")
    after = None if args is None else plain.decode(args)
    named = None if kwargs is None else plain.decode(kwargs)
    return CallResult(
        outcome=outcome,
        value=plain.decode(value),
        args=after if isinstance(after, list) else None,
        kwargs=named if isinstance(named, dict) else None,
        error_type=error_type[:100],
        error_message=message[:_MESSAGE],
    )


def _report(content: bytes, inside: bool) -> TestReport:
    tests: dict[str, tuple[bool, str]] = {}
    trusted, completed, needs_inside = not inside, False, False
    for count, (kind, body) in enumerate(frames.pieces(content, plain.MAX_BYTES)):
        if count >= _MOST_REPORTS:
            completed = False
            break
        try:
            tree = plain.from_bytes(bytes(body))
            if kind == frames.TEST:
                name, passed, message = tree
                # A test that is reported twice passed if it did each time.
                before = tests.get(str(name), (True, ""))
                tests[str(name)] = (bool(passed) and before[0], before[1] or str(message)[:_MESSAGE])
            elif kind == frames.END:
                completed, decided_outside = bool(tree[0]), bool(tree[1])
                trusted = trusted and decided_outside
                needs_inside = bool(tree[2])
        except (plain.NotPlain, TypeError, ValueError, IndexError):
            completed = False
    failed = [(name, message) for name, (passed, message) in tests.items() if not passed]
    passed_names = [name for name, (passed, _) in tests.items() if passed]
    return TestReport(
        tests_run=len(tests),
        tests_passed=len(passed_names),
        completed=completed,
        trusted=trusted,
        needs_inside=needs_inside,
        first_failure=failed[0][0] if failed else "",
        message=failed[0][1] if failed else "",
        passed_names=tuple(passed_names[:_NAMES]),
    )
