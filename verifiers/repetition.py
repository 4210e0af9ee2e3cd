"""The verifier of repetition: how many of the n-grams were there before."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..sandbox.errors import UserError
from .completion_parts import completion_part
from .registry import verifier
from .verdict import Verdict

_LONGEST_WORD = 100
_LARGEST_N = 1000
# Scripts written without spaces (Thai to Myanmar, Khmer, Kana, Han): each character is a word of its own.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U000323af"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


@verifier("rlvr/repetition-v1")
def repetition(
    completion: str,
    n: int | Sequence[int] = 3,
    max_penalty: float = -1.0,
    limit: float = 0.5,
    part: str = "all",
    think: str = "generated",
    prompt: object = None,
) -> Verdict:
    r"""A penalty for repeated n-grams of words.

    The repeated share is \(r = 1 - \text{distinct n-grams} / \text{n-grams}\), 0 for fewer than `n` words,
    and the score is \(r \cdot\) `max_penalty`, so it lies between `max_penalty` and 0. It passes where
    \(r \le\) `limit`. Source: the n-gram repetition penalty of Yeo et al. 2025, Demystifying Long
    Chain-of-Thought Reasoning in LLMs (arXiv:2502.03373), in the proportional form of Hugging Face's open-r1.

    Words are separated by white space and compared without case. In scripts without spaces (Chinese,
    Japanese, Thai, ...) each character is a word, and so it is in a run of more than 100 characters without
    a space, or "aaaa..." would be one word that is never repeated.

    Args:
        completion: what the model wrote.
        n: the words of an n-gram; of several values, the one with the largest share counts.
        max_penalty: the score of endless repetition, 0 or less.
        limit: the largest share that passes.
        part: "all", "reasoning" or "answer".
        think: the think style, for `part`.
        prompt: the rendered prompt or chat messages, which the think style "auto" looks at.

    Raises:
        UserError: an option is not one of the possible values.
    """
    sizes = _checked_sizes(n)
    _check_number("max_penalty", max_penalty, -math.inf, 0)
    _check_number("limit", limit, 0, 1)
    words = _word_ids(completion_part(completion, part, think, prompt))
    share, size = max((repeated_share(words, size), size) for size in sizes)
    return Verdict(
        # Without the branch, no repetition would score a negative zero.
        share * max_penalty if share else 0.0,
        share <= limit,
        detail=f"{share:.1%} of the n-grams of {size} words are repeated",
    )


def repeated_share(words: np.ndarray, n: int) -> float:
    """The share in [0, 1) of the n-grams of `words` (integers, one a word) that occurred before."""
    total = len(words) - n + 1
    if total < 1:
        return 0.0
    # The rank of the n-gram that starts at each word, from the ranks of two shorter ones that overlap or touch.
    ranks, width = words, 1
    while width < n:
        step = min(width, n - width)
        pairs = ranks[:-step] * (int(ranks.max()) + 1) + ranks[step:]
        distinct, ranks = np.unique(pairs, return_inverse=True)
        if len(distinct) == len(pairs):
            return 0.0
        width += step
    return 1.0 - (int(ranks.max()) + 1) / total


def _word_ids(text: str) -> np.ndarray:
    ids: dict[str, int] = {}
    numbers: list[int] = []
    for match in _WORD.finditer(text.lower()):
        word = match.group()
        for piece in word if len(word) > _LONGEST_WORD else (word,):
            numbers.append(ids.setdefault(piece, len(ids)))
    return np.asarray(numbers, dtype=np.int64)


def _checked_sizes(n: object) -> list[int]:
    sizes: list[Any] = list(n) if isinstance(n, Sequence) and not isinstance(n, str) else [n]
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= _LARGEST_N:
            raise UserError(f"n={size!r} is no length of an n-gram; pass integers from 1 to {_LARGEST_N}.")
    if not sizes:
        raise UserError("n=[] names no length of an n-gram; pass one, such as 3.")
    return sizes


def _check_number(name: str, value: object, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high:  # type: ignore[operator]
        bounds = f"of at most {high:g}" if low == -math.inf else f"from {low:g} to {high:g}"
        raise UserError(f"{name}={value!r} does not fit; pass a number {bounds}.")
