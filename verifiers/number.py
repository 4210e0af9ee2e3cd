"""The verifier of numeric answers."""

from __future__ import annotations

import numbers
from decimal import Decimal
from fractions import Fraction

from ..sandbox.errors import UserError
from .extraction import answer_region, boxes, check_fallback, last_word_with_digit
from .numerals import Number, read_number
from .registry import verifier
from .verdict import Verdict, failure

REFERENCE_MARKER = "####"
"""What GSM8K writes before the result at the end of a reference solution."""

_LONGEST_EXCERPT = 80
# A reference integer beyond this is not one that a completion could spell out (see numerals.MAX_DIGITS).
_MAX_REFERENCE_BITS = 10_000


@verifier("rlvr/number-v1")
def number(
    completion: str,
    answer: object,
    think: str = "generated",
    marker: str | None = "####",
    fallback: str = "none",
) -> Verdict:
    r"""Whether the completion's answer is the number `answer`, compared as exact rationals.

    The answer is the last `\boxed{}` after the reasoning. Where no box begins it is the rest of the line
    after the last `marker`, and where there is none of those either, `fallback` decides: "none", there is
    no answer; "whole", the text after the reasoning is the answer; "last_number", the last word with a
    digit is. What was found has to be a number as a whole (`numerals` has the grammar); a broken or empty
    box, or an unreadable answer, is unparseable and never replaced by another number of the text.

    Args:
        completion: what the model wrote.
        answer: the reference: an int, float (by its shortest decimal form), Fraction, Decimal, or text. Of
            a text with `####` (GSM8K's), what follows the last one counts.
        think: the think style.
        marker: what announces the answer where there is no box; None for nothing.
        fallback: what else may be the answer.

    Raises:
        UserError: `think`, `marker` or `fallback` is not one of the possible values.
    """
    check_fallback(fallback)
    if marker == "":
        raise UserError("marker='' would stand everywhere; pass marker=None to read no marker.")
    reference = read_reference(answer)
    if reference is None:
        return failure(f"the reference answer {_excerpt(answer)} is not a number")
    region = answer_region(completion, think)
    if region is None:
        return _unparseable("the reasoning never closed", reference)
    written = _find_answer(region, marker, fallback)
    if written is None:
        return _unparseable("there is no answer after the reasoning", reference)
    read = read_number(written)
    if read is None:
        return _unparseable(f"{_excerpt(written)} is not a number", reference)
    passed = read.matches(reference)
    return Verdict(
        score=float(passed),
        passed=passed,
        detail=f"read {_text(read)}, reference {_text(reference)}",
        answer=str(read.value),
    )


def read_reference(answer: object) -> Number | None:
    """The number that a reference answer stands for; None if it is none."""
    if isinstance(answer, str):
        return read_number(answer.rpartition(REFERENCE_MARKER)[2])
    if isinstance(answer, bool):
        return None
    if isinstance(answer, numbers.Rational):
        value = Fraction(int(answer.numerator), int(answer.denominator))
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        return Number(value) if bits <= _MAX_REFERENCE_BITS else None
    if isinstance(answer, numbers.Real | Decimal):
        return read_number(str(answer))
    return None


def _find_answer(region: str, marker: str | None, fallback: str) -> str | None:
    found = boxes(region)
    if found:
        return found[-1].content
    if marker is not None and marker in region:
        line, _, _ = region.rpartition(marker)[2].partition("\n")
        return line.strip() or None
    if fallback == "whole":
        return region.strip() or None
    if fallback == "last_number":
        return last_word_with_digit(region)
    return None


def _unparseable(why: str, reference: Number) -> Verdict:
    return Verdict(0.0, False, "unparseable", detail=f"{why}; reference {_text(reference)}")


def _text(read: Number) -> str:
    return f"{read.value} {read.unit}" if read.unit else str(read.value)


def _excerpt(value: object) -> str:
    if isinstance(value, int):
        return f"an integer of {value.bit_length()} bits" if value.bit_length() > 256 else repr(value)
    text = repr(value[:_LONGEST_EXCERPT]) if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_EXCERPT + 2 else f"{text[:_LONGEST_EXCERPT]}..."
