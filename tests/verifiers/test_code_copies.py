"""Programs that change what their value is compared with, and functions whose work it is to change an argument."""

from __future__ import annotations

import ast

import pytest

from rlvr.verifiers import verify
from rlvr.verifiers.code_copies import COPIED, names_from_module, with_copied_arguments

COMPARED = [
    "a = [3, 1]\nassert f(a) == sorted(a)",
    "a = [3, 1]\nx = f(a)\nassert x == sorted(a)",
    "a = [3, 1]\nx = f(a)\nwant = sorted(a)\nassert x == want",
    "a = [3, 1]\ngot, want = f(a), sorted(a)\nassert got == want",
    "a = [3, 1]\nassert f(a) == sorted(a) and f([2]) == [2]",
    "a = [3, 1]\nx = f(a)\ny = list(x)\nassert len(a) == 2\nassert sorted(a) == y",
    "for a in ([3, 1], [2]):\n    x = f(a)\n    assert x == sorted(a)",
    "data = [[3, 1], [2]]\nfor i in range(2):\n    assert f(data[i]) == sorted(data[i])",
    "def run(a): return f(a)\na = [3, 1]\nassert run(a) == sorted(a)",
    "def reference(a): return sorted(a)\ndef check(g):\n    a = [3, 1]\n    x = g(a)\n    assert x == reference(a)",
    "a = [[3, 1]]\nassert list(map(f, a)) == [sorted(each) for each in a]",
    "a = [3, 1]\nx = f(a)\nassert all(left == right for left, right in zip(x, sorted(a)))",
    "a = [3, 1]\nif f(a) != sorted(a):\n    assert False",
    "def same(left, right):\n    assert left == right\na = [3, 1]\nx = f(a)\nsame(x, sorted(a))",
    "s = f()\na = [3, 1]\nassert s.sort(a) == sorted(a)",
]
KEPT = [
    "a = [3, 1]\nf(a)\nassert a == sorted(a)",
    "a = [3, 1]\nx = f(a)\nassert x is None\nassert a == [1, 3]",
    "a = [3, 1]\nx = f(a)\nassert x == a\nassert a == [1, 3]",
    "a = [3, 1]\nassert f(a) is a",
    "a = [3, 1]\nassert (f(a), a) == (None, [1, 3])",
    "a = [3, 3, 1]\nk = f(a)\nassert k == 2\nassert a[:k] == [1, 3]",
    "a = [3, 1]\nbefore = a[:]\nx = f(a)\nassert [x] + a == before",
    "a = [3]\nx = f(a)\nassert x == 3\nassert not a",
    "a = [3, 1]\nx = f(a)\nassert x == 3 and a == [1]",
    "cases = [([3, 1], [1, 3])]\nfor a, want in cases:\n    assert f(a) == want",
    "a = [3, 1]\nassert f(a) == [1, 3], f'{f(a)} of {a}'",
]


def copied(source: str, names: tuple[str, ...] = ("f", "g")) -> str:
    return with_copied_arguments(source, ast.parse(source), names)


@pytest.mark.parametrize("source", COMPARED)
def test_an_argument_that_the_value_is_compared_with_is_copied(source: str) -> None:
    result = copied(source)
    assert COPIED in result
    assert result.count("\n") == source.count("\n")
    ast.parse(result)


@pytest.mark.parametrize("source", KEPT)
def test_an_argument_that_is_itself_tested_is_kept(source: str) -> None:
    assert copied(source) == source


def test_functions_with_variables_of_the_same_name_are_told_apart() -> None:
    source = (
        "def test_a():\n    a = [1]\n    f(a)\n    assert a == [2]\ndef test_b():\n    a = [1]\n"
        "    assert f(a) == len(a)"
    )
    assert [COPIED in line for line in copied(source).split("\n")] == [False] * 6 + [True]


def test_what_all_tests_share_is_copied_in_each() -> None:
    source = (
        "A = [3, 1]\ndef test_a():\n    assert f(A) == [1, 3]\ndef test_b():\n    x = f(A)\n    assert x == sorted(A)"
    )
    assert copied(source).count(COPIED) == 2


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from solution import f as g, h", {"g", "h"}),
        ("import solution as s", {"s"}),
        ("import importlib\nm = importlib.import_module('solution')", {"m"}),
        ("from solution import *\ndef test_a(x): assert f(x) == len(x)", {"f"}),
    ],
)
def test_the_names_that_stand_for_the_program(source: str, names: set[str]) -> None:
    assert names_from_module(ast.parse(source), "solution") == names


def graded(program: str, tests: dict[str, object]) -> bool:
    return verify("rlvr/code-v1", completion=f"```python\n{program}\n```", tests=tests).passed


@pytest.mark.parametrize("source", COMPARED[:7])
@pytest.mark.parametrize("form", ["asserts", "pytest"])
def test_emptying_the_argument_is_not_paid(form: str, source: str) -> None:
    body = "".join(f"    {line}\n" for line in source.split("\n"))
    tests: dict[str, object] = {"form": "asserts", "entry_point": "f", "source": source}
    if form == "pytest":
        file = f"from solution import f\n\ndef test_f():\n{body}"
        tests = {"form": "pytest", "files": {"test_f.py": file}, "module": "solution"}
    assert not graded("def f(a):\n    a.clear()\n    return []", tests)
    assert graded("def f(a):\n    a.sort()\n    return a", tests)


def test_a_function_that_changes_its_argument_passes_its_tests() -> None:
    source = "a = [3, 1, 3]\nk = f(a)\nassert k == 2\nassert a[:k] == [1, 3]\nassert a == [1, 3, 3]"
    program = "def f(a):\n    a[:] = sorted(set(a)) + [3]\n    return 2"
    assert graded(program, {"form": "asserts", "entry_point": "f", "source": source})
