"""Whether two values are equal: expressions and their units, percentages, rounded decimals, antiderivatives."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction

from . import equality
from .conventions import Conventions
from .exact import rational
from .forms import Value
from .nodes import Apply, Constant, Expr, Number, Symbol
from .quantities import DEGREE, PERCENT
from .structure import CALCULUS, facts
from .trees import multiplied

Settle = Callable[[Expr, Expr], bool]
"""Decides whether two expressions are equal where arithmetic alone cannot."""


class Undecided(Exception):
    """Whether two expressions are equal takes symbolic computation, which may not end."""


def undecided(left: Expr, right: Expr) -> bool:
    """A `Settle` that gives up.

    Raises:
        Undecided: always.
    """
    raise Undecided


# Degrees of an angle may be degrees of a temperature whose scale is left out.
_DEGREES = {DEGREE.dimensions, (("celsius", 1),), (("fahrenheit", 1),)}


class ValueComparison:
    """Compares values under some conventions."""

    def __init__(self, conventions: Conventions, settle: Settle = undecided) -> None:
        self.conventions = conventions
        self.settle = settle

    def same(self, reference: Expr, answer: Expr) -> bool:
        """Whether two expressions are equal."""
        if _is_product_with_zero(answer) and isinstance(reference, Number):
            return False
        told = equality.same(reference, answer)
        if told == "unknown" and _is_worth_computing(reference, answer):
            return self.settle(reference, answer)
        return told == "yes"

    def values(self, reference: Value, answer: Value) -> bool:
        """Whether two values are equal, in one unit or without."""
        if self.conventions.units == "ignore" or (reference.unit is None and answer.unit is None):
            return self.magnitudes(reference.expr, answer.expr)
        if PERCENT in (reference.unit, answer.unit):
            return self._percentages(reference, answer)
        if reference.unit is None or answer.unit is None:
            if self.conventions.units == "strict":
                return False
            return self.magnitudes(reference.expr, answer.expr) or self._radians(reference, answer)
        if reference.unit.dimensions != answer.unit.dimensions:
            both = {reference.unit.dimensions, answer.unit.dimensions}
            return DEGREE.dimensions in both and both <= _DEGREES and self.magnitudes(reference.expr, answer.expr)
        scale = answer.unit.factor / reference.unit.factor
        expr = answer.expr if scale == 1 else multiplied(answer.expr, Number(scale))
        return self.magnitudes(reference.expr, expr)

    def _percentages(self, reference: Value, answer: Value) -> bool:
        if reference.unit == answer.unit:
            return self.magnitudes(reference.expr, answer.expr)
        if reference.unit is not None and answer.unit is not None:
            return False
        percent = self.conventions.percent
        if percent == "strict":
            return False
        if percent in ("either", "figure") and self.magnitudes(reference.expr, answer.expr):
            return True
        if percent == "figure":
            return False
        hundredth = Number(Fraction(1, 100))
        if reference.unit == PERCENT:
            return self.magnitudes(multiplied(hundredth, reference.expr), answer.expr)
        return self.magnitudes(reference.expr, multiplied(hundredth, answer.expr))

    def _radians(self, reference: Value, answer: Value) -> bool:
        r"""`90^\circ` and `\pi/2`: an angle without a unit that has a pi in it is in radians."""
        half_turn = Apply("div", (Constant("pi"), Number(Fraction(180))))
        if reference.unit == DEGREE and _mentions_pi(answer.expr):
            return self.same(multiplied(half_turn, reference.expr), answer.expr)
        if answer.unit == DEGREE and _mentions_pi(reference.expr):
            return self.same(reference.expr, multiplied(half_turn, answer.expr))
        return False

    def magnitudes(self, reference: Expr, answer: Expr) -> bool:
        """Whether two expressions are equal, or the answer rounds to a reference given as a decimal."""
        constant = _constant_of_integration(reference)
        if constant is not None:
            return self._antiderivatives(reference, constant, answer)
        if self.same(reference, answer):
            return True
        if self.conventions.rounding == "exact" or not isinstance(reference, Number) or not _is_precise(reference):
            return False
        value = rational(answer)
        if value is not None and _has_decimal_form(value):
            return False
        return not _has_decimals(answer) and equality.rounds_to(answer, reference.value, reference.places or 0)

    def _antiderivatives(self, reference: Expr, constant: str, answer: Expr) -> bool:
        """`F + C`: the answer needs a constant of its own, and may differ by a number."""
        own = _constant_of_integration(answer, equality.symbols(reference))
        if own is None:
            return False
        left, right = _without(reference, constant), _without(answer, own)
        if left is None or right is None:
            return left is right
        return equality.differ_by_constant(left, right, equality.symbols(left) | equality.symbols(right)) == "yes"


def _is_worth_computing(reference: Expr, answer: Expr) -> bool:
    """Whether symbolic computation may tell more; of numbers without calculus and series, only towers are left."""
    found = facts(reference, answer)
    return bool(found.free or "infinity" in found.constants or found.operations & (CALCULUS | {"sum", "prod"}))


def _is_product_with_zero(expr: Expr) -> bool:
    """Whether zero times something unknown, such as the letters of `0abc`, makes it zero."""
    if not isinstance(expr, Apply) or expr.op != "mul" or not equality.symbols(expr):
        return False
    return any(isinstance(arg, Number) and arg.value == 0 for arg in expr.args)


def _is_precise(number: Number) -> bool:
    """Whether a decimal has two places, or three digits, so that few other numbers round to it."""
    places = number.places or 0
    return places >= 2 or (places == 1 and abs(number.value) >= 10)


def _mentions_pi(expr: Expr) -> bool:
    if isinstance(expr, Apply):
        return any(_mentions_pi(arg) for arg in expr.args)
    return expr == Constant("pi")


def _has_decimals(expr: Expr) -> bool:
    if isinstance(expr, Apply):
        return any(_has_decimals(arg) for arg in expr.args)
    return isinstance(expr, Number) and expr.places is not None


def _has_decimal_form(value: Fraction) -> bool:
    """Whether the decimals of a fraction end."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _constant_of_integration(expr: Expr, taken: Collection[str] | None = None) -> str | None:
    """The constant that is added: of `x^2 + C`, C; where `taken` names are given, `c` and `k` too if they are free."""
    if not isinstance(expr, Apply) or expr.op != "add":
        return None
    names = [arg.name for arg in expr.args if isinstance(arg, Symbol)]
    if "C" in names:
        return "C"
    own = ("c", "k", "K", "C_1", "c_1")
    return next((name for name in names if taken is not None and name in own and name not in taken), None)


def _without(expr: Expr, name: str) -> Expr | None:
    if not isinstance(expr, Apply):
        return expr
    args = tuple(arg for arg in expr.args if arg != Symbol(name))
    return Apply("add", args) if len(args) > 1 else (args[0] if args else None)
