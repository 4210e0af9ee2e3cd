"""Cutting tokens where no bracket is open, and trimming what stands around an answer."""

from __future__ import annotations

from .tokens import Token, Unreadable

OPENING = frozenset({"(", "[", "{", "lbrace", "langle"})
CLOSING = frozenset({")", "]", "}", "rbrace", "rangle"})
_END_MARKS = frozenset(".,;:")
_START_MARKS = frozenset(":,;=")
_BREAKS = frozenset({"newline", "&", "therefore", "implies"})
_LEAD_WORDS = frozenset(
    "the final answer answers is are so thus hence therefore result value solution solutions ans we get have it "
    "equals its correct our option set of".split()
)


def trimmed(tokens: list[Token]) -> list[Token]:
    """The tokens without braces around them, punctuation at their ends and words that only announce an answer."""
    while tokens:
        first, last = tokens[0], tokens[-1]
        if (last.kind == "sign" and last.text in _END_MARKS) or last.text in _BREAKS:
            tokens = tokens[:-1]
        elif (first.kind == "sign" and first.text in _START_MARKS) or first.text in _BREAKS or first.text == "approx":
            tokens = tokens[1:]
        elif first.text == "{" and closing_of(tokens, 0) == len(tokens) - 1:
            if any(token.text in ("over", "choose") for token in tokens):
                return tokens
            tokens = tokens[1:-1]
        else:
            announced = _announcement(tokens)
            if not announced:
                return tokens
            tokens = tokens[announced:]
    return tokens


def _announcement(tokens: list[Token]) -> int:
    """How many tokens at the beginning only announce: `the answer is`, `Answer:`."""
    at = 0
    while at < len(tokens) and tokens[at].kind == "word" and tokens[at].text.casefold() in _LEAD_WORDS:
        at += 1
    if at == 0 or at == len(tokens):
        return 0
    if tokens[at].text == ":" or tokens[at].text == "=":
        return at + 1
    return at if tokens[at - 1].text.casefold() in ("is", "are", "equals", "get", "have", "answer") else 0


def closing_of(tokens: list[Token], start: int) -> int | None:
    """Where the bracket at `start` closes, any closing bracket closing any opening one; None if it does not."""
    depth = 0
    for at in range(start, len(tokens)):
        token = tokens[at]
        if token.kind == "word":
            continue
        if token.text in OPENING or token.text.startswith("begin:"):
            depth += 1
        elif token.text in CLOSING or token.text.startswith("end:"):
            depth -= 1
            if depth == 0:
                return at
    return None


class Split:
    """The parts of tokens between separators, and the separators."""

    def __init__(self) -> None:
        self.parts: list[list[Token]] = [[]]
        self.signs: list[str] = []


def split(tokens: list[Token], separators: set[str] | frozenset[str]) -> Split:
    """The tokens cut at the separators that stand in no brackets."""
    split = Split()
    if not separators:
        split.parts[0] = tokens
        return split
    depth = 0
    for token in tokens:
        if token.kind != "word":
            if token.text in OPENING or token.text.startswith("begin:"):
                depth += 1
            elif token.text in CLOSING or token.text.startswith("end:"):
                depth -= 1
            elif depth == 0 and token.text in separators:
                split.signs.append(token.text)
                split.parts.append([])
                continue
        split.parts[-1].append(token)
    return split


def split_items(tokens: list[Token]) -> tuple[list[list[Token]], set[str]]:
    """The items of a list without brackets, and the kinds of joints: `,`, `and`, `or`."""
    parts: list[list[Token]] = [[]]
    joints: set[str] = set()
    depth = 0
    for token in tokens:
        joint = None
        if token.kind == "word":
            lowered = token.text.casefold()
            joint = lowered if lowered in ("and", "or") else None
        elif token.text in OPENING or token.text.startswith("begin:"):
            depth += 1
        elif token.text in CLOSING or token.text.startswith("end:"):
            depth -= 1
        elif token.text in ("and", "or"):
            joint = token.text
        elif token.text in (",", ";", "newline"):
            joint = ","
        if joint is None or depth:
            parts[-1].append(token)
            continue
        joints.add(joint)
        if parts[-1] or joint == ",":
            parts.append([])
    if any(not part for part in parts):
        raise Unreadable("an item of a list is empty")
    # A comma before "and" is no joint of its own.
    if len(joints) > 1:
        joints.discard(",")
    return parts, joints
