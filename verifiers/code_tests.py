"""The tests of a program as plain JSON, read into what is run.

    {"form": "calls", "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}]}
    {"form": "stdin", "cases": [{"stdin": "1 2\\n", "stdout": "3\\n"}]}
    {"form": "asserts", "entry_point": "add", "source": "def check(candidate):\\n    assert candidate(1, 2) == 3\\n"}
    {"form": "pytest", "files": {"test_add.py": "..."}, "module": "solution"}

Several of them in a list are run one after the other. A case, or a whole form without cases, is hidden unless it says
`"visible": true`; forms with cases take `"tolerance"`, for all or in a case. The other two take `"in_place": true`, for
tests of what a program does to its arguments: they hand over no copies.
"""

from __future__ import annotations

import ast
import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.inside import plain
from ..sandbox.nearest import did_you_mean
from .code_asserts import (
    are_never_called,
    calls_of_asserts,
    calls_program,
    certain_asserts,
    makes_objects,
    may_reach_none,
    program_names,
)
from .code_copies import with_copied_arguments
from .code_fields import (
    cases_of,
    check_keys,
    comparison_of,
    dotted_name,
    is_in_place,
    is_visible,
    parsed,
    text_of,
    value_or,
)
from .code_forms import AssertTests, CallCase, CallTests, StdinCase, StdinTests, Tests
from .code_imports import foreign_imports
from .code_reach import beyond, runs_answers
from .code_test_files import read_test_files

_KEYS = {
    "calls": (("entry_point", "cases"), ("tolerance",)),
    "stdin": (("cases",), ("tolerance",)),
    "asserts": (("entry_point", "source"), ("visible", "in_place")),
    "pytest": (("files",), ("module", "visible", "count", "in_place")),
}
"""The keys that each form must have, and those that it may have."""


def read_tests(tests: object) -> tuple[Tests, ...]:
    """The tests that plain data, or its JSON text, describes.

    Assertions that are calls with an expected constant become calls.

    Raises:
        UserError: it describes none; the message says what is wrong and where.
    """
    if isinstance(tests, str):
        tests = _from_json(tests)
    several = isinstance(tests, Sequence)
    forms = list(tests) if isinstance(tests, Sequence) else [tests]
    if not forms:
        raise UserError("tests= is an empty list, which any program would pass; give at least one test.")
    return tuple(_read(form, f"tests[{at}]" if several else "tests") for at, form in enumerate(forms))


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"tests= is a text that is no JSON ({reason}); give a mapping, or JSON.") from None


def _read(form: object, place: str) -> Tests:
    if not isinstance(form, Mapping):
        raise UserError(f"{place} is {reprlib.repr(form)}, not a mapping with a form; write {{'form': 'calls', ...}}.")
    kind = form.get("form")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise UserError(f"{place} has the form {kind!r}, which is not known; {did_you_mean(str(kind), _KEYS)}")
    given = {key: value for key, value in form.items() if value is not None}
    required, optional = _KEYS[kind]
    check_keys(given, required, ("form", *required, *optional), place)
    readers: dict[str, Callable[[Mapping[str, Any], str], Tests]] = {
        "calls": _calls,
        "stdin": _stdin,
        "asserts": _asserts,
        "pytest": read_test_files,
    }
    return readers[kind](given, place)


def _calls(form: Mapping[str, Any], place: str) -> CallTests:
    cases = []
    for at, case in cases_of(form, place):
        check_keys(case, ("expected",), ("args", "kwargs", "expected", "visible", "tolerance"), at, null=("expected",))
        args, kwargs = value_or(case.get("args"), []), value_or(case.get("kwargs"), {})
        if not isinstance(args, Sequence) or isinstance(args, str | bytes):
            raise UserError(f"{at}.args is {reprlib.repr(args)}; give a list of the positional arguments.")
        if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
            raise UserError(f"{at}.kwargs is {reprlib.repr(kwargs)}; give a mapping from names to arguments.")
        _check_expected(case["expected"], at)
        _check_size(args, kwargs, case["expected"], at)
        cases.append(
            CallCase(tuple(args), dict(kwargs), case["expected"], comparison_of(form, case, at), is_visible(case, at))
        )
    return CallTests(dotted_name(form, "entry_point", place), tuple(cases))


