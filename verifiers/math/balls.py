"""Expressions as balls: complex numbers with a rigorous bound of their error, at any precision (Arb).

Two balls that do not overlap prove that two values differ. Balls that overlap prove nothing by themselves;
`Balls.spread` says how much precision the cancellations in an expression can use up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

import flint
from flint import acb, arb, fmpq, fmpz

from . import exact, kinds
from .kinds import Kind, Value
from .nodes import Apply, Constant, Expr, Number, Symbol
from .structure import digest

MAX_STEPS = 12_000
"""The operations at 128 bits that the evaluations which share one budget may take."""

_MAX_FACTORIAL = 5_000
_CALL_BITS = 48
_LOCK = threading.RLock()


class UndecidedError(Exception):
    """The value cannot be enclosed: an unknown operation, a jump within the ball, the budget used up."""


class NoValueError(Exception):
    """The expression has no value here: a zero below, a logarithm of zero.

    Attributes:
        certain: False where a ball only holds zero, which more precision may or may not exclude.
    """

    def __init__(self, certain: bool) -> None:
        super().__init__()
        self.certain = certain


class NotRealError(Exception):
    """A part of the expression is not real here, as the root of a negative number is not."""


class Precision:
    """Within it, balls are computed at `bits` bits, by this thread alone: Arb's precision is one for the process."""

    __slots__ = ("_before", "_bits")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        _LOCK.acquire()
        self._before = flint.ctx.prec
        flint.ctx.prec = self._bits

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        flint.ctx.prec = self._before
        _LOCK.release()


class Budget:
    """The work that several evaluations may do together.

    Attributes:
        steps: operations at 128 bits that are left.
        exact: evaluates exponents and bounds, with its own budget.
    """

    __slots__ = ("exact", "known", "steps")

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps
        self.exact = exact.Evaluator()
        self.known: dict[int, Value] = {}

    def exactly(self, expr: Expr) -> Value:
        """The exact value of a constant expression, each computed once.

        The tree has to outlive the budget.
        """
        found = self.known.get(id(expr))
        if found is None:
            found = self.known[id(expr)] = self.exact.evaluate(expr)
        return found


