"""What runs in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from .errors import UserError

_LONGEST_NAME = 255
_TEXT = (str, bytes, bytearray, memoryview)
# To ask an abstract class takes long, and nearly all are of the types before it.
_SEQUENCE = (list, tuple, Sequence)
_MAPPING = (dict, Mapping)


@dataclass(frozen=True)
class Call:
    """One call of a function of the program, by name, with plain data.

    Args:
        entry_point: the function's name; dots reach into classes and objects (`Solution.solve`; a method of a class
            that needs an instance is called on one made without arguments).
        args: its positional arguments: None, bool, int, float, complex, str, bytes, Decimal, Fraction, range, slice,
            Ellipsis, dates, times and timedeltas, and lists, tuples, sets, frozensets, deques and dicts of them.
        kwargs: its keyword arguments.

    Raises:
        UserError: the name is no text, or the arguments are no list or mapping.
    """

    entry_point: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_text("The function of a call", self.entry_point)
        if not isinstance(self.args, _SEQUENCE) or isinstance(self.args, _TEXT):
            raise UserError(
                f"The arguments of a call of {self.entry_point!r} are {self.args!r:.80}, but have to be a list or a "
                f"tuple; one argument is written Call({self.entry_point!r}, [...])."
            )
        if not isinstance(self.kwargs, _MAPPING) or not all(isinstance(name, str) for name in self.kwargs):
            raise UserError(
                f"The keyword arguments of a call of {self.entry_point!r} are {self.kwargs!r:.80}, but have to be a "
                "mapping from names to values."
            )


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
        given: code that runs before `source` and beside the program: what it defines is not taken from the program, as
            functions that a prompt gave (asserts).
        files: relative path to content (pytest).
        module: under which name the tests import the program (pytest).
        inside: run the tests inside the program's own process. Nothing that such a report says can be relied on
            (`trusted=False`); for tests that the stand-ins cannot serve.

    Raises:
        UserError: a field is not what it has to be.
    """

    __test__ = False  # pytest would collect it by its name

    form: Literal["asserts", "pytest"]
    source: str = ""
    entry_point: str = ""
    given: str = ""
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    module: str = "solution"
    inside: bool = False

    def __post_init__(self) -> None:
        if self.form not in ("asserts", "pytest"):
            raise UserError(f"The form of the tests is {self.form!r}, but has to be 'asserts' or 'pytest'.")
        _check_text("The source of the tests", self.source)
        _check_text("The function under test", self.entry_point)
        _check_text("The code given to the tests", self.given)
        _check_text("The module under test", self.module)
        _check_files(self.files)


@dataclass(frozen=True)
class Program:
    """A program, and what it is given.

    Without `call`, `command` and `test`, the source runs as a script. With `call` it is loaded as a module (its
    `__name__` is not `__main__`) and its functions are called in order, in one process. With `test` it is loaded the
    same way, for the tests to call.

    Args:
        source: Python source; with `command` it is written to `solution.py` where it is not empty.
        stdin: what it reads on stdin.
        files: relative path to content, laid into its working folder. Scripts that begin with `#!`, and ELF programs,
            can be executed.
        call: functions to call.
        command: another program to run in the working folder, as a list of words (other languages).
        env: its environment, which is otherwise nearly empty.
        test: tests to run beside it.

    Raises:
        UserError: a field is not what it has to be, or two contradict each other.
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
        if self.source is not None or self.command is None:
            _check_text("The source of a program", self.source)
        _check_content("The stdin of a program", self.stdin)
        _check_files(self.files)
        _check_environment(self.env)
        if self.call is not None and not isinstance(self.call, Call):
            _check_calls(self.call)
        elif self.command is not None:
            _check_command(self.command)
        elif self.test is not None and not isinstance(self.test, TestProgram):
            raise UserError(f"The tests of a program are {self.test!r:.80}, but have to be a TestProgram.")

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls, as a tuple also where there is one or none."""
        if self.call is None:
            return ()
        return (self.call,) if isinstance(self.call, Call) else tuple(self.call)


# Thousands of programs are made a second, so these only look at types, and at text that is nearly always short.


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise UserError(f"{what} is {value!r:.80}, but has to be text (a str).")


def _check_content(what: str, value: object) -> None:
    # A number would stand for so many zero bytes.
    if not isinstance(value, _TEXT):
        raise UserError(f"{what} is {value!r:.80}, but has to be text or bytes.")


def _check_files(files: object) -> None:
    if not isinstance(files, _MAPPING):
        raise UserError(f"The files of a program are {files!r:.80}, but have to be a mapping from paths to contents.")
    placed: dict[tuple[str, ...], str] = {}
    for path, content in files.items():
        _check_text("The path of a file", path)
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in path:
            raise UserError(f"The file path {path!r} has to be relative and to stay inside the working folder.")
        if path.endswith(("/", "/.")):
            raise UserError(f"The file path {path!r} names a folder, but has to name a file.")
        if any(len(part.encode("utf-8", "replace")) > _LONGEST_NAME for part in parts):
            raise UserError(f"The file path {path!r:.80} has a name that is longer than {_LONGEST_NAME} bytes.")
        _check_content(f"The file {path!r}", content)
        if parts in placed:
            raise UserError(f"The file paths {placed[parts]!r} and {path!r} are one file; leave one of them out.")
        placed[parts] = path
    for parts, path in placed.items():
        for length in range(1, len(parts)):
            if parts[:length] in placed:
                raise UserError(
                    f"The file path {placed[parts[:length]]!r} is a file, and a folder in {path!r}; rename one of them."
                )


def _check_environment(env: object) -> None:
    if not isinstance(env, _MAPPING):
        raise UserError(f"The environment of a program is {env!r:.80}, but has to be a mapping from names to values.")
    for name, value in env.items():
        _check_text("The name of an environment variable", name)
        if not name or "=" in name or "\0" in name:
            raise UserError(
                f"The name of an environment variable is {name!r:.80}, but cannot be empty or hold '=' or a NUL."
            )
        _check_text(f"The environment variable {name!r}", value)
        if "\0" in value:
            raise UserError(f"The environment variable {name!r} is {value!r:.80}, but cannot hold a NUL.")


def _check_calls(calls: object) -> None:
    if not isinstance(calls, _SEQUENCE) or not all(isinstance(call, Call) for call in calls):
        raise UserError(
            f"The call of a program is {calls!r:.80}, but has to be a Call or a list of them, such as "
            "Call('add', [1, 2])."
        )


def _check_command(command: object) -> None:
    words = isinstance(command, _SEQUENCE) and not isinstance(command, _TEXT) and len(command) > 0
    if not words or not all(isinstance(word, str) and "\0" not in word for word in command):  # type: ignore[attr-defined]
        raise UserError(
            f"The command of a program is {command!r:.80}, but has to be a list of words without a NUL, such as "
            "['sh', '-c', 'ls']."
        )
