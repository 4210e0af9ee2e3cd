"""Whether two expressions are the same number or the same function, in this process and within milliseconds.

The tiers, cheapest first: the same tree; exact rational values and infinities (`exact`); residues, for numbers too
big to write down and for rational functions (`modular`); balls, for all other numbers and, at random points, for all
other functions (`balls`). "no" is always proven: two exact values or two disjoint balls. "yes" is exact for rational
numbers; elsewhere it means agreement at random points or to more digits than the cancellations can use up.
What calculus is needed for is "unknown" here (`symbolic`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Literal, TypeAlias

from flint import acb, arb, fmpq

from . import balls, exact, modular
from .kinds import Kind, Value, excludes
from .nodes import Apply, Expr, Number, Symbol
from .points import TIED, coordinate, real_points, whole_points
from .structure import CALCULUS, Facts, facts, fingerprint, size, symbols

__all__ = [
    "Factor",
    "Same",
    "compare",
    "differ_by_constant",
    "rounds_to",
    "same",
    "same_up_to_factor",
    "size",
    "symbols",
]

Same: TypeAlias = Literal["yes", "no", "undefined", "unknown"]
"""`undefined`: the answer has no value (0/0, infinity - infinity, a pole). `unknown`: not decided within the budget."""

MAX_PRECISION = 8192
"""The bits at which constants are compared at most; two that agree there and may still differ are unknown."""
MAX_POINT_PRECISION = 4096
"""The same for functions, at each point."""

_FIRST_PRECISION = 128
_POINT_PRECISION = 192
_ENOUGH_POINTS = 4
_EVERYWHERE = 8
_MAX_NODES = 20_000
_INFINITIES = (Kind.INFINITE, Kind.NEGATIVE_INFINITE)
_RESIDUE_OPERATIONS = frozenset(
    """
    add mul neg div pow root factorial double_factorial binom gcd lcm mod floor ceil abs sign max min sum prod
    """.split()
)
_COMPLEX_OPERATIONS = frozenset({"re", "im", "conj", "arg"})
_INDEPENDENT = "\x00independent"


@dataclass(frozen=True, slots=True)
class Factor:
    """Whether one expression is a constant times another.

    Attributes:
        same: "yes" if there is such a nonzero constant.
        sign: the constant's sign, 1 or -1; 0 where there is no constant or it is not known to be real.
    """

    same: Same
    sign: int = 0


def same(a: Expr, b: Expr) -> Same:
    """Whether the answer `b` is the same number, or the same function of the same symbols, as the reference `a`.

    Functions are compared where both are defined and real, so that ln(x^2) is 2 ln x, but sqrt(x^2) is not x.
    Symbols that only make sense as whole numbers (in factorials, bounds, exponents of negative numbers) are whole.
    Where `i` occurs, values are complex numbers.
    """
    try:
        return _same(a, b)
    except RecursionError:
        return "unknown"


def same_up_to_factor(a: Expr, b: Expr) -> Factor:
    """Whether a = c b for a constant c that is not zero, and the sign of c; never where a or b is zero itself.

    Two equations, each written as left side minus right side, are equivalent when this holds; two inequalities
    when the sign also is 1.
    """
    try:
        return _same_up_to_factor(a, b)
    except RecursionError:
        return Factor("unknown")


def differ_by_constant(a: Expr, b: Expr, variables: Collection[str]) -> Same:
    """Whether a - b does not depend on any of the variables (two antiderivatives of one function).

    The constant may be another one where a variable is negative: such functions have the same derivative.
    """
    try:
        difference = Apply("add", (a, Apply("neg", (b,))))
        return _same(difference, _renamed(difference, {name: name + TIED for name in variables}))
    except RecursionError:
        return "unknown"


def compare(a: Expr, b: Expr) -> Literal[-1, 0, 1] | None:
    """The order of two real constants or infinities: -1 where a < b, 0 where they are equal; None if not known."""
    try:
        return _compare(a, b)
    except RecursionError:
        return None


def rounds_to(exact_expr: Expr, value: Fraction, places: int) -> bool:
    """Whether a real constant, rounded to so many decimal places, is `value`; both ways of rounding a half will do."""
    half = Fraction(1, 2) * Fraction(10) ** -places
    try:
        inside = [_compare(Number(value - half), exact_expr), _compare(exact_expr, Number(value + half))]
    except RecursionError:
        return False
    return all(order is not None and order <= 0 for order in inside)


def _same(a: Expr, b: Expr) -> Same:
    if type(a) is Number and type(b) is Number:
        return "yes" if a.value == b.value else "no"
    x, y = exact.value(a), exact.value(b)
    verdict = _by_value(x, y)
    if verdict is not None:
        return verdict
    a, b = _shortened(a, x), _shortened(b, y)
    found = facts(a, b)
    if found.nodes > _MAX_NODES:
        return "unknown"
    if x in _INFINITIES or y in _INFINITIES:
        return "no" if found.is_constant and _is_finite(b if x in _INFINITIES else a) else "unknown"
    if a == b:
        return "undefined" if _has_no_value(b, found) else "yes"
    if "infinity" in found.constants:
        return "unknown"
    return _decide(a, b, found)


def _by_value(x: Value, y: Value) -> Same | None:
    """The verdict from what is exactly known of the two; None where that is not enough."""
    if y is Kind.UNDEFINED:
        return "undefined"
    if x is Kind.UNDEFINED:
        return "no"
    if isinstance(x, fmpq) and isinstance(y, fmpq):
        return "yes" if x == y else "no"
    if x in _INFINITIES and x is y:
        return "yes"
    return "no" if excludes(x, y) else None


def _is_finite(expr: Expr) -> bool:
    found = facts(expr)
    return "infinity" not in found.constants and CALCULUS.isdisjoint(found.operations)


def _shortened(expr: Expr, found: Value) -> Expr:
    """The expression's value in its place, where it is known."""
    if type(expr) is not Apply or not isinstance(found, fmpq):
        return expr
    above, below = Number(Fraction(int(found.p))), Number(Fraction(int(found.q)))
    # Not one Fraction, which would find the greatest common divisor of long numbers once more.
    return above if found.q == 1 else Apply("div", (above, below))


