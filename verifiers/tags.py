"""The tags of a completion, such as `<think>` and `</answer>`, without those that it only talks about.

A tag is the exact text `<name>` or `</name>`; `<Think>` and `< think >` are words. A tag is talked about, and
marks nothing, where it stands

- in a fenced block of code (lines that begin with three or more backticks or tildes), or
- in code or a quotation inside a line: between backticks or quotation marks (straight, curly or angled), at most
  200 characters apart, the opening one at the beginning of a word and the closing one at the end of one, or both
  right around tags. Single quotes, which are apostrophes too, count only with a tag right inside one of them.

What is opened and never closed hides nothing, so that one stray mark cannot swallow the tag that ends the
reasoning: a quotation ends with its line at the latest; a mark that can only open begins anew; a fence without an
end is no fence; and where the fences of a text do not pair up, a pair around closing tags alone is taken apart.

Everything here takes linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_LONGEST_QUOTATION = 200
_MARK = re.compile(r"[`\"'“”‘’«»](?:(?<=`)`+)?")
_CLOSERS = {"”": "“", "’": "‘", "»": "«"}
_APOSTROPHES = ("'", "‘")
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)([^`\n]*)$", re.MULTILINE)

_Span = tuple[int, int]


class Tag(NamedTuple):
    """One tag: text[start:end] is `<name>`, or `</name>` if it is closing."""

    start: int
    end: int
    closing: bool


# One completion is looked through for the same tags by several readers in a row.
@lru_cache(maxsize=4)
def tags(text: str, name: str) -> tuple[Tag, ...]:
    """The tags `<name>` and `</name>` of the text in order, without those only talked about."""
    if f"{name}>" not in text:
        return ()
    found = [Tag(match.start(), match.end(), text[match.start() + 1] == "/") for match in _tag_of(name).finditer(text)]
    if not found:
        return ()
    spans = _fenced(text, found) if "`" in text or "~" in text else []
    line_end = -1
    for tag in found:
        # Lines are read once, however many tags they have.
        if tag.start > line_end:
            line_end = text.find("\n", tag.start)
            line_end = len(text) if line_end < 0 else line_end
            line = text.rfind("\n", 0, tag.start) + 1
            if _MARK.search(text, line, line_end):
                spans += _quoted(text, line, line_end)
    return tuple(_outside(found, spans) if spans else found)


@lru_cache(maxsize=16)
def _tag_of(name: str) -> re.Pattern[str]:
    return re.compile(f"</?{re.escape(name)}>")


def _outside(found: Iterable[Tag], spans: list[_Span]) -> list[Tag]:
    kept = []
    spans.sort()
    reach = position = 0
    for tag in found:
        while position < len(spans) and spans[position][0] <= tag.start:
            reach = max(reach, spans[position][1])
            position += 1
        if tag.end > reach:
            kept.append(tag)
    return kept


def _quoted(text: str, start: int, end: int) -> list[_Span]:
    """The quotations and code spans of the line text[start:end]."""
    spans = []
    opened: dict[str, int] = {}
    for mark in _MARK.finditer(text, start, end):
        sign = mark.group()
        kind = _CLOSERS.get(sign, sign)
        before, after = text[max(mark.start() - 1, 0) : mark.start()], text[mark.end() : mark.end() + 1]
        begins_word = kind == sign and not before.isalnum() and after != "" and not after.isspace()
        around_tag = before == ">" and kind in opened and text[opened[kind] + len(sign)] == "<"
        ends_word = sign not in _CLOSERS.values() and not before.isspace() and (around_tag or not after.isalnum())
        if ends_word and kind in opened and mark.end() - opened[kind] <= _LONGEST_QUOTATION:
            span = (opened.pop(kind), mark.end())
            if kind not in _APOSTROPHES or text[span[0] + 1] == "<" or text[span[1] - 2] == ">":
                spans.append(span)
        elif begins_word:
            opened[kind] = mark.start()
    return spans


def _fenced(text: str, found: list[Tag]) -> list[_Span]:
    fences = list(_FENCE.finditer(text)) if "```" in text or "~~~" in text else []
    spans, unclosed = _paired(fences)
    if not unclosed:
        return spans
    starts = [tag.start for tag in found]
    for start, end in spans:
        inside = found[bisect_left(starts, start) : bisect_left(starts, end)]
        if inside and all(tag.closing for tag in inside):
            return _paired([fence for fence in fences if fence.start() != start])[0]
    return spans


def _paired(fences: list[re.Match[str]]) -> tuple[list[_Span], bool]:
    """The blocks that the fences delimit, and whether the last one stays open."""
    spans: list[_Span] = []
    opened: re.Match[str] | None = None
    for fence in fences:
        mark, words = fence.group(1), fence.group(2).strip()
        if opened is None:
            opened = fence
        elif mark.startswith(opened.group(1)):
            if not words:
                spans.append((opened.start(), fence.end()))
            # Only an opening fence names a language, so the one before was never closed.
            opened = fence if words else None
    return spans, opened is not None
