"""Exact values of constant expressions: rational numbers, the infinities, and what is undefined.

Every power, factorial and binomial is weighed before it is computed, and each step is counted, so that no
expression takes more than some tens of milliseconds; what would, is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise

from flint import fmpq, fmpz

from . import kinds
from .kinds import (
    ABOVE_TWO,
    HUGE,
    INFINITE,
    INFINITIES,
    MAX_BITS,
    NEGATIVE,
    NEGATIVE_INFINITE,
    ONE,
    POSITIVE,
    UNDEFINED,
    UNKNOWN,
    ZERO,
    Value,
    sign,
)
from .nodes import Apply, Constant, Expr, Number, Symbol

MAX_TERMS = 10_000
"""The terms that a sum or product may have, except for sums of polynomials."""
MAX_STEPS = 40_000
"""The operations that one evaluation may take."""
MAX_WORK = 2_000_000
"""The bits that all large numbers of one evaluation may have together."""

_MAX_FACTORIAL = 20_000
_MAX_DEGREE = 30
_MAX_FRACTION_BITS = 100_000


class _ExhaustedError(Exception):
    """The budget is used up."""


def rational(expr: Expr) -> Fraction | None:
    """The value of a constant expression that is a rational number.

    None where it is irrational, not constant, undefined (also 0^0), or would take too long. Real odd roots of
    negative numbers are real, as are their powers: (-8)^(2/3) is 4.
    """
    if type(expr) is Number:
        return expr.value
    found = value(expr)
    if not isinstance(found, fmpq):
        return None
    return _fraction(found)


def is_undefined(expr: Expr) -> bool:
    """Whether the expression surely has no value: 0/0, 1/0, 0^0, infinity - infinity, 0 * infinity, 1^infinity.

    So does everything that holds such an expression. False where it has a value and where that is not known.
    """
    return value(expr) is UNDEFINED


def value(expr: Expr, bindings: Mapping[str, fmpq] | None = None) -> Value:
    """The value of an expression, or what is known about it, with the symbols in `bindings` taken as given."""
    return Evaluator(bindings).evaluate(expr)


class Evaluator:
    """Evaluates expressions with one budget for all of them together.

    `bindings` may be changed from one evaluation to the next.
    """

    __slots__ = ("bindings", "steps", "work")

    def __init__(self, bindings: Mapping[str, fmpq] | None = None) -> None:
        self.bindings: dict[str, fmpq] = dict(bindings or {})
        self.steps = MAX_STEPS
        self.work = MAX_WORK

    def evaluate(self, expr: Expr) -> Value:
        """The value of the expression, or what is known about it."""
        try:
            return self._value(expr)
        except (_ExhaustedError, RecursionError):
            return UNKNOWN

    def _value(self, expr: Expr) -> Value:
        self.steps -= 1
        if self.steps < 0:
            raise _ExhaustedError
        if isinstance(expr, Number):
            number = expr.value
            return fmpq(number.numerator, number.denominator)
        if isinstance(expr, Apply):
            operation = _OPERATIONS.get(expr.op)
            if operation is not None:
                return operation(self, *expr.args)
            return self._opaque(expr)
        if isinstance(expr, Symbol):
            return self.bindings.get(expr.name, UNKNOWN)
        return _CONSTANTS.get(expr.name, UNKNOWN)

    def _opaque(self, expr: Apply) -> Value:
        """Of a function that is not known, only whether an argument is undefined."""
        if expr.op.startswith("call:"):
            for arg in expr.args:
                if self._value(arg) is UNDEFINED:
                    return UNDEFINED
        return UNKNOWN

    def _charge(self, bits: int) -> None:
        self.work -= bits
        if self.work < 0:
            raise _ExhaustedError

    # Arithmetic.

    def _add(self, *args: Expr) -> Value:
        total = self._value(args[0])
        for arg in args[1:]:
            total = kinds.plus(total, self._value(arg))
        return total

    def _mul(self, *args: Expr) -> Value:
        total = self._value(args[0])
        for arg in args[1:]:
            total = self._times(total, self._value(arg))
        return total

    def _times(self, x: Value, y: Value) -> Value:
        if isinstance(x, fmpq) and isinstance(y, fmpq):
            product = x * y
            bits = product.height_bits()
            if bits > 10_000:
                self._charge(bits)
            return product
        return kinds.times(x, y)

    def _neg(self, arg: Expr) -> Value:
        return kinds.minus(self._value(arg))

    def _div(self, above: Expr, below: Expr) -> Value:
        x, y = self._value(above), self._value(below)
        if isinstance(x, fmpq) and isinstance(y, fmpq):
            return x / y if y else UNDEFINED
        return kinds.over(x, y)

    def _pow(self, base: Expr, exponent: Expr) -> Value:
        x, y = self._value(base), self._value(exponent)
        if isinstance(x, fmpq) and isinstance(y, fmpq):
            return self._rational_power(x, y)
        return kinds.power(x, y)

    def _root(self, arg: Expr, degree: Expr) -> Value:
        x, n = self._value(arg), self._value(degree)
        if isinstance(n, fmpq):
            if not n:
                return UNDEFINED
            n = 1 / n
            return self._rational_power(x, n) if isinstance(x, fmpq) else kinds.power(x, n)
        return UNDEFINED if x is UNDEFINED or n is UNDEFINED else UNKNOWN

    def _rational_power(self, x: fmpq, y: fmpq) -> Value:
        if y.q == 1:
            return self._integer_power(x, y.p)
        if not x:
            return ZERO if y > 0 else UNDEFINED
        if x < 0 and y.q % 2 == 0:
            return UNKNOWN
        root = _exact_root(abs(x), y.q)
        if root is None:
            positive = x > 0 or y.p % 2 == 0
            return POSITIVE if positive else NEGATIVE
        return self._integer_power(root if x > 0 else -root, y.p)

    def _integer_power(self, x: fmpq, y: fmpz) -> Value:
        if not x:
            return ZERO if y > 0 else UNDEFINED
        if abs(x) == 1:
            return x if y % 2 else ONE
        bits = x.height_bits() * abs(y)
        if bits <= MAX_BITS:
            if bits > 10_000:
                self._charge(int(bits))
            return x ** int(y)
        if x < 0:
            return NEGATIVE if y % 2 else POSITIVE
        if y < 0:
            x, y = 1 / x, -y
        if x < 2:
            return POSITIVE
        return HUGE if (x.floor().bit_length() - 1) * y >= MAX_BITS else ABOVE_TWO

    # Whole numbers.

    def _factorial(self, arg: Expr) -> Value:
        return self._factorial_of(self._value(arg), 1)

    def _double_factorial(self, arg: Expr) -> Value:
        return self._factorial_of(self._value(arg), 2)

    def _factorial_of(self, x: Value, step: int) -> Value:
        if not isinstance(x, fmpq):
            return x if x in (UNDEFINED, INFINITE, HUGE, ABOVE_TWO) else UNKNOWN
        if x.q != 1:
            return UNKNOWN
        if x <= -step:
            return UNDEFINED
        n = x.p
        if n > _MAX_FACTORIAL:
            # n! is above (n/e)^n, which is above 2^(12 n) there, and n!! is not below its square root.
            return HUGE if 12 * n >= MAX_BITS * step else ABOVE_TWO
        return self._factorial_within(int(n), step)

    def _factorial_within(self, n: int, step: int) -> fmpq:
        self._charge(n * n.bit_length() if n > 500 else 0)
        if step == 1:
            return fmpq(fmpz.fac_ui(fmpz(n)))
        if n < 1:
            return ONE
        half = n // 2
        if n % 2 == 0:
            return fmpq(fmpz.fac_ui(fmpz(half)) << half)
        return fmpq(fmpz.fac_ui(fmpz(n)) / (fmpz.fac_ui(fmpz(half)) << half))

    def _binom(self, above: Expr, below: Expr) -> Value:
        n, k = self._value(above), self._value(below)
        if not isinstance(n, fmpq) or not isinstance(k, fmpq):
            return UNDEFINED if UNDEFINED in (n, k) else UNKNOWN
        if k.q != 1:
            return UNKNOWN
        if n.q == 1 and n >= 0:
            k = min(k, n - k)
        if k < 0:
            return ZERO
        if n.height_bits() * k.p > MAX_BITS or k > 2000:
            return UNKNOWN if n.q != 1 or n < 0 else self._big_binom(n.p, k.p)
        self._charge(int(n.height_bits() * k.p))
        if n.q == 1 and 0 <= n < 1 << 62:
            return fmpq(fmpz.bin_uiui(int(n.p), int(k.p)))
        self.steps -= int(k.p) // 2
        product = ONE
        for j in range(int(k.p)):
            product = product * (n - j)
        return product / fmpz.fac_ui(k.p)

    def _big_binom(self, n: fmpz, k: fmpz) -> Value:
        if n > MAX_BITS:
            return ABOVE_TWO
        self._charge(2 * int(n))
        return fmpq(fmpz.bin_uiui(int(n), int(k)))

    def _gcd(self, *args: Expr) -> Value:
        return self._fold_integers(args, lambda x, y: x.gcd(y))

    def _lcm(self, *args: Expr) -> Value:
        return self._fold_integers(args, lambda x, y: x.lcm(y))

    def _fold_integers(self, args: tuple[Expr, ...], operation: Callable[[fmpz, fmpz], fmpz]) -> Value:
        values = [self._value(arg) for arg in args]
        if UNDEFINED in values:
            return UNDEFINED
        integers = [found.p for found in values if isinstance(found, fmpq) and found.q == 1]
        if len(integers) < len(values):
            return UNKNOWN
        total = integers[0]
        for integer in integers[1:]:
            total = operation(total, integer)
        return fmpq(abs(total))

    def _mod(self, arg: Expr, modulus: Expr) -> Value:
        x, m = self._value(arg), self._value(modulus)
        if UNDEFINED in (x, m) or (isinstance(m, fmpq) and not m):
            return UNDEFINED
        if not isinstance(x, fmpq) or not isinstance(m, fmpq):
            return UNKNOWN
        return x - m * (x / m).floor()

    def _floor(self, arg: Expr) -> Value:
        x = self._value(arg)
        if isinstance(x, fmpq):
            return fmpq(x.floor())
        return x if x is UNDEFINED or x in INFINITIES else UNKNOWN

    def _ceil(self, arg: Expr) -> Value:
        x = self._value(arg)
        if isinstance(x, fmpq):
            return fmpq(x.ceil())
        return x if x is UNDEFINED or x in INFINITIES else UNKNOWN

    # Other.

    def _abs(self, arg: Expr) -> Value:
        x = self._value(arg)
        if isinstance(x, fmpq):
            return abs(x)
        return kinds.minus(x) if sign(x) == -1 else x

    def _sign(self, arg: Expr) -> Value:
        x = self._value(arg)
        found = sign(x)
        if found is None:
            return x
        return fmpq(found)

    def _max(self, *args: Expr) -> Value:
        return self._extreme(args, 1)

    def _min(self, *args: Expr) -> Value:
        return self._extreme(args, -1)

    def _extreme(self, args: tuple[Expr, ...], direction: int) -> Value:
        values = [self._value(arg) for arg in args]
        if UNDEFINED in values:
            return UNDEFINED
        rationals = [found for found in values if isinstance(found, fmpq)]
        if len(rationals) == len(values):
            return max(rationals, key=lambda found: direction * found)
        top, bottom = INFINITIES if direction == 1 else INFINITIES[::-1]
        if UNKNOWN not in values and top in values:
            return top
        rest = [found for found in values if found is not bottom]
        return (rest or values)[0] if len(rest) <= 1 else UNKNOWN

    def _re(self, arg: Expr) -> Value:
        return self._value(arg)

    def _im(self, arg: Expr) -> Value:
        x = self._value(arg)
        return ZERO if sign(x) is not None else x

    def _arg(self, arg: Expr) -> Value:
        x = self._value(arg)
        found = sign(x)
        if found == 0:
            return UNDEFINED
        if found is None:
            return x
        return ZERO if found == 1 else ABOVE_TWO

    # Elementary functions: their rational values, and where they have none.

    def _ln(self, arg: Expr) -> Value:
        return kinds.logarithm(self._value(arg))

    def _log(self, base: Expr, arg: Expr) -> Value:
        b, x = self._value(base), self._value(arg)
        if UNDEFINED in (b, x):
            return UNDEFINED
        if (isinstance(b, fmpq) and b in (0, 1)) or (isinstance(x, fmpq) and not x):
            return UNDEFINED
        if isinstance(b, fmpq) and isinstance(x, fmpq) and b > 0 and x > 0:
            found = self._rational_logarithm(b, x)
            return found if found is not None else kinds.over(kinds.logarithm(x), kinds.logarithm(b))
        return kinds.over(kinds.logarithm(x), kinds.logarithm(b))

    def _rational_logarithm(self, b: fmpq, x: fmpq) -> fmpq | None:
        """The rational y with b^y = x, if its denominator is small."""
        if b < 1:
            b, x = 1 / b, 1 / x
        turned = x < 1
        if turned:
            x = 1 / x
        if max(b.height_bits(), x.height_bits()) > 20_000:
            return None
        for below in range(1, 7):
            above = _whole_logarithm(b.p, x.p**below)
            if above is not None and b.q**above == x.q**below:
                return fmpq(-above if turned else above, below)
        return None

    def _special(self, arg: Expr, at: Mapping[int, Value], infinite: tuple[Value, Value]) -> Value:
        """A function whose value is known at some whole numbers and at both infinities."""
        x = self._value(arg)
        if isinstance(x, fmpq):
            return at.get(int(x.p), UNKNOWN) if x.q == 1 and abs(x.p) <= 1 else UNKNOWN
        if x in INFINITIES:
            return infinite[INFINITIES.index(x)]
        return UNDEFINED if x is UNDEFINED else UNKNOWN

    # Binders.

    def _sum(self, body: Expr, variable: Expr, first: Expr, last: Expr) -> Value:
        return self._fold(body, variable, first, last, ZERO, kinds.plus)

    def _prod(self, body: Expr, variable: Expr, first: Expr, last: Expr) -> Value:
        return self._fold(body, variable, first, last, ONE, self._times)

    def _fold(
        self,
        body: Expr,
        variable: Expr,
        first: Expr,
        last: Expr,
        empty: fmpq,
        operation: Callable[[Value, Value], Value],
    ) -> Value:
        low, high = self._value(first), self._value(last)
        if UNDEFINED in (low, high):
            return UNDEFINED
        if not isinstance(variable, Symbol) or not isinstance(low, fmpq) or not isinstance(high, fmpq):
            return UNKNOWN
        if low.q != 1 or high.q != 1:
            return UNKNOWN
        start, count = low.p, high.p - low.p + 1
        if count <= 0:
            return empty
        if empty == 0 and count > 2 * _MAX_DEGREE:
            degree = _degree(body, variable.name)
            if degree is not None:
                return self._polynomial_sum(body, variable.name, start, count, degree)
        if count > MAX_TERMS:
            return UNKNOWN
        terms = self._terms(body, variable.name, start, int(count))
        return self._pairwise(terms, operation)

    def _terms(self, body: Expr, name: str, start: fmpz, count: int) -> list[Value]:
        outer = self.bindings.get(name)
        terms: list[Value] = []
        before = self.steps
        try:
            for k in range(count):
                self.bindings[name] = fmpq(start + k)
                terms.append(self._value(body))
                if terms[-1] is UNKNOWN or terms[-1] is UNDEFINED:
                    return terms[-1:]
                # What the first term took shows whether the budget lasts.
                if k == 0 and (before - self.steps) * count > before:
                    raise _ExhaustedError
        finally:
            if outer is None:
                self.bindings.pop(name, None)
            else:
                self.bindings[name] = outer
        return terms

    def _pairwise(self, terms: list[Value], operation: Callable[[Value, Value], Value]) -> Value:
        # Neighbours first, so that the numbers stay short for as long as they can.
        while len(terms) > 1:
            # Fractions cost more than integers do, for their greatest common divisors.
            bits = sum(term.height_bits() * (1 if term.q == 1 else 2) for term in terms if isinstance(term, fmpq))
            self._charge(bits if bits > 10_000 else 0)
            pairs = [operation(x, y) for x, y in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[len(terms) - len(terms) % 2 :]
        return terms[0]

    def _polynomial_sum(self, body: Expr, name: str, start: fmpz, count: fmpz, degree: int) -> Value:
        """The sum by Newton's forward differences: sum of t(k) over k < N is the sum of D^j t(0) C(N, j+1)."""
        terms = self._terms(body, name, start, degree + 1)
        differences = [term for term in terms if isinstance(term, fmpq)]
        if len(differences) < len(terms):
            return UNDEFINED if UNDEFINED in terms else UNKNOWN
        total, binomial = ZERO, fmpq(count)
        for j in range(degree + 1):
            total += differences[0] * binomial
            binomial = binomial * (count - j - 1) / (j + 2)
            differences = [y - x for x, y in pairwise(differences)]
        return total


