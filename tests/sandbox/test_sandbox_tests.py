"""Tests that run beside a program: what it can do to be paid without solving."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

import pytest

from rlvr.sandbox import Box, Program, TestProgram, TestReport

CHECK = """
def check(candidate):
    assert candidate(1, 2) == 3
    assert candidate(-5, 5) == 0, "zero"
    for n in range(20):
        assert candidate(n, n) == 2 * n
"""
PYTEST = """
import pytest
from solution import add

@pytest.mark.parametrize("n", range(3))
def test_sum(n):
    assert add(n, 1) == n + 1

def test_mixed():
    with pytest.raises(TypeError):
        add(1, "a")
"""
RIGHT = "def add(a, b):\n    return a + b\n"


def asserts(source: str = CHECK, entry_point: str = "add", inside: bool = False) -> TestProgram:
    return TestProgram("asserts", source=source, entry_point=entry_point, inside=inside)


def pytests(source: str = PYTEST, inside: bool = False) -> TestProgram:
    return TestProgram("pytest", files={"test_add.py": source}, inside=inside)


def report(box: Box, source: str, test: TestProgram) -> TestReport:
    tests = box.run(Program(source, test=test)).tests
    assert tests is not None
    return tests


def test_a_right_solution_passes(box: Box) -> None:
    tests = report(box, RIGHT, asserts())
    assert (tests.tests_run, tests.tests_passed, tests.completed, tests.trusted) == (3, 3, True, True)
    assert tests.all_passed
    assert tests.passed_names == ("assert 1 (line 3)", "assert 2 (line 4)", "assert 3 (line 6)")


def test_a_wrong_one_fails_and_says_where(box: Box) -> None:
    tests = report(box, "def add(a, b): return a + b + (b == 5)", asserts())
    assert (tests.tests_run, tests.tests_passed, tests.completed) == (3, 1, True)
    assert tests.first_failure == "assert 2 (line 4)"
    assert tests.message == "candidate(-5, 5) == 0: 1 against 0; zero"


def test_assert_statements_without_check(box: Box) -> None:
    tests = report(box, RIGHT + "SIZE = 4", asserts("assert add(1, 2) == 3\nassert add(SIZE, 2) == 7", ""))
    assert (tests.tests_run, tests.tests_passed, tests.first_failure) == (2, 1, "assert 2 (line 2)")


ATTACKS = {
    "sys.exit": "import sys\nsys.exit(0)",
    "os._exit": "import os\nos._exit(0)",
    "os._exit in the call": "import os\ndef add(a, b): os._exit(0)",
    "SystemExit in the call": "def add(a, b): raise SystemExit(0)",
    "kill itself": "import os\ndef add(a, b): os.kill(os.getpid(), 9)",
    "kill everything": "import os\ndef add(a, b):\n    for p in range(1, 100):\n        try: os.kill(p, 9)\n        except OSError: pass",
    "lying object": "class Any:\n    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n"
    "    __hash__ = None\ndef add(a, b): return Any()",
    "lying int": "class Any(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef add(a, b): return Any(77)",
    "lying operators": "class Any:\n    __sub__ = __rsub__ = __add__ = lambda s, o: 0\n    __abs__ = lambda s: 0\n"
    "    __eq__ = lambda s, o: True\ndef add(a, b): return Any()",
    "exception that is an assertion": "def add(a, b): raise AssertionError",
    "stop iteration": "def add(a, b): raise StopIteration",
    "patched builtins": "import builtins\nbuiltins.len = builtins.abs = builtins.all = builtins.isinstance = lambda *a: True\n"
    "builtins.print = builtins.__import__ = lambda *a, **k: None\ndef add(a, b): return None",
    "patched pytest": "import sys, types\nfor n in ('pytest', '_pytest', 'unittest'): sys.modules[n] = types.ModuleType(n)\n"
    "open('conftest.py', 'w').write('def pytest_runtest_makereport(item, call): call.excinfo = None')\ndef add(a, b): return None",
    "forged answers": "import os\ndef add(a, b):\n    for d in range(3, 10):\n        try: os.write(d, b'T\\0\\0\\0\\x10[\"t\", true, \"\"]  ' + b'Z\\0\\0\\0\\x13[true, true, false]')\n"
    "        except OSError: pass\n    os._exit(0)",
    "nonsense answers": "import os\ndef add(a, b):\n    os.write(5, b'x' * 1000)\n    os._exit(0)",
    "deep answers": "import os\ndef add(a, b):\n    os.write(5, b'C\\0\\0\\x40\\0' + b'[' * 0x4000)\n    os._exit(0)",
    "reads the tests": "import glob, os\ndef add(a, b):\n    for d in ('/tmp', '.', '/proc/1/root/tmp'):\n        for r, _, n in os.walk(d):\n"
    "            for f in n:\n                if 'test' in f: return b\n    return None",
    "frames and gc": "import sys, gc, re\ndef add(a, b):\n    f = sys._getframe()\n    while f:\n        if any(re.search('candidate[(]1', str(v)) for v in f.f_locals.values()): return a + b\n"
    "        f = f.f_back\n    for o in gc.get_objects():\n        if isinstance(o, dict) and callable(o.get('check')): return a + b",
    "memory": "import re\ndef add(a, b):\n    m = open('/proc/self/mem', 'rb')\n    for l in open('/proc/self/maps'):\n        x, y = (int(v, 16) for v in l.split()[0].split('-'))\n"
    "        try:\n            m.seek(x)\n            if re.search(b'candidate[(]1, 2[)] ==|def test_[m]ixed', m.read(y - x)): return a + b\n        except (OSError, ValueError, OverflowError): pass",
    "prints success": "print('1 passed'); print('OK')\ndef add(a, b): print('PASSED')",
    "a class": "class add:\n    def __init__(self, a, b): pass\n    def __eq__(self, o): return True",
    "generator": "def add(a, b):\n    yield a + b",
    "equal to everything by contains": "class Any:\n    __contains__ = __eq__ = lambda s, o: True\ndef add(a, b): return Any()",
    "threads": "import threading, os, time\ndef t():\n    time.sleep(0.01)\n    os._exit(0)\nthreading.Thread(target=t).start()\ndef add(a, b): return None",
    "fork and leave": "import os\nif os.fork(): os._exit(0)\ndef add(a, b): return None",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\nraise ValueError",
    "callable": "def add(a, b): return lambda *x: True",
}


@pytest.mark.parametrize("test", [asserts(), pytests()], ids=["asserts", "pytest"])
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_is_paid(box: Box, name: str, test: TestProgram) -> None:
    tests = report(box, ATTACKS[name], test)
    assert not tests.all_passed, tests
    assert tests.tests_passed == 0 or (test.form == "pytest" and tests.passed_names == ("test_add.py::test_mixed",)), (
        tests
    )


def test_the_expected_value_is_not_handed_to_an_operator_unmarked(box: Box) -> None:
    source = (
        "class Any:\n    def __init__(s): s.v = 0\n    __rsub__ = __sub__ = lambda s, o: 0\ndef add(a, b): return Any()"
    )
    tests = report(box, source, asserts("def check(c):\n    assert abs(c(1, 2) - 3) < 1e-6"))
    assert not tests.trusted


def test_a_call_cannot_end_a_loop_of_the_tests(box: Box) -> None:
    check = "def check(c):\n    assert all(map(lambda n: c(n, n) == 2 * n, range(5)))"
    tests = report(box, "def add(a, b): raise StopIteration", asserts(check))
    assert not tests.all_passed


def test_pytest(box: Box) -> None:
    tests = report(box, RIGHT, pytests())
    if "not installed" in tests.message:
        pytest.skip("no pytest in this image")
    assert (tests.tests_run, tests.tests_passed, tests.completed, tests.trusted) == (4, 4, True, True)


def test_skipped_and_expected_failures_are_not_passed(box: Box) -> None:
    source = (
        "import pytest\nfrom solution import *\ndef test_a(): assert add(1, 1) == 2\n@pytest.mark.skip\ndef test_b(): pass\n"
        "@pytest.mark.xfail\ndef test_c(): assert add(1, 1) == 3\n@pytest.mark.xfail\ndef test_d(): assert add(1, 1) == 2\n"
    )
    tests = report(box, RIGHT, pytests(source))
    if "not installed" in tests.message:
        pytest.skip("no pytest in this image")
    assert (tests.tests_run, tests.tests_passed, tests.completed) == (4, 1, True)


@pytest.mark.parametrize("source", ["def test_a(: pass", "import absent", "x = 1"])
def test_tests_that_cannot_run_are_no_success(box: Box, source: str) -> None:
    assert not report(box, RIGHT, pytests(source)).completed


def test_arguments_are_changed_in_place(box: Box) -> None:
    source = "def fill(items, table):\n    items.append(len(items))\n    table['x'] = 1\n    items.sort(reverse=True)"
    check = "def check(c):\n    a, b = [0, 5], {}\n    assert c(a, b) is None\n    assert a == [5, 2, 0]\n    assert b == {'x': 1}"
    assert report(box, source, asserts(check, "fill")).all_passed


def test_functions_of_the_tests_can_be_handed_over(box: Box) -> None:
    source = "def apply(f, xs):\n    return sorted((f(x) for x in xs), key=lambda v: -v)"
    check = "def check(c):\n    assert c(lambda x: x * x, [1, 3, 2]) == [9, 4, 1]\n    assert c(abs, (-1, 2)) == [2, 1]"
    assert report(box, source, asserts(check, "apply")).all_passed


def test_objects_of_the_programs_classes_stay_with_it(box: Box) -> None:
    source = (
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
        "    def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)\n"
        "    def __iter__(self): return iter(self.items)\n"
    )
    check = (
        "s = Stack()\ns.push(3)\ns.push([4])\nassert len(s) == 2\nassert list(s) == [3, [4]]\nassert s.items == [3, [4]]\n"
        "assert s.pop() == [4]\ns.pop()\ntry:\n    s.pop()\n    assert False\nexcept IndexError:\n    pass\n"
    )
    tests = report(box, source, asserts(check, ""))
    assert tests.tests_passed == 4
    assert tests.trusted


def test_exceptions_keep_their_classes(box: Box) -> None:
    source = "class Odd(ValueError): pass\ndef f(x):\n    if x: raise Odd('odd', x)\n    return {}['missing']"
    check = (
        "for x in (0, 1):\n    try:\n        f(x)\n        assert False\n    except KeyError as e:\n        assert x == 0 and e.args == ('missing',)\n"
        "    except Odd as e:\n        assert isinstance(e, ValueError) and e.args == ('odd', 1)\n"
    )
    tests = report(box, source, asserts(check, ""))
    assert (tests.tests_run, tests.tests_passed) == (2, 2), tests


def test_what_cannot_cross_is_named_and_runs_inside_less_trusted(box: Box) -> None:
    source = "def total(node):\n    return node.v + (total(node.next) if node.next else 0)"
    check = (
        "class Node:\n    def __init__(s, v, n=None): s.v, s.next = v, n\n"
        "def check(c):\n    assert c(Node(1, Node(2))) == 3\n"
    )
    beside = report(box, source, asserts(check, "total"))
    assert (beside.needs_inside, beside.all_passed) == (True, False)
    inside = report(box, source, asserts(check, "total", inside=True))
    assert (inside.trusted, inside.all_passed) == (False, True)


def test_an_endless_call_fails_in_time(box: Box) -> None:
    result = box.run(
        Program("def add(a, b):\n    while True: pass", test=asserts()), box.limits.with_changes(wall_seconds=1.0)
    )
    assert result.status == "wall_limit"
    assert result.tests is not None
    assert not result.tests.all_passed
    assert result.wall_seconds < 2.5


def test_output_of_the_program_is_kept(box: Box) -> None:
    result = box.run(
        Program("def add(a, b):\n    print('adding')\n    return a + b", test=asserts("assert add(1, 2) == 3"))
    )
    assert result.stdout == b"adding\n"
