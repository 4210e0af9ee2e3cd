"""Which known name a misspelt one probably stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """The known names that look like `name`, nearest first, at most three; a `likeness` of 1 is the name itself."""
    return difflib.get_close_matches(name, sorted(known), n=3, cutoff=likeness)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error sentence: the known names nearest to `name`, or all of them if none is near."""
    names = sorted(known)
    near = nearest(name, names)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"the known ones are {', '.join(map(repr, names)) or 'none'}."
