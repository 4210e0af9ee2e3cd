"""What needs a computer algebra system: closed forms of calculus, and simplification as the last resort.

Everything here may take forever, so it runs in a process that can be killed. Expressions go to sympy node by node
through its constructors; no text is ever parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from flint import fmpq

from . import equality, exact
from .kinds import Kind
from .nodes import Apply, Constant, Expr, Number, Symbol
from .structure import CALCULUS, facts

_MAX_NODES = 500
_MAX_BITS = 20_000
_ELEMENTARY = {
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "cot": "cot",
    "sec": "sec",
    "csc": "csc",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arccot": "acot",
    "arcsec": "asec",
    "arccsc": "acsc",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "coth": "coth",
    "sech": "sech",
    "csch": "csch",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "ln": "log",
    "factorial": "factorial",
    "double_factorial": "factorial2",
    "binom": "binomial",
    "gcd": "gcd",
    "lcm": "lcm",
    "mod": "Mod",
    "floor": "floor",
    "ceil": "ceiling",
    "abs": "Abs",
    "sign": "sign",
    "max": "Max",
    "min": "Min",
    "re": "re",
    "im": "im",
    "conj": "conjugate",
    "arg": "arg",
}
_BACK = {sympy_name: op for op, sympy_name in _ELEMENTARY.items()}


class _NotTranslatableError(Exception):
    """The expression has no counterpart on the other side, or is too large for it."""


def to_sympy(expr: Expr) -> Any:
    """The expression in sympy, its symbols real (whole numbers where they have to be); calculus is left to do.

    Raises:
        ValueError: it holds an operation with no counterpart, or numbers or a size that sympy would not end with.
    """
    found = facts(expr)
    if found.nodes > _MAX_NODES or found.bits > _MAX_BITS:
        raise ValueError("The expression is too large for sympy.")
    try:
        return _ToSympy(found.whole).translate(expr)
    except (_NotTranslatableError, RecursionError) as error:
        raise ValueError("The expression has no counterpart in sympy.") from error


def from_sympy(found: Any) -> Expr | None:
    """The tree for a sympy expression; None where it holds what the trees have no operation for.

    What sympy calls nan or complex infinity becomes 0/0, which is undefined here too.
    """
    try:
        return _from_sympy(found)
    except (_NotTranslatableError, RecursionError):
        return None


def evaluate(expr: Expr) -> Expr | None:
    """The expression with every integral, derivative, limit, infinite or symbolic sum and product in closed form.

    None where sympy finds none, or one that holds what the trees have no operation for. Of a value by cases, the
    general case counts: the sum of x^k from 0 to infinity is 1/(1 - x).
    """
    import sympy

    try:
        translated = to_sympy(expr)
    except ValueError:
        return None
    # sympy raises whatever its algorithms run into.
    try:
        done = translated.doit()
        done = done.replace(lambda part: isinstance(part, sympy.Piecewise), _general_case)
        if done.has(sympy.Integral, sympy.Derivative, sympy.Limit, sympy.Sum, sympy.Product):
            done = sympy.simplify(done).doit()
    except Exception:
        return None
    return from_sympy(done)


def equal(a: Expr, b: Expr) -> bool | None:
    """Whether two expressions are the same after all that sympy can do; None where it cannot tell."""
    closed = [_closed(expr) for expr in (a, b)]
    if closed[0] is not None and closed[1] is not None:
        verdict = equality.same(closed[0], closed[1])
        if verdict != "unknown":
            return verdict == "yes"
    return _simplifies_to_zero(a, b)


def _closed(expr: Expr) -> Expr | None:
    operations = facts(expr).operations
    return expr if CALCULUS.isdisjoint(operations) and not operations & {"sum", "prod"} else evaluate(expr)


def _simplifies_to_zero(a: Expr, b: Expr) -> bool | None:
    import sympy

    try:
        x, y = to_sympy(a).doit(), to_sympy(b).doit()
        undefined = (sympy.nan, sympy.zoo)
        if x.has(*undefined) or y.has(*undefined):
            return False
        infinite = (sympy.oo, -sympy.oo)
        if x in infinite or y in infinite:
            return bool(x == y)
        difference = sympy.expand(x - y)
        if difference != 0:
            difference = sympy.simplify(difference)
    except Exception:
        return None
    if difference == 0:
        return True
    return False if difference.is_zero is False and difference.is_number else None


def _general_case(cases: Any) -> Any:
    import sympy

    for value, condition in cases.args:
        if not isinstance(condition, sympy.Eq) and not value.has(sympy.Sum, sympy.Product, sympy.Integral):
            return value
    raise _NotTranslatableError


class _ToSympy:
    """Builds the sympy expression of a tree."""

    def __init__(self, whole: set[str]) -> None:
        self._whole = whole

    def translate(self, expr: Expr) -> Any:
        import sympy

        if isinstance(expr, Number):
            return sympy.Rational(expr.value.numerator, expr.value.denominator)
        if isinstance(expr, Symbol):
            return self._symbol(expr.name)
        if isinstance(expr, Constant):
            constants = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infinity": sympy.oo}
            if expr.name not in constants:
                raise _NotTranslatableError
            return constants[expr.name]
        if expr.op.startswith("call:"):
            return sympy.Function(expr.op.removeprefix("call:"), real=True)(*map(self.translate, expr.args))
        return self._operation(expr)

    def _symbol(self, name: str) -> Any:
        import sympy

        return sympy.Symbol(name, integer=True) if name in self._whole else sympy.Symbol(name, real=True)

    def _operation(self, expr: Apply) -> Any:
        import sympy

        self._weigh(expr)
        if expr.op in _ELEMENTARY:
            function = getattr(sympy, _ELEMENTARY[expr.op])
            return function(*map(self.translate, expr.args))
        if expr.op in CALCULUS or expr.op in ("sum", "prod"):
            return self._binder(expr)
        args = [self.translate(arg) for arg in expr.args]
        build = _ARITHMETIC.get(expr.op)
        if build is None:
            raise _NotTranslatableError
        return build(*args)

    def _weigh(self, expr: Apply) -> None:
        """Refuses numbers that sympy would compute digit by digit, for minutes, and what it computes otherwise."""
        if expr.op in ("gcd", "lcm") and not isinstance(exact.value(expr), fmpq):
            # Of symbols, sympy finds the greatest common divisor as polynomials.
            raise _NotTranslatableError
        if expr.op in ("factorial", "double_factorial", "binom") and isinstance(exact.value(expr), Kind):
            large = exact.value(expr) in (Kind.HUGE, Kind.ABOVE_TWO)
        elif expr.op == "pow":
            base, exponent = (exact.value(arg) for arg in expr.args)
            large = exponent is Kind.HUGE or (
                isinstance(base, fmpq) and isinstance(exponent, fmpq) and abs(exponent) * base.height_bits() > _MAX_BITS
            )
        else:
            return
        if large:
            raise _NotTranslatableError

    def _binder(self, expr: Apply) -> Any:
        import sympy

        body, variable, *bounds = expr.args
        if not isinstance(variable, Symbol):
            raise _NotTranslatableError
        if expr.op in ("sum", "prod"):
            inner = _ToSympy(self._whole | {variable.name})
            limits = (inner._symbol(variable.name), *map(self.translate, bounds))
            return (sympy.Sum if expr.op == "sum" else sympy.Product)(inner.translate(body), limits)
        inner = _ToSympy(self._whole - {variable.name})
        symbol, translated = inner._symbol(variable.name), inner.translate(body)
        if expr.op == "integral":
            return sympy.Integral(translated, (symbol, *map(self.translate, bounds)))
        if expr.op == "derivative":
            return sympy.Derivative(translated, symbol)
        side = {"limit": "+-", "limit_left": "-", "limit_right": "+"}[expr.op]
        target = self.translate(bounds[0])
        return sympy.Limit(translated, symbol, target, "-" if target.is_infinite else side)


def _arithmetic() -> dict[str, Callable[..., Any]]:
    def root(x: Any, n: Any) -> Any:
        import sympy

        if n.is_Integer and n % 2 and x.is_extended_real:
            return sympy.real_root(x, n)
        return x ** (1 / n)

    def logarithm(base: Any, x: Any) -> Any:
        import sympy

        return sympy.log(x) / sympy.log(base)

    def add(*args: Any) -> Any:
        import sympy

        return sympy.Add(*args)

    def mul(*args: Any) -> Any:
        import sympy

        return sympy.Mul(*args)

    return {
        "add": add,
        "mul": mul,
        "neg": lambda x: -x,
        "div": lambda x, y: x / y,
        "pow": lambda x, y: x**y,
        "root": root,
        "log": logarithm,
    }


_ARITHMETIC = _arithmetic()


def _from_sympy(found: Any) -> Expr:
    import sympy

    if found in (sympy.nan, sympy.zoo):
        zero = Number(Fraction(0))
        return Apply("div", (zero, zero))
    if found.is_Rational:
        return Number(Fraction(int(found.p), int(found.q)))
    if found.is_Symbol:
        return Symbol(found.name)
    constants = {sympy.pi: "pi", sympy.E: "e", sympy.I: "i", sympy.oo: "infinity"}
    if found in constants:
        return Constant(constants[found])
    if found == -sympy.oo:
        return Apply("neg", (Constant("infinity"),))
    args = tuple(_from_sympy(arg) for arg in found.args)
    if isinstance(found, sympy.Add | sympy.Mul | sympy.Pow):
        return Apply({sympy.Add: "add", sympy.Mul: "mul", sympy.Pow: "pow"}[found.func], args)
    if isinstance(found, sympy.exp):
        return Apply("pow", (Constant("e"), args[0]))
    if isinstance(found, sympy.core.function.AppliedUndef):
        return Apply(f"call:{found.func.__name__}", args)
    op = _BACK.get(found.func.__name__)
    if op is None or not args:
        raise _NotTranslatableError
    return Apply(op, args)
