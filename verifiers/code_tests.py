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
import keyword
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.inside import plain
from ..sandbox.nearest import did_you_mean
from ..sandbox.program import TestProgram
from .code_asserts import (
    WRAPPERS,
    are_never_called,
    calls_of_asserts,
    calls_program,
    certain_asserts,
    makes_objects,
    may_reach_none,
    program_names,
)
from .code_compare import Comparison, covers, tolerance_of
from .code_copies import names_from_module, with_copied_arguments
from .code_pytest import count_tests, may_make_tests, skipped_test
from .code_reach import beyond, beyond_pytest, runs_answers

_KEYS = {
    "calls": (("entry_point", "cases"), ("tolerance",)),
    "stdin": (("cases",), ("tolerance",)),
    "asserts": (("entry_point", "source"), ("visible", "in_place")),
    "pytest": (("files",), ("module", "visible", "count", "in_place")),
}
"""The keys that each form must have, and those that it may have."""

_CONFIGURATIONS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""Files that can tell pytest to collect files of other names."""


@dataclass(frozen=True)
class CallCase:
    """One call of the function under test and the value that it has to return."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    expected: Any
    comparison: Comparison
    visible: bool = False
    wrapper: str = ""

    def is_right(self, value: Any) -> bool:
        """Whether the function may return `value`, a plain one."""
        if self.wrapper:
            try:
                if self.wrapper == "set":
                    return isinstance(self.expected, set | frozenset) and covers(value, self.expected)
                value = WRAPPERS[self.wrapper](value)
            except (TypeError, ValueError):
                return False
        return self.comparison.same(value, self.expected)


@dataclass(frozen=True)
class CallTests:
    """Calls of a function; what they have to return stays outside of the sandbox.

    Attributes:
        entry_point: the function.
        cases: its calls.
        asserted: the assertions that these were read from, if any. They decide where a value is no plain data, for a
            generator, say, can still be what `assert list(f(3)) == [0, 1, 2]` asks for.
    """

    entry_point: str
    cases: tuple[CallCase, ...]
    asserted: AssertTests | None = None


@dataclass(frozen=True)
class StdinCase:
    """One input and the output that the program has to print."""

    stdin: str
    stdout: str
    comparison: Comparison
    visible: bool = False


@dataclass(frozen=True)
class StdinTests:
    """Runs of the whole program; the outputs to print stay outside of the sandbox."""

    cases: tuple[StdinCase, ...]


@dataclass(frozen=True)
class AssertTests:
    """Assertions that only running can judge.

    Attributes:
        entry_point: the function under test.
        source: the test code.
        count: how many assertions are reached at the least.
        visible: whether they are visible tests.
        whole: whether a right program may reach none of them, so that to come to the end is the one test.
        foreign_imports: the lines on which they import something else than the program.
        of_objects: whether they are about objects of the program's own classes.
        runs_answers: whether they run texts that may be the program's.
        beyond: what they ask for that does not reach the program from another process; "" if nothing.
        copied: whether some arguments are handed over as copies.
        given: code of the prompt that they use.
    """

    entry_point: str
    source: str
    count: int
    visible: bool = False
    whole: bool = False
    foreign_imports: frozenset[int] = frozenset()
    of_objects: bool = False
    runs_answers: bool = False
    beyond: str = ""
    copied: bool = False
    given: str = ""


@dataclass(frozen=True)
class PytestTests:
    """Test files for pytest.

    Attributes:
        files: relative path to content.
        module: the name under which they import the program.
        names: what they take from it.
        count: how many tests there are: exactly if `exact`, else at the least.
        exact: whether the count was declared.
        visible: whether they are visible tests.
        foreign_imports: for each file, the lines on which it imports something else than the program.
        of_objects: whether they are about objects of the program's own classes.
        runs_answers: whether they run texts that may be the program's.
        beyond: what they ask for that does not reach the program from another process; "" if nothing.
        copied: whether some arguments are handed over as copies.
    """

    files: Mapping[str, str]
    module: str
    names: frozenset[str]
    count: int
    exact: bool
    visible: bool = False
    foreign_imports: Mapping[str, frozenset[int]] = field(default_factory=dict)
    of_objects: bool = False
    runs_answers: bool = False
    beyond: str = ""
    copied: bool = False


Tests = CallTests | StdinTests | AssertTests | PytestTests


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


def names_of(tests: Sequence[Tests]) -> frozenset[str]:
    """The names that a program has to define for these tests."""
    names: set[str] = set()
    for form in tests:
        if isinstance(form, CallTests | AssertTests):
            names.add(form.entry_point.partition(".")[0])
        elif isinstance(form, PytestTests):
            names |= form.names
    return frozenset(names)


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
    _check_keys(given, required, ("form", *required, *optional), place)
    readers: dict[str, Callable[[Mapping[str, Any], str], Tests]] = {
        "calls": _calls,
        "stdin": _stdin,
        "asserts": _asserts,
        "pytest": _pytest,
    }
    return readers[kind](given, place)