def _fraction(found: fmpq) -> Fraction | None:
    above, below = int(found.p), int(found.q)
    if below == 1:
        return Fraction(above)
    # Python finds the greatest common divisor once more, in quadratic time.
    return Fraction(above, below) if found.height_bits() <= _MAX_FRACTION_BITS else None


def _exact_root(x: fmpq, degree: fmpz) -> fmpq | None:
    """The rational root of a positive number."""
    if x == 1:
        return x
    if degree > max(x.p.bit_length(), x.q.bit_length()):
        return None
    n = int(degree)
    above, below = x.p.root(n), x.q.root(n)
    return fmpq(above, below) if above**n == x.p and below**n == x.q else None


def _whole_logarithm(b: fmpz, x: fmpz) -> int | None:
    """The whole y with b^y = x, for b of 2 or more."""
    powers = [b]
    while powers[-1].bit_length() * 2 <= x.bit_length() + 1:
        powers.append(powers[-1] * powers[-1])
    y = 0
    for j in range(len(powers) - 1, -1, -1):
        if powers[j] <= x:
            x, rest = divmod(x, powers[j])
            if rest:
                return None
            y += 1 << j
    return y if x == 1 else None


def _degree(expr: Expr, name: str) -> int | None:
    """The degree of the expression as a polynomial in the symbol; None if it is none or of a high degree."""
    if isinstance(expr, Number | Constant):
        return 0
    if isinstance(expr, Symbol):
        return int(expr.name == name)
    degrees = [_degree(arg, name) for arg in expr.args]
    if any(degree is None for degree in degrees):
        return None
    found = [degree for degree in degrees if degree is not None]
    if expr.op in ("add", "neg"):
        total = max(found)
    elif expr.op == "mul":
        total = sum(found)
    elif expr.op == "div" and found[1] == 0:
        total = found[0]
    elif expr.op == "pow" and isinstance(expr.args[1], Number) and expr.args[1].value.denominator == 1:
        power = expr.args[1].value.numerator
        if not 0 <= power <= _MAX_DEGREE:
            return None
        total = found[0] * power
    else:
        return None
    return total if total <= _MAX_DEGREE else None


