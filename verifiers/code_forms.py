"""The tests of a program in each of their forms, as they are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .code_asserts import WRAPPERS
from .code_compare import Comparison, covers


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


def names_of(tests: Sequence[Tests]) -> frozenset[str]:
    """The names that a program has to define for these tests."""
    names: set[str] = set()
    for form in tests:
        if isinstance(form, CallTests | AssertTests):
            names.add(form.entry_point.partition(".")[0])
        elif isinstance(form, PytestTests):
            names |= form.names
    return frozenset(names)