def _decide(a: Expr, b: Expr, found: Facts) -> Same:
    seed = fingerprint(a) ^ fingerprint(b)
    decidable = CALCULUS.isdisjoint(found.operations)
    verdict: Same = "unknown"
    if decidable and _has_residues(found):
        verdict = _by_residues(a, b, found, seed, opaque=False)
        if verdict == "yes" and found.is_constant and _differ_in_size(a, b):
            return "no"
    if verdict == "unknown" and decidable:
        verdict = _constants(a, b, found) if found.is_constant else _functions(a, b, found, seed)
    if verdict == "unknown" and found.operations.isdisjoint(("sum", "prod")):
        verdict = _by_residues(a, b, found, seed, opaque=True)
    return verdict


# Residues.


def _has_residues(found: Facts) -> bool:
    if not found.constants <= {"i"}:
        return False
    return all(name in _RESIDUE_OPERATIONS or name.startswith("call:") for name in found.operations)


def _by_residues(a: Expr, b: Expr, found: Facts, seed: int, opaque: bool) -> Same:
    whole = found.whole | found.exponents
    others = sorted(found.free - whole)
    random = Random(seed)
    points = whole_points(whole, seed) if whole else iter([{}, {}, {}])
    enough = _ENOUGH_POINTS if whole else 2
    budget = modular.Budget()
    agreed = missing = 0
    for integers in points:
        field = modular.PRIMES[random.randrange(len(modular.PRIMES))]
        residues = {name: random.randrange(1, field[0]) for name in others}
        evaluator = modular.Residues(field, residues, integers, budget, opaque)
        try:
            x = evaluator.residue(a)
            y = _residue_or_none(evaluator, b)
        except modular.NoValueError:
            continue
        except modular.NotModularError:
            return "unknown"
        if y is None:
            missing += 1
        elif x != y:
            return "unknown" if evaluator.guessed else "no"
        else:
            agreed += 1
            if agreed == enough and not whole:
                break
    if agreed >= enough:
        return "yes"
    return "undefined" if missing >= enough and not agreed and not opaque else "unknown"


