"""Tests of the forms `asserts` and `pytest` as people write them: what passes, what fails, and what nobody can pass."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

from typing import Any

import pytest

from rlvr.verifiers import UserError, Verdict, verify
from rlvr.verifiers.code_fields import parsed
from rlvr.verifiers.code_pytest import count_tests
from rlvr.verifiers.code_reach import beyond_pytest
from rlvr.verifiers.code_tests import read_tests

PLUS_ONE = "def f(x):\n    return x + 1"
IMPORT = "from solution import f\n"


def graded(program: str, tests: Any, **options: Any) -> Verdict:
    return verify("rlvr/code-v1", completion=f"<think>hm</think>\n```python\n{program}\n```", tests=tests, **options)


def asserts(source: str, entry_point: str = "f") -> dict[str, Any]:
    return {"form": "asserts", "entry_point": entry_point, "source": source}


def pytests(source: str) -> dict[str, Any]:
    return {"form": "pytest", "files": {"test_f.py": source}}


def outcome(verdict: Verdict) -> tuple[float | None, str]:
    return verdict.score, verdict.status


@pytest.mark.parametrize(
    ("program", "check"),
    [
        ("def f(x): return x", "try:\n        f(-1)\n    except ValueError as e:\n        assert str(e) == 'neg'"),
        ("def f(x): raise ValueError", "try:\n        assert f(5) == 6\n    except ValueError:\n        pass"),
        (
            "def f(x): return []",
            "try:\n        for d in f(12):\n            assert 12 % d == 0\n    finally:\n        pass",
        ),
    ],
)
def test_a_run_that_asserted_nothing_is_not_passed(program: str, check: str) -> None:
    assert outcome(graded(program, asserts(f"def check(f):\n    {check}\n"))) == (0.0, "ok")


@pytest.mark.parametrize(
    "check",
    [
        "assert f(1) == 2\n    try:\n        f(-1)\n    except ValueError:\n        return\n    assert False",
        "assert f(1) == 2\n    for n in range(3):\n        if f(n) == n + 1:\n            continue\n        assert False",
    ],
)
def test_an_assertion_that_must_not_be_reached_is_not_missed(check: str) -> None:
    right = "def f(x):\n    if x < 0:\n        raise ValueError\n    return x + 1"
    assert graded(right, asserts(f"def check(f):\n    {check}\n")).passed
    assert graded("def f(x):\n    return 2", asserts(f"def check(f):\n    {check}\n")).score == 0.0


@pytest.mark.parametrize(
    "source",
    [
        "def check():\n    assert f(1) == len('ab')",
        "def test_f():\n    assert f(1) == 2\nif __name__ == '__main__':\n    test_f()",
    ],
)
def test_assertions_are_found_as_a_script_has_them(source: str) -> None:
    assert graded(PLUS_ONE, asserts(source)).passed
    assert outcome(graded("def f(x): return x", asserts(source))) == (0.0, "ok")


def test_assertions_that_nothing_calls_are_refused() -> None:
    with pytest.raises(UserError, match="a function that nothing calls"):
        read_tests(asserts("def test_f():\n    assert f(1) == 2"))


STARRED = """
import logging, re
from typing import List, TypeVar

T, PATTERN, LOG = TypeVar("T"), re.compile("a"), logging.getLogger("x")

class Thing:
    pass

THING = Thing()

def f(xs: List[int]):
    return sorted(xs)
