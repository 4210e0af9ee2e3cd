from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers.math import modular


@pytest.fixture(scope="session")
def residue(tree):
    def of_text(text: str, field: int = 0, opaque: bool = False, **symbols: int) -> int:
        evaluator = modular.Residues(modular.PRIMES[field], {}, symbols, modular.Budget(), opaque)
        return evaluator.residue(tree(text))

    return of_text


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
def test_equal_numbers_have_equal_residues(residue, one, other):
    for field in range(3):
        assert residue(one, field) == residue(other, field)


@pytest.mark.parametrize(
    ("one", "other"), [("2**(10**8)", "2**(10**8 + 1)"), ("2**9**9**9", "2**9**9**8"), ("I", "-I"), ("f(1)", "f(2)")]
)
def test_different_numbers(residue, one, other):
    assert residue(one) != residue(other)


def test_a_tower_is_reduced_by_the_general_theorem_of_euler(tree):
    # 7^(7^(7^7)) modulo 10 is 3, and so would be that of the reduction through phi(10) = 4 and phi(4) = 2.
    from rlvr.verifiers.math.exact import Evaluator

    assert modular._tower(tree("7**7**7**7"), 10, Evaluator(), 0) == 3
    # An even base shares a factor with the modulus: 2^(9^9^9) is 0 modulo 8 and, the exponent being odd, 2 modulo 3.
    assert modular._tower(tree("2**9**9**9"), 24, Evaluator(), 0) == 8


def test_unknown_functions_depend_on_their_arguments_alone(residue):
    assert residue("f(x + 1)", x=5) == residue("f(2*x - 4)", x=5)
    assert residue("f(x + 1)", x=5) != residue("f(x + 1)", x=6)


@pytest.mark.parametrize("text", ["1/(x - 5)", "(x - 5)**(-1)", "0**0", "sum(k, k, 9, x)", "factorial(x - 6)"])
def test_no_value_at_a_point(residue, text):
    with pytest.raises(modular.NoValueError):
        residue(text, x=5)


@pytest.mark.parametrize(
    "text", ["sqrt(2)", "sin(x)", "pi", "x**(1/2)", "2**pi", "sum(k, k, 1, oo)", "x**(10**30)", "y"]
)
def test_no_residue(residue, text):
    with pytest.raises(modular.NotModularError):
        residue(text, x=5)


def test_a_guess_is_the_same_for_the_same_form_and_never_stands_for_what_may_be_infinite(residue):
    assert residue("sqrt(2)*3 + 1", opaque=True) == residue("1 + 3*sqrt(2)", opaque=True)
    assert residue("sqrt(2)", opaque=True) != residue("sqrt(3)", opaque=True)
    for text in ("limit(1/x, x, 0)", "oo", "sum(sin(k), k, 1, 3)"):
        with pytest.raises(modular.NotModularError):
            residue(text, opaque=True, x=5)


def test_the_budget_ends(residue):
    with pytest.raises(modular.NotModularError):
        residue("sum(sum(k*j**9, k, 1, 1000), j, 1, 1000)")


@given(st.integers(-10, 10), st.integers(-10, 10), st.integers(0, 12))
def test_the_binomial_theorem(residue, a, b, n):
    text = f"sum(binom({n}, k)*({a})**k*({b})**({n} - k), k, 0, {n})"
    if a and b:
        assert residue(text) == (a + b) ** n % modular.PRIMES[0][0]