def _residue_or_none(evaluator: modular.Residues, expr: Expr) -> int | None:
    try:
        return evaluator.residue(expr)
    except modular.NoValueError:
        return None


def _differ_in_size(a: Expr, b: Expr) -> bool:
    """Whether two numbers with the same residues differ nevertheless, as 1 and 2^(p-1) do."""
    budget = balls.Budget()
    with balls.Precision(_FIRST_PRECISION):
        evaluator = balls.Balls({}, budget)
        try:
            return not evaluator.ball(a).overlaps(evaluator.ball(b))
        except (balls.NoValueError, balls.UndecidedError):
            return False


# Constants.


def _constants(a: Expr, b: Expr, found: Facts) -> Same:
    budget = balls.Budget()
    first, spread = _balls_of(a, b, _FIRST_PRECISION, budget, measuring=True)
    if first == "no" or first == "undefined":
        return first
    needed = _POINT_PRECISION + 2 * (found.bits + spread)
    precision = min(needed, MAX_PRECISION)
    verdict, _ = _balls_of(a, b, precision, budget, final=True)
    if verdict == "unknown" and precision < MAX_PRECISION // 4:
        precision *= 4
        verdict, _ = _balls_of(a, b, precision, budget, final=True)
    return "unknown" if verdict == "yes" and needed > MAX_PRECISION else verdict


def _balls_of(
    a: Expr, b: Expr, precision: int, budget: balls.Budget, measuring: bool = False, final: bool = False
) -> tuple[Same, int]:
    """How two constants compare at this precision, and their spread if it is to be measured."""
    with balls.Precision(precision):
        evaluator = balls.Measuring({}, budget) if measuring else balls.Balls({}, budget)
        spread = 0
        try:
            y: acb | None = evaluator.ball(b)
        except balls.NoValueError as error:
            if error.certain or final:
                return "undefined", 0
            y = None
        except balls.UndecidedError:
            y = None
        try:
            x: acb | None = evaluator.ball(a)
        except balls.NoValueError as error:
            if error.certain:
                return "no", 0
            x = None
        except balls.UndecidedError:
            x = None
        if isinstance(evaluator, balls.Measuring):
            spread = evaluator.spread
        if x is None or y is None:
            return "unknown", spread
        agreed = balls.agree(x, y)
        return "unknown" if agreed is None else "yes" if agreed else "no", spread


def _has_no_value(expr: Expr, found: Facts) -> bool:
    """Whether an expression that equals itself by form has no value, as 1/(x - x) has none."""
    if not CALCULUS.isdisjoint(found.operations) or "infinity" in found.constants:
        return False
    if found.is_constant:
        return _balls_of(expr, expr, 2 * _POINT_PRECISION, balls.Budget(), final=True)[0] == "undefined"
    zero = Number(Fraction(0))
    if _has_residues(found):
        return _by_residues(zero, expr, found, 0, opaque=False) == "undefined"
    # Where the expression has a value that is not zero, the first point shows it.
    return _functions(zero, expr, found, 0) == "undefined"


# Functions.


@dataclass(slots=True)
class _Tally:
    """How often, at the points so far, the two agreed, or could not be compared for which reason."""

    agreed: int = 0
    undecided: int = 0
    reference_not_real: int = 0
    answer_not_real: int = 0
    answer_missing: int = 0