_CONSTANTS: dict[str, Value] = {"pi": ABOVE_TWO, "e": ABOVE_TWO, "infinity": INFINITE}


def _function(at: Mapping[int, Value], infinite: tuple[Value, Value]) -> Callable[..., Value]:
    return lambda evaluator, arg: evaluator._special(arg, at, infinite)


_NOWHERE = (UNDEFINED, UNDEFINED)
_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": Evaluator._add,
    "mul": Evaluator._mul,
    "neg": Evaluator._neg,
    "div": Evaluator._div,
    "pow": Evaluator._pow,
    "root": Evaluator._root,
    "ln": Evaluator._ln,
    "log": Evaluator._log,
    "factorial": Evaluator._factorial,
    "double_factorial": Evaluator._double_factorial,
    "binom": Evaluator._binom,
    "gcd": Evaluator._gcd,
    "lcm": Evaluator._lcm,
    "mod": Evaluator._mod,
    "floor": Evaluator._floor,
    "ceil": Evaluator._ceil,
    "abs": Evaluator._abs,
    "sign": Evaluator._sign,
    "max": Evaluator._max,
    "min": Evaluator._min,
    "re": Evaluator._re,
    "im": Evaluator._im,
    "conj": Evaluator._re,
    "arg": Evaluator._arg,
    "sum": Evaluator._sum,
    "prod": Evaluator._prod,
    "sin": _function({0: ZERO}, _NOWHERE),
    "cos": _function({0: ONE}, _NOWHERE),
    "tan": _function({0: ZERO}, _NOWHERE),
    "cot": _function({0: UNDEFINED}, _NOWHERE),
    "sec": _function({0: ONE}, _NOWHERE),
    "csc": _function({0: UNDEFINED}, _NOWHERE),
    "arcsin": _function({0: ZERO}, _NOWHERE),
    "arccos": _function({1: ZERO}, _NOWHERE),
    "arctan": _function({0: ZERO}, (POSITIVE, NEGATIVE)),
    "arcsec": _function({0: UNDEFINED, 1: ZERO}, (POSITIVE, POSITIVE)),
    "arccsc": _function({0: UNDEFINED}, (ZERO, ZERO)),
    "sinh": _function({0: ZERO}, (INFINITE, NEGATIVE_INFINITE)),
    "cosh": _function({0: ONE}, (INFINITE, INFINITE)),
    "tanh": _function({0: ZERO}, (ONE, -ONE)),
    "coth": _function({0: UNDEFINED}, (ONE, -ONE)),
    "sech": _function({0: ONE}, (ZERO, ZERO)),
    "csch": _function({0: UNDEFINED}, (ZERO, ZERO)),
    "arcsinh": _function({0: ZERO}, (INFINITE, NEGATIVE_INFINITE)),
    "arccosh": _function({1: ZERO}, (INFINITE, UNKNOWN)),
    "arctanh": _function({0: ZERO, 1: UNDEFINED, -1: UNDEFINED}, (UNKNOWN, UNKNOWN)),
}
