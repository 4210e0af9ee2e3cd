"""What can be read off an expression without computing it: its symbols, its size, a fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction

from .nodes import Apply, Constant, Expr, Number, Symbol

CALCULUS = frozenset({"integral", "derivative", "limit", "limit_left", "limit_right"})
"""The operations that none of the in-process evaluators know."""

_BINDERS = frozenset({"sum", "prod", "integral", "limit", "limit_left", "limit_right"})
_WHOLE_NUMBER_OPERATIONS = frozenset({"factorial", "double_factorial", "binom", "gcd", "lcm", "mod"})
_WHOLE_NUMBER_NAMES = frozenset("nkmjN")


@dataclass(slots=True)
class Facts:
    """What one walk over an expression finds.

    Attributes:
        nodes: the number of nodes.
        free: the symbols that no sum, product, definite integral or limit binds.
        whole: the free symbols that only whole numbers make sense for: arguments of a factorial or of a
            greatest common divisor, bounds of a sum.
        exponents: the free symbols that stand in an exponent.
        constants: the names of the constants.
        operations: the names of the operations.
        bits: the digits of all numbers together, in bits.
        largest: an upper bound of the absolute values of the numbers, at least 1.
    """

    nodes: int = 0
    free: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    exponents: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)
    operations: set[str] = field(default_factory=set)
    bits: int = 0
    largest: int = 1

    @property
    def is_constant(self) -> bool:
        """Whether no symbol is free."""
        return not self.free

    @property
    def probably_whole(self) -> set[str]:
        """The symbols that are whole numbers by their place or their name."""
        return self.whole | (self.exponents & self.free) | (self.free & _WHOLE_NUMBER_NAMES)


def facts(*expressions: Expr) -> Facts:
    """The facts of several expressions together."""
    found = Facts()
    for expr in expressions:
        _collect(expr, found, frozenset(), False, False)
    return found


def _collect(expr: Expr, found: Facts, bound: frozenset[str], whole: bool, exponent: bool) -> None:
    found.nodes += 1
    if isinstance(expr, Number):
        above, below = expr.value.numerator, expr.value.denominator
        found.bits += above.bit_length() + below.bit_length() - 1
        found.largest = max(found.largest, abs(above) // below)
    elif isinstance(expr, Symbol):
        if expr.name not in bound:
            found.free.add(expr.name)
            if whole:
                found.whole.add(expr.name)
            if exponent:
                found.exponents.add(expr.name)
    elif isinstance(expr, Constant):
        found.constants.add(expr.name)
    else:
        _collect_apply(expr, found, bound, whole, exponent)


def _collect_apply(expr: Apply, found: Facts, bound: frozenset[str], whole: bool, exponent: bool) -> None:
    op, args = expr.op, expr.args
    found.operations.add(op)
    if op in _BINDERS and len(args) >= 3 and isinstance(args[1], Symbol):
        _collect(args[0], found, bound | {args[1].name}, whole, exponent)
        for bound_expr in args[2:]:
            _collect(bound_expr, found, bound, whole or op in ("sum", "prod"), exponent)
        return
    if op == "pow":
        found.largest = max(found.largest, _small_power(args[0], args[1]))
        _collect(args[0], found, bound, whole, exponent)
        # The exponential takes any real number, so that its exponent says nothing.
        of_e = isinstance(args[0], Constant) and args[0].name == "e"
        _collect(args[1], found, bound, whole, exponent or not of_e)
        return
    whole = whole or op in _WHOLE_NUMBER_OPERATIONS
    for arg in args:
        _collect(arg, found, bound, whole, exponent)


def _small_power(base: Expr, exponent: Expr) -> int:
    """A power of two whole numbers, as in 10^9, where it is below 2^60; otherwise 1."""
    if type(base) is not Number or type(exponent) is not Number:
        return 1
    x, n = abs(base.value), exponent.value
    if x.denominator != 1 or n.denominator != 1 or not 0 < n <= 60 or n * x.numerator.bit_length() > 60:
        return 1
    return x.numerator**n.numerator


def symbols(expr: Expr) -> frozenset[str]:
    """The free symbols of an expression."""
    return frozenset(facts(expr).free)


def size(expr: Expr) -> int:
    """The number of nodes of an expression."""
    return facts(expr).nodes


def fingerprint(expr: Expr) -> int:
    """64 bits that depend on the content of the tree alone: the same in every process and on every machine."""
    pieces: list[str] = []
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Number):
            pieces.append(_hexadecimal(node.value))
        elif isinstance(node, Apply):
            pieces.append(f"{node.op}({len(node.args)}")
            stack.extend(node.args)
        else:
            pieces.append(f"{'$' if isinstance(node, Symbol) else '#'}{node.name}")
    return digest("\n".join(pieces))


def digest(text: str) -> int:
    """64 bits of the text's BLAKE2 digest."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _hexadecimal(value: Fraction) -> str:
    # Decimal would take quadratic time, and beyond 4300 digits Python refuses it.
    return f"{value.numerator:x}/{value.denominator:x}"
