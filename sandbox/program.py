"""What runs in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from .errors import UserError


@dataclass(frozen=True)
class Call:
    """One call of a function of the program, by name, with plain data.

    Args:
        entry_point: the function's name; dots reach into classes and objects (`Solution.solve`; a method of a class
            that needs an instance is called on one made without arguments).
        args: its positional arguments: None, bool, int, float, complex, str, bytes, Decimal, Fraction, range, slice,
            Ellipsis, dates, times and timedeltas, and lists, tuples, sets, frozensets, deques and dicts of them.
        kwargs: its keyword arguments.
    """

    entry_point: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TestProgram:
    """Test code that is trusted, and runs beside the program in a process of its own.

    The program's process loads the program and answers calls over a pipe. The process with the tests sees built-in
    values that were rebuilt from plain data, has another pid namespace or uid, and alone holds the channel over which
    results are reported. What cannot cross as plain data (an object of the program's own class) stays with the program
    and is reached through a stand-in; whatever such an object decides (an attribute, a method, an item, its length or
    truth, a comparison, an operator) makes the report `trusted=False`. Functions and classes can be called, iterators
    gone through and coroutines awaited without that, and so can the methods of an object that the tests made of a class
    whose name begins with a capital; its comparisons and operators cannot. A stand-in equals a built-in value only
    where its class inherits from a built-in one, by the data in it, which is compared beside the program.

    Args:
        form: `asserts`: `source` defines `check(candidate)`, which is called with the program's `entry_point`; without
            a `check`, the statements of `source` run with the program's names in scope. Every `assert` statement is a
            test, and a failed one does not stop the others. `pytest`: `files` hold tests that import `module`.
        source: the test code (asserts).
        entry_point: the function under test (asserts).
        files: relative path to content (pytest).
        module: under which name the tests import the program (pytest).
        inside: run the tests inside the program's own process. Nothing that such a report says can be relied on
            (`trusted=False`); for tests that the stand-ins cannot serve.
    """

    __test__ = False  # pytest would collect it by its name

    form: Literal["asserts", "pytest"]
    source: str = ""
    entry_point: str = ""
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    module: str = "solution"
    inside: bool = False

    def __post_init__(self) -> None:
        if self.form not in ("asserts", "pytest"):
            raise UserError(f"The form of the tests is {self.form!r}, but has to be 'asserts' or 'pytest'.")
        _check_paths(self.files)


@dataclass(frozen=True)
class Program:
    """A program, and what it is given.

    Without `call`, `command` and `test`, the source runs as a script. With `call` it is loaded as a module (its
    `__name__` is not `__main__`) and its functions are called in order, in one process. With `test` it is loaded the
    same way, for the tests to call.

    Args:
        source: Python source; with `command` it is written to `solution.py` where it is not empty.
        stdin: what it reads on stdin.
        files: relative path to content, laid into its working folder.
        call: functions to call.
        command: another program to run in the working folder, as a list of words (other languages).
        env: its environment, which is otherwise nearly empty.
        test: tests to run beside it.
    """

    source: str = ""
    stdin: bytes | str = b""
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    call: Call | Sequence[Call] | None = None
    command: Sequence[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    test: TestProgram | None = None

    def __post_init__(self) -> None:
        asked = [name for name in ("call", "command", "test") if getattr(self, name) is not None]
        if len(asked) > 1:
            raise UserError(f"A program has both {asked[0]} and {asked[1]}, but can have only one of them.")
        if isinstance(self.command, str):
            raise UserError(f"The command {self.command!r} is one string, but has to be a list of words.")
        _check_paths(self.files)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls, as a tuple also where there is one or none."""
        if self.call is None:
            return ()
        return (self.call,) if isinstance(self.call, Call) else tuple(self.call)


def _check_paths(files: Mapping[str, bytes | str]) -> None:
    for path in files:
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in path:
            raise UserError(f"The file path {path!r} has to be relative and to stay inside the working folder.")
