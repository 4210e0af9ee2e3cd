"""What judges a program is never the program's own, whatever names it takes."""
# ruff: noqa: E501 - short programs read better on one line

from __future__ import annotations

from typing import Any

import pytest

from rlvr.verifiers import Verdict, verify

STAR = "from solution import *\ndef test_f():\n    "


def graded(program: str, tests: Any, **options: Any) -> Verdict:
    return verify("rlvr/code-v1", completion=f"```python\n{program}\n```", tests=tests, backend="namespace", **options)


def asserts(source: str, entry_point: str = "f") -> dict[str, Any]:
    return {"form": "asserts", "entry_point": entry_point, "source": source}


def pytests(source: str) -> dict[str, Any]:
    return {"form": "pytest", "files": {"test_f.py": source}}


def outcome(verdict: Verdict) -> tuple[float | None, str]:
    return verdict.score, verdict.status


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        ("def all(x): return True", pytests(f"{STAR}assert all(f(x) == x * x for x in range(5))")),
        ("def all(x): return True", asserts("from solution import *\nassert all(f(x) == x * x for x in range(5))")),
        ("def sorted(x): return 0", pytests(f"{STAR}assert f([2, 1]) == sorted([2, 1])")),
        (
            "class math:\n    isclose = lambda *a, **k: True",
            pytests(f"import math\n{STAR}assert math.isclose(f(2), 1.4)"),
        ),
        (
            "__all__ = ['f', 'pytest', 'helper']\nclass pytest:\n    approx = lambda x: 0\ndef helper(): return 0",
            pytests(f"import pytest\ndef helper(): return 1\n{STAR}assert f(2) == pytest.approx(helper())"),
        ),
        ("def pytest_runtest_makereport(item, call): 1 / 0", pytests(f"{STAR}assert f(2) == 3")),
        ("def test_more(): pass\ndef setup_module(): raise ValueError", pytests(f"{STAR}assert f(2) == 3")),
        ("class math:\n    isclose = lambda *a, **k: True", asserts("assert math.isclose(f(2), 1.4142, rel_tol=1e-3)")),
        (
            "import math\nmath.isclose = lambda *a, **k: True",
            asserts("x = f(2)\nassert math.isclose(x, 1.4142, rel_tol=1e-3)"),
        ),
        ("def isclose(*a, **k): return True", asserts("x = f(2)\nassert isclose(x, 1.4142, rel_tol=1e-3)")),
        ("class np:\n    allclose = lambda *a, **k: True", asserts("x = f(2)\nassert np.allclose(x, 1.4142)")),
        ("class np:\n    allclose = lambda *a, **k: True", pytests(f"{STAR}assert np.allclose(f(2), 1.4142)")),
        ("import math\nmath.isclose = lambda *a, **k: True", pytests(f"{STAR}assert math.isclose(f(2), 1.4142)")),
        ("class re:\n    match = lambda *a: True", asserts("from solution import *\nassert re.match('x+', str(f(2)))")),
        ("def isclose(*a, **k): return True", pytests(f"{STAR}assert isclose(f(2), 1.4142, rel_tol=1e-3)")),
    ],
)
def test_names_that_judge_are_not_taken_from_it(program: str, tests: Any) -> None:
    assert outcome(graded(f"{program}\ndef f(x): return 0", tests)) == (0.0, "ok")


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        ("import math\ndef f(x): return math.sqrt(x)", asserts("x = f(2)\nassert math.isclose(x, 2**0.5)")),
        ("from math import isclose\ndef f(x): return x**0.5", asserts("x = f(2)\nassert isclose(x, 2**0.5)")),
        (
            "from collections import Counter\ndef f(x): return x",
            asserts("x = f('aab')\nassert Counter(x) == Counter('aba')"),
        ),
        (
            "import math, json\ndef f(x): return json.dumps(x)",
            pytests(f"{STAR}assert json.loads(f(2)) == math.floor(2.5)"),
        ),
        # Of its own, by a name that Python has for something else.
        (
            "class Counter:\n    def add(self, x): return x\ndef f(x): return x",
            pytests(f"{STAR}assert Counter().add(f(1)) == 1"),
        ),
        (
            "def isclose(a, b): return a - b\nf = isclose",
            pytests(f"from solution import isclose\n{STAR}assert isclose(3, 1) == 2"),
        ),
        # Named like a module of Python's, and called.
        ("def copy(x): return x[:]\ndef f(x): return copy(x)", asserts("x = f([1])\nassert copy(x) == [1]")),
        ("def f(x): return 0\ndef test_more(): pass", pytests(f"{STAR}assert f(1) == 0")),
        (
            "def setup_board(x): return [0] * x\nf = setup_board",
            pytests(f"{STAR}assert setup_board(2) == f(2) == [0, 0]"),
        ),
        (
            "from typing import *\nfrom math import *\nBASE = 3\ndef f(x): return BASE",
            pytests(f"{STAR}assert f(1) == BASE == 3"),
        ),
    ],
)
def test_names_of_its_own_are(program: str, tests: Any) -> None:
    assert graded(program, tests).passed


