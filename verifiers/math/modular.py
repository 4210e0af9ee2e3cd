"""Expressions modulo 61-bit primes: powers with enormous exponents and rational functions without expanding them.

Residues are a ring homomorphism from the rational numbers whose denominators the prime does not divide, and with
a square root of -1 from the Gaussian ones too. So different residues prove different values; equal residues at
random points make equal functions as good as certain (Schwartz, Zippel: at most degree / 2^60 for each prime).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from flint import fmpq, fmpz

from . import exact
from .kinds import Kind
from .nodes import Apply, Constant, Expr, Number, Symbol
from .structure import digest, fingerprint

PRIMES = (
    (1979648110353563801, 1335319443097530577),
    (1975117409722382041, 1159235725699626369),
    (1661568849141684601, 1363370669647778052),
    (1859534755698095893, 1858893609307049575),
    (2244298144489180309, 1575030089133300904),
    (1995330897224884189, 1099620545755993739),
    (1640197702407477877, 1492731453285910383),
    (1389365984534773741, 170947103199155945),
)
"""Primes that leave 1 modulo 4, each with a square root of -1."""

MAX_STEPS = 20_000
"""The operations that the evaluations which share one budget may take."""

_MAX_DEGREE = 1 << 40
_MAX_FACTORIAL = 30_000
_MIN_EULER_EXPONENT = 64


class NotModularError(Exception):
    """The expression has no residue that is known how to compute, or the budget is used up."""


class NoValueError(Exception):
    """At this point the expression is not defined: a zero below, 0^0, a sum that ends before it begins."""


class Budget:
    """The steps that several evaluations may take together.

    Attributes:
        steps: how many are left.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps


class Residues:
    """Evaluates expressions modulo one prime at one point.

    Args:
        field: the prime and a square root of -1.
        residues: the values of the symbols, modulo the prime.
        integers: the values of those symbols that stand for whole numbers, as these numbers.
        budget: shared with other evaluations.
        opaque: whether what has no residue gets a pseudo-random one, by its form. Equal results then still
            mean equality; different results mean nothing where `guessed` is true afterwards.
    """

    __slots__ = ("_binders", "_budget", "_exact", "_i", "_opaque", "_prime", "_residues", "guessed")

    def __init__(
        self,
        field: tuple[int, int],
        residues: dict[str, int],
        integers: dict[str, int],
        budget: Budget,
        opaque: bool = False,
    ) -> None:
        self._prime, self._i = field
        self._residues = residues | {name: value % field[0] for name, value in integers.items()}
        self._exact = exact.Evaluator({name: fmpq(value) for name, value in integers.items()})
        self._budget = budget
        self._opaque = opaque
        self._binders = 0
        self.guessed = False

    def residue(self, expr: Expr) -> int:
        """The residue of the expression.

        Raises:
            NotModularError: there is none.
            NoValueError: the expression is not defined at this point.
        """
        self._budget.steps -= 1
        if self._budget.steps < 0:
            raise NotModularError
        if isinstance(expr, Number):
            return self._rational(expr.value.numerator, expr.value.denominator)
        if isinstance(expr, Symbol):
            found = self._residues.get(expr.name)
            if found is None:
                raise NotModularError
            return found
        if isinstance(expr, Constant):
            return self._i if expr.name == "i" else self._guess(expr)
        operation = _OPERATIONS.get(expr.op)
        if operation is not None:
            return operation(self, expr)
        if expr.op.startswith("call:"):
            arguments = ",".join(str(self.residue(arg)) for arg in expr.args)
            return digest(f"{expr.op}({arguments})") % self._prime
        return self._otherwise(expr)

    def _rational(self, above: int, below: int) -> int:
        if below == 1:
            return above % self._prime
        if below % self._prime == 0:
            raise NotModularError
        return above * pow(below, -1, self._prime) % self._prime

    def _otherwise(self, expr: Apply) -> int:
        """The residue of an expression whose value is rational; else a guess."""
        found = self._exact.evaluate(expr)
        if isinstance(found, fmpq):
            return self._rational(int(found.p), int(found.q))
        if found is Kind.UNDEFINED:
            raise NoValueError
        return self._guess(expr)

    def _guess(self, expr: Expr) -> int:
        # Within a sum the form does not tell the value, which changes with the sum's variable.
        if not self._opaque or self._binders or _may_diverge(expr):
            raise NotModularError
        self.guessed = True
        return fingerprint(expr) % self._prime

    def _add(self, expr: Apply) -> int:
        total = 0
        for arg in expr.args:
            total += self.residue(arg)
        return total % self._prime

    def _mul(self, expr: Apply) -> int:
        total = 1
        for arg in expr.args:
            total = total * self.residue(arg) % self._prime
        return total

    def _neg(self, expr: Apply) -> int:
        return -self.residue(expr.args[0]) % self._prime

    def _div(self, expr: Apply) -> int:
        above, below = (self.residue(arg) for arg in expr.args)
        if below == 0:
            raise NoValueError
        return above * pow(below, -1, self._prime) % self._prime

    def _pow(self, expr: Apply) -> int:
        base, exponent = expr.args
        if isinstance(exponent, Number) and exponent.value.denominator == 1:
            return self._power(self.residue(base), exponent.value.numerator, base)
        found = self._exact.evaluate(exponent)
        if isinstance(found, fmpq) and found.q == 1:
            return self._power(self.residue(base), int(found.p), base)
        if found in (Kind.HUGE, Kind.ABOVE_TWO):
            residue = self.residue(base)
            if residue and not self._residues:
                return pow(residue, _tower(exponent, self._prime - 1, self._exact, 0), self._prime)
        return self._otherwise(expr)

    def _power(self, residue: int, exponent: int, base: Expr) -> int:
        if abs(exponent) > _MAX_DEGREE and self._residues:
            raise NotModularError
        if residue == 0 and exponent <= 0:
            raise NoValueError
        if residue and abs(exponent) > self._prime:
            exponent %= self._prime - 1
        return pow(residue, exponent, self._prime)

    def _root(self, expr: Apply) -> int:
        return self._otherwise(expr)

    def _factorial(self, expr: Apply) -> int:
        found = self._exact.evaluate(expr.args[0])
        if not isinstance(found, fmpq) or found.q != 1 or not 2000 < found.p <= _MAX_FACTORIAL:
            return self._otherwise(expr)
        n, product = int(found.p), 1
        self._budget.steps -= n // 4
        for k in range(2, n + 1):
            product = product * k % self._prime
        return product

    def _sum(self, expr: Apply) -> int:
        return sum(self._terms(expr)) % self._prime

    def _prod(self, expr: Apply) -> int:
        product = 1
        for term in self._terms(expr):
            product = product * term % self._prime
        return product

    def _terms(self, expr: Apply) -> list[int]:
        body, variable, *bounds = expr.args
        first, last = (self._exact.evaluate(bound) for bound in bounds)
        if not isinstance(variable, Symbol) or not isinstance(first, fmpq) or not isinstance(last, fmpq):
            raise NotModularError
        if first.q != 1 or last.q != 1 or last - first >= self._budget.steps:
            raise NotModularError
        if last < first - 1:
            raise NoValueError
        name = variable.name
        outer, outer_exact = self._residues.get(name), self._exact.bindings.get(name)
        terms: list[int] = []
        before, count = self._budget.steps, int(last.p - first.p) + 1
        self._binders += 1
        for k in range(int(first.p), int(last.p) + 1):
            self._residues[name] = k % self._prime
            self._exact.bindings[name] = fmpq(k)
            terms.append(self.residue(body))
            # What the first term took shows whether the budget lasts.
            if len(terms) == 1 and (before - self._budget.steps) * count > before:
                raise NotModularError
        self._binders -= 1
        self._residues.pop(name, None)
        self._exact.bindings.pop(name, None)
        if outer is not None:
            self._residues[name] = outer
        if outer_exact is not None:
            self._exact.bindings[name] = outer_exact
        return terms


