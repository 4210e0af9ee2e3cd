"""What the results of a sandbox say about the tests of a program."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .code_copies import COPIED
from .code_forms import AssertTests, CallCase, CallTests, PytestTests, StdinCase
from .code_reach import FOLDER

if TYPE_CHECKING:
    from ..sandbox import CallResult, Result, TestReport

TIME_LIMITS = ("wall_limit", "cpu_limit")
"""The results that stand for a program which took too long."""

_ENDED_WELL = ("ok", "nonzero_exit", "signalled")
_LONGEST_STDERR = 400
_LONGEST_TEXT = 300
_COPIES = '; the arguments were copies: tests of what becomes of them say "in_place": true'
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_MISSING_FIXTURE = re.compile(r"^E +fixture '(\w+)' not found", re.MULTILINE)
_LINE_OF_ASSERTS = re.compile(r"the tests \(line (\d{1,9})\)")
_LINE_OF_PYTEST = re.compile(r"^(?:\./)?([^\s:]+\.py):(\d{1,9}): (?:in |ModuleNotFoundError)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What came of one or several tests.

    Attributes:
        passed: how many were passed.
        count: of how many.
        visible: whether they are visible tests.
        failure: what happened in the first that was not; "" if all were.
        timed_out: whether a time limit ended them.
        fault: why nothing can be said about the program, for what is missing is the tests' or the sandbox's.
        note: what else a reader of the verdict should know.
    """

    passed: int
    count: int
    visible: bool
    failure: str = ""
    timed_out: bool = False
    fault: str = ""
    note: str = ""


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


def has_opaque_value(result: Result) -> bool:
    """Whether a call gave something that did not come back as plain data."""
    return any(answer.outcome == "opaque" for answer in result.values)


def needs_inside(form: AssertTests | PytestTests, result: Result) -> bool:
    """Whether tests did not pass that had to hand over what cannot cross to the program's process.

    Those that look at files say nothing beside it, whether they pass or not.
    """
    report = result.tests
    if form.beyond == FOLDER:
        return True
    if report is None or not (report.needs_inside or form.beyond):
        return False
    return bool(outcome_beside(form, result, objects=True).failure)


def outcome_inside(form: AssertTests | PytestTests, result: Result) -> Outcome:
    """What tests reported that ran in the program's own process: its word, for the most part."""
    outcome = outcome_beside(form, result, objects=True, inside=True)
    return replace(outcome, note="the tests ran inside the program's own process, so this is not to be relied on")


def outcome_beside(form: AssertTests | PytestTests, result: Result, objects: bool, *, inside: bool = False) -> Outcome:
    """What the process with the tests reported: all ran, as many as there are, and passed.

    Args:
        form: the tests.
        result: of the program that they ran beside.
        objects: whether what objects of the program's own classes decided counts.
        inside: whether the tests ran in the program's process, whose word is no reason to blame the tests.
    """
    report = result.tests
    timed_out = result.status in TIME_LIMITS
    if report is None:
        failure = f"no test was reported, for the program {_ending(result)}"
        return Outcome(0, form.count, form.visible, failure + _stderr(result), timed_out)
    exact = isinstance(form, PytestTests) and form.exact
    # Assertions of which none was reached are reported as one test, the whole check.
    none_reached = isinstance(form, AssertTests) and not form.whole and report.passed_names == ("check",)
    tests_run = 0 if none_reached else report.tests_run
    count = max(tests_run, form.count)
    passed = max(0, min(report.tests_passed, tests_run))
    failure, by_own_word = "", False
    if result.status not in _ENDED_WELL or not report.completed:
        failure = f"only {tests_run} of at least {form.count} tests ran to a verdict; it {_ending(result)}"
    elif tests_run < form.count or (exact and tests_run != form.count):
        failure = f"{tests_run} tests ran instead of {form.count}"
    elif (form.runs_answers or not report.trusted) and not objects:
        what = "a text of the program's" if form.runs_answers else "an object of the program's own class"
        failure = f"{what} decided about a test, which counts only with objects=True"
        passed, by_own_word = 0, report.tests_passed == report.tests_run
    elif report.tests_passed != report.tests_run:
        failure = "a test did not pass"
    if report.first_failure and failure:
        message = _clean(report.message.replace(COPIED, ""))
        failure = f"{_clean(report.first_failure)}: {message or failure}"
    if failure:
        # What did not run to the end is not passed as a whole, whatever its counts say.
        passed = min(passed, count - 1)
        failure += _stderr(result) + ("" if timed_out or not form.copied else _COPIES)
    fault = ""
    if (failure or form.beyond == FOLDER) and not inside:
        fault = _out_of_reach(form, objects) or ("" if timed_out else _fault(form, report, objects, by_own_word))
    return Outcome(passed, count, form.visible, failure, timed_out, fault)


def _fault(form: AssertTests | PytestTests, report: TestReport, objects: bool, by_own_word: bool) -> str:
    """Why tests that did not pass say nothing about the program; "" if they do."""
    name, message = report.first_failure, report.message
    if isinstance(form, PytestTests) and name == "pytest" and message.startswith("pytest is not installed"):
        return "pytest is not installed in the sandbox; take an image that has it, or the package"
    missing = _MISSING_MODULE.search(message)
    if missing is not None and _failed_at_import(form, name, message):
        return f"the tests import {missing.group(1)}, which is not installed in the sandbox"
    if isinstance(form, PytestTests) and name == "pytest did not start":
        # Before anything was asked of the program.
        return f"pytest did not start, for the tests' files are wrong: {_clean(message.strip()[-_LONGEST_STDERR:])}"
    if isinstance(form, PytestTests) and message.startswith("fixture lookup failed: "):
        fixture = _MISSING_FIXTURE.search(message)
        return (
            f"the tests use the fixture {fixture.group(1) if fixture else '?'!r}, which is not installed in the sandbox"
        )
    if (form.of_objects or form.runs_answers) and by_own_word:
        # A right program could do no better; one that fails by its own word too is wrong.
        what = "what they run as code" if form.runs_answers else "objects of the program's own classes"
        return f"the tests leave it to {what} what is right; they need objects=True"
    if report.needs_inside and not objects:
        return "the tests hand over, or ask for, what cannot leave its process; they need objects=True"
    return ""


def _out_of_reach(form: AssertTests | PytestTests, objects: bool) -> str:
    """Why no program could pass beside the tests; "" if it could."""
    if objects or not form.beyond:
        return ""
    return f"the tests ask for what is out of reach of their process ({form.beyond}); they need objects=True"


def _failed_at_import(form: AssertTests | PytestTests, name: str, message: str) -> bool:
    """Whether the statement of the tests that failed imports something else than the program.

    A program could raise the same exception, but not from such a line.
    """
    if isinstance(form, AssertTests):
        line = _LINE_OF_ASSERTS.fullmatch(name)
        return line is not None and int(line.group(1)) in form.foreign_imports
    # Lines of the exception's own text begin with an E.
    places = [match.groups() for match in _LINE_OF_PYTEST.finditer(message)]
    if not places:
        return False
    path, number = places[-1]
    return int(number) in form.foreign_imports.get(path, ())


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