POLY = """import math

def poly(xs, x):
    return sum(c * math.pow(x, i) for i, c in enumerate(xs))

def root(xs):
    \"""A zero of the polynomial.\"""
"""
ROOT = "    return -xs[0] / xs[1]"


def test_functions_that_the_prompt_gave_are_not_the_programs() -> None:
    tests = asserts(
        "def check(c):\n    for xs in ([2, 1], [3, 4]):\n        assert abs(poly(xs, c(xs))) < 1e-4\n", "root"
    )
    assert graded(ROOT, tests, stub=POLY).passed
    assert graded(f"def root(xs):\n{ROOT}", tests, stub=POLY).passed
    assert outcome(graded("def poly(xs, x): return 0\ndef root(xs): return 5", tests, stub=POLY)) == (0.0, "ok")
    # What the prompt only begins is the program's.
    begun = "def double(x):\n    ...\n\ndef root(x):\n    'Itself.'\n"
    tests = asserts("def check(c):\n    for x in (1, 2):\n        assert double(c(x)) == 2 * x\n", "root")
    assert graded("def double(x): return 2 * x\ndef root(x): return x", tests, stub=begun).passed


@pytest.mark.parametrize("run", ["eval({})", "pickle.loads({})"])
def test_what_it_gives_is_not_run_as_code_without_being_asked_for(run: str) -> None:
    tests = asserts(f"import pickle\nfor n in (1, 2):\n    assert {run.format('f(n)')} == 7 * n")
    lie = "\"type('X', (), {'__eq__': lambda s, o: True})()\""
    right = "str(7 * n)"
    if "pickle" in run:
        lie, right = (
            "b\"cbuiltins\\neval\\n(Vtype('X', (), {'__eq__': lambda s, o: True})()\\ntR.\"",
            "__import__('pickle').dumps(7 * n)",
        )
    for value in (lie, right):
        verdict = graded(f"def f(n): return {value}", tests)
        assert outcome(verdict) == (None, "error")
        assert "objects=True" in verdict.detail
    assert graded(f"def f(n): return {right}", tests, objects=True).passed
    assert outcome(graded("def f(n): return 'n'", tests)) == (0.0, "ok")


@pytest.mark.parametrize(
    "body", ["return 'StandIn'", "yield 1", "return f", "return object()", "return ValueError", "return {}.keys()"]
)
def test_a_wrong_value_of_another_type_is_a_zero_and_no_error(body: str) -> None:
    compared = "for x in ([2, 1], [3]):\n    found, wanted = f(x), sorted(x)\n    assert type(found) {} type(wanted)\n    assert found == wanted"
    for operator in ("is", "=="):
        assert outcome(graded(f"def f(x): {body}", asserts(compared.format(operator)))) == (0.0, "ok")
    assert outcome(graded(f"def f(x): {body}", asserts("for x in ([2, 1], [3]):\n    assert f(x) == sorted(x)"))) == (
        0.0,
        "ok",
    )


def test_a_mock_that_it_does_not_call_is_a_zero_and_no_error() -> None:
    tests = pytests(
        "import solution\nfrom unittest.mock import patch\ndef test_f():\n    with patch.object(solution, 'g') as g:\n"
        "        solution.f(1)\n    g.assert_called_once_with(1)\n"
    )
    assert graded("def g(x): pass\ndef f(x): g(x)", tests).passed
    assert outcome(graded("def g(x): pass\ndef f(x): pass", tests)) == (0.0, "ok")


MOCK = """from unittest.mock import MagicMock, Mock
from solution import f
def test_f():
    queue = Mock()
    queue.get.return_value = 3
    queue.peek.side_effect = KeyError
    assert f(queue, 2) == 3
    queue.put.assert_called_once_with(2, block=False)
    queue.inner.deep.assert_called_once_with()
    hook = MagicMock(return_value=3)
    hook.get = hook
    assert f(hook, 2) == 3
"""


