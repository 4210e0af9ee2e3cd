"""JSON as RFC 8259 has it, read from hostile text: no leniency, and bounds on depth, digits and size."""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_LENGTH = 1_000_000
"""The characters that a JSON text may have."""
MAX_DEPTH = 100
"""How deep arrays and objects may nest."""
MAX_DIGITS = 1000
"""The characters that a number may have."""

# Possessive, and closed by the end of the text too, so that no quote is looked at twice.
_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


class StrictJsonError(ValueError):
    """The text is no JSON, or goes beyond the bounds; the message says why."""


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        StrictJsonError: it is none by RFC 8259, or an object repeats a key, a number is NaN, infinite or beyond
            the range of a double, or the text goes beyond one of the bounds of this module.
    """
    if len(text) > MAX_LENGTH:
        raise StrictJsonError(f"it has {len(text)} characters, more than {MAX_LENGTH}")
    if nesting(text) > MAX_DEPTH:
        raise StrictJsonError(f"it nests deeper than {MAX_DEPTH}")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise StrictJsonError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None


def same_json(left: Any, right: Any) -> bool:
    """Whether two values are one: 1 is 1.0, but not true; the order of an object's keys means nothing."""
    return json_key(left) == json_key(right)


def json_key(value: Any) -> Any:
    """A hashable stand-in for a JSON value, equal for equal values."""
    if isinstance(value, list | tuple):
        return ("array", *map(json_key, value))
    if isinstance(value, dict):
        return ("object", frozenset((name, json_key(inner)) for name, inner in value.items()))
    if isinstance(value, bool):
        return ("boolean", value)
    return value


def nesting(text: str) -> int:
    """How deep the arrays and objects of a JSON text nest."""
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        token = match.group()
        if token in ("[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token in ("]", "}"):
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise StrictJsonError("an object repeats a key")
    return result


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise StrictJsonError(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _real(digits: str) -> float:
    if len(digits) > MAX_DIGITS:
        raise StrictJsonError(f"a number has more than {MAX_DIGITS} digits")
    value = float(digits)
    if not math.isfinite(value):
        raise StrictJsonError(f"the number {digits[:40]} is out of range")
    return value


def _constant(name: str) -> Any:
    raise StrictJsonError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant)