def _calls(form: Mapping[str, Any], place: str) -> CallTests:
    cases = []
    for at, case in _cases(form, place):
        _check_keys(case, ("expected",), ("args", "kwargs", "expected", "visible", "tolerance"), at, null=("expected",))
        args, kwargs = _or(case.get("args"), []), _or(case.get("kwargs"), {})
        if not isinstance(args, Sequence) or isinstance(args, str | bytes):
            raise UserError(f"{at}.args is {reprlib.repr(args)}; give a list of the positional arguments.")
        if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
            raise UserError(f"{at}.kwargs is {reprlib.repr(kwargs)}; give a mapping from names to arguments.")
        _check_expected(case["expected"], at)
        _check_size(args, kwargs, case["expected"], at)
        cases.append(
            CallCase(tuple(args), dict(kwargs), case["expected"], _tolerant(form, case, at), _visible(case, at))
        )
    return CallTests(_dotted_name(form, "entry_point", place), tuple(cases))


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
    for at, case in _cases(form, place):
        _check_keys(case, ("stdin", "stdout"), ("stdin", "stdout", "visible", "tolerance"), at)
        given, wanted = _text(case, "stdin", at, empty=True), _text(case, "stdout", at, empty=True)
        cases.append(StdinCase(given, wanted, _tolerant(form, case, at), _visible(case, at)))
    return StdinTests(tuple(cases))


def _asserts(form: Mapping[str, Any], place: str) -> CallTests | AssertTests:
    entry_point, source = _dotted_name(form, "entry_point", place), _text(form, "source", place)
    return _asserts_of(entry_point, source, _visible(form, place), _in_place(form, place), place)


# Many completions have tests of their own that read the same.
@lru_cache(maxsize=4096)
def _asserts_of(entry_point: str, source: str, visible: bool, in_place: bool, place: str) -> CallTests | AssertTests:
    tree = _parsed(source, f"{place}.source")
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
    imports = _foreign_imports(tree, "solution")
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


