"""Which pieces of code are programs that read the standard input, by their lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .code_context import statements
from .code_lines import functions_and_classes, words

_READS = re.compile(r"\binput\s*\(|\bstdin\b|\bopen\(\s*0|/dev/stdin|\bfileinput\b")
# Something else than the real one: a harness that feeds an example.
_REPLACES = re.compile(
    r"""\bstdin[ \t]*+=(?!=)(?![^\n]{0,200}(?:\bstdin\b|\bopen\([ \t]*0|/dev/stdin))
      | \bbuiltins\.input[ \t]*+=(?!=) | \b(?:patch|setattr)\b[^\n]{0,200}\b(?:stdin|input)\b""",
    re.VERBOSE,
)
_DEFINITION = re.compile(r"(?:(?:async[ \t]++)?def|class|import|from)\b|@|[rRbBuUfF]{0,2}[\"')\]}]")
_ASSIGNMENT = re.compile(r"[\w.,* \t]++(?::[^=\n]*+)?=(?!=)")
_ACTION = re.compile(r";|\bprint\b|\bwrite")


def reading_ranks(codes: Sequence[str]) -> list[int]:
    """How much each of the pieces looks like a program for the standard input.

    2 is for one that reads it and does something, where it may read by a function of an earlier piece that only
    defines things; 1 for one that only defines how to read, or that puts an example in the place of the standard input;
    0 for one that does not read it.
    """
    ranks: list[int] = []
    readers: set[str] = set()
    for code in codes:
        acts = any(map(_does_something, statements(code)))
        itself = _READS.search(code) is not None
        reads = itself or not readers.isdisjoint(words(code))
        replaces = _REPLACES.search(code) is not None
        if reads and not acts and not replaces:
            readers |= functions_and_classes(code)
        ranks.append(2 if reads and acts and not replaces else int(itself))
    return ranks


def _does_something(statement: str) -> bool:
    """Whether a statement without indentation does more than to define or compute."""
    if _DEFINITION.match(statement):
        return False
    return not _ASSIGNMENT.match(statement) or _ACTION.search(statement) is not None
