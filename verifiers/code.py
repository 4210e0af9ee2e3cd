"""The verifier of code: the program in a completion is run in a sandbox, and its tests decide."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .batch_options import rows_by_options, rows_of
from .code_asserts import given_helpers
from .code_block import solution_code
from .code_forms import AssertTests, CallTests, PytestTests, StdinCase, StdinTests, Tests, names_of
from .code_outcomes import (
    Outcome,
    has_opaque_value,
    needs_inside,
    outcome_beside,
    outcome_inside,
    outcome_of_stdin,
    outcomes_of_calls,
)
from .code_tests import read_tests
from .extraction import answer_region, resolve_think_style
from .registry import verifier
from .verdict import Status, Verdict, failure

if TYPE_CHECKING:
    from ..sandbox import Limits, Program, Result, TestProgram

MAX_CODE = 1_000_000
"""The characters that a program may have."""

_OPTIONS = ("score", "backend", "image", "runtime", "limits", "total_cpu_seconds", "objects", "allow_unsafe")
_SCORES = ("all", "share")
_MOST_HANGS = 2
_NOT_RUN = "it was not run, for the time was over"
_FUTURE = re.compile(r"^from __future__ import [^\n]*\n?", re.MULTILINE)


# The limits of the sandbox end every program.
@verifier("rlvr/code-v1", patience=24 * 3600)
def code(
    completions: Sequence[str],
    tests: Any,
    prompts: Any = None,
    think: Any = "generated",
    stub: Any = None,
    score: Any = "all",
    backend: Any = "auto",
    image: Any = None,
    runtime: Any = None,
    limits: Any = None,
    total_cpu_seconds: Any = 60.0,
    objects: Any = False,
    allow_unsafe: Any = False,
) -> list[Verdict]:
    """Whether the program in each completion passes its tests, which run in a sandbox, all completions at once.

    `tests` is plain JSON, in one of four forms or a list of several:

        {"form": "calls",   "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}, ...]}
        {"form": "stdin",   "cases": [{"stdin": "1 2\\n", "stdout": "3\\n"}, ...]}
        {"form": "asserts", "entry_point": "add", "source": "def check(candidate):\\n    assert ..."}
        {"form": "pytest",  "files": {"test_add.py": "..."}, "module": "solution"}

    What `calls` and `stdin` expect never enters the sandbox, and neither does it for assertions that compare a call
    with a constant: the program gets inputs, and what it gives is compared outside (`Comparison`). Other assertions
    and pytest run in a process of their own beside the program's, and as many tests have to be reported as there are.

    `calls` also takes `"kwargs"`, and names with dots (`"Solution.add"`). A case of these two forms, or the whole of
    the others, is hidden unless it says `"visible": true`; `"tolerance": 1e-6` (or `{"absolute": ..., "relative":
    ...}`), for all cases or in one, is what floats may be off by, which otherwise is nothing. `pytest` takes
    `"count"`, how many tests there are.

    The program is the last block of code after the reasoning that defines what the tests call (`solution_code`).
    The score is 1 or 0, or with `score="share"` the share of the tests that were passed; `passed` is whether all were.
    `parts` has "visible" and "hidden", the shares of these. `detail` says which test failed first, on what, and the
    end of stderr; it names what was expected. A program that ran out of time scores with status "timeout", a completion
    without code with "unparseable". Where the sandbox itself fails, or has not got what the tests import, the verdict
    is an "error".

    A program gets copies of the arguments that its value is compared with (`x = f(a)`, then `assert x == sorted(a)`),
    so that emptying them earns nothing; tests of what a function does to an argument keep it.

    Args:
        completions: what the model wrote. This and each other argument is a list of one entry a completion; what is
            no list holds for all.
        tests: the tests, or their JSON text.
        prompts: the rendered prompt or chat messages, which the think style "auto" looks at.
        think: the think style.
        stub: code that the prompt gave and a solution may leave out, such as imports, helper functions and the header
            of the function; it goes before the program, which may also be only the function's body.
        score: "all" or "share".
        backend: "auto", "docker" or "namespace".
        image: the image for Docker.
        runtime: the runtime of Docker's daemon, such as "runsc" for gVisor; None for its default.
        limits: what one run of the program may use, as a mapping with the fields of `rlvr.sandbox.Limits`. All calls
            are one run, and so are all assertions; each input for stdin is one.
        total_cpu_seconds: how much processor time all inputs for stdin may take together; the rest counts as failed.
            So it does after two runs that took too long.
        objects: whether objects of the program's own classes may decide an assertion or a test. They can lie, by an
            `__eq__` say, so such verdicts deserve less trust. Without it, tests of what the methods of a class give
            (`Stack().pop() == 1`) count, and tests that compare objects of the program's are an "error". Tests that
            hand over, or ask for, what cannot leave its process run once more inside the program's, where it can do
            with them what it likes; without this option their verdict is an "error".
        allow_unsafe: whether programs may run without isolation where the system has none to offer.

    Raises:
        UserError: the tests or an option are not what they have to be.
    """
    rows = rows_of(
        len(completions),
        completion=list(completions),
        tests=tests,
        prompt=prompts,
        think=think,
        stub=stub,
        score=score,
        backend=backend,
        image=image,
        runtime=runtime,
        limits=limits,
        total_cpu_seconds=total_cpu_seconds,
        objects=objects,
        allow_unsafe=allow_unsafe,
    )
    verdicts: list[Verdict] = [failure("not graded")] * len(rows)
    known: dict[int, tuple[Tests, ...]] = {}
    for options, members in rows_by_options(rows, _OPTIONS):
        settings = Settings(**options)
        attempts = []
        for index in members:
            # The completions of a group share one object.
            given = rows[index]["tests"]
            if id(given) not in known:
                known[id(given)] = read_tests(given)
            attempts.append(_attempt(rows[index], known[id(given)], settings))
        _run(attempts, settings)
        for index, attempt in zip(members, attempts, strict=True):
            verdicts[index] = attempt.verdict(settings.score)
    return verdicts


@dataclass(frozen=True)
class Settings:
    """The options that completions share which run together; see `code`.

    Raises:
        UserError: one is not what it has to be.
    """

    score: str = "all"
    backend: str = "auto"
    image: str | None = None
    runtime: str | None = None
    limits: Mapping[str, Any] | Limits | None = None
    total_cpu_seconds: float = 60.0
    objects: bool = False
    allow_unsafe: bool = False

    def __post_init__(self) -> None:
        from ..sandbox.box import BACKENDS
        from ..sandbox.image_names import checked_image

        if self.score not in _SCORES:
            raise UserError(f"There is no score {self.score!r}; {did_you_mean(str(self.score), _SCORES)}")
        if self.backend not in BACKENDS:
            raise UserError(
                f"There is no sandbox backend {self.backend!r}; {did_you_mean(str(self.backend), BACKENDS)}"
            )
        for name in ("image", "runtime"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise UserError(f"{name}={value!r} names no {name} of Docker; pass its name, or leave it out.")
        if self.image is not None:
            checked_image(self.image, "image")
        total = self.total_cpu_seconds
        if isinstance(total, bool) or not isinstance(total, int | float) or not total > 0:
            raise UserError(f"total_cpu_seconds={total!r} is no time; pass a number of seconds above 0.")
        for name in ("objects", "allow_unsafe"):
            if not isinstance(getattr(self, name), bool):
                raise UserError(f"{name}={getattr(self, name)!r} has to be true or false.")
        self.run_limits()

    def run_limits(self) -> Limits:
        """The limits of one run.

        Raises:
            UserError: one is unknown or no number.
        """
        from ..sandbox import Limits

        if self.limits is None or isinstance(self.limits, Limits):
            return self.limits or Limits()
        names = [limit.name for limit in dataclasses.fields(Limits)]
        if not isinstance(self.limits, Mapping):
            raise UserError(f"limits={self.limits!r} is no mapping; pass one with some of {', '.join(names)}.")
        for name in self.limits:
            if name not in names:
                raise UserError(f"There is no sandbox limit {name!r}; {did_you_mean(str(name), names)}")
        return Limits(**self.limits)


@dataclass
class Job:
    """One run of a program, the tests that its result decides, and how.

    Attributes:
        program: what runs.
        judge: what came of the tests.
        unrun: what came of them if it does not run.
        instead: another job that decides about these tests, if the result is such that it cannot.
    """

    program: Program
    judge: Callable[[Result], list[Outcome]]
    unrun: list[Outcome]
    instead: Callable[[Result], Job | None] = lambda _: None


@dataclass
class Attempt:
    """One completion on its way to a verdict."""

    jobs: list[Job] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    unparseable: str = ""
    fault: str = ""
    cpu_seconds: float = 0.0
    hangs: int = 0

    def next_jobs(self, count: int, total_cpu_seconds: float) -> list[Job]:
        """The next runs, at most `count` of them; none once the time for them is over."""
        if self.cpu_seconds > total_cpu_seconds or self.hangs >= _MOST_HANGS or self.fault:
            for job in self.jobs:
                self.outcomes.extend(job.unrun)
            self.jobs.clear()
        taken, self.jobs[:] = self.jobs[:count], self.jobs[count:]
        return taken

    def take(self, job: Job, result: Result | Exception) -> None:
        """Note what came of a run."""
        if isinstance(result, Exception):
            self.fault = self.fault or f"the sandbox failed: {type(result).__name__}: {result}"[:500]
            return
        self.cpu_seconds += result.cpu_seconds
        instead = job.instead(result)
        if instead is not None:
            self.jobs.insert(0, instead)
            return
        found = job.judge(result)
        self.outcomes.extend(found)
        self.fault = self.fault or next((outcome.fault for outcome in found if outcome.fault), "")
        self.hangs += any(outcome.timed_out for outcome in found)

    def verdict(self, score: str) -> Verdict:
        """The verdict, once nothing is left to run."""
        if self.unparseable:
            return Verdict(0.0, False, "unparseable", self._parts(), self.unparseable)
        if self.fault:
            return failure(self.fault)
        total = sum(outcome.count for outcome in self.outcomes)
        right = sum(outcome.passed for outcome in self.outcomes)
        passed = total > 0 and right == total
        worth = right / total if score == "share" and total else float(passed)
        late = any(outcome.timed_out for outcome in self.outcomes)
        status: Status = "timeout" if late and worth == 0 else "ok"
        return Verdict(worth, passed, status, self._parts(), self._detail(right, total))

    def _parts(self) -> dict[str, float]:
        parts = {}
        for name, visible in (("visible", True), ("hidden", False)):
            of_these = [outcome for outcome in self.outcomes if outcome.visible is visible]
            if of_these:
                parts[name] = sum(o.passed for o in of_these) / sum(o.count for o in of_these)
        return parts

    def _detail(self, right: int, total: int) -> str:
        notes = dict.fromkeys(outcome.note for outcome in self.outcomes if outcome.note)
        return "; ".join([self._first_failure(right, total), *notes])

    def _first_failure(self, right: int, total: int) -> str:
        before = 0
        for outcome in self.outcomes:
            if outcome.failure:
                kind = "visible" if outcome.visible else "hidden"
                place = (
                    f"test {before + 1}" if outcome.count == 1 else f"tests {before + 1} to {before + outcome.count}"
                )
                return f"{right} of {total} tests passed; {place} ({kind}): {outcome.failure}"
            before += outcome.count
        return f"{right} of {total} tests passed"


def _attempt(row: Mapping[str, Any], tests: Sequence[Tests], settings: Settings) -> Attempt:
    completion, stub = row["completion"], checked_stub(row["stub"])
    region = answer_region(completion, resolve_think_style(row["think"], completion, row["prompt"]))
    if region is None:
        return _without_code(tests, "the reasoning never closed")
    stdin = any(isinstance(form, StdinTests) for form in tests)
    names = names_of(tests)
    program = solution_code(region, names, reads_stdin=stdin)
    if program is None:
        return _without_code(tests, "there is no code")
    if stub is not None:
        program = after_stub(stub, program)
    if len(program) > MAX_CODE:
        return _without_code(tests, f"the code has {len(program)} characters, more than {MAX_CODE}")
    return Attempt([job for form in tests for job in _jobs(_with_given(form, stub), program, settings)])


def _without_code(tests: Sequence[Tests], why: str) -> Attempt:
    return Attempt(outcomes=[outcome for form in tests for outcome in _not_run(form)], unparseable=why)


def _not_run(form: Tests) -> list[Outcome]:
    if isinstance(form, CallTests | StdinTests):
        return [Outcome(0, 1, case.visible, _NOT_RUN) for case in form.cases]
    return [Outcome(0, form.count, form.visible, _NOT_RUN)]


def _with_given(form: Tests, stub: str | None) -> Tests:
    """The tests with functions that the prompt gave, which a program could write anew to please them."""
    asserted = form.asserted if isinstance(form, CallTests) else form
    if stub is None or not isinstance(asserted, AssertTests):
        return form
    asserted = dataclasses.replace(asserted, given=given_helpers(stub, asserted.source, asserted.entry_point))
    return dataclasses.replace(form, asserted=asserted) if isinstance(form, CallTests) else asserted


def checked_stub(stub: object) -> str | None:
    """The stub, if it is a text or None.

    Raises:
        UserError: it is neither.
    """
    if stub is None or isinstance(stub, str):
        return stub
    raise UserError(f"stub={str(stub)[:80]!r} is no text; pass the code that the prompt shows.")


def after_stub(stub: str, program: str) -> str:
    """The program after the code that its prompt gave.

    A program that begins indented goes on with the function that the stub ends in.
    """
    futures = "".join(line.rstrip("\n") + "\n" for line in _FUTURE.findall(program))
    return f"{futures}{stub.rstrip()}\n{_FUTURE.sub('', program) if futures else program}\n"


def _of_stdin(case: StdinCase, result: Result) -> list[Outcome]:
    return [outcome_of_stdin(case, result)]


def _jobs(form: Tests, source: str, settings: Settings) -> list[Job]:
    from ..sandbox import Call, Program

    unrun = _not_run(form)
    if isinstance(form, StdinTests):
        return [
            Job(Program(source, stdin=case.stdin), partial(_of_stdin, case), [failed])
            for case, failed in zip(form.cases, unrun, strict=True)
        ]
    if isinstance(form, CallTests):
        calls = [Call(form.entry_point, case.args, case.kwargs) for case in form.cases]
        return [
            Job(
                Program(source, call=calls),
                lambda result: outcomes_of_calls(form, result),
                unrun,
                lambda result: (
                    _beside(form.asserted, source, settings)
                    if form.asserted is not None and has_opaque_value(result)
                    else None
                ),
            )
        ]
    return [_beside(form, source, settings)]


def _beside(form: AssertTests | PytestTests, source: str, settings: Settings) -> Job:
    from ..sandbox import Program

    def inside(result: Result) -> Job | None:
        if not settings.objects or not needs_inside(form, result):
            return None
        program = Program(source, test=_test_program(form, inside=True))
        return Job(program, lambda result: [outcome_inside(form, result)], unrun)

    unrun = _not_run(form)
    program = Program(source, test=_test_program(form))
    return Job(program, lambda result: [outcome_beside(form, result, settings.objects)], unrun, inside)


def _test_program(form: AssertTests | PytestTests, inside: bool = False) -> TestProgram:
    from ..sandbox import TestProgram

    if isinstance(form, AssertTests):
        return TestProgram("asserts", form.source, form.entry_point, form.given, inside=inside)
    return TestProgram("pytest", files=form.files, module=form.module, inside=inside)


def _run(attempts: Sequence[Attempt], settings: Settings) -> None:
    """Run all jobs of all attempts, some of each at a time, so that one which hangs is found out early."""
    from ..sandbox import SandboxFault
    from .code_boxes import shared_box

    limits = settings.run_limits()
    if not any(attempt.jobs for attempt in attempts):
        return
    try:
        box = shared_box(settings.backend, settings.image, settings.runtime, limits, settings.allow_unsafe)
    except SandboxFault as fault:
        for attempt in attempts:
            attempt.fault = f"the sandbox failed: {fault}"
        return
    count = 1
    while True:
        taken = [(a, job) for a in attempts for job in a.next_jobs(count, settings.total_cpu_seconds)]
        if not taken:
            return
        results = box.map([job.program for _, job in taken], limits=limits)
        for (attempt, job), result in zip(taken, results, strict=True):
            attempt.take(job, result)
        count *= 2
