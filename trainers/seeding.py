"""Seeds for every draw, derived from the run's seed by name, so that no random state has to be carried along."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for one purpose, a pure function of the run's seed and the purpose's name.

    A draw that depends on (seed, purpose, step) alone is the same in a run that was resumed.
    """
    text = "\x1f".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def task_order(seed: int, count: int, start: int, size: int) -> list[int]:
    """The task indices at positions start .. start + size of an endless shuffled pass over `count` tasks.

    Every task comes once an epoch, in an order of its own each epoch. A family too large to shuffle (procedural
    tasks) is drawn from at random.
    """
    if count > 1_000_000:
        return [int(_rng(seed, "draw", position).integers(count)) for position in range(start, start + size)]
    return list(_positions(seed, count, start, size))


def _positions(seed: int, count: int, start: int, size: int) -> Iterator[int]:
    epoch, order = -1, np.empty(0, dtype=np.int64)
    for position in range(start, start + size):
        if position // count != epoch:
            epoch = position // count
            order = _rng(seed, "epoch", epoch).permutation(count)
        yield int(order[position % count])


def _rng(seed: int, *names: str | int) -> np.random.Generator:
    return np.random.default_rng(derive(seed, *names))
