"""What crosses between tests and the program that they run beside, and what does not and is said so."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlvr.sandbox import TestProgram, TestReport

Report = Callable[[str, TestProgram], TestReport]


def asserts(source: str, entry_point: str = "", inside: bool = False) -> TestProgram:
    return TestProgram("asserts", source=source, entry_point=entry_point, inside=inside)


def pytests(source: str, inside: bool = False) -> TestProgram:
    return TestProgram("pytest", files={"test_add.py": source}, inside=inside)


def test_arguments_are_changed_in_place(report: Report) -> None:
    source = "def fill(items, table):\n    items.append(len(items))\n    table['x'] = 1\n    items.sort(reverse=True)"
    check = "def check(c):\n    a, b = [0, 5], {}\n    assert c(a, b) is None\n    assert a == [5, 2, 0]\n    assert b == {'x': 1}"
    assert report(source, asserts(check, "fill")).all_passed
    source = "def fill(b, q, a):\n    b[0] = 65\n    a.append(3)\n    return q.popleft()"
    check = "from array import array\nfrom collections import deque\ndef check(c):\n    b, q, a = bytearray(b'xy'), deque([1, 2]), array('i')\n    assert c(b, q, a) == 1\n    assert b == b'Ay'\n    assert q == deque([2])\n    assert a[0] == 3"
    assert report(source, asserts(check, "fill")).all_passed


def test_functions_of_the_tests_can_be_handed_over(report: Report) -> None:
    source = "def apply(f, xs):\n    return sorted((f(x) for x in xs), key=lambda v: -v)"
    check = "def check(c):\n    assert c(lambda x: x * x, [1, 3, 2]) == [9, 4, 1]\n    assert c(abs, (-1, 2)) == [2, 1]"
    assert report(source, asserts(check, "apply")).all_passed


def test_objects_of_the_programs_classes_stay_with_it(report: Report) -> None:
    source = (
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
        "    def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)\n"
        "    def __iter__(self): return iter(self.items)\n"
    )
    check = (
        "s = Stack()\ns.push(3)\ns.push([4])\nassert len(s) == 2\nassert list(s) == [3, [4]]\nassert s.items == [3, [4]]\n"
        "assert s.pop() == [4]\ns.pop()\ntry:\n    s.pop()\n    assert False\nexcept IndexError:\n    pass\n"
    )
    tests = report(source, asserts(check, ""))
    assert tests.tests_passed == 4
    assert tests.trusted
    renamed = check.replace("Stack()", "make_stack()")
    tests = report(source + "def make_stack(): return Stack()", asserts(renamed, ""))
    assert tests.tests_passed == 4
    assert not tests.trusted


def test_exceptions_keep_their_classes(report: Report) -> None:
    source = "class Odd(ValueError): pass\ndef f(x):\n    if x: raise Odd('odd', x)\n    return {}['missing']"
    check = (
        "for x in (0, 1):\n    try:\n        f(x)\n        assert False\n    except KeyError as e:\n        assert x == 0 and e.args == ('missing',)\n"
        "    except Odd as e:\n        assert isinstance(e, ValueError) and e.args == ('odd', 1)\n"
    )
    tests = report(source, asserts(check, ""))
    assert (tests.tests_run, tests.tests_passed) == (2, 2), tests


VALUES = """
import datetime as d
from array import array
from types import MappingProxyType
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
zone = d.timezone(d.timedelta(hours=5, minutes=30))
def check(same):
    for value in (
        1 + 2j, complex(float("inf"), -0.0), Decimal("1.50"), Decimal("-Infinity"), Fraction(-3, 7), d.date(2020, 2, 29),
        d.datetime(2020, 1, 2, 3, 4, 5, 6, fold=1), d.datetime(2020, 1, 2, tzinfo=zone), d.timedelta(-1, 2, 3),
        d.time(1, 2, 3), d.time(1, 2, tzinfo=d.timezone.utc), range(5, 0, -2), range(0), deque([1, [2]], 5), slice(1, None, 2), ...,
        Counter("aab"), OrderedDict(b=1, a=2), defaultdict(list, x=[1]), [Decimal(1), {Fraction(1, 2): 3j}],
        array("h", [1, -2]), array("d", [0.5, float("inf")]),
    ):
        found = same(value)
        assert found == value and repr(found) == repr(value) and type(found) is type(value), repr(value)
    assert same(memoryview(b"ab")) == memoryview(b"ab") == b"ab"
    assert same(2 ** 1_000_000) == 2 ** 1_000_000 and same(MappingProxyType({1: [2]})) == MappingProxyType({1: [2]})
