"""Checking options that are numbers, in one sentence that names the option and its value."""

from __future__ import annotations

import math
import numbers

from ..sandbox.errors import UserError


def check_number(name: str, value: object, *, least: float = -math.inf, above: float = -math.inf) -> None:
    """Raise UserError unless `value` is a finite number, at least `least` and greater than `above`."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if real and value >= least and value > above:  # type: ignore[operator]
        return
    bounds = [f"from {least:g} on"] * (least > -math.inf) + [f"above {above:g}"] * (above > -math.inf)
    raise UserError(f"{name}={value!r} will not do; pass {' '.join(['a finite number', *bounds])}.")


def check_count(name: str, value: object, *, least: int = 1) -> None:
    """Raise UserError unless `value` is an integer from `least` on."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise UserError(f"{name}={value!r} is no count; pass an integer from {least} on.")