def _check_size(args: Sequence[Any], kwargs: Mapping[str, Any], expected: Any, place: str) -> None:
    """Refuse calls that cannot be made, or be answered."""
    try:
        plain.dump([list(args), dict(kwargs)])
    except plain.NotPlain as error:
        raise UserError(f"{place} cannot be handed over to a program, because {error}; change its arguments.") from None
    try:
        plain.dump(expected)
    except plain.NotPlain as error:
        raise UserError(f"{place} expects what no program can hand over, because {error}; change it.") from None


def _check_expected(expected: Any, place: str) -> None:
    """Refuse what no returned value could be the same as."""
    values = [expected]
    while values:
        value = values.pop()
        if type(value) is float and not math.isfinite(value):
            raise UserError(f"{place}.expected has {value!r}, which equals nothing here; write an assertion instead.")
        if type(value) is dict:
            values.extend([*value, *value.values()])
        elif type(value) in (list, tuple, set, frozenset):
            values.extend(value)
        elif value is not None and type(value) not in (bool, int, float, str, bytes):
            raise UserError(
                f"{place}.expected has {reprlib.repr(value)}, a {type(value).__name__}; give plain data such as "
                "numbers, texts, lists and dicts."
            )


def _stdin(form: Mapping[str, Any], place: str) -> StdinTests:
    cases = []
    for at, case in cases_of(form, place):
        check_keys(case, ("stdin", "stdout"), ("stdin", "stdout", "visible", "tolerance"), at)
        given, wanted = text_of(case, "stdin", at, empty=True), text_of(case, "stdout", at, empty=True)
        cases.append(StdinCase(given, wanted, comparison_of(form, case, at), is_visible(case, at)))
    return StdinTests(tuple(cases))


def _asserts(form: Mapping[str, Any], place: str) -> CallTests | AssertTests:
    entry_point, source = dotted_name(form, "entry_point", place), text_of(form, "source", place)
    return _asserts_of(entry_point, source, is_visible(form, place), is_in_place(form, place), place)


# Many completions have tests of their own that read the same.
@lru_cache(maxsize=4096)
def _asserts_of(entry_point: str, source: str, visible: bool, in_place: bool, place: str) -> CallTests | AssertTests:
    tree = parsed(source, f"{place}.source")
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        raise UserError(f"{place}.source has no assert statement, so any program would pass; add one.")
    if are_never_called(tree):
        raise UserError(
            f"{place}.source has its assert statements in a function that nothing calls; name it check(candidate), or "
            "call it."
        )
    if not calls_program(tree, entry_point):
        raise UserError(f"{place}.source never calls {entry_point!r}, so any program would pass; call it or candidate.")
    names = program_names(tree, entry_point) | {entry_point}
    run = source if in_place else with_copied_arguments(source, tree, names)
    imports = foreign_imports(tree, "solution")
    count = max(1, certain_asserts(tree))
    # A class under test, which `candidate(...)` makes objects of.
    of_objects = entry_point[:1].isupper() and "." not in entry_point
    asserted = AssertTests(
        entry_point,
        run,
        count,
        visible,
        whole=may_reach_none(tree),
        foreign_imports=imports,
        of_objects=of_objects or makes_objects(tree, program_names(tree, entry_point)),
        runs_answers=runs_answers(tree),
        beyond=beyond(tree, "solution"),
        copied=run != source,
    )
    calls = calls_of_asserts(tree, entry_point)
    if calls is None:
        return asserted
    for call in calls:
        _check_size(call.args, call.kwargs, call.expected, f"A call in {place}.source")
    cases = [CallCase(c.args, c.kwargs, c.expected, c.comparison, visible, c.wrapper) for c in calls]
    return CallTests(entry_point, tuple(cases), asserted)
