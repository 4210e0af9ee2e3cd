"""What is known about a value that is no rational number: arithmetic with infinities, signs, and what is undefined."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from flint import fmpq

MAX_BITS = 400_000
"""No number that is computed has more bits than this (some 120,000 decimal digits)."""


class Kind(Enum):
    """What is known about a value that is not a rational number (or not known to be one)."""

    UNDEFINED = "undefined"
    INFINITE = "infinity"
    NEGATIVE_INFINITE = "-infinity"
    HUGE = "a finite real number of 2^MAX_BITS or more"
    ABOVE_TWO = "a finite real number of two or more"
    POSITIVE = "a finite positive real number"
    NEGATIVE = "a finite negative real number"
    UNKNOWN = "anything"


Value: TypeAlias = fmpq | Kind

UNDEFINED, UNKNOWN = Kind.UNDEFINED, Kind.UNKNOWN
INFINITE, NEGATIVE_INFINITE = Kind.INFINITE, Kind.NEGATIVE_INFINITE
HUGE, ABOVE_TWO, POSITIVE, NEGATIVE = Kind.HUGE, Kind.ABOVE_TWO, Kind.POSITIVE, Kind.NEGATIVE
INFINITIES = (INFINITE, NEGATIVE_INFINITE)
ZERO, ONE = fmpq(0), fmpq(1)


def sign(found: Value) -> int | None:
    """The sign of a value; None where it is not known."""
    if isinstance(found, fmpq):
        return (found > 0) - (found < 0)
    return _SIGNS.get(found)


def excludes(found: Value, number: Value) -> bool:
    """Whether the two surely differ, both being defined."""
    if isinstance(found, fmpq) and isinstance(number, fmpq):
        return found != number
    if isinstance(found, fmpq):
        found, number = number, found
    signs = sign(found), sign(number)
    if None not in signs and signs[0] != signs[1]:
        return True
    if UNKNOWN in (found, number):
        return False
    if (found in INFINITIES) != (number in INFINITIES):
        return True
    if isinstance(number, fmpq):
        return (found is HUGE and number.height_bits() < MAX_BITS) or (found is ABOVE_TWO and number < 2)
    return False


def plus(x: Value, y: Value) -> Value:
    """What is known about the sum."""
    if isinstance(x, fmpq):
        if isinstance(y, fmpq):
            return x + y
        # What is rational stands second from here on.
        x, y = y, x
    if x is UNDEFINED or y is UNDEFINED:
        return UNDEFINED
    signs = sign(x), sign(y)
    if x in INFINITIES or y in INFINITIES:
        if None in signs:
            return UNKNOWN
        if x in INFINITIES and y in INFINITIES:
            return x if x is y else UNDEFINED
        return x if x in INFINITIES else y
    if signs[1] == 0:
        return x
    if x is HUGE and isinstance(y, fmpq) and y.height_bits() < MAX_BITS - 1 and y < 0:
        return ABOVE_TWO
    if signs[0] is None or signs[0] != signs[1]:
        return UNKNOWN
    if signs[0] == -1:
        return NEGATIVE
    if HUGE in (x, y):
        return HUGE
    return ABOVE_TWO if _at_least(x, 2) or _at_least(y, 2) else POSITIVE


def minus(x: Value) -> Value:
    """What is known about the negative."""
    if isinstance(x, fmpq):
        return -x
    return _NEGATED.get(x, x)


def times(x: Value, y: Value) -> Value:
    """What is known about the product, one of the two being no rational number."""
    if x is UNDEFINED or y is UNDEFINED:
        return UNDEFINED
    signs = sign(x), sign(y)
    if x in INFINITIES or y in INFINITIES:
        if 0 in signs:
            return UNDEFINED
        if signs[0] is None or signs[1] is None:
            return UNKNOWN
        return INFINITE if signs[0] == signs[1] else NEGATIVE_INFINITE
    if signs[0] is None or signs[1] is None:
        return UNKNOWN
    if 0 in signs:
        return ZERO
    if signs[0] != signs[1]:
        return NEGATIVE
    for kind in (HUGE, ABOVE_TWO):
        if kind in (x, y) and _at_least(x, 1) and _at_least(y, 1):
            return kind
    return POSITIVE


def over(x: Value, y: Value) -> Value:
    """What is known about the quotient; of two rational numbers no more than its sign."""
    if x is UNDEFINED or y is UNDEFINED or sign(y) == 0:
        return UNDEFINED
    signs = sign(x), sign(y)
    if y in INFINITIES:
        return UNDEFINED if x in INFINITIES else UNKNOWN if signs[0] is None else ZERO
    if signs[0] is None or signs[1] is None:
        return UNKNOWN
    if x in INFINITIES:
        return INFINITE if signs[0] == signs[1] else NEGATIVE_INFINITE
    if signs[0] == 0:
        return ZERO
    return POSITIVE if signs[0] == signs[1] else NEGATIVE


def power(x: Value, y: Value) -> Value:
    """What is known about x to the power y, one of the two being no rational number."""
    if x is UNDEFINED or y is UNDEFINED:
        return UNDEFINED
    if y in INFINITIES:
        return _power_to_infinity(x, y is INFINITE)
    if x in INFINITIES:
        return _power_of_infinity(x is INFINITE, y)
    signs = sign(x), sign(y)
    if signs[1] == 0:
        return ONE if signs[0] is not None else UNKNOWN
    if isinstance(y, fmpq) and y == 1:
        return x
    if isinstance(x, fmpq) and x == 1 and signs[1] is not None:
        return ONE
    if signs[0] == 0:
        return ZERO if signs[1] == 1 else UNDEFINED if signs[1] == -1 else UNKNOWN
    if _at_least(x, 2) and _at_least(y, 1):
        return HUGE if HUGE in (x, y) else ABOVE_TWO
    if signs[0] == 1 and signs[1] is not None:
        return POSITIVE
    if signs[0] == -1 and isinstance(y, fmpq) and y.q == 1:
        return NEGATIVE if y.p % 2 else POSITIVE
    return UNKNOWN


def _power_to_infinity(x: Value, positive: bool) -> Value:
    if x is INFINITE or _at_least(x, 2):
        return INFINITE if positive else ZERO
    if x is NEGATIVE_INFINITE:
        return UNDEFINED if positive else ZERO
    if not isinstance(x, fmpq):
        return UNKNOWN
    if abs(x) == 1:
        return UNDEFINED
    if (abs(x) < 1) == positive:
        return ZERO
    return INFINITE if x > 0 and (x > 1) == positive else UNDEFINED


def _power_of_infinity(positive: bool, y: Value) -> Value:
    direction = sign(y)
    if direction is None:
        return UNKNOWN
    if direction == 0:
        return UNDEFINED
    if direction == -1:
        return ZERO
    if positive:
        return INFINITE
    if isinstance(y, fmpq) and y.q == 1:
        return NEGATIVE_INFINITE if y.p % 2 else INFINITE
    return UNKNOWN


def logarithm(x: Value) -> Value:
    """What is known about the natural logarithm: of a rational number its sign."""
    if isinstance(x, fmpq):
        if x <= 0:
            return UNKNOWN if x else UNDEFINED
        return ZERO if x == 1 else POSITIVE if x > 1 else NEGATIVE
    if x is HUGE:
        return ABOVE_TWO
    if x is ABOVE_TWO:
        return POSITIVE
    return x if x in (UNDEFINED, INFINITE) else UNKNOWN


def _at_least(x: Value, bound: int) -> bool:
    """Whether the value is surely a real number of at least `bound`, which is 1 or 2."""
    if isinstance(x, fmpq):
        return bool(x >= bound)
    return x is HUGE or x is ABOVE_TWO


_SIGNS = {INFINITE: 1, HUGE: 1, ABOVE_TWO: 1, POSITIVE: 1, NEGATIVE: -1, NEGATIVE_INFINITE: -1}
_NEGATED = {
    INFINITE: NEGATIVE_INFINITE,
    NEGATIVE_INFINITE: INFINITE,
    HUGE: NEGATIVE,
    ABOVE_TWO: NEGATIVE,
    POSITIVE: NEGATIVE,
    NEGATIVE: POSITIVE,
}