def _functions(a: Expr, b: Expr, found: Facts, seed: int) -> Same:
    comparison = _Comparison(a, b, found, seed)
    if not found.whole:
        verdict = comparison.at_real_points()
        if verdict != "unknown":
            return verdict
    if found.probably_whole:
        verdict = comparison.at_whole_points()
        if verdict != "unknown":
            return verdict
    return comparison.without_real_values()


class _Comparison:
    """Two functions compared at points."""

    def __init__(self, a: Expr, b: Expr, found: Facts, seed: int) -> None:
        self._a, self._b, self._facts, self._seed = a, b, found, seed
        self._complex = "i" in found.constants or not _COMPLEX_OPERATIONS.isdisjoint(found.operations)
        self._budget = balls.Budget()
        self._precision = min(_POINT_PRECISION + 2 * found.bits, MAX_POINT_PRECISION)
        self._agreed_at: dict[str, acb] | None = None
        self._tally = _Tally()

    def at_real_points(self) -> Same:
        points = real_points(sorted(self._facts.free), self._seed, self._facts.largest)
        return self._at(points, _EVERYWHERE)

    def at_whole_points(self) -> Same:
        self._tally = _Tally()
        whole = self._facts.probably_whole
        others = sorted(self._facts.free - whole)
        random = Random(self._seed)
        points = (
            {name: acb(value) for name, value in integers.items()}
            | {name: coordinate(random, 0.3, 3.0) for name in others}
            for integers in whole_points(whole, self._seed)
        )
        return self._at(points, _EVERYWHERE)

    def without_real_values(self) -> Same:
        """The verdict where the reference is real nowhere, or the answer is not where the reference is."""
        tally = self._tally
        if tally.agreed:
            return "unknown"
        if tally.answer_missing >= _ENOUGH_POINTS:
            return "undefined"
        if self._complex or tally.reference_not_real + tally.answer_not_real < _ENOUGH_POINTS:
            return "unknown"
        if self._facts.whole:
            return "unknown"
        self._complex = True
        self._tally = _Tally()
        return self.at_real_points()

    def _at(self, points: Iterator[dict[str, acb]], everywhere: int) -> Same:
        tally = self._tally
        with balls.Precision(self._precision):
            for count, point in enumerate(points):
                if count >= everywhere and tally.agreed >= _ENOUGH_POINTS:
                    break
                if count >= everywhere and tally.undecided == count:
                    break
                if self._differ(point):
                    return "no"
        if tally.agreed < _ENOUGH_POINTS:
            return "unknown"
        return self._confirmed()

    def _differ(self, point: dict[str, acb]) -> bool:
        tally = self._tally
        evaluator = balls.Balls(point, self._budget, real=not self._complex)
        try:
            x = evaluator.ball(self._a)
        except balls.NoValueError:
            return False
        except balls.NotRealError:
            tally.reference_not_real += 1
            return False
        except balls.UndecidedError:
            tally.undecided += 1
            return False
        try:
            y = evaluator.ball(self._b)
        except balls.NoValueError:
            tally.answer_missing += 1
            return False
        except balls.NotRealError:
            tally.answer_not_real += 1
            return False
        except balls.UndecidedError:
            tally.undecided += 1
            return False
        agreed = balls.agree(x, y)
        if agreed:
            tally.agreed += 1
            self._agreed_at = point
        return agreed is False

    def _confirmed(self) -> Same:
        """Agreement once more at one point, at the precision that the cancellations there call for."""
        point = self._agreed_at or {}
        with balls.Precision(self._precision):
            measuring = balls.Measuring(point, self._budget)
            try:
                measuring.ball(self._a)
                measuring.ball(self._b)
            except (balls.NoValueError, balls.UndecidedError):
                return "unknown"
        needed = _POINT_PRECISION + 2 * (self._facts.bits + measuring.spread)
        if needed <= self._precision * 2:
            return "yes"
        with balls.Precision(min(needed, MAX_POINT_PRECISION)):
            evaluator = balls.Balls(point, self._budget)
            try:
                agreed = balls.agree(evaluator.ball(self._a), evaluator.ball(self._b))
            except (balls.NoValueError, balls.UndecidedError):
                return "unknown"
        if agreed is False:
            return "no"
        return "yes" if agreed and needed <= MAX_POINT_PRECISION else "unknown"


