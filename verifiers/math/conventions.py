"""What can be argued about, as options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal, get_args, get_type_hints

from ...sandbox.errors import UserError
from ...sandbox.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class Conventions:
    """How answers are compared where readers may differ.

    Attributes:
        percent: what `50%` is equal to where only one side has the sign: "either" 50 or 0.5, the "figure" 50, the
            "fraction" 0.5, or "strict", neither.
        units: "lenient", a unit may be left out or added but must not be another; "strict", it must be there exactly
            where the reference has one; "ignore", any will do.
        rounding: "precision", a reference with two decimals or more is also met by an exact answer that rounds to it
            and cannot be written as a decimal (`0.67` by `2/3`); "exact", it is not.
        order: of lists without brackets, "any" or as "given"; sets have none and tuples always one.
        case: of words, "ignore" or "exact"; variables are always exact.
    """

    percent: Literal["either", "figure", "fraction", "strict"] = "either"
    units: Literal["lenient", "strict", "ignore"] = "lenient"
    rounding: Literal["precision", "exact"] = "precision"
    order: Literal["any", "given"] = "any"
    case: Literal["ignore", "exact"] = "ignore"

    def __post_init__(self) -> None:
        for name, known in _known_values().items():
            value = getattr(self, name)
            if value not in known:
                raise UserError(f"There is no {name} {value!r} of rlvr/math-v1; {did_you_mean(str(value), known)}")


@cache
def _known_values() -> dict[str, tuple[str, ...]]:
    hints = get_type_hints(Conventions)
    return {field.name: get_args(hints[field.name]) for field in fields(Conventions)}


conventions: Callable[..., Conventions] = cache(Conventions)
"""`Conventions` by their values, each made and checked once."""
