"""Sets of real numbers: unions of intervals, brought into one form by sorting their ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key

from .equality import compare
from .forms import Bracketed, FiniteSet, Form, Listing, Piece, Region, Value
from .nodes import Apply, Constant, Expr, Number
from .tokens import Unreadable

INFINITY = Constant("infinity")
MINUS_INFINITY = Apply("neg", (INFINITY,))
REALS = Region((Piece(MINUS_INFINITY, INFINITY, False, False),))


def point(value: Expr) -> Region:
    """The set of one number."""
    return Region((Piece(value, value, True, True),))


def union(regions: Sequence[Region], disjoint: bool = False) -> Region:
    """All the numbers of the regions.

    Args:
        regions: at least one.
        disjoint: refuse regions that overlap, which are alternatives rather than parts of one answer.

    Raises:
        Unreadable: an end of an interval is no real number, or regions overlap that must not.
    """
    pieces = sorted((piece for region in regions for piece in region.pieces), key=cmp_to_key(_by_low_end))
    merged: list[Piece] = []
    for piece in pieces:
        if _is_empty(piece):
            continue
        if merged and _touch(merged[-1], piece):
            if disjoint and _overlap(merged[-1], piece):
                raise Unreadable("alternatives overlap")
            merged[-1] = _joined(merged[-1], piece)
        else:
            merged.append(piece)
    return Region(tuple(merged), regions[0].variable)


def complement(region: Region) -> Region:
    """The real numbers that are not in the region.

    Raises:
        Unreadable: an end of an interval is no real number.
    """
    pieces: list[Piece] = []
    low, with_low = MINUS_INFINITY, False
    end: Expr = low
    for piece in union([region]).pieces:
        pieces.append(Piece(end, piece.low, with_low, not piece.with_low))
        end, with_low = piece.high, not piece.with_high
    pieces.append(Piece(end, INFINITY, with_low, False))
    return Region(tuple(piece for piece in pieces if not _is_empty(piece)), region.variable)


def intersect(regions: Sequence[Region]) -> Region:
    """The numbers that are in all of the regions.

    Raises:
        Unreadable: an end of an interval is no real number.
    """
    met = complement(union([complement(region) for region in regions]))
    return Region(met.pieces, regions[0].variable)


def combine(sign: str, forms: list[Form]) -> Form:
    r"""`\cup`, `\cap` or `\setminus` of sets, from left to right.

    Raises:
        Unreadable: the forms are not sets that can be combined.
    """
    if all(isinstance(form, FiniteSet) for form in forms):
        return _finite(sign, [form.items for form in forms if isinstance(form, FiniteSet)])
    regions = [region_of(form) for form in forms]
    if sign == "cup":
        return union(regions)
    if sign == "cap":
        return intersect(regions)
    return intersect([regions[0], *(complement(region) for region in regions[1:])])


def region_of(form: Form) -> Region:
    """The form as a set of real numbers; a pair in round or square brackets is an interval.

    Raises:
        Unreadable: it is none.
    """
    if isinstance(form, Region):
        return form
    if isinstance(form, Bracketed) and len(form.items) == 2 and form.opening in "([" and form.closing in ")]":
        low, high = form.items
        if isinstance(low, Value) and isinstance(high, Value):
            return Region((Piece(low.expr, high.expr, form.opening == "[", form.closing == "]"),))
    items = form.items if isinstance(form, FiniteSet | Listing) else (form,)
    if not items or not all(isinstance(item, Value) for item in items):
        raise Unreadable("something that is no set of numbers is combined with one")
    return union([point(item.expr) for item in items if isinstance(item, Value)])


def _finite(sign: str, sets: list[tuple[Form, ...]]) -> FiniteSet:
    if sign == "cup":
        return FiniteSet(tuple(item for items in sets for item in items))
    first, *rest = sets
    if sign == "cap":
        return FiniteSet(tuple(item for item in first if all(item in items for items in rest)))
    return FiniteSet(tuple(item for item in first if not any(item in items for items in rest)))


def order(left: Expr, right: Expr) -> int:
    """-1, 0 or 1 as `left` is less than, equal to or greater than `right`.

    Raises:
        Unreadable: it cannot be told.
    """
    if left == right:
        return 0
    if isinstance(left, Number) and isinstance(right, Number):
        return (left.value > right.value) - (left.value < right.value)
    told = compare(left, right)
    if told is None:
        raise Unreadable("the ends of an interval cannot be compared")
    return told


def _by_low_end(left: Piece, right: Piece) -> int:
    return order(left.low, right.low) or (right.with_low - left.with_low)


def _is_empty(piece: Piece) -> bool:
    told = order(piece.low, piece.high)
    return told > 0 or (told == 0 and not (piece.with_low and piece.with_high))


def _touch(left: Piece, right: Piece) -> bool:
    """Whether nothing lies between two pieces, of which `left` begins first."""
    told = order(right.low, left.high)
    return told < 0 or (told == 0 and (left.with_high or right.with_low))


def _overlap(left: Piece, right: Piece) -> bool:
    told = order(right.low, left.high)
    return told < 0 or (told == 0 and left.with_high and right.with_low)


def _joined(left: Piece, right: Piece) -> Piece:
    told = order(left.high, right.high)
    if told < 0:
        return Piece(left.low, right.high, left.with_low, right.with_high)
    with_high = left.with_high or (told == 0 and right.with_high)
    return Piece(left.low, left.high, left.with_low, with_high)