# The other relations.


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    if isinstance(expr, Symbol):
        return Symbol(names.get(expr.name, expr.name))
    if isinstance(expr, Apply):
        return Apply(expr.op, tuple(_renamed(arg, names) for arg in expr.args))
    return expr


def _same_up_to_factor(a: Expr, b: Expr) -> Factor:
    zero = Number(Fraction(0))
    for expr in (a, b):
        is_zero = _same(zero, expr)
        if is_zero != "no":
            return Factor("undefined" if is_zero == "undefined" else "no" if is_zero == "yes" else "unknown")
    # a = c b just when a(x) b(y) = a(y) b(x) for all x and y.
    names = {name: name + _INDEPENDENT for name in symbols(a) | symbols(b)}
    verdict = _same(
        Apply("mul", (a, _renamed(b, names))),
        Apply("mul", (_renamed(a, names), b)),
    )
    return Factor("yes", _sign_of_ratio(a, b)) if verdict == "yes" else Factor(verdict)


def _sign_of_ratio(a: Expr, b: Expr) -> int:
    found = facts(a, b)
    ratio = Apply("div", (a, b))
    budget = balls.Budget()
    whole = found.probably_whole
    with balls.Precision(_POINT_PRECISION):
        points = real_points(sorted(found.free), 0, found.largest)
        for point, integers in zip(points, whole_points(whole, 0), strict=False):
            for bindings in (point, point | {name: acb(value) for name, value in integers.items()}):
                try:
                    value = balls.Balls(bindings, budget).ball(ratio)
                except (balls.NoValueError, balls.UndecidedError):
                    continue
                if balls.is_real(value) and not value.real.contains(0):
                    return 1 if value.real > 0 else -1
    return 0


def _compare(a: Expr, b: Expr) -> Literal[-1, 0, 1] | None:
    x, y = exact.value(a), exact.value(b)
    if Kind.UNDEFINED in (x, y):
        return None
    if isinstance(x, fmpq) and isinstance(y, fmpq):
        return -1 if x < y else 1 if x > y else 0
    if x in _INFINITIES or y in _INFINITIES:
        return _compare_infinities(a, b, x, y)
    if (x is Kind.HUGE and isinstance(y, fmpq)) or (y is Kind.HUGE and isinstance(x, fmpq)):
        return 1 if x is Kind.HUGE else -1
    found = facts(a, b)
    if not found.is_constant or found.nodes > _MAX_NODES:
        return None
    order = _order_of(a, b, _FIRST_PRECISION)
    if order is not None:
        return order
    verdict = _same(a, b)
    if verdict == "yes":
        return 0
    return _order_of(a, b, MAX_PRECISION) if verdict == "no" else None


def _compare_infinities(a: Expr, b: Expr, x: Value, y: Value) -> Literal[-1, 0, 1] | None:
    if x is y:
        return 0
    for expr, found in ((a, x), (b, y)):
        if found is Kind.UNKNOWN and not (_is_finite(expr) and facts(expr).is_constant):
            return None
    return -1 if x is Kind.NEGATIVE_INFINITE or y is Kind.INFINITE else 1


def _order_of(a: Expr, b: Expr, precision: int) -> Literal[-1, 1] | None:
    with balls.Precision(precision):
        evaluator = balls.Balls({}, balls.Budget())
        try:
            x, y = evaluator.ball(a), evaluator.ball(b)
        except (balls.NoValueError, balls.UndecidedError):
            return None
        if not balls.is_real(x) or not balls.is_real(y):
            return None
        difference: arb = x.real - y.real
        return -1 if difference < 0 else 1 if difference > 0 else None
