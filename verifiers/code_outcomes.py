"""What the results of a sandbox say about the tests of a program."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .code_tests import AssertTests, CallCase, CallTests, PytestTests, StdinCase

if TYPE_CHECKING:
    from ..sandbox import CallResult, Result

TIME_LIMITS = ("wall_limit", "cpu_limit")
"""The results that stand for a program which took too long."""

_ENDED_WELL = ("ok", "nonzero_exit", "signalled")
_LONGEST_STDERR = 400
_LONGEST_TEXT = 300


@dataclass(frozen=True)
class Outcome:
    """What came of one or several tests.

    Attributes:
        passed: how many were passed.
        count: of how many.
        visible: whether they are visible tests.
        failure: what happened in the first that was not; "" if all were.
        timed_out: whether a time limit ended them.
    """

    passed: int
    count: int
    visible: bool
    failure: str = ""
    timed_out: bool = False


def outcomes_of_calls(form: CallTests, result: Result) -> list[Outcome]:
    """One outcome a call: its value came back, and is right.

    Exit codes say nothing here: a program that ends early leaves calls without a value.
    """
    broken = "" if result.status in _ENDED_WELL else _ending(result)
    # An answer that is missing cannot make the remaining calls pass by being left out of the pairs.
    answers: Sequence[CallResult | None] = [*result.values, *[None] * len(form.cases)][: len(form.cases)]
    outcomes = []
    for case, answer in zip(form.cases, answers, strict=True):
        failure = broken or _wrong_answer(case, answer, result)
        if failure:
            failure = f"{_call_text(form.entry_point, case)} {failure}{_stderr(result)}"
        outcomes.append(Outcome(int(not failure), 1, case.visible, failure, result.status in TIME_LIMITS))
    return outcomes


def _wrong_answer(case: CallCase, answer: CallResult | None, result: Result) -> str:
    if answer is None or answer.outcome == "missing":
        return f"gave no value, for the program {_ending(result)}"
    if answer.outcome == "raised":
        return f"raised {_clean(answer.error_type)}: {_clean(answer.error_message)}"
    if answer.outcome == "opaque":
        return f"returned a {_clean(answer.error_type)}, which is no plain data ({_clean(answer.error_message)})"
    if answer.outcome != "returned" or not case.is_right(answer.value):
        wrapped = f" (compared as {case.wrapper})" if case.wrapper else ""
        return f"returned {shown(answer.value)}, not {shown(case.expected)}{wrapped}"
    return ""


def outcome_of_stdin(case: StdinCase, result: Result) -> Outcome:
    """The program ended by itself with exit code 0, and printed what it should."""
    failure = ""
    if result.status != "ok" or result.stdout_truncated:
        failure = _ending(result)
    elif not case.comparison.same_output(result.stdout, case.stdout):
        printed = result.stdout[:_LONGEST_TEXT].decode("utf-8", "replace")
        failure = f"printed {shown(printed)}, not {shown(case.stdout)}"
    if failure:
        failure = f"on the input {shown(case.stdin)} it {failure}{_stderr(result)}"
    return Outcome(int(not failure), 1, case.visible, failure, result.status in TIME_LIMITS)


def outcome_beside(form: AssertTests | PytestTests, result: Result, objects: bool) -> Outcome:
    """What the process with the tests reported: all ran, as many as there are, and passed.

    Args:
        form: the tests.
        result: of the program that they ran beside.
        objects: whether what objects of the program's own classes decided counts.
    """
    report = result.tests
    timed_out = result.status in TIME_LIMITS
    if report is None:
        failure = f"no test was reported, for the program {_ending(result)}"
        return Outcome(0, form.count, form.visible, failure + _stderr(result), timed_out)
    exact = isinstance(form, PytestTests) and form.exact
    # Assertions of which none was reached are reported as one test, the whole check.
    none_reached = isinstance(form, AssertTests) and report.passed_names == ("check",)
    tests_run = 0 if none_reached else report.tests_run
    count = max(tests_run, form.count)
    passed = max(0, min(report.tests_passed, tests_run))
    failure = ""
    if result.status not in _ENDED_WELL or not report.completed:
        failure = f"only {tests_run} of at least {form.count} tests ran to a verdict; it {_ending(result)}"
    elif tests_run < form.count or (exact and tests_run != form.count):
        failure = f"{tests_run} tests ran instead of {form.count}"
    elif not report.trusted and not objects:
        failure = "an object of the program's own class decided about a test"
        passed = 0
    elif report.tests_passed != report.tests_run:
        failure = "a test did not pass"
    if report.first_failure and failure:
        failure = f"{_clean(report.first_failure)}: {_clean(report.message) or failure}"
    if failure:
        # What did not run to the end is not passed as a whole, whatever its counts say.
        passed = min(passed, count - 1)
        failure += _stderr(result)
    return Outcome(passed, count, form.visible, failure, timed_out)


def shown(value: Any) -> str:
    """A short text of a plain value from anywhere."""
    try:
        return _short.repr(value)
    # Of an int with more digits than Python cares to write.
    except ValueError:
        return f"a {type(value).__name__} too large to show"


def _call_text(entry_point: str, case: CallCase) -> str:
    named = [f"{name}={shown(value)}" for name, value in case.kwargs.items()]
    return f"{entry_point}({', '.join([*map(shown, case.args), *named])})"


def _ending(result: Result) -> str:
    endings = {
        "ok": "ended early",
        "nonzero_exit": f"ended with exit code {result.exit_code}",
        "signalled": f"was ended by signal {result.signal}",
        "wall_limit": "took too long",
        "cpu_limit": "took too much processor time",
    }
    if result.stdout_truncated and result.status == "ok":
        return "printed too much"
    return endings.get(result.status, f"went over the {result.status.replace('_', ' ')}")


def _stderr(result: Result) -> str:
    text = _clean(result.text("stderr").strip()[-_LONGEST_STDERR:])
    return f"; stderr: {text}" if text else ""


def _clean(text: str) -> str:
    """Text that the program made, fit for a line of a log."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in text[:_LONGEST_STDERR])


_short = reprlib.Repr()
_short.maxlevel = 4
_short.maxlist = _short.maxtuple = _short.maxset = _short.maxfrozenset = _short.maxdict = 12
_short.maxstring = _short.maxother = _short.maxlong = 160
