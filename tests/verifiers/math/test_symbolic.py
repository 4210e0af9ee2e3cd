from __future__ import annotations

import pickle
import subprocess
import sys
from fractions import Fraction

import pytest
import sympy

from rlvr.verifiers.math import equality, symbolic
from rlvr.verifiers.math.nodes import Apply, Number, Symbol


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("integral(x**2, x)", "x**3/3"),
        ("integral(x**2, x, 0, 1)", "1/3"),
        ("integral(e**(-x**2), x, -oo, oo)", "sqrt(pi)"),
        ("integral(1/x, x, 0, 1)", "oo"),
        ("derivative(x*sin(x), x)", "sin(x) + x*cos(x)"),
        ("limit(sin(x)/x, x, 0)", "1"),
        ("limit((1 + 1/n)**n, n, oo)", "e"),
        ("limit_right(1/x, x, 0)", "oo"),
        ("limit_left(1/x, x, 0)", "-oo"),
        ("sum(1/k**2, k, 1, oo)", "pi**2/6"),
        ("sum(x**k, k, 0, oo)", "1/(1 - x)"),
        ("sum(k, k, 1, oo)", "oo"),
        ("prod(k, k, 1, n)", "factorial(n)"),
        ("arctan(oo)", "pi/2"),
    ],
)
def test_closed_forms(tree, text, closed):
    found = symbolic.evaluate(tree(text))
    assert found is not None
    assert equality.same(tree(closed), found) == "yes"


@pytest.mark.parametrize("text", ["limit(1/x, x, 0)", "0/0"])
def test_what_has_no_value_is_undefined(tree, text):
    found = symbolic.evaluate(tree(text))
    assert found is not None
    assert equality.same(tree("1"), found) == "undefined"


@pytest.mark.parametrize(
    "text", ["integral(f(x), x)", "9**9**9**9", "factorial(10**7)", "integral(x**x, x)", "gcd(a, b)"]
)
def test_no_closed_form(tree, text):
    assert symbolic.evaluate(tree(text)) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("integral(2*x, x)", "x**2", True),
        ("sum((-1)**k/(2*k + 1), k, 0, oo)", "pi/4", True),
        ("derivative(x**3, x)", "3*x**2", True),
        ("derivative(x**3, x)", "3*x", False),
        ("sum(1/k**2, k, 1, oo)", "pi**2/6 + 10**(-30)", False),
        ("limit(1/x, x, 0)", "1", False),
        ("sum(k, k, 1, oo)", "5", False),
        ("integral(f(x), x)", "integral(f(y), y)", None),
    ],
)
def test_equal_at_last(tree, a, b, expected):
    assert symbolic.equal(tree(a), tree(b)) is expected


@pytest.mark.parametrize(
    "text",
    [
        "x**2 + 3/4",
        "sqrt(x)*sin(pi*x)",
        "e**(x + I)",
        "abs(x) - oo",
        "f(x, 2)",
        "binom(n, 2)",
        "max(x, y)",
        "arctan(x)",
    ],
)
def test_there_and_back(tree, text):
    back = symbolic.from_sympy(symbolic.to_sympy(tree(text)))
    assert back is not None
    assert equality.same(tree(text), back) in ("yes", "unknown")
    assert symbolic.to_sympy(back) == symbolic.to_sympy(tree(text))


def test_real_roots_stay_real(tree):
    assert symbolic.to_sympy(tree("root(-8, 3)")) == -2
    assert symbolic.to_sympy(tree("sqrt(x**2)")) == sympy.Abs(sympy.Symbol("x", real=True))


@pytest.mark.parametrize("op", ["system", "lambdify", "call", "__import__"])
def test_only_known_operations_reach_sympy(op):
    with pytest.raises(ValueError, match="counterpart"):
        symbolic.to_sympy(Apply(op, (Number(Fraction(1)),)))


def test_sizes_are_bounded():
    with pytest.raises(ValueError, match="too large"):
        symbolic.to_sympy(Apply("add", tuple(Symbol(f"x{j}") for j in range(1000))))


def test_the_functions_can_be_sent_to_a_process_and_sympy_loads_only_there(tree):
    for function in (symbolic.equal, symbolic.evaluate):
        assert pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(pickle.dumps(tree("x + 1"))) == tree("x + 1")
    script = "import sys, rlvr.verifiers.math.symbolic, rlvr.verifiers.math.equality; print('sympy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