"""


def test_values_of_standard_types_cross_exactly(report: Report) -> None:
    tests = report("def same(x): return x", asserts(VALUES, "same"))
    assert (tests.all_passed, tests.trusted) == (True, True), tests


SURROUNDED = {
    "capsys": (
        "import sys\ndef f():\n    print('hi')\n    sys.stderr.write('oh')",
        "def test_a(capsys):\n    f()\n    f()\n    assert capsys.readouterr() == ('hi\\nhi\\n', 'ohoh')\n",
    ),
    "redirected": (
        "def f(): print('hi')",
        "import contextlib, io\ndef test_a():\n    with contextlib.redirect_stdout(io.StringIO()) as out:\n        f()\n"
        "    assert out.getvalue() == 'hi\\n'\n",
    ),
    "input": (
        "def f(): return int(input('n?')) + 1",
        "def test_a(monkeypatch):\n    monkeypatch.setattr('builtins.input', lambda _: '5')\n    assert f() == 6\n"
        "def test_b(monkeypatch):\n    monkeypatch.setattr('builtins.input', lambda _: '6')\n    assert f() == 7\n",
    ),
    "stdin": (
        "import sys\ndef f(): return input() + sys.stdin.readline()",
        "import io\ndef test_a(monkeypatch):\n    monkeypatch.setattr('sys.stdin', io.StringIO('a\\nb\\nc\\nd'))\n"
        "    assert f() == 'ab\\n' and f() == 'cd'\n",
    ),
    "environment and argv": (
        "import os, sys\ndef f(): return os.environ.get('A'), sys.argv",
        "def test_a(monkeypatch):\n    before = f()\n    monkeypatch.setenv('A', '5')\n    monkeypatch.setattr('sys.argv', ['x'])\n"
        "    assert f() == ('5', ['x'])\n    monkeypatch.undo()\n    assert f() == before and before[0] is None\n",
    ),
    "a patch of the program": (
        "import random\nSIZE = 3\ndef draw(): return random.random()\ndef f(): return draw() * SIZE",
        "import solution\nfrom unittest import mock\ndef test_a(monkeypatch):\n    monkeypatch.setattr(solution, 'draw', lambda: 7)\n"
        "    assert f() == 21\n    monkeypatch.setattr('solution.SIZE', 2)\n    assert f() == 14\n    monkeypatch.undo()\n"
        "    assert f() < 3\n    with mock.patch('solution.draw', lambda: 5):\n        assert f() == 15\n    assert f() < 3\n",
    ),
    "own files": (
        "def f(text): return text.upper()",
        "def test_a(tmp_path):\n    path = tmp_path / 'x'\n    path.write_text(f('a'))\n    assert path.read_text() == 'A'\n",
    ),
    "attributes and text of an exception": (
        "class Base(Exception): pass\nclass Odd(Base, KeyError):\n    def __init__(s, code):\n        super().__init__('bad')\n"
        "        s.code = code\n    def __str__(s): return f'code {s.code}'\ndef f(): raise Odd(3)",
        "import pytest\nfrom solution import Base, Odd\ndef test_a():\n    with pytest.raises(Odd, match='code 3') as e: f()\n"
        "    assert e.value.code == 3 and e.value.args == ('bad',)\n    with pytest.raises(Base): f()\n    with pytest.raises(KeyError): f()\n",
    ),
    "exceptions of the standard library": (
        "import json\ndef f(): json.loads('[')",
        "import json, pytest\ndef test_a():\n    with pytest.raises(json.JSONDecodeError) as e: f()\n    assert e.value.pos == 1\n",
    ),
    "the file of an error": (
        "def f(): open('absent.txt')",
        "import pytest\ndef test_a():\n    with pytest.raises(FileNotFoundError) as e: f()\n"
        "    assert e.value.filename == 'absent.txt' and e.value.errno == 2 and str(e.value).endswith(\"'absent.txt'\")\n",
    ),
    "one object": (
        "from enum import Enum\nclass Color(Enum):\n    RED = 1\nclass One:\n    it = None\n    def __new__(cls):\n"
        "        cls.it = cls.it or object.__new__(cls)\n        return cls.it\nclass Two: pass\ndef f(): pass",
        "from solution import Color, One, Two\ndef test_a():\n    assert One() is One() and Two() is not Two()\n"
        "    assert Color['RED'] is Color.RED is Color(1)\n",
    ),
    "the error in a with": (
        "from contextlib import contextmanager\nclass T:\n    def __init__(self): self.log = []\n    def __enter__(self): return self\n"
        "    def __exit__(self, kind, error, trace): self.log.append(str(error) if kind else 'done')\n"
        "@contextmanager\ndef f():\n    try: yield\n    except KeyError as error: raise RuntimeError('so') from error",
        "import pytest\nfrom solution import T\ndef test_a():\n    t = T()\n    with pytest.raises(ValueError, match='no'):\n"
        "        with t: raise ValueError('no')\n    with t: pass\n    assert t.log == ['no', 'done']\n"
        "    with pytest.raises(RuntimeError, match='so'):\n        with f(): raise KeyError('a')\n",
    ),
    "named tuples": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int\ndef f(p=P(0, 0)): return P(p.x + 1, p.y)",
        "from solution import P\ndef test_a():\n    p = f()\n    assert p.x == 1 and p == (1, 0) and p._asdict() == {'x': 1, 'y': 0}\n"
        "    assert f(p).x == 2\n",
    ),
    "the seed": (
        "import random\ndef f(): return [random.random() for _ in range(3)]",
        "import random\ndef test_a():\n    random.seed(7)\n    a = f()\n    random.seed(7)\n    assert a == f() != f()\n"
        "    random.seed(7)\n    assert a == [random.random() for _ in range(3)]\n",
    ),
    "the seed of numpy": (
        "import numpy as np\ndef f(): return np.random.rand(3).tolist()",
        "import numpy as np\ndef test_a():\n    np.random.seed(7)\n    a = f()\n    np.random.seed(seed=7)\n    assert a == f() != f()\n"
        "    np.random.seed(7)\n    assert a == np.random.rand(3).tolist()\n",
    ),
    "the docstring": (
        "def f():\n    'Gives 1.'\n    return 1\ndef g(): pass",
        "from solution import g\ndef test_a():\n    assert f.__doc__ == 'Gives 1.' and g.__doc__ is None\n",
    ),
    "arrays": (
        "import numpy as np\ndef f(a):\n    a += 1\n    return a.reshape(2, 2) * 2.0",
        "import numpy as np\ndef test_a():\n    a = np.arange(4, dtype=np.int16)\n    r = f(a)\n    assert r.shape == (2, 2) and r.dtype == float\n"
        "    assert a.tolist() == [1, 2, 3, 4] and a.dtype == np.int16\n    np.testing.assert_allclose(r, [[2, 4], [6, 8]])\n",
    ),
}


@pytest.mark.parametrize("name", SURROUNDED)
def test_what_the_tests_change_and_ask_crosses(report: Report, name: str) -> None:
    source, file = SURROUNDED[name]
    tests = report(source, pytests("from solution import f\n" + file))
    if "not installed" in tests.message:
        pytest.skip("no pytest in this image")
    assert (tests.all_passed, tests.trusted) == (True, True), tests


def test_a_value_of_the_program_that_stays_as_it_was_needs_nothing(report: Report) -> None:
    check = "def check(c):\n    assert c(1) in table\n    assert c(2) in table"
    beside = report("table = [1]\ndef f(a): return a", asserts(check, "f"))
    assert (beside.needs_inside, beside.tests_passed) == (False, 1)


def test_a_value_that_changes_and_that_no_test_speaks_of_needs_nothing(report: Report) -> None:
    source = "seen = {}\ndef f(a):\n    seen[a] = 1\n    return a"
    for file, needs_inside in (("assert f(1) == 2", False), ("assert f(1) == 1 and seen == {1: 1}", True)):
        tests = report(source, pytests(f"from solution import *\ndef test_a():\n    {file}\n"))
        if "not installed" in tests.message:
            pytest.skip("no pytest in this image")
        assert (tests.needs_inside, tests.tests_passed) == (needs_inside, 0)


def test_what_cannot_cross_is_named_and_runs_inside_less_trusted(report: Report) -> None:
    source = "def total(node):\n    return node.v + (total(node.next) if node.next else 0)"
    check = (
        "class Node:\n    def __init__(s, v, n=None): s.v, s.next = v, n\n"
        "def check(c):\n    assert c(Node(1, Node(2))) == 3\n"
    )
    beside = report(source, asserts(check, "total"))
    assert (beside.needs_inside, beside.all_passed) == (True, False)
    inside = report(source, asserts(check, "total", inside=True))
    assert (inside.trusted, inside.all_passed) == (False, True)


@pytest.mark.parametrize(
    "check",
    [
        "import inspect\ndef check(c):\n    assert list(inspect.signature(c).parameters) == ['a', 'b']",
        "def check(c):\n    assert c.__code__.co_argcount == 2",
        "def check(c):\n    assert c.__annotations__ == {'a': int}",
        "def check(c):\n    assert type(c(1, 2)).__name__ == 'Sum'",
        "def check(c):\n    assert type(c(1, 2)) is Sum",
        "def check(c):\n    c(1, 2)\n    assert log == [1]",
    ],
)
def test_what_only_the_programs_process_can_say_is_named(report: Report, check: str) -> None:
    source = (
        "log = []\nclass Sum:\n    def __init__(s, v): s.v = v\n"
        "def f(a: int, b=0):\n    log.append(a)\n    return Sum(a + b)\ndel f.__annotations__['a']\n"
        "f.__annotations__['a'] = int\n"
    )
    beside = report(source, asserts(check, "f"))
    assert (beside.needs_inside, beside.all_passed) == (True, False)
    assert report(source, asserts(check, "f", inside=True)).all_passed


def test_a_file_of_the_tests_is_out_of_the_programs_reach_and_said_so(report: Report) -> None:
    file = "from solution import f\ndef test_a(tmp_path):\n    (tmp_path / 'x').write_text('5')\n    assert f(str(tmp_path / 'x')) == '5'\n"
    source = "def f(path): return open(path).read()"
    beside = report(source, pytests(file))
    if "not installed" in beside.message:
        pytest.skip("no pytest in this image")
    assert (beside.needs_inside, beside.all_passed) == (True, False)
    inside = report(source, pytests(file, inside=True))
    assert (inside.trusted, inside.all_passed) == (False, True)
