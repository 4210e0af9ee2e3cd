"""Comparing what a program returned or printed with what was expected, outside of the sandbox.

Both sides are plain built-in values: None, bool, int, float, str, bytes, list, tuple, set, frozenset, dict.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

_REAL = re.compile(rb"[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?")
_INTEGER = re.compile(rb"[-+]?\d+")
_NUMBERS = (bool, int, float)
_LONGEST_KEY = 10**100
_EXACT = (Fraction, Decimal, complex)


@dataclass(frozen=True)
class Comparison:
    r"""When two values are the same.

    By default types are exact: an int is no bool and no float, and floats are equal bit for bit; only what JSON cannot
    tell apart is the same: a tuple and the list of its items, a number as a key of a dict and its text. A float is
    within the tolerance if

    \(|actual - expected| \le \max(absolute, relative \cdot |expected|)\)

    and where there is a tolerance, an int may stand for an expected float. NaN and infinities equal nothing. Integers
    and texts are always exact.

    Args:
        absolute: what a float may be off by.
        relative: the same as a share of the expected float.
        pythonic: numbers are compared as `==` does, whatever their types.
        from_json: what is expected was JSON: a tuple is also the list of its items, and a text that is expected as a
            key of a dict is also the number, bool or None that JSON writes so.
    """

    absolute: float = 0.0
    relative: float = 0.0
    pythonic: bool = False
    from_json: bool = True

    def same(self, actual: Any, expected: Any) -> bool:
        """Whether a returned value is the expected one. The order of a dict's keys means nothing."""
        # A stack of pairs instead of recursion: the program decides how deep its value nests.
        pairs = [(actual, expected)]
        while pairs:
            found, wanted = pairs.pop()
            inner = self._inner_pairs(found, wanted)
            if inner is None:
                return False
            pairs.extend(inner)
        return True

    def same_output(self, actual: bytes, expected: str) -> bool:
        """Whether two outputs hold the same tokens, which are what stands between ASCII white space.

        With a tolerance, a number may differ by it where the expected one is written with a point or an exponent.
        """
        found, wanted = actual.split(), expected.encode("utf-8", "surrogatepass").split()
        return len(found) == len(wanted) and all(map(self._same_token, found, wanted))

    def _inner_pairs(self, found: Any, wanted: Any) -> Iterable[tuple[Any, Any]] | None:
        """The pairs that have to be the same for these two to be so; None if they are not anyway."""
        if type(wanted) in _NUMBERS and self.pythonic and type(found) in _EXACT:
            return () if found == wanted else None
        if type(wanted) in _NUMBERS:
            return () if type(found) in _NUMBERS and self._same_number(found, wanted) else None
        if not self._same_kind(found, wanted):
            return None
        if isinstance(wanted, list | tuple):
            return zip(found, wanted, strict=True) if len(found) == len(wanted) else None
        if isinstance(wanted, set | frozenset):
            return self._set_pairs(found, wanted)
        if isinstance(wanted, dict):
            return self._dict_pairs(found, wanted)
        return () if found == wanted else None

    def _same_kind(self, found: Any, wanted: Any) -> bool:
        for kind in ((set, frozenset), (list, tuple)):
            if type(wanted) in kind and (kind == (set, frozenset) or self.from_json):
                return type(found) in kind
        return type(found) is type(wanted)

    def _same_number(self, found: Any, wanted: Any) -> bool:
        tolerant = isinstance(wanted, float) and (self.absolute > 0 or self.relative > 0)
        if not self.pythonic and type(found) is not type(wanted) and not (tolerant and type(found) is int):
            return False
        if not (_finite(found) and _finite(wanted)):
            return False
        if not tolerant:
            return bool(found == wanted)
        try:
            return abs(found - wanted) <= max(self.absolute, self.relative * abs(wanted))
        except OverflowError:  # an int beyond the range of floats
            return False

    def _dict_pairs(self, found: dict[Any, Any], wanted: dict[Any, Any]) -> list[tuple[Any, Any]] | None:
        if len(found) != len(wanted):
            return None
        # The table is made of the expected keys: those of the program could be chosen to hash alike.
        by_key = {self._key(name): value for name, value in wanted.items()}
        pairs = []
        for name, value in found.items():
            key = self._key(name)
            if key not in by_key and self.from_json:
                key = _json_key(name)
            if key not in by_key:
                return None
            pairs.append((value, by_key.pop(key)))
        return pairs

    def _set_pairs(self, found: Iterable[Any], wanted: Iterable[Any]) -> list[tuple[Any, Any]] | None:
        members, expected = list(found), list(wanted)
        if len(members) != len(expected):
            return None
        floats = [*members, *expected]
        if (self.absolute or self.relative) and all(type(value) is float and _finite(value) for value in floats):
            return list(zip(sorted(members), sorted(expected), strict=True))
        return [] if covers(map(self._key, members), set(map(self._key, expected))) else None

    def _key(self, value: Any) -> Any:
        """A hashable stand-in, equal for equal values; a NaN's equals none, not even its own."""
        if isinstance(value, tuple):
            return ("tuple", *map(self._key, value))
        if isinstance(value, frozenset):
            return ("frozenset", frozenset(map(self._key, value)))
        if isinstance(value, float) and not math.isfinite(value):
            return object()
        return value if self.pythonic or type(value) not in _NUMBERS else (type(value).__name__, value)

    def _same_token(self, found: bytes, wanted: bytes) -> bool:
        if found == wanted:
            return True
        if not (self.absolute or self.relative) or _INTEGER.fullmatch(wanted):
            return False
        if not (_REAL.fullmatch(found) and _REAL.fullmatch(wanted)):
            return False
        return self._same_number(float(found), float(wanted))


def _json_key(name: Any) -> str | None:
    """The text that JSON has in place of a key which is no text; None where it has none that anybody would write."""
    if name is None or (type(name) in _NUMBERS and _finite(name) and abs(name) < _LONGEST_KEY):
        return json.dumps(name)
    return None


def covers(members: Iterable[Any], expected: Set[Any]) -> bool:
    """Whether `set(members) == expected`.

    No set is made of the members: integers of a program's choice can all hash alike, which makes that quadratic.

    Raises:
        TypeError: a member cannot be hashed.
    """
    found = set()
    for member in members:
        if member not in expected:
            return False
        found.add(member)
    return len(found) == len(expected)


def tolerance_of(declared: object) -> tuple[float, float] | None:
    """The absolute and the relative tolerance that a problem declares; None if it is none.

    A number is both; a mapping has "absolute", "relative" or both.
    """
    if declared is None:
        return (0.0, 0.0)
    if isinstance(declared, Mapping):
        if not declared or not set(declared) <= {"absolute", "relative"}:
            return None
        bounds = (declared.get("absolute"), declared.get("relative"))
        pair = tuple(0.0 if bound is None else bound for bound in bounds)
    else:
        pair = (declared, declared)
    for bound in pair:
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound) or bound < 0:
            return None
    return (float(pair[0]), float(pair[1])) if pair[1] < 1 else None


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
