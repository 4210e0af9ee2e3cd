"""Random numbers for tasks that are generated rather than read from a file."""

from __future__ import annotations

import hashlib

import numpy as np


def item_rng(seed: int, split: str, env_id: str, index: int) -> np.random.Generator:
    """The generator of one procedural task, a function of its four arguments alone.

    Item ``index`` is the same whatever was drawn before it, in whatever process and in whatever order,
    and two splits (or two environments) share no stream. Strings enter as the SHA-256 of their UTF-8
    bytes, which unlike `hash` is the same in every process.

    Raises:
        ValueError: if `seed` or `index` is negative.
    """
    # Each string is hashed on its own: hashed together, ("a", "bc") and ("ab", "c") would be one stream.
    words = [_word(split), _word(env_id)]
    return np.random.default_rng(np.random.SeedSequence([int(seed), *words, int(index)]))


def _word(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest(), "big")
