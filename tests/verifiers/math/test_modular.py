from __future__ import annotations

import ast
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers.math import modular
from rlvr.verifiers.math.nodes import Apply, Constant, Expr, Number, Symbol


def tree(text: str) -> Expr:
    """A tree for an expression in Python's syntax, so that the cases below can be read."""
    return _build(ast.parse(text, mode="eval").body)


def _build(node: ast.AST) -> Expr:
    match node:
        case ast.Constant(value):
            return Number(Fraction(str(value)))
        case ast.Name(name):
            named = {"pi": "pi", "e": "e", "I": "i", "oo": "infinity"}
            return Constant(named[name]) if name in named else Symbol(name)
        case ast.UnaryOp(ast.USub(), operand):
            return Apply("neg", (_build(operand),))
        case ast.BinOp(left, ast.Sub(), right):
            return Apply("add", (_build(left), Apply("neg", (_build(right),))))
        case ast.BinOp(left, op, right):
            ops = {ast.Add: "add", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
            return Apply(ops[type(op)], (_build(left), _build(right)))
        case ast.Call(ast.Name("sqrt"), [arg]):
            return Apply("root", (_build(arg), Number(Fraction(2))))
        case ast.Call(ast.Name("f"), args):
            return Apply("call:f", tuple(map(_build, args)))
        case ast.Call(ast.Name(op), args):
            return Apply(op, tuple(map(_build, args)))
    raise ValueError(ast.dump(node))


def residue(text: str, field: int = 0, opaque: bool = False, **symbols: int) -> int:
    evaluator = modular.Residues(modular.PRIMES[field], {}, symbols, modular.Budget(), opaque)
    return evaluator.residue(tree(text))


def test_the_primes_are_primes_with_roots_of_minus_one():
    from sympy import isprime

    for prime, root in modular.PRIMES:
        assert isprime(prime)
        assert root * root % prime == prime - 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2**(10**8)", "4**(5*10**7)"),
        ("3**(-10**8)", "(1/9)**(5*10**7)"),
        ("(1 + I)**100", "-(2**50)"),
        ("1/(1 + I)", "(1 - I)/2"),
        ("2**(10**8)*3**(10**8)", "6**(10**8)"),
        ("2**9**9**9", "(2**(9**9**9 - 1))*2"),
        ("factorial(20000)/factorial(19999)", "20000"),
        ("binom(50, 25)*2", "binom(50, 25) + binom(50, 24)*26/25"),
        ("sum(2**(10**6*k), k, 0, 3)", "(2**(4*10**6) - 1)/(2**(10**6) - 1)"),
        ("prod(1 + 1/k, k, 1, 20)", "21"),
        ("sqrt(4)*2**(10**8)", "2**(10**8 + 1)"),
    ],
)
def test_equal_numbers_have_equal_residues(one, other):
    for field in range(3):
        assert residue(one, field) == residue(other, field)


@pytest.mark.parametrize(
    ("one", "other"), [("2**(10**8)", "2**(10**8 + 1)"), ("2**9**9**9", "2**9**9**8"), ("I", "-I"), ("f(1)", "f(2)")]
)
def test_different_numbers(one, other):
    assert residue(one) != residue(other)


def test_a_tower_is_reduced_by_the_general_theorem_of_euler():
    # 7^(7^(7^7)) modulo 10 is 3, and so would be that of the reduction through phi(10) = 4 and phi(4) = 2.
    from rlvr.verifiers.math.exact import Evaluator

    assert modular._tower(tree("7**7**7**7"), 10, Evaluator(), 0) == 3
    # An even base shares a factor with the modulus: 2^(9^9^9) is 0 modulo 8 and, the exponent being odd, 2 modulo 3.
    assert modular._tower(tree("2**9**9**9"), 24, Evaluator(), 0) == 8


def test_unknown_functions_depend_on_their_arguments_alone():
    assert residue("f(x + 1)", x=5) == residue("f(2*x - 4)", x=5)
    assert residue("f(x + 1)", x=5) != residue("f(x + 1)", x=6)


@pytest.mark.parametrize("text", ["1/(x - 5)", "(x - 5)**(-1)", "0**0", "sum(k, k, 9, x)", "factorial(x - 6)"])
def test_no_value_at_a_point(text):
    with pytest.raises(modular.NoValueError):
        residue(text, x=5)


@pytest.mark.parametrize(
    "text", ["sqrt(2)", "sin(x)", "pi", "x**(1/2)", "2**pi", "sum(k, k, 1, oo)", "x**(10**30)", "y"]
)
def test_no_residue(text):
    with pytest.raises(modular.NotModularError):
        residue(text, x=5)


def test_a_guess_is_the_same_for_the_same_form_and_never_stands_for_what_may_be_infinite():
    assert residue("sqrt(2)*3 + 1", opaque=True) == residue("1 + 3*sqrt(2)", opaque=True)
    assert residue("sqrt(2)", opaque=True) != residue("sqrt(3)", opaque=True)
    for text in ("limit(1/x, x, 0)", "oo", "sum(sin(k), k, 1, 3)"):
        with pytest.raises(modular.NotModularError):
            residue(text, opaque=True, x=5)


def test_the_budget_ends():
    with pytest.raises(modular.NotModularError):
        residue("sum(sum(k*j**9, k, 1, 1000), j, 1, 1000)")


@given(st.integers(-10, 10), st.integers(-10, 10), st.integers(0, 12))
def test_the_binomial_theorem(a, b, n):
    text = f"sum(binom({n}, k)*({a})**k*({b})**({n} - k), k, 0, {n})"
    if a and b:
        assert residue(text) == (a + b) ** n % modular.PRIMES[0][0]