class Balls:
    """Evaluates expressions at one point, at the precision in force (see `Precision`).

    Args:
        bindings: the values of the symbols.
        budget: shared with other evaluations.
        real: whether every part of an expression has to be real.
    """

    __slots__ = ("_bindings", "_budget", "_cost", "_real_only", "_tiny")

    def __init__(self, bindings: dict[str, acb], budget: Budget, real: bool = False) -> None:
        self._bindings = dict(bindings)
        self._real_only = real
        self._budget = budget
        precision = flint.ctx.prec
        self._cost = 1 + precision // 512
        self._tiny = arb((1, -precision // 2))

    def ball(self, expr: Expr) -> acb:
        """A finite ball around the value.

        Raises:
            UndecidedError: none can be found.
            NoValueError: there is no value.
            NotRealError: a part is not real and has to be.
        """
        try:
            found = self._value(expr)
        except (RecursionError, OverflowError, ValueError, ZeroDivisionError):
            raise UndecidedError from None
        if not found.is_finite():
            raise UndecidedError
        return found

    def _value(self, expr: Expr) -> acb:
        self._budget.steps -= self._cost
        if self._budget.steps < 0:
            raise UndecidedError
        if isinstance(expr, Apply):
            found = self._apply(expr)
            if self._real_only and not found.imag.is_zero() and found.is_finite():
                raise NotRealError
            return found
        if isinstance(expr, Number):
            number = expr.value
            if number.denominator == 1:
                return acb(number.numerator)
            return acb(fmpq(number.numerator, number.denominator))
        if isinstance(expr, Symbol):
            bound = self._bindings.get(expr.name)
            if bound is None:
                raise UndecidedError
            return bound
        constant = _CONSTANTS.get(expr.name)
        if constant is None:
            raise UndecidedError
        return constant()

    def _apply(self, expr: Apply) -> acb:
        function = _FUNCTIONS.get(expr.op)
        if function is not None:
            return function(self._value(expr.args[0]))
        operation = _OPERATIONS.get(expr.op)
        if operation is not None:
            return operation(self, *expr.args)
        if expr.op.startswith("call:"):
            return self._call(expr)
        raise UndecidedError

    def _real(self, expr: Expr) -> arb:
        """The value, which has to be real."""
        found = self._value(expr)
        if not found.imag.is_zero():
            raise UndecidedError
        return found.real

    def _whole(self, expr: Expr) -> int:
        """The value, which has to be a whole number and exactly known."""
        known = self._budget.exactly(expr)
        if isinstance(known, fmpq):
            if known.q != 1:
                raise UndecidedError
            return int(known.p)
        found = _exact_integer(self._value(expr))
        if found is None:
            raise UndecidedError
        return found

    def _no_value(self, near_zero: acb) -> NoValueError | UndecidedError:
        """What to raise where a ball that holds zero stands below or in a logarithm."""
        if near_zero.is_zero():
            return NoValueError(certain=True)
        if near_zero.is_finite() and near_zero.rad() < self._tiny:
            return NoValueError(certain=False)
        return UndecidedError()

    # Arithmetic.

    def _add(self, *args: Expr) -> acb:
        total = self._value(args[0])
        for arg in args[1:]:
            total = total + self._value(arg)
        return total

    def _mul(self, *args: Expr) -> acb:
        total = self._value(args[0])
        for arg in args[1:]:
            total = total * self._value(arg)
        return total

    def _neg(self, arg: Expr) -> acb:
        return -self._value(arg)

    def _div(self, above: Expr, below: Expr) -> acb:
        x, y = self._value(above), self._value(below)
        if y.contains(0):
            raise self._no_value(y)
        return x / y

    def _pow(self, base: Expr, exponent: Expr) -> acb:
        if type(base) is Constant and base.name == "e":
            return self._value(exponent).exp()
        if type(exponent) is Number:
            number = exponent.value
            return self._rational_power(self._value(base), number.numerator, number.denominator)
        known = self._budget.exactly(exponent)
        if isinstance(known, fmpq):
            return self._rational_power(self._value(base), int(known.p), int(known.q))
        if known is Kind.UNDEFINED:
            raise NoValueError(certain=True)
        x, y = self._value(base), self._value(exponent)
        integer = _exact_integer(y)
        if integer is not None:
            return self._rational_power(x, integer, 1)
        if x.is_zero():
            if y.real > 0:
                return x
            raise NoValueError(certain=True)
        return x**y

    def _rational_power(self, x: acb, above: int, below: int) -> acb:
        if above <= 0 and x.contains(0):
            if above < 0 or x.is_zero():
                raise self._no_value(x)
            return acb(1)
        if below == 1:
            return x ** fmpz(above)
        if below == 2:
            return x.sqrt() ** fmpz(above)
        if below % 2 and x.imag.is_zero() and not x.real > 0 and below < 1 << 60:
            return acb(_odd_root(x.real, below)) ** fmpz(above)
        if x.is_zero():
            return x
        return x ** acb(fmpq(above, below))

    def _root(self, arg: Expr, degree: Expr) -> acb:
        known = self._budget.exactly(degree)
        if isinstance(known, fmpq):
            if not known:
                raise NoValueError(certain=True)
            above, below = int(known.q), int(known.p)
            return self._rational_power(self._value(arg), above if below > 0 else -above, abs(below))
        x, n = self._value(arg), self._value(degree)
        if n.contains(0):
            raise self._no_value(n)
        integer = _exact_integer(n)
        if integer is not None:
            return self._rational_power(x, 1 if integer > 0 else -1, abs(integer))
        return x if x.is_zero() and n.real > 0 else x ** (1 / n)

    # Elementary functions that have no value somewhere.

    def _ln(self, arg: Expr) -> acb:
        x = self._value(arg)
        if x.contains(0):
            raise self._no_value(x)
        return x.log()

    def _log(self, base: Expr, arg: Expr) -> acb:
        above, below = self._ln(arg), self._ln(base)
        if below.contains(0):
            raise self._no_value(below)
        return above / below

    def _with_poles(self, arg: Expr, function: Callable[[acb], acb], zero_at_pole: Callable[[acb], acb]) -> acb:
        x = self._value(arg)
        found = function(x)
        if not found.is_finite():
            raise self._no_value(zero_at_pole(x))
        return found

    def _arccot(self, arg: Expr) -> acb:
        x = self._value(arg)
        if x.is_zero():
            return acb.pi() / 2
        return (1 / x).atan()

    def _of_reciprocal(self, arg: Expr, function: Callable[[acb], acb]) -> acb:
        x = self._value(arg)
        if x.contains(0):
            raise self._no_value(x)
        return function(1 / x)

    # Whole numbers.

    def _factorial(self, arg: Expr) -> acb:
        x = self._value(arg)
        n = _exact_integer(x)
        if n is None:
            known = self._budget.exactly(arg)
            n = int(known.p) if isinstance(known, fmpq) and known.q == 1 else None
        if n is not None:
            if n < 0:
                raise NoValueError(certain=True)
            if n <= _MAX_FACTORIAL:
                self._budget.steps -= n // 8
                return acb(arb.fac_ui(n))
        self._budget.steps -= 200 * self._cost**2
        if self._budget.steps < 0:
            raise UndecidedError
        return (x + 1).gamma()

    def _double_factorial(self, arg: Expr) -> acb:
        n = self._whole(arg)
        if n < -1:
            raise NoValueError(certain=True)
        if n > _MAX_FACTORIAL:
            raise UndecidedError
        self._budget.steps -= max(n, 0) // 8
        return acb(self._budget.exact._factorial_within(n, 2))

    def _binom(self, above: Expr, below: Expr) -> acb:
        k = self._whole(below)
        n = self._value(above)
        integer = _exact_integer(n)
        if integer is not None and integer >= 0:
            k = min(k, integer - k)
        if k < 0:
            return acb(0)
        if k > _MAX_FACTORIAL:
            raise UndecidedError
        self._budget.steps -= k
        product = acb(1)
        for j in range(k):
            product = product * (n - j) / (j + 1)
        return product

    def _gcd(self, *args: Expr) -> acb:
        total = fmpz(0)
        for arg in args:
            total = total.gcd(fmpz(self._whole(arg)))
        return acb(total)

    def _lcm(self, *args: Expr) -> acb:
        total = fmpz(1)
        for arg in args:
            total = total.lcm(fmpz(self._whole(arg)))
            if total.bit_length() > kinds.MAX_BITS:
                raise UndecidedError
        return acb(total)

    def _mod(self, arg: Expr, modulus: Expr) -> acb:
        x, m = self._real(arg), self._real(modulus)
        if m.contains(0):
            raise self._no_value(acb(m))
        return acb(x - m * _floor(x / m))

    def _round(self, arg: Expr, up: bool) -> acb:
        x = self._real(arg)
        try:
            return acb(-_floor(-x) if up else _floor(x))
        except UndecidedError:
            known = self._budget.exactly(arg)
            if not isinstance(known, fmpq):
                raise
            return acb(known.ceil() if up else known.floor())

    # Other.

    def _abs(self, arg: Expr) -> acb:
        return acb(abs(self._value(arg)))

    def _sign(self, arg: Expr) -> acb:
        x = self._value(arg)
        if x.is_zero():
            return x
        if x.contains(0):
            raise UndecidedError
        if x.imag.is_zero():
            return acb(1 if x.real > 0 else -1)
        return x / acb(abs(x))

    def _extreme(self, args: tuple[Expr, ...], choose: Callable[[arb, arb], arb]) -> acb:
        total = self._real(args[0])
        for arg in args[1:]:
            total = choose(total, self._real(arg))
        return acb(total)

    def _arg(self, arg: Expr) -> acb:
        x = self._value(arg)
        if x.contains(0):
            raise self._no_value(x)
        return acb(x.arg())

    def _call(self, expr: Apply) -> acb:
        """The value of a function of which nothing is known: a pseudo-random one, the same for the same arguments."""
        pieces = [expr.op]
        for arg in expr.args:
            x = self._value(arg)
            # The odd offset keeps simple numbers off the edges, on which two balls of one number could part.
            for part in (x.real, x.imag):
                scaled = (part + arb((0x5851F42D4C957F2D, -67))) * arb((1, _CALL_BITS))
                pieces.append(str(_floor(scaled)))
        return acb(arb((digest("|".join(pieces)) | 1 << 63, -63)))

    # Binders.

    def _sum(self, body: Expr, variable: Expr, first: Expr, last: Expr) -> acb:
        return self._fold(body, variable, first, last, acb(0), lambda x, y: x + y)

    def _prod(self, body: Expr, variable: Expr, first: Expr, last: Expr) -> acb:
        return self._fold(body, variable, first, last, acb(1), lambda x, y: x * y)

    def _fold(
        self, body: Expr, variable: Expr, first: Expr, last: Expr, total: acb, operation: Callable[[acb, acb], acb]
    ) -> acb:
        start, end = self._whole(first), self._whole(last)
        if not isinstance(variable, Symbol) or end - start > self._budget.steps:
            raise UndecidedError
        if end < start - 1:
            raise NoValueError(certain=False)
        outer = self._bindings.get(variable.name)
        before = self._budget.steps
        for k in range(start, end + 1):
            self._bindings[variable.name] = acb(k)
            total = operation(total, self._value(body))
            # What the first term took shows whether the budget lasts.
            if k == start and (before - self._budget.steps) * (end - start) > before:
                raise UndecidedError
        self._bindings.pop(variable.name, None)
        if outer is not None:
            self._bindings[variable.name] = outer
        return total


class Measuring(Balls):
    """Balls that also take note of how much precision the expressions can use up.

    Attributes:
        spread: the sum, over the operations that can make a small difference disappear in a large number, of the
            binary orders of magnitude between the two: 400 decimal digits in sqrt(1 + 10^-400).
    """

    __slots__ = ("_orders", "spread")

    def __init__(self, bindings: dict[str, acb], budget: Budget) -> None:
        super().__init__(bindings, budget)
        self._orders: dict[int, int] = {}
        self.spread = 0

    def _value(self, expr: Expr) -> acb:
        found = super()._value(expr)
        self._orders[id(expr)] = _order(found)
        if type(expr) is Apply:
            self.spread += self._lost(expr)
        return found

    def _lost(self, expr: Apply) -> int:
        orders = [self._orders.get(id(arg), 0) for arg in expr.args]
        if expr.op in ("mul", "div", "neg"):
            return 0
        if expr.op == "add":
            return max(orders) - min(orders)
        if expr.op in ("pow", "root"):
            return abs(orders[1])
        return sum(map(abs, orders))


def agree(x: acb, y: acb) -> bool | None:
    """False where two finite balls differ, True where they are narrow and overlap, None where they are too wide."""
    if not x.overlaps(y):
        return False
    for ball in (x, y):
        if ball.rel_accuracy_bits() < 48 and not ball.rad() < _NARROW:
            return None
    return True


def is_real(x: acb) -> bool:
    """Whether the imaginary part is zero as far as can be seen."""
    imaginary = x.imag
    return imaginary.is_zero() or (imaginary.contains(0) and imaginary.rad() < _NARROW * (1 + abs(x.real)))


def _exact_integer(x: acb) -> int | None:
    if not x.is_exact():
        return None
    found = x.unique_fmpz()
    return None if found is None else int(found)


def _floor(x: arb) -> fmpz:
    found = x.floor().unique_fmpz() if x.is_finite() and x.abs_upper() < _LARGEST_FLOOR else None
    if found is None:
        raise UndecidedError
    return found


def _odd_root(x: arb, degree: int) -> arb:
    """The real root of a real number, which increases with it."""
    if x < 0:
        return -((-x).root(degree))
    if x.is_zero():
        return x
    return (-((-x.lower()).root(degree))).union(x.upper().root(degree))


def _order(x: acb) -> int:
    """About log2 |x|; 0 for zero and for what is not finite."""
    if x.is_zero() or not x.is_finite():
        return 0
    mantissa, exponent = x.abs_upper().man_exp()
    return int(exponent) + mantissa.bit_length()


_NARROW = arb((1, -64))
_LARGEST_FLOOR = arb((1, 100_000))
_CONSTANTS: dict[str, Callable[[], acb]] = {"pi": acb.pi, "e": lambda: acb(1).exp(), "i": lambda: acb(0, 1)}
_FUNCTIONS: dict[str, Callable[[acb], acb]] = {
    "sin": acb.sin,
    "cos": acb.cos,
    "arcsin": acb.asin,
    "arccos": acb.acos,
    "arctan": acb.atan,
    "sinh": acb.sinh,
    "cosh": acb.cosh,
    "tanh": acb.tanh,
    "sech": acb.sech,
    "arcsinh": acb.asinh,
    "arccosh": acb.acosh,
    "re": lambda x: acb(x.real),
    "im": lambda x: acb(x.imag),
    "conj": acb.conjugate,
}
_OPERATIONS: dict[str, Callable[..., acb]] = {
    "add": Balls._add,
    "mul": Balls._mul,
    "neg": Balls._neg,
    "div": Balls._div,
    "pow": Balls._pow,
    "root": Balls._root,
    "ln": Balls._ln,
    "log": Balls._log,
    "tan": lambda balls, arg: balls._with_poles(arg, acb.tan, acb.cos),
    "sec": lambda balls, arg: balls._with_poles(arg, acb.sec, acb.cos),
    "cot": lambda balls, arg: balls._with_poles(arg, acb.cot, acb.sin),
    "csc": lambda balls, arg: balls._with_poles(arg, acb.csc, acb.sin),
    "coth": lambda balls, arg: balls._with_poles(arg, acb.coth, acb.sinh),
    "csch": lambda balls, arg: balls._with_poles(arg, acb.csch, acb.sinh),
    "arctanh": lambda balls, arg: balls._with_poles(arg, acb.atanh, lambda x: 1 - x * x),
    "arccot": Balls._arccot,
    "arcsec": lambda balls, arg: balls._of_reciprocal(arg, acb.acos),
    "arccsc": lambda balls, arg: balls._of_reciprocal(arg, acb.asin),
    "factorial": Balls._factorial,
    "double_factorial": Balls._double_factorial,
    "binom": Balls._binom,
    "gcd": Balls._gcd,
    "lcm": Balls._lcm,
    "mod": Balls._mod,
    "floor": lambda balls, arg: balls._round(arg, up=False),
    "ceil": lambda balls, arg: balls._round(arg, up=True),
    "abs": Balls._abs,
    "sign": Balls._sign,
    "max": lambda balls, *args: balls._extreme(args, arb.max),
    "min": lambda balls, *args: balls._extreme(args, arb.min),
    "arg": Balls._arg,
    "sum": Balls._sum,
    "prod": Balls._prod,
}
