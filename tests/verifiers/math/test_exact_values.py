from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers.math import exact
from rlvr.verifiers.math.kinds import Kind
from rlvr.verifiers.math.nodes import Apply, Expr, Number, Symbol


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/3 + 1/6", "1/2"),
        ("2**-3", "1/8"),
        ("sqrt(4)", "2"),
        ("sqrt(9/16)", "3/4"),
        ("4**(3/2)", "8"),
        ("8**(-2/3)", "1/4"),
        ("root(-8, 3)", "-2"),
        ("(-8)**(1/3)", "-2"),
        ("(-8)**(2/3)", "4"),
        ("root(8, -3)", "1/2"),
        ("factorial(5)", "120"),
        ("factorial(0)", "1"),
        ("double_factorial(7)", "105"),
        ("double_factorial(8)", "384"),
        ("double_factorial(-1)", "1"),
        ("binom(5, 2)", "10"),
        ("binom(5, 7)", "0"),
        ("binom(-2, 3)", "-4"),
        ("binom(1/2, 2)", "-1/8"),
        ("floor(-7/2)", "-4"),
        ("ceil(-7/2)", "-3"),
        ("abs(-7/2)", "7/2"),
        ("sign(-7/2)", "-1"),
        ("gcd(12, 18, 8)", "2"),
        ("lcm(4, 6, 10)", "60"),
        ("mod(-7, 3)", "2"),
        ("mod(7/2, 1)", "1/2"),
        ("max(1/2, 2/3, 0)", "2/3"),
        ("min(1/2, 2/3, 0)", "0"),
        ("sum(k**2, k, 1, 4)", "30"),
        ("sum(k, k, 5, 4)", "0"),
        ("prod(k, k, 1, 6)", "720"),
        ("sum(sum(k*j, k, 1, j), j, 1, 3)", "25"),
        # Newton's series: the sum of k^2 up to n is n (n + 1) (2 n + 1) / 6.
        ("sum(k**2, k, 1, 10**6)", "333333833333500000"),
        ("sum(1/k, k, 1, 4)", "25/12"),
        ("log(2, 8)", "3"),
        ("log(4, 8)", "3/2"),
        ("log(8, 1/4)", "-2/3"),
        ("log(1/2, 8)", "-3"),
        ("1/oo", "0"),
        ("(1/2)**oo", "0"),
        ("cos(0)", "1"),
        ("e**0", "1"),
        ("ln(1)", "0"),
        ("0*pi", "0"),
    ],
)
def test_rational_values(tree, text, value):
    assert exact.rational(tree(text)) == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        "sqrt(2)",
        "pi",
        "x",
        "x - x",
        "I**2",
        "sqrt(-4)",
        "oo",
        "0/0",
        "2**(10**9)",
        "9**9**9**9",
        "factorial(10**9)",
        "factorial(factorial(20))",
        "binom(10**9, 10**8)",
        "sum(sin(k), k, 1, 10**9)",
        "sum(sum(sum(1/(k*j + i), i, 1, 5000), k, 1, 5000), j, 1, 5000)",
        "prod(2**k, k, 1, 9999)",
        "log(2, 9)",
        "root(2, 10**50)",
    ],
)
def test_no_rational_value(tree, text):
    assert exact.rational(tree(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "1/0",
        "0/0",
        "0**0",
        "0**(-1)",
        "oo - oo",
        "0*oo",
        "oo/oo",
        "1**oo",
        "oo**0",
        "x + 1/0",
        "f(1/0)",
        "factorial(-1)",
        "mod(3, 0)",
        "ln(0)",
        "log(1, 5)",
        "sin(oo)",
        "sum(1/(k - 3), k, 1, 5)",
        "sqrt(2)*oo - pi*oo",
        "root(3, 0)",
        "arg(0)",
        "(1 - 1)*(-oo)",
    ],
)
def test_undefined(tree, text):
    assert exact.is_undefined(tree(text))


@pytest.mark.parametrize(
    "text", ["oo", "oo + oo", "x", "1/x", "sqrt(2)", "10**100", "-oo", "oo*oo", "pi + oo", "oo**2"]
)
def test_not_undefined(tree, text):
    assert not exact.is_undefined(tree(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("pi*oo", "INFINITE"),
        ("-2*oo", "NEGATIVE_INFINITE"),
        ("(-oo)**3", "NEGATIVE_INFINITE"),
        ("2**oo", "INFINITE"),
        ("ln(oo)", "INFINITE"),
        ("9**9**9", "HUGE"),
        ("3**3**3**3**3", "HUGE"),
        ("factorial(10**6)", "HUGE"),
        ("pi**pi", "ABOVE_TWO"),
        ("sqrt(2)", "POSITIVE"),
        ("-sqrt(2)", "NEGATIVE"),
        ("ln(1/2)", "NEGATIVE"),
        ("pi - 3", "UNKNOWN"),
    ],
)
def test_what_is_known_of_other_values(tree, text, kind):
    assert exact.value(tree(text)) is Kind[kind]


def test_deep_trees_have_no_value():
    deep: Expr = Number(Fraction(1))
    for _ in range(5000):
        deep = Apply("neg", (deep,))
    assert exact.rational(deep) is None
    assert not exact.is_undefined(deep)


@given(st.fractions(max_denominator=50), st.integers(-6, 6))
def test_powers_agree_with_python(base, exponent):
    tree = Apply("pow", (Number(base), Number(Fraction(exponent))))
    expected = None if base == 0 and exponent <= 0 else base**exponent
    assert exact.rational(tree) == expected


@given(st.fractions(min_value=0, max_value=100, max_denominator=50), st.integers(1, 5))
def test_roots_undo_powers(x, n):
    assert exact.rational(Apply("root", (Number(x**n), Number(Fraction(n))))) == x


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=5), st.integers(-50, 50), st.integers(70, 150))
def test_long_polynomial_sums_agree_with_adding_up(coefficients, start, count):
    k = Symbol("k")
    powers = [
        Apply("mul", (Number(Fraction(c)), Apply("pow", (k, Number(Fraction(j))))) if j else (Number(Fraction(c)),))
        for j, c in enumerate(coefficients)
    ]
    bounds = (Number(Fraction(start)), Number(Fraction(start + count - 1)))
    expected = sum(c * k**j for k in range(start, start + count) for j, c in enumerate(coefficients))
    assert exact.rational(Apply("sum", (Apply("add", tuple(powers)), k, *bounds))) == expected