def _foreign_imports(tree: ast.Module, module: str) -> frozenset[int]:
    """The lines of the statements that import something, and nothing of the program's module."""
    lines: dict[int, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            foreign = not any(_is_of(name, module) for name in names)
            lines[node.lineno] = foreign and lines.get(node.lineno, True)
    return frozenset(line for line, foreign in lines.items() if foreign)


def _is_of(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def _pytest(form: Mapping[str, Any], place: str) -> PytestTests:
    files, module = form["files"], _dotted_name(form, "module", place) if "module" in form else "solution"
    if not isinstance(files, Mapping) or not files:
        raise UserError(f"{place}.files is {reprlib.repr(files)}; give a mapping from paths to the files' text.")
    _check_paths(files, place)
    count, names, touched, of_objects, runs, hidden = 0, set[str](), False, False, False, False
    imports: dict[str, frozenset[int]] = {}
    copied: dict[str, str] = {}
    out_of_reach = ""
    in_place = _in_place(form, place)
    configured = any(PurePosixPath(str(path)).name in _CONFIGURATIONS for path in files)
    for path, content in files.items():
        if content is None:
            continue
        if not isinstance(path, str) or not isinstance(content, str):
            raise UserError(f"{place}.files has {path!r}: {reprlib.repr(content)}, which is no text; give its content.")
        if path.endswith(".py"):
            tree = _parsed(content, f"{place}.files[{path!r}]")
            names |= _imported(tree, module)
            if not in_place:
                copied[path] = with_copied_arguments(content, tree, names_from_module(tree, module))
            touched = touched or _mentions_module(tree, module)
            imports[path] = _foreign_imports(tree, module)
            of_objects = of_objects or makes_objects(tree, names_from_module(tree, module))
            runs = runs or runs_answers(tree)
            out_of_reach = out_of_reach or beyond_pytest(tree, module)
            if configured or _is_collected(path):
                count += count_tests(tree)
                hidden = hidden or may_make_tests(tree)
                _refuse_skipped(tree, f"{place}.files[{path!r}]")
    declared = form.get("count")
    if declared is not None and (isinstance(declared, bool) or not isinstance(declared, int) or declared < 1):
        raise UserError(f"{place}.count is {declared!r}; give the number of tests, or leave it out.")
    if not configured and not any(_is_collected(str(path)) for path in files):
        raise UserError(f"{place}.files has no file that pytest collects; name one test_something.py.")
    if not touched:
        raise UserError(f"{place}.files never imports {module!r}, so any program would pass; import what is tested.")
    if declared is None and not count and not hidden:
        raise UserError(f"{place}.files has no test function, so any program would pass; name one test_something.")
    texts = {path: copied.get(path, str(content)) for path, content in files.items() if content is not None}
    exact = declared is not None
    return PytestTests(
        texts,
        module,
        frozenset(names),
        count=declared or max(1, count),
        exact=exact,
        visible=_visible(form, place),
        foreign_imports=imports,
        of_objects=of_objects,
        runs_answers=runs,
        beyond=out_of_reach,
        copied=any(text != files[path] for path, text in texts.items()),
    )


def _check_paths(files: Mapping[Any, Any], place: str) -> None:
    try:
        TestProgram("pytest", files={path: "" for path, content in files.items() if content is not None})
    except UserError as error:
        raise UserError(f"{place}.files cannot be laid out: {error}") from None


def _refuse_skipped(tree: ast.Module, place: str) -> None:
    skipped = skipped_test(tree)
    if skipped is not None:
        raise UserError(
            f"{place} has the test {skipped[0]!r} with @{skipped[1]}, which no program can pass, since a test that is "
            "skipped or expected to fail is not passed; take it out."
        )


def _is_collected(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _mentions_module(tree: ast.Module, module: str) -> bool:
    """Whether a file imports the program's module, or has its name in a text, as for `importlib.import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_of(node.module or "", module):
            return True
        if isinstance(node, ast.Import) and any(_is_of(alias.name, module) for alias in node.names):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_of(node.value, module):
            return True
    return False


def _imported(tree: ast.Module, module: str) -> set[str]:
    """What a test file takes from the program's module."""
    names, aliases = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names.update(alias.name for alias in node.names if alias.name != "*")
        elif isinstance(node, ast.Import):
            aliases.update(alias.asname or alias.name for alias in node.names if alias.name == module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            names.add(node.attr)
    return names


def _cases(form: Mapping[str, Any], place: str) -> list[tuple[str, Mapping[str, Any]]]:
    cases = form["cases"]
    if not isinstance(cases, Sequence) or isinstance(cases, str | bytes):
        raise UserError(f"{place}.cases is {reprlib.repr(cases)}; give a list of cases.")
    if not cases:
        raise UserError(f"{place}.cases is empty, so any program would pass; give at least one case.")
    for at, case in enumerate(cases):
        if not isinstance(case, Mapping):
            raise UserError(f"{place}.cases[{at}] is {reprlib.repr(case)}; give a mapping.")
    return [(f"{place}.cases[{at}]", case) for at, case in enumerate(cases)]


def _check_keys(
    given: Mapping[str, Any], required: Sequence[str], known: Sequence[str], place: str, null: Sequence[str] = ()
) -> None:
    for key in given:
        # A value of None is a column of a table that this row has no use for.
        if key not in known and given[key] is not None:
            raise UserError(f"{place} has an unknown key {key!r}; {did_you_mean(str(key), known)}")
    for key in required:
        if key not in given or (given[key] is None and key not in null):
            raise UserError(f"{place} has no {key!r}; add it.")


def _text(given: Mapping[str, Any], key: str, place: str, empty: bool = False) -> str:
    value = given[key]
    if not isinstance(value, str) or not (value or empty):
        raise UserError(f"{place}.{key} is {reprlib.repr(value)}; give a text.")
    return value


def _dotted_name(given: Mapping[str, Any], key: str, place: str) -> str:
    name = _text(given, key, place)
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
        raise UserError(f"{place}.{key} is {name!r}, which is no name of Python; give one, such as 'solve' or 'A.run'.")
    return name


def _visible(given: Mapping[str, Any], place: str) -> bool:
    visible = _or(given.get("visible"), False)
    if not isinstance(visible, bool):
        raise UserError(f"{place}.visible is {reprlib.repr(visible)}; give true or false.")
    return visible


def _in_place(form: Mapping[str, Any], place: str) -> bool:
    in_place = _or(form.get("in_place"), False)
    if not isinstance(in_place, bool):
        raise UserError(f"{place}.in_place is {reprlib.repr(in_place)}; give true or false.")
    return in_place


def _tolerant(form: Mapping[str, Any], case: Mapping[str, Any], place: str) -> Comparison:
    declared = _or(case.get("tolerance"), form.get("tolerance"))
    tolerance = tolerance_of(declared)
    if tolerance is None:
        raise UserError(
            f"The tolerance at {place} is {reprlib.repr(declared)}; give a number from 0 to below 1, or a mapping with "
            "'absolute' or 'relative'."
        )
    return Comparison(*tolerance)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _parsed(source: str, place: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{place} is no Python ({' '.join(str(error).split())[:200]}); mend it.") from None
