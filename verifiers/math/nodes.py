r"""Mathematical expressions as trees, the only form in which a model's text is ever computed with.

A tree is made of three kinds of node and holds nothing that could be run: what an operation means is decided by the
evaluators (`exact`, `modular`, `balls`, `symbolic`), which know the operations listed here and no others.

    arithmetic    add(x, ...)  mul(x, ...)  neg(x)  div(x, y)  pow(x, y)  root(x, n)
    elementary    ln(x)  log(base, x)  sin cos tan cot sec csc  arcsin arccos arctan arccot arcsec arccsc
                  sinh cosh tanh coth sech csch  arcsinh arccosh arctanh
    whole numbers factorial(x)  double_factorial(x)  binom(n, k)  gcd(x, ...)  lcm(x, ...)  mod(x, m)
                  floor(x)  ceil(x)
    other         abs(x)  sign(x)  max(x, ...)  min(x, ...)  re(z)  im(z)  conj(z)  arg(z)
    binders       sum(body, variable, from, to)  prod(body, variable, from, to)
    calculus      integral(body, variable)  integral(body, variable, from, to)
                  derivative(body, variable)  limit(body, variable, to)  limit_left(...)  limit_right(...)
    unknown       call:NAME(x, ...), a function of which nothing is known, such as f in f(x)

`pow` with the base `Constant("e")` is the exponential. `root(x, n)` of a real x and an odd n is the real root.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Number:
    """An exact rational number.

    Attributes:
        value: the number.
        places: how many digits stood after its decimal point; None where it was not written with one.
    """

    value: Fraction
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """One of the numbers `pi`, `e`, `i` and `infinity` (the positive one)."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, such as `x`, `a_1` or `alpha`."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation, by its name in this module's list, on its arguments."""

    op: str
    args: tuple[Expr, ...]


Expr: TypeAlias = Number | Constant | Symbol | Apply