"""


def test_what_a_program_has_beside_its_functions_does_not_matter() -> None:
    tests = pytests("from solution import *\n\ndef test_f():\n    assert f([2, 1]) == [1, 2]\n")
    assert graded(STARRED, tests).passed
    assert outcome(graded(STARRED.replace("sorted", "list"), tests)) == (0.0, "ok")


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("class Cases:\n    def test_data(self): return [(1, 2)]\ndef test_f():\n    assert f(1) == 2", 1),
        ("def test_f(): assert f(1) == 2\ndef test_f(): assert f(2) == 3", 1),
        ("class TestF:\n    def __init__(self): pass\n    def test_a(self): pass\ndef test_f(): assert f(2) == 3", 1),
        ("class TestF:\n    __test__ = False\n    def test_a(self): pass\ndef test_f(): assert f(2) == 3", 1),
        (
            "class TestF:\n    def test_f(self): assert f(2) == 3\nclass TestF:\n    def test_f(self): assert f(1) == 2",
            1,
        ),
        (
            "import pytest\n@pytest.fixture\ndef test_data(): return 2\ndef test_f(test_data): assert f(1) == test_data",
            1,
        ),
        ("import unittest\nclass Cases(unittest.TestCase):\n    def test_f(self): assert f(1) == 2", 1),
        ("if True:\n    def test_f(): assert f(2) == 3", 0),
        ("for n in range(3):\n    globals()[f'test_{n}'] = lambda n=n: f(n) == n + 1 or 1 / 0", 0),
    ],
)
def test_no_more_tests_are_asked_for_than_pytest_finds(source: str, count: int) -> None:
    assert count_tests(parsed(source, "")) == count
    assert graded(PLUS_ONE, pytests(IMPORT + source)).passed
    assert graded("def f(x): return 7", pytests(IMPORT + source)).score == 0.0


@pytest.mark.parametrize("mark", ["pytest.mark.skip", "pytest.mark.skip(reason='later')", "pytest.mark.xfail"])
def test_tests_that_no_program_can_pass_are_refused(mark: str) -> None:
    with pytest.raises(UserError, match="has the test 'test_f' with @pytest"):
        read_tests(pytests(f"import pytest\n{IMPORT}@{mark}\ndef test_f():\n    assert f(1) == 2\n"))


THREADS = "from concurrent.futures import ThreadPoolExecutor\n"
POOL = "with ThreadPoolExecutor(4) as pool:\n        assert list(pool.map(f, range(40))) == list(range(1, 41))\n"


@pytest.mark.parametrize(
    "tests",
    [asserts(f"{THREADS}def check(f):\n    {POOL}"), pytests(f"{THREADS}{IMPORT}def test_f():\n    {POOL}")],
    ids=["asserts", "pytest"],
)
def test_tests_may_call_from_several_threads(tests: dict[str, Any]) -> None:
    assert graded(PLUS_ONE, tests).passed
    assert graded("def f(x): return x + (x != 30)", tests).score == 0.0


def test_the_end_that_a_program_asks_for_can_be_expected() -> None:
    program = "import sys\ndef f(x):\n    if x:\n        sys.exit(x)\n    return 0"
    source = f"import pytest\n{IMPORT}def test_f():\n    with pytest.raises(SystemExit) as e:\n        f(3)\n    assert e.value.code == 3\n"
    assert graded(program, pytests(source)).passed
    assert graded(program.replace("exit(x)", "exit(2)"), pytests(source)).score == 0.0
    # It is the end of that test alone.
    several = asserts("def check(f):\n    for n in range(4):\n        assert f(n) == 0\n    assert f(0) == 0\n")
    assert graded(program, several, score="share").score == 0.5


@pytest.mark.parametrize("mark", ["", "@pytest.mark.asyncio\n"])
def test_coroutines_are_tests(mark: str) -> None:
    source = f"import pytest\n{IMPORT}@pytest.fixture\ndef two(): return 2\n{mark}async def test_f(two):\n    assert await f(1) == two\n"
    assert graded("async def f(x): return x + 1", pytests(source)).passed
    assert outcome(graded("async def f(x): return x", pytests(source))) == (0.0, "ok")


def test_a_coroutine_that_a_call_gives_is_awaited() -> None:
    calls = {"form": "calls", "entry_point": "f", "cases": [{"args": [1], "expected": 2}]}
    assert graded("async def f(x): return x + 1", calls).passed
    assert graded("async def f(x): return x", calls).score == 0.0


@pytest.mark.parametrize(
    "tests",
    [
        pytests(f"{IMPORT}import absent\ndef test_f():\n    assert f(1) == 2\n"),
        asserts("import absent\ndef check(f):\n    assert f(1) == len(absent.two)\n"),
        asserts("def check(f):\n    import absent.part\n    assert f(1) == len(absent.two)\n"),
        pytests(f"{IMPORT}def test_f(mocker):\n    assert f(1) == 2\n"),
    ],
    ids=["pytest", "asserts", "check", "fixture"],
)
def test_what_is_missing_is_no_fault_of_the_program(tests: dict[str, Any]) -> None:
    for program in (PLUS_ONE, f"import absent\n{PLUS_ONE}"):
        verdict = graded(program, tests)
        missing = "mocker" if "mocker" in str(tests) else "absent"
        if missing == "absent" or program is PLUS_ONE:
            assert outcome(verdict) == (None, "error")
            assert f"{missing}" in verdict.detail


def test_a_program_cannot_say_that_something_is_missing() -> None:
    lie = "raise ModuleNotFoundError(\"No module named 'json'\")"
    assert outcome(graded(lie, pytests(f"{IMPORT}import json\ndef test_f():\n    assert f(1) == 2\n"))) == (0.0, "ok")
    optional = "try:\n    import absent\nexcept ImportError:\n    absent = None\n"
    assert outcome(graded(lie, asserts(f"{optional}def check(f):\n    assert f(1) == len('ab')\n"))) == (0.0, "ok")


BEYOND = {
    "its log": (
        "import logging\ndef f(x):\n    logging.warning('well')",
        f"{IMPORT}def test_f(caplog):\n    f(1)\n    assert 'well' in caplog.text\n",
    ),
    "warnings": (
        "import warnings\ndef f(x):\n    warnings.warn('well')",
        f"import pytest\n{IMPORT}def test_f():\n    with pytest.warns(UserWarning):\n        f(1)\n",
    ),
    "a patch of random.random": (
        "import random\ndef f(x):\n    return random.random()",
        f"import random\n{IMPORT}def test_f(monkeypatch):\n    monkeypatch.setattr(random, 'random', lambda: 2)\n    assert f(1) == 2\n",
    ),
    "a patch of time.sleep": (
        "import time\ndef f(x):\n    time.sleep(x)\n    return x",
        f"from unittest.mock import patch\n{IMPORT}@patch('time.sleep')\ndef test_f(sleep):\n    assert f(900) == 900\n",
    ),
    "importlib.reload": (
        "calls = []\ndef f(x):\n    calls.append(x)\n    return len(calls)",
        "import importlib, solution\ndef test_f():\n    assert solution.f(1) == 1\n    assert importlib.reload(solution).f(1) == 1\n",
    ),
    "its file": (
        "def f(x):\n    return 1",
        "import pathlib\ndef test_f():\n    assert 'return 1' in pathlib.Path('solution.py').read_text()\n",
    ),
    "the class of an object": (
        "class Q: pass\ndef f(x): return Q()",
        "from solution import Q\ndef test_f():\n    assert type(Q()) is Q\n    from solution import f\n    assert f(1)\n",
    ),
    "StopIteration of a function": (
        "def f(x): raise StopIteration",
        f"import pytest\n{IMPORT}def test_f():\n    with pytest.raises(StopIteration):\n        f(1)\n",
    ),
    "exceptions that do not cross": (
        "def f(x): raise KeyboardInterrupt",
        f"import pytest\n{IMPORT}def test_f():\n    with pytest.raises(KeyboardInterrupt):\n        f(1)\n",
    ),
    "what an exception came from": (
        "def f(x):\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n        raise ValueError from error",
        f"import pytest\n{IMPORT}def test_f():\n    with pytest.raises(ValueError) as info:\n        f(1)\n"
        "    assert isinstance(info.value.__cause__, ZeroDivisionError)\n",
    ),
    "its source": (
        "def f(x):\n    return 1",
        "import inspect, solution\ndef test_f():\n    assert 'return 1' in inspect.getsource(solution.f)\n",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_does_not_reach_the_program_from_another_process_is_said_so(name: str) -> None:
    program, source = BEYOND[name]
    verdict = graded(program, pytests(source), limits={"wall_seconds": 5.0})
    assert outcome(verdict) == (None, "error")
    assert name in verdict.detail
    assert "objects=True" in verdict.detail
    inside = graded(program, pytests(source), objects=True, limits={"wall_seconds": 5.0})
    assert inside.passed
    assert outcome(graded("def f(x):\n    return 0", pytests(source), objects=True)) == (0.0, "ok")


@pytest.mark.parametrize(
    "source",
    [
        "def test_f(monkeypatch):\n    monkeypatch.setattr('builtins.input', lambda: '1')",
        "from unittest.mock import patch\n@patch('solution.helper')\ndef test_f(h): pass",
        "import sys\ndef test_f(monkeypatch, capsys):\n    monkeypatch.setattr(sys, 'argv', ['x'])",
        "import solution\ndef test_f(monkeypatch):\n    monkeypatch.setattr(solution, 'LIMIT', 3)",
        "import warnings\ndef test_f():\n    with warnings.catch_warnings():\n        pass",
        "import pytest, solution\ndef test_f():\n    with pytest.raises(StopIteration):\n        next(solution.f())",
        "import solution\ndef test_f():\n    a = []\n    assert solution.f(a) is a and solution.g() is None",
        "from solution import f\ndef test_f():\n    assert type(f(1)) is list",
    ],
)
def test_what_reaches_it_is_not_refused(source: str) -> None:
    assert beyond_pytest(parsed(source, ""), "solution") == ""


@pytest.mark.parametrize(
    "body",
    [
        "q = Q()\n    q.menu.append(2)\n    assert q.total() == 2",
        "q = Q()\n    q.sizes['a'] = 3\n    assert q.total() == 3",
        "solution.BASE['a'] = 4\n    assert Q().total() == 4",
    ],
)
def test_a_copy_that_the_tests_change_is_told(body: str) -> None:
    program = (
        "BASE = {}\nclass Q:\n    def __init__(self): self.menu, self.sizes = [], {}\n"
        "    def total(self): return sum(self.menu) + sum(self.sizes.values()) + sum(BASE.values())\n"
    )
    tests = pytests(f"import solution\nfrom solution import Q\ndef test_f():\n    {body}\n")
    assert outcome(graded(program, tests)) == (None, "error")
    assert graded(program, tests, objects=True).passed
    assert outcome(graded(program.replace("sum(", "max("), tests, objects=True)) == (0.0, "ok")
    unchanged = pytests(
        "from solution import Q\ndef test_f():\n    q = Q()\n    assert q.menu == [] and q.total() == 1\n"
    )
    assert outcome(graded(program, unchanged)) == (0.0, "ok")


FILES = {
    "a file that it reads": (
        "def f(path):\n    with open(path) as file: return file.read()",
        "def f(path): return ''",
        "class T(unittest.TestCase):\n    def setUp(self):\n        self.file = 'a.txt'\n"
        "        with open(self.file, 'w') as file: file.write('q')\n    def tearDown(self): os.remove(self.file)\n"
        "    def test_f(self): self.assertEqual(f(self.file), 'q')\n",
    ),
    "a file that it writes": (
        "def f(path): open(path, 'w').write('q')",
        "def f(path): open(path, 'w').write('p')",
        "def test_f():\n    f('b.txt')\n    assert Path('b.txt').exists()\n    assert open('b.txt').read() == 'q'\n",
    ),
    "a file of another folder": (
        "def f(path): return open(path).read()",
        "def f(path): return 'p'",
        "def test_f(tmp_path, monkeypatch):\n    monkeypatch.chdir(tmp_path)\n    (tmp_path / 'd').write_text('q')\n"
        "    assert f('d') == 'q'\n",
    ),
    "a file beside folders of the tests": (
        "def f(path): open(path, 'w').write('q')",
        "def f(path): open(path, 'w').write('p')",
        "def test_f():\n    f('e.txt')\n    assert os.path.exists('e.txt')\n    assert open('e.txt').read() == 'q'\n"
        "def test_g(tmp_path):\n    assert not (tmp_path / 'x').exists()\n",
    ),
    "a file that it is not to write": (
        "def f(path): return 1",
        "def f(path): return open(path, 'w').write('q')",
        "def test_f():\n    assert f('c.txt') == 1\n    assert not os.path.exists('c.txt')\n",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_in_the_folder_are_seen_inside_alone(name: str) -> None:
    right, wrong, body = FILES[name]
    tests = pytests(f"import os, unittest\nfrom pathlib import Path\n{IMPORT}{body}")
    for program in (right, wrong):
        verdict = graded(program, tests)
        assert outcome(verdict) == (None, "error")
        assert "files in its folder); they need objects=True" in verdict.detail
    assert graded(right, tests, objects=True).passed
    assert outcome(graded(wrong, tests, objects=True)) == (0.0, "ok")


@pytest.mark.parametrize("path", ["path", "str(path)", "tmp_path"])
def test_a_file_that_the_program_is_to_make_is_out_of_its_reach(path: str) -> None:
    program = (
        "import os\ndef f(p):\n    p = os.path.join(p, 'a') if os.path.isdir(p) else p\n    open(p, 'w').write('q')"
    )
    source = (
        f"{IMPORT}def test_f(tmp_path):\n    path = tmp_path / 'a'\n    f({path})\n    assert path.read_text() == 'q'\n"
    )
    assert outcome(graded(program, pytests(source))) == (None, "error")
    assert graded(program, pytests(source), objects=True).passed


def test_a_path_that_no_file_has_crosses() -> None:
    program = "import os\ndef f(path):\n    return os.path.basename(path)"
    assert graded(program, pytests(f"{IMPORT}def test_f():\n    assert f('/tmp/a') == 'a'\n")).passed


def test_objects_that_a_class_under_test_makes_are_no_zero() -> None:
    program = "class Vec:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\n"
    program += "    def __add__(self, o): return Vec(self.x + o.x)\n"
    tests = asserts("def check(candidate):\n    assert candidate(1) + candidate(2) == candidate(3)\n", "Vec")
    assert outcome(graded(program, tests)) == (None, "error")
    assert graded(program, tests, objects=True).passed
    assert outcome(graded(program.replace("self.x + o.x", "self.x"), tests)) == (0.0, "ok")
