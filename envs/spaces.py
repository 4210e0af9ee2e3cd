"""The space of all texts, for prompts and completions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces, create_empty_array

from ..sandbox.errors import UserError

# Lower case, digits and spaces: random samples stay readable in logs.
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 "
_LONGEST_SAMPLE = 32


class UnicodeText(gymnasium.Space[str]):
    """Every Python `str` of at most `max_length` characters (code points), whatever its characters.

    `gymnasium.spaces.Text` knows a text by a finite character set, which by default has neither spaces
    nor LaTeX and which takes seconds to build for all of Unicode; hence a space of its own.
    A batch of these is a `gymnasium.spaces.Tuple`. `AsyncVectorEnv` needs `shared_memory=False`, since a
    text has no fixed size.

    Args:
        max_length: the greatest length in characters; `None` sets no limit.
        seed: seeds `sample`.
    """

    def __init__(self, max_length: int | None = None, seed: int | np.random.Generator | None = None) -> None:
        if max_length is not None and max_length < 0:
            raise UserError(f"max_length={max_length} leaves no text; pass None or at least 0.")
        self.max_length = max_length
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Never: a text has no fixed size."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A short readable text; its length and characters are uniform. Masks are refused (`UserError`)."""
        if mask is not None or probability is not None:
            raise UserError("UnicodeText.sample takes no mask and no probability; call it without arguments.")
        longest = _LONGEST_SAMPLE if self.max_length is None else min(self.max_length, _LONGEST_SAMPLE)
        length = int(self.np_random.integers(min(1, longest), longest + 1))
        return "".join(_ALPHABET[i] for i in self.np_random.integers(len(_ALPHABET), size=length))

    def contains(self, x: Any) -> bool:
        """Whether `x` is a `str` that is not too long."""
        return isinstance(x, str) and (self.max_length is None or len(x) <= self.max_length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))

    def __repr__(self) -> str:
        return "UnicodeText()" if self.max_length is None else f"UnicodeText(max_length={self.max_length})"


# Gymnasium's vector environments look these up by the type of a space. Batching, concatenating and
# iterating need nothing here: what Gymnasium does for a `Space` it does not know is right for texts.


@create_empty_array.register(UnicodeText)
def _empty_texts(space: UnicodeText, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[str, ...]:
    return ("",) * n


@batch_differing_spaces.register(UnicodeText)
def _batch_differing_texts(spaces: Sequence[UnicodeText]) -> gymnasium.spaces.Tuple:  # type: ignore[misc]
    return gymnasium.spaces.Tuple([copy.deepcopy(space) for space in spaces])


@is_space_dtype_shape_equiv.register(UnicodeText)
def _same_kind(space_1: UnicodeText, space_2: gymnasium.Space[Any]) -> bool:
    return isinstance(space_2, UnicodeText)
