"""Marks before lines of code in a text: those of a quotation, a notebook's commands, the prompts of a session."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .code_lines import LineReader

_QUOTED = re.compile(r"^[ \t]*>(?!>>)[ \t]?")
_QUOTED_FENCE = re.compile(r"^[ \t]*>(?!>>)[ \t]*(?:`{3}|~{3})")
_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.:?|In ?\[\d*\]:)(?: |$)")
_SESSION = re.compile(r"\s*(?:>>>|In ?\[\d*\]:)")
_COMMAND = re.compile(r"^[%!]", re.MULTILINE)


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


def is_session(code: str) -> bool:
    """Whether the code begins with the prompt of an interactive session, of Python or IPython."""
    return _SESSION.match(code) is not None


def typed(code: str) -> str:
    """What was typed in an interactive session; code that is none as it is."""
    if not is_session(code):
        return code
    return "\n".join(_PROMPT.sub("", line, count=1) for line in code.split("\n") if _PROMPT.match(line)).rstrip()


def without_commands(code: str) -> str:
    """The code without the lines that speak to a notebook, such as `%%time` and `!pip install numpy`."""
    if not _COMMAND.search(code):
        return code
    kept: list[str] = []
    reader = LineReader()
    for line in code.split("\n"):
        goes_on = reader.inside or (bool(kept) and kept[-1].endswith("\\"))
        if goes_on or line[:1] not in ("%", "!"):
            reader.feed(line)
            kept.append(line)
    return "\n".join(kept).strip("\n")