def _may_diverge(expr: Expr) -> bool:
    """Whether the value may be infinite, so that it would not cancel against itself."""
    if isinstance(expr, Apply):
        return expr.op.startswith("limit") or (expr.op == "integral" and len(expr.args) > 2)
    return isinstance(expr, Constant) and expr.name == "infinity"


def _tower(expr: Expr, modulus: int, evaluator: exact.Evaluator, depth: int) -> int:
    """A whole number that is too big to compute, modulo `modulus`.

    By Euler's theorem in its general form, b^e = b^(e mod phi(m) + phi(m)) modulo m for every b where
    e >= log2 m.

    Raises:
        NotModularError: it is not a whole number or it is not known how to compute it.
    """
    if modulus == 1:
        return 0
    found = evaluator.evaluate(expr)
    if isinstance(found, fmpq) and found.q == 1:
        return int(found.p % modulus)
    if not isinstance(expr, Apply) or depth > 100:
        raise NotModularError
    if expr.op in ("add", "mul", "neg"):
        parts = [_tower(arg, modulus, evaluator, depth + 1) for arg in expr.args]
        if expr.op == "mul":
            product = 1
            for part in parts:
                product = product * part % modulus
            return product
        return (sum(parts) if expr.op == "add" else -parts[0]) % modulus
    if expr.op != "pow":
        raise NotModularError
    base, exponent = expr.args
    residue, power = _tower(base, modulus, evaluator, depth + 1), evaluator.evaluate(exponent)
    if isinstance(power, fmpq) and power.q == 1 and power >= 0:
        return pow(residue, int(power.p), modulus)
    if power is not Kind.HUGE:
        raise NotModularError
    totient = _totient(modulus)
    return pow(residue, _tower(exponent, totient, evaluator, depth + 1) + totient, modulus)


@lru_cache(maxsize=256)
def _totient(n: int) -> int:
    total = n
    for prime, _ in fmpz(n).factor():
        total -= total // int(prime)
    return total


_OPERATIONS: dict[str, Callable[[Residues, Apply], int]] = {
    "add": Residues._add,
    "mul": Residues._mul,
    "neg": Residues._neg,
    "div": Residues._div,
    "pow": Residues._pow,
    "factorial": Residues._factorial,
    "sum": Residues._sum,
    "prod": Residues._prod,
}
