"""What a user got wrong is said in a sentence when the object is made, and is never a program's result."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

import rlvr.sandbox
from rlvr.sandbox import Box, Call, Limits, Program, TestProgram
from rlvr.verifiers import UserError

# Without a type, since it is types that are wrong here.
make_program: Any = Program
make_call: Any = Call
make_tests: Any = TestProgram
open_box: Any = rlvr.sandbox.open

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "source": (lambda: make_program(3), "The source of a program is 3, but has to be text"),
    "source in bytes": (
        lambda: make_program(b"print(1)"),
        "The source of a program is b'print(1)', but has to be text",
    ),
    "no source": (lambda: make_program(None), "The source of a program is None, but has to be text"),
    "stdin": (lambda: make_program("", stdin=3), "The stdin of a program is 3, but has to be text or bytes."),
    "no stdin": (lambda: make_program("", stdin=None), "The stdin of a program is None, but has to be text or bytes."),
    "content of a file": (
        lambda: make_program("", files={"a": 3}),
        "The file 'a' is 3, but has to be text or bytes.",
    ),
    "files": (lambda: make_program("", files=["a"]), "The files of a program are ['a'], but have to be a mapping"),
    "path": (lambda: make_program("", files={3: ""}), "The path of a file is 3, but has to be text"),
    "path that goes up": (
        lambda: make_program("", files={"a/../../x": ""}),
        "The file path 'a/../../x' has to be relative and to stay inside the working folder.",
    ),
    "two paths of a file": (
        lambda: make_program("", files={"a/b": "", "a/./b": ""}),
        "The file paths 'a/b' and 'a/./b' are one file",
    ),
    "path in a file": (
        lambda: make_program("", files={"a/b/c": "", "a/b": ""}),
        "The file path 'a/b' is a file, and a folder in 'a/b/c'",
    ),
    "path with a long name": (lambda: make_program("", files={"é" * 128: ""}), "longer than 255 bytes"),
    "path of a folder": (lambda: make_program("", files={"a/": ""}), "The file path 'a/' names a folder"),
    "call": (lambda: make_program("", call="f"), "The call of a program is 'f', but has to be a Call or a list"),
    "one of the calls": (lambda: make_program("", call=[Call("f"), "g"]), "has to be a Call or a list of them"),
    "calls that can be read once": (
        lambda: make_program("", call=(Call("f") for _ in range(2))),
        "has to be a Call or a list of them",
    ),
    "function": (lambda: make_call(3), "The function of a call is 3, but has to be text"),
    "one argument": (
        lambda: make_call("f", 3),
        "The arguments of a call of 'f' are 3, but have to be a list or a tuple; one argument is written Call('f', [",
    ),
    "text as arguments": (lambda: make_call("f", "ab"), "The arguments of a call of 'f' are 'ab', but have to be a"),
    "a dict as arguments": (lambda: make_call("f", {"a": 1}), "The arguments of a call of 'f' are {'a': 1}, but have"),
    "keyword arguments": (lambda: make_call("f", [], [1]), "The keyword arguments of a call of 'f' are [1], but have"),
    "name of an argument": (lambda: make_call("f", [], {1: 2}), "The keyword arguments of a call of 'f' are {1: 2}"),
    "no command": (lambda: make_program(command=[]), "The command of a program is [], but has to be a list of words"),
    "command of numbers": (lambda: make_program(command=[1]), "The command of a program is [1], but has to be a list"),
    "command as text": (lambda: make_program(command="ls"), "The command of a program is 'ls', but has to be a list"),
    "NUL in a command": (lambda: make_program(command=["ls", "\0"]), "has to be a list of words without a NUL"),
    "environment": (lambda: make_program("", env=["A"]), "The environment of a program is ['A'], but has to be a"),
    "value": (lambda: make_program("", env={"A": 1}), "The environment variable 'A' is 1, but has to be text"),
    "NUL in a value": (
        lambda: make_program("", env={"A": "\0"}),
        "The environment variable 'A' is '\\x00', but cannot",
    ),
    "name": (lambda: make_program("", env={1: "a"}), "The name of an environment variable is 1, but has to be text"),
    "name with =": (lambda: make_program("", env={"A=": ""}), "The name of an environment variable is 'A=', but"),
    "NUL in a name": (lambda: make_program("", env={"\0": ""}), "The name of an environment variable is '\\x00', but"),
    "empty name": (lambda: make_program("", env={"": "a"}), "The name of an environment variable is '', but"),
    "tests": (
        lambda: make_program("", test="assert f"),
        "The tests of a program are 'assert f', but have to be a Test",
    ),
    "source of tests": (lambda: make_tests("asserts", 3), "The source of the tests is 3, but has to be text"),
    "files of tests": (lambda: make_tests("pytest", files={"a": None}), "The file 'a' is None, but has to be text or"),
    "limits of a sandbox": (
        lambda: open_box("namespace", limits={"cpu_seconds": 2}),
        "The limits of the sandbox are {'cpu_seconds': 2}, but have to be Limits, such as Limits(cpu_seconds=2).",
    ),
    "empty limits of a sandbox": (lambda: open_box("namespace", limits={}), "are {}, but have to be Limits"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_said_when_the_object_is_made(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(UserError) as error:
        make()
    said = str(error.value)
    assert message in said
    assert said.endswith(".")
    assert "\n" not in said


def test_a_large_value_is_not_said_in_full() -> None:
    with pytest.raises(UserError) as error:
        make_program(["x" * 1000] * 1000)
    assert len(str(error.value)) < 200


def test_mappings_and_sequences_of_other_types_are_right() -> None:
    files = MappingProxyType({"a": b"", "b/c": "", "d": bytearray(b"x")})
    assert Program("", files=files, env=MappingProxyType({"A": ""})).files is files
    assert Program(command=("ls",)).command == ("ls",)
    assert Program("", call=(Call("f", range(3)),)).calls == (Call("f", range(3)),)
    assert Program("", call=[]).calls == ()


@pytest.mark.parametrize("how", ["run", "map", "submit"])
def test_a_mistake_in_a_run_is_said_at_once(box: Box, how: str) -> None:
    def run(program: Any, limits: Any = None) -> object:
        method: Any = getattr(box, how)
        return method([program] if how == "map" else program, limits=limits)

    with pytest.raises(UserError, match=r"The limits of the sandbox are \{'cpu_seconds': 1\}, but have to be Limits"):
        run(Program("print(1)"), {"cpu_seconds": 1})
    with pytest.raises(UserError, match=r"The limits of the sandbox are \{\}, but have to be Limits"):
        run(Program("print(1)"), {})
    with pytest.raises(
        UserError, match=r"was to run 'print\(1\)', but runs a Program, such as Program\('print\(1\)'\)"
    ):
        run("print(1)")
    assert run(Program("print(1)"), Limits(**{**vars(box.limits), "cpu_seconds": 2}))


def test_the_wall_limit_follows_the_cpu_limit() -> None:
    assert Limits(cpu_seconds=4).wall == 14
    assert Limits(cpu_seconds=4, wall_seconds=1).wall == 1
