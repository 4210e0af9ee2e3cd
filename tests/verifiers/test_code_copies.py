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
    "n = [3, 1]\nassert n[f(n, 9)] == 9",
    "n = [3, 1, 2, 9]\na, b = f(n)\nassert sum(n[a:b]) == 7",
    "n = [3, 1]\nr = f(n)\nassert r == f'{n[0]}-{n[1]}'",
    "n = [3, 1]\nassert f(n).__eq__(sorted(n))",
    "n = [3, 1]\nassert set(f(n)).issubset(n)",
    "n = [3, 1]\ndef run(): return f(n)\nassert run() == sorted(n)",
    "n = [3, 1]\ndef want(): return sorted(n)\nassert f(n) == want()",
    "d = {'a': 1}\nr = f(d)\nfor k in d:\n    assert r[d[k]] == k",
    "n = [3, 1]\nr = f(n)\nfor i in range(len(n)):\n    assert r[i] == 3",
    "n = [3, 1]\nr = f(n)\nif n:\n    assert r == [1, 3]",
    "w = {1: {2: 3}}\np = f(w)\nassert sum(w[a][b] for a, b in zip(p, p[1:])) == 3",
    "class T:\n    def test_a(self):\n        assert f(self.d) == sorted(self.d)",
    "class T:\n    def run(self, c):\n        assert c(self.d) == sorted(self.d)\ndef check(f): T().run(f)",
    "for case in cases:\n    x = case['x']\n    assert f(x) == sorted(case['x'])",
    "data = [[3, 1]]\ngot = [f(d) for d in data]\nassert all(o == sorted(d) for d, o in zip(data, got))",
    "a = [3, 1]\nx = f(a)\nassert x is not a\nassert x == sorted(a)",
    "a = [3, 1]\nassert a == [3, 1]\nx = f(a)\nassert x == sorted(a)",
    "a = [3, 1]\nfor _ in range(2):\n    x = f(a)\n    assert x == sorted(a)\nassert a == [3, 1]",
    "a = [[3, 1]]\nbefore = a[:]\nx = f(a)\nassert x == [sorted(b) for b in a]\nassert a == before",
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
    "a = [3, 1]\nx = f(a)\nassert x == a == [1, 3]",
    "a = [3, 1]\nbefore = list(a)\nx = f(a)\nassert x == sorted(a)\nassert a == before",
    "a = [[3, 1]]\nbefore = copy.deepcopy(a)\nx = f(a)\nassert x == [sorted(b) for b in a]\nassert a == before",
    "for i, (a, want) in enumerate(cases):\n    k = f(a)\n    assert k == len(want)\n    assert a[:k] == want",
    "for case in cases:\n    x = case['x']\n    k = f(x)\n    assert k == case['k']\n    assert len(x) == k",
    "a = [2]\nk = f(a)\nassert k == 1\nassert a[:k] == [2]\na = [5]\nk = f(a)\nassert k == 1\nassert a[:k] == [5]",
    "a = [3, 1]\nf(a)\nassert all(x <= y for x, y in zip(a, a[1:]))",
    "class T:\n    def test_a(self):\n        self.assertIsNone(f(self.d))\n        self.assertEqual(self.d, [1, 3])",
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


@pytest.mark.parametrize(
    "tested", ["a == sorted([1, 2, 3] + b)", "a[:5] == sorted([1, 2, 3] + b)", "len(a) == 3 + len(b)"]
)
def test_of_several_arguments_the_one_that_is_tested_is_kept(tested: str) -> None:
    source = f"a = [1, 2, 3, 0, 0]\nb = [2, 5]\nf(a, 3, b, len(b))\nassert {tested}"
    assert copied(source) == source.replace("b, len(b))", f"{COPIED}(b), {COPIED}(len(b)))", 1)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\f\n"])
def test_lines_end_where_python_ends_them(end: str) -> None:
    source = "def check(f):\n    a = ['é\x0b']\n    assert f(a) == sorted(a)\n"
    result = copied(source.replace("\n", end))
    assert result.replace("\f", "") == source.replace("f(a) ==", f"f({COPIED}(a)) ==")


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


# What the tests say of the value, a right program, and one that has it said of another argument.
CHANGED = [
    (
        "n = [3, 1, 2, 9]\nr = f(n, 10)\nassert n[r[0]] + n[r[1]] == 10",
        "def f(n, t):\n    return [1, 3]",
        "def f(n, t):\n    n[:] = [t, 0]\n    return [0, 1]",
    ),
    (
        "g = {'A': {'B': 1, 'C': 4}, 'B': {'C': 2}}\np = f(g)\nassert sum(g[a][b] for a, b in zip(p, p[1:])) == 3",
        "def f(g):\n    return ['A', 'B', 'C']",
        "def f(g):\n    g['A']['C'] = 3\n    return ['A', 'C']",
    ),
    (
        "a = [1, 2, 3, 0, 0]\nb = [2, 5]\nf(a, 3, b, len(b))\nassert a == sorted([1, 2, 3] + b)",
        "def f(a, m, b, n):\n    a[m:] = b\n    a.sort()",
        "def f(a, m, b, n):\n    b.clear()\n    a[m:] = []",
    ),
    (
        "a = [3, 1]\nbefore = a[:]\nx = f(a)\nassert x == sorted(a)\nassert a == before",
        "def f(a):\n    return sorted(a)",
        "def f(a):\n    a.sort()\n    return a",
    ),
]


@pytest.mark.parametrize(("source", "right", "wrong"), CHANGED)
def test_changing_what_the_value_is_read_with_is_not_paid(source: str, right: str, wrong: str) -> None:
    tests: dict[str, object] = {"form": "asserts", "entry_point": "f", "source": source}
    assert graded(right, tests)
    assert not graded(wrong, tests)


def test_a_function_that_changes_its_argument_passes_its_tests() -> None:
    source = "a = [3, 1, 3]\nk = f(a)\nassert k == 2\nassert a[:k] == [1, 3]\nassert a == [1, 3, 3]"
    program = "def f(a):\n    a[:] = sorted(set(a)) + [3]\n    return 2"
    assert graded(program, {"form": "asserts", "entry_point": "f", "source": source})
