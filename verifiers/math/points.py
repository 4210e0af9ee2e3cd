"""Where expressions are compared: random points, the same ones for the same expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from flint import acb, arb

TIED = "\x00tied"
"""The end of the name of a symbol that has the sign of the symbol without it."""

_BITS = 40
_LARGEST_SCALE = 10**12


def real_points(names: list[str], seed: int, largest: int) -> Iterator[dict[str, acb]]:
    """Points whose coordinates are real and exact: 8 everywhere, then 15 in narrower regions.

    Args:
        names: the symbols.
        seed: decides the points.
        largest: the greatest number in the expressions. Some points lie beyond it (up to 10^12), so that
            |x - 5| and 5 - x are told apart.
    """
    random = Random(seed)
    scale = float(max(3, min(4 * largest, _LARGEST_SCALE)))
    near, far, wide, tiny = (0.3, 3.0), (scale / 2, scale), (0.3, scale), (0.0001, 0.05)
    for (low, high), signs in (
        (near, "positive"),
        (near, "mixed"),
        (far, "positive"),
        (far, "negative"),
        (wide, "positive"),
        (wide, "mixed"),
        (tiny, "positive"),
        (tiny, "negative"),
    ):
        yield _real_point(names, random, low, high, signs)
    for low, high, signs, count in _NARROWER:
        for _ in range(count):
            yield _real_point(names, random, low, high, signs)


def whole_points(names: Iterable[str], seed: int) -> Iterator[dict[str, int]]:
    """Points of positive whole numbers, small enough for a factorial.

    At the first they have a common divisor; afterwards even and odd ones occur in every combination of three.
    """
    random = Random(seed)
    ordered = sorted(names)
    yield {name: 6 * random.randint(1, 5) for name in ordered}
    for step, (low, high) in enumerate(((1, 6), (3, 12), (4, 20), (1, 8), (6, 25), (2, 12), (3, 15))):
        point = {}
        for position, name in enumerate(ordered):
            odd = (step >> position % 3) & 1
            point[name] = 2 * random.randint(low, high) + odd
        yield point


def coordinate(random: Random, low: float, high: float) -> acb:
    """A random exact real number between the two."""
    first, last = int(low * (1 << _BITS)), int(high * (1 << _BITS))
    return acb(arb((random.randint(first, last) | 1, -_BITS)))


def _real_point(names: list[str], random: Random, low: float, high: float, signs: str) -> dict[str, acb]:
    point: dict[str, acb] = {}
    negative: dict[str, bool] = {}
    for position, name in enumerate(names):
        found = coordinate(random, low, high)
        untied = name.removesuffix(TIED)
        if untied not in negative:
            # The first two differ, so that |x| y and x |y| are told apart; the others are left to chance.
            mixed = position == 0 or (position > 1 and random.random() < 0.5)
            negative[untied] = signs == "negative" or (signs == "mixed" and mixed)
        point[name] = -found if negative[untied] else found
    return point


_NARROWER = ((0.02, 0.98, "positive", 4), (1.05, 1.5, "positive", 3), (0.02, 0.98, "mixed", 4), (3.0, 40.0, "mixed", 4))
