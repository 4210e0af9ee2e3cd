"""Whether two things are one, in tests that run in another process than the program."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

from typing import Any

import pytest

from rlvr.sandbox.identity import with_identity_asked
from rlvr.verifiers import Verdict, verify


def graded(program: str, body: str, head: str = "from solution import *\n", **options: Any) -> Verdict:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    tests = {"form": "pytest", "files": {"test_f.py": f"{head}def test_f():\n{lines}"}, "module": "solution"}
    return verify("rlvr/code-v1", completion=f"```python\n{program}\n```", tests=tests, **options)


def outcome(verdict: Verdict) -> tuple[float | None, str]:
    return verdict.score, verdict.status


@pytest.mark.parametrize(
    ("source", "asking"),
    [
        ("x = a is b", "x = __same__(a , b)"),
        ("assert f(a) is not b, 'no'", "assert (not __same__(f(a) , b, False)), 'no'"),
        ("y = (a) is (not b)", "y = __same__((a) , (not b))"),
        ("z = (a\n  is\n  b)", "z = (__same__(a\n  ,\n  b))"),
        ("p = 'ä' + (a is b) + 'is', c is d", "p = 'ä' + (__same__(a , b)) + 'is', __same__(c , d)"),
        ("q = x is (a is b)", "q = __same__(x , (__same__(a , b)))"),
        ("r = [i is j for i in s]\r\nt = 1", "r = [__same__(i , j) for i in s]\nt = 1"),
    ],
)
def test_it_is_asked_in_place(source: str, asking: str) -> None:
    assert with_identity_asked(source) == asking


@pytest.mark.parametrize(
    "source",
    [
        "a is None",
        "True is not a",
        "a == b",
        "# a is b",
        "f'{a is b}'",
        "a is b is c",
        "'a is b'",
        "a is ...",
        "a is (",
    ],
)
def test_what_python_knows_itself_is_left_to_it(source: str) -> None:
    assert with_identity_asked(source) == source


LEVEL = "from enum import Enum\nclass Level(Enum):\n    INFO = 1\n    WARN = 2\ndef parse(s): return Level.INFO if s == 'INF' else Level.WARN"
SENTINEL = "MISSING = object()\ndef find(d, k): return d.get(k, MISSING)"
TREE = "class Node:\n    def __init__(self): self.next = None\n    def link(self, n): self.next = n\n    def root(self): return self"
CASE = "import unittest\nfrom solution import *\ncase = unittest.TestCase()\n"


@pytest.mark.parametrize(
    ("program", "body", "wrong"),
    [
        (LEVEL, "assert parse('INF') is Level.INFO and parse('W') is not Level.INFO", LEVEL.replace("'INF'", "'I'")),
        (LEVEL, "case.assertIs(parse('INF'), Level.INFO)\ncase.assertIsNot(parse('W'), Level.INFO)", LEVEL.replace("'INF'", "'I'")),
        (LEVEL, "assert parse('INF') == Level.INFO", LEVEL.replace("'INF'", "'I'")),
        (LEVEL, "assert parse('W') in (Level.WARN, 5)", LEVEL.replace("else Level.WARN", "else Level.INFO")),
        (LEVEL, "assert {Level.INFO: 1}[parse('INF')] == 1", LEVEL.replace("'INF'", "'I'")),
        (LEVEL, "assert [level.name for level in Level] == ['INFO', 'WARN']", LEVEL.replace("WARN", "ERROR")),
        (SENTINEL, "assert find({}, 'a') is MISSING and find({'a': 5}, 'a') == 5", SENTINEL.replace(", MISSING)", ")")),
        (TREE, "a, b = Node(), Node()\na.link(b)\nassert a.next is b and a.next is not a", TREE.replace("= n", "= self")),
        ("def last(a): return a[-1]", "x = [1]\nassert last(['a', x]) is x", "def last(a): return [5]"),
    ],
)  # fmt: skip
def test_where_the_programs_word_decides_it_is_an_error_and_with_objects_a_verdict(
    program: str, body: str, wrong: str
) -> None:
    right = graded(program, body, CASE)
    # An object that the tests made needs no word of the program's.
    assert outcome(right) == ((1.0, "ok") if program is TREE else (None, "error"))
    assert program is TREE or "objects=True" in right.detail
    assert graded(program, body, CASE, objects=True).passed
    assert outcome(graded(wrong, body, CASE)) == (0.0, "ok")
    assert outcome(graded(wrong, body, CASE, objects=True)) == (0.0, "ok")


@pytest.mark.parametrize(
    ("program", "body"),
    [
        ("class Single:\n    one = None\n    def __new__(cls):\n        cls.one = cls.one or super().__new__(cls)\n        return cls.one", "assert Single() is Single()\ncase.assertIs(Single(), Single())"),
        (LEVEL, "assert Level['INFO'] is Level.INFO is not Level.WARN\nassert Level(2) is Level.WARN"),
        (TREE, "a = Node()\nassert a.root() is a\ncase.assertIs(a.root(), a)"),
        ("def f(x, a=[]): return x", "a = [1]\nassert f(a) is a and f(3) is f(3)\nb = f(a)\nassert b == a\ncase.assertIs(b, a)"),
        ("def last(a): return a[-1]", "case.assertIs(last(['a', 'Rocket']), 'Rocket')"),
    ],
)  # fmt: skip
def test_what_the_tests_know_themselves_needs_nothing(program: str, body: str) -> None:
    assert graded(program, body, CASE).passed


def test_a_wrong_program_makes_no_error_of_its_zero_by_a_copy() -> None:
    body = "a = [2, 1]\nb = f(a)\nassert b is not a\ncase.assertIsNot(b, a)\nassert b == [1, 2]"
    assert graded("f = sorted", body, CASE).passed
    assert outcome(graded("f = list", body, CASE)) == (0.0, "ok")
    number = "from enum import IntEnum\nclass P(IntEnum):\n    LOW = 1\n    HIGH = 2\ndef f(n): return P.LOW"
    assert outcome(graded(number, "assert f(1) is P.HIGH", CASE)) == (0.0, "ok")
    assert outcome(graded(number, "assert f(1) is P.LOW", CASE)) == (None, "error")
    assert graded(number, "assert f(1) is P.LOW", CASE, objects=True).passed


def test_a_copy_that_is_asked_for_is_no_other_argument() -> None:
    body = "l = [1, 2]\nn = f(l, [])\ncase.assertEqual(l, n)\ncase.assertIsNot(l, n)\nassert n is not l"
    assert graded("def f(a, b): return [*a, *b]", body, CASE).passed
    assert outcome(graded("def f(a, b): return a if not b else a + b", body, CASE)) == (0.0, "ok")
    assert outcome(graded("def f(a, b):\n    a.clear()\n    return []", body, CASE)) == (0.0, "ok")


def test_large_arguments_and_values_are_not_kept() -> None:
    limits = {"memory_bytes": 80 << 20, "cpu_seconds": 40, "wall_seconds": 60}
    body = (
        "for n in range(60):\n    a = [n] * 100_000\n    assert f(a) == sum(a)\n"
        "q = Q()\nfor n in range(300):\n    assert q.row[0] == 0"
    )
    program = "def f(a): return sum(a)\nclass Q:\n    def __init__(self): self.row = [0] * 10000"
    verdict = graded(program, body, limits=limits)
    assert verdict.passed, verdict.detail
