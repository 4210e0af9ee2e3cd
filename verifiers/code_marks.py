"""Marks before each line of code in a text: those of a quotation, and the prompts of an interactive session."""

from __future__ import annotations

import re
from collections.abc import Sequence

_QUOTED = re.compile(r"^[ \t]*>(?!>>)[ \t]?")
_QUOTED_FENCE = re.compile(r"^[ \t]*>(?!>>)[ \t]*(?:`{3}|~{3})")
_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.)(?: |$)")


def unquoted(lines: Sequence[str]) -> list[str]:
    """The lines of a text, of which those of quotations with a fence in them lose their `>`."""
    kept: list[str] = []
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and _QUOTED.match(lines[end]):
            end += 1
        run = lines[start:end]
        if any(_QUOTED_FENCE.match(line) for line in run):
            kept += [_QUOTED.sub("", line, count=1) for line in run]
        else:
            kept += run
        kept += lines[end : end + 1]
        start = end + 1
    return kept


def typed(code: str) -> str:
    """What was typed in an interactive session; code that is none as it is."""
    if not code.lstrip().startswith(">>>"):
        return code
    return "\n".join(_PROMPT.sub("", line, count=1) for line in code.split("\n") if _PROMPT.match(line)).rstrip()