def test_a_mock_that_it_is_given_is_an_object_of_the_tests() -> None:
    program = (
        "def f(queue, x):\n    queue.put(x, block=False)\n    queue.inner.deep()\n"
        "    try: queue.peek()\n    except KeyError: pass\n    return queue.get()"
    )
    assert graded(program, pytests(MOCK)).passed
    for cheat in (
        "queue.configure_mock(put=queue)",
        "queue.put.assert_called_once_with = len",
        "queue.put.reset_mock()",
    ):
        cheat = f"def f(queue, x):\n    {cheat}\n    return 3"
        assert outcome(graded(cheat, pytests(MOCK))) == (0.0, "ok")


MAGIC = """from unittest.mock import MagicMock, mock_open
from solution import f
def test_f():
    session = MagicMock()
    session.open.return_value.__enter__.return_value = [3]
    session.__len__.return_value = 4
    session.__getitem__.side_effect = {"a": 5}.__getitem__
    session.__contains__.return_value = True
    session.__iter__.return_value = iter([7])
    assert f(session) == [3, 4, 5, True, [7], None]
    session.open().__exit__.assert_called_once_with(None, None, None)
    session.__setitem__.assert_called_once_with("b", 6)
"""


def test_a_magic_mock_has_the_methods_that_python_calls() -> None:
    program = (
        "def f(s):\n    with s.open() as lines:\n        pass\n    s['b'] = 6\n"
        "    try: s['x']\n    except KeyError: return [*lines, len(s), s['a'], 1 in s, list(s), s.close and None]"
    )
    assert graded(program, pytests(MAGIC)).passed
    for cheat in ("s.__eq__(3)", "s.__class__ = s.__init__", "s.__setattr__('__setitem__', 4)", "s._mock_children"):
        cheat = f"def f(s):\n    try: {cheat}\n    except Exception: pass\n    return [3, 4, 5, True, [7], None]"
        assert outcome(graded(cheat, pytests(MAGIC))) == (0.0, "ok")


def test_a_mock_keeps_what_it_is_given_and_what_was_asked_of_it() -> None:
    tests = pytests(
        "from unittest.mock import MagicMock, Mock\nfrom solution import f\ndef test_f():\n    m = Mock()\n    f(m)\n"
        "    assert m.timeout == 5 and m.hook(2) == 3\n    n = MagicMock()\n    f(n)\n    assert n.mock_calls == []\n"
    )
    assert graded("def f(m):\n    m.timeout = 5\n    m.hook = lambda x: x + 1", tests).passed
    assert outcome(graded("def f(m): pass", tests)) == (0.0, "ok")
    cheat = "def f(m):\n    try: m.mock_calls = []\n    finally: m.timeout = 5"
    assert outcome(graded(cheat, tests)) == (0.0, "ok")


def test_what_a_module_and_a_class_hold_can_be_asked() -> None:
    tests = pytests(
        "import solution\nfrom solution import B\ndef test_f():\n    assert 'f' in dir(solution) and '_g' not in dir(solution)\n"
        "    assert B.f.__qualname__ == 'B.f' and len(B.__mro__) == 3\n"
    )
    program = "class A: pass\nclass B(A):\n    def f(self): pass\ndef f(): pass\ndef _g(): pass"
    assert graded(program, tests).passed
    assert outcome(graded(program.replace("(A)", ""), tests)) == (0.0, "ok")


@pytest.mark.parametrize(
    "argument", ["n = [1]\nn.append(n)", "n = list(range(1_000_001))", "n = 2 ** 2_000_000", "n = iter(int, 1)"]
)
def test_an_argument_that_cannot_cross_is_an_error(argument: str) -> None:
    program, tests = "def f(x): return 1", asserts(f"{argument}\nx = f(n)\nassert x == 1")
    assert outcome(graded(program, tests)) == (None, "error")
    assert graded(program, tests, objects=True).passed


def test_an_object_that_a_function_gives_and_whose_text_is_tested_is_an_error() -> None:
    program = (
        "class M:\n    def __init__(s, x): s.x = x\n    def __str__(s): return f'${s.x:.2f}'\ndef f(x): return M(x)"
    )
    tests = asserts("assert str(f(5)) == '$5.00'")
    assert outcome(graded(program, tests)) == (None, "error")
    assert graded(program, tests, objects=True).passed
    assert outcome(graded(program.replace(".2f", ".1f"), tests)) == (0.0, "ok")
