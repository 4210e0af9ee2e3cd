r"""Verifiers of length: between limits, and DAPO's soft punishment of what is too long."""

from __future__ import annotations

import numbers

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .registry import verifier
from .verdict import Verdict

_UNITS = ("tokens", "characters", "words")


@verifier("rlvr/length-v1")
def length(
    completion: str,
    minimum: int = 0,
    maximum: int | None = None,
    unit: str = "characters",
    completion_tokens: int | None = None,
) -> Verdict:
    """Whether the completion's length lies in [minimum, maximum].

    The score is 1 inside the limits, both included, and passes; it is 0 outside.

    Args:
        completion: what the model wrote.
        minimum: the least length.
        maximum: the greatest length; None for no limit.
        unit: "characters" (Unicode code points), "words" (separated by white space), or "tokens".
        completion_tokens: how many tokens were sampled, as the trainer counted them; needed for "tokens",
            since text cannot be tokenised here as the model wrote it.

    Raises:
        UserError: no limit is given, the limits are no counts or contradict each other, the unit is unknown,
            or tokens are asked for and not counted.
    """
    if maximum is None and minimum == 0:
        raise UserError("rlvr/length-v1 has no limit to check; pass minimum= or maximum=.")
    _check_count("minimum", minimum, least=0)
    if maximum is not None:
        _check_count("maximum", maximum, least=0)
        if minimum > maximum:
            raise UserError(f"minimum={minimum} is more than maximum={maximum}; no length lies between them.")
    size = _measure(completion, unit, completion_tokens)
    passed = size >= minimum and (maximum is None or size <= maximum)
    limits = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"
    return Verdict(float(passed), passed, detail=f"{size} {unit}, where {limits} are asked for")


@verifier("rlvr/overlong-v1")
def overlong(
    completion: str,
    maximum: int,
    cache: int,
    unit: str = "tokens",
    completion_tokens: int | None = None,
) -> Verdict:
    r"""DAPO's soft overlong punishment, to be added to the reward of correctness.

    With \(L_{max}\) = `maximum` and \(L_{cache}\) = `cache`, the score of a completion of length \(|y|\) is
    0 up to \(L_{max} - L_{cache}\), then \(((L_{max} - L_{cache}) - |y|) / L_{cache}\), which falls to -1 at
    \(L_{max}\), and -1 beyond. It passes where the score is 0. Source: Yu et al. 2025, DAPO
    (arXiv:2503.14476), eq. 13.

    Args:
        completion: what the model wrote.
        maximum: the length that must not be exceeded, such as the sampling limit.
        cache: the width of the interval below it in which the punishment grows.
        unit: "tokens", "characters" or "words".
        completion_tokens: how many tokens were sampled, as the trainer counted them; needed for "tokens".

    Raises:
        UserError: the limits are no counts or contradict each other, the unit is unknown, or tokens are
            asked for and not counted.
    """
    _check_count("maximum", maximum, least=1)
    _check_count("cache", cache, least=1)
    if cache > maximum:
        raise UserError(f"cache={cache} is more than maximum={maximum}; it is the last stretch of that length.")
    size = _measure(completion, unit, completion_tokens)
    free = maximum - cache
    score = 0.0 if size <= free else max((free - size) / cache, -1.0)
    return Verdict(score, score == 0, detail=f"{size} {unit}, of which {free} are free and {maximum} the most")


def _measure(completion: str, unit: str, completion_tokens: int | None) -> int:
    if unit == "characters":
        return len(completion)
    if unit == "words":
        return len(completion.split())
    if unit != "tokens":
        raise UserError(f"There is no unit of length {unit!r}; {did_you_mean(str(unit), _UNITS)}")
    if completion_tokens is None:
        raise UserError(
            "A length in tokens needs the field 'completion_tokens', which the trainer gives and text alone "
            "does not; pass completion_tokens=, or unit='characters' or 'words'."
        )
    _check_count("completion_tokens", completion_tokens, least=0)
    return int(completion_tokens)


def _check_count(name: str, value: object, least: int) -> None:
    """Raise UserError unless `value` is a whole number from `least` on; one in a float, as JSON may give it, is."""
    whole = isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value // 1
    if not whole or value < least:  # type: ignore[operator]
        raise UserError(f"{name}={value!r} is no count; pass an integer from {least} on.")
