"""Where in a completion the answer stands: after the reasoning, in the last box.

Everything here takes time linear in the completion's length, which is hostile text of any size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .tags import tags

ThinkStyle = Literal["none", "generated", "prefilled", "auto"]
"""How a completion holds its reasoning: not marked at all; in `<think>...</think>` that the model writes; up to
a `</think>`, the `<think>` being the last thing in the prompt (some chat templates end with it); or whichever of
these the prompt and the completion show (see `resolve_think_style`)."""

Fallback = Literal["none", "whole", "last_number"]
"""What is the answer where nothing announces one: nothing; the whole text; its last word with a digit."""

_THINK_STYLES = get_args(ThinkStyle)
_FALLBACKS = get_args(Fallback)

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"

# A shorter prompt may well be a part of the answer to it.
_SHORTEST_QUOTABLE = 12

_OPEN_AT_END = re.compile(rf"{THINK_OPEN}\s*+\Z")
_CLOSED_AT_END = re.compile(rf"{THINK_OPEN}\s*+{THINK_CLOSE}\s*+\Z")
_TEMPLATE_TAIL = re.compile(r"(?:\s|\{%(?:(?!%\}).)*%\}|\{#(?:(?!#\}).)*#\})*\Z", re.DOTALL)
_LAST_LITERAL = re.compile(r"""(['"])((?:(?!\1).)*)\1(?:(?!['"]).)*\Z""", re.DOTALL)
_LONGEST_TEMPLATE_TAIL = 2000

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*+")
# A backslash takes the next character with it, so that \{ and \} are no braces and \\} is a closing one; but
# \\boxed is a box whose backslash was escaped once too often.
_INSIDE_BOX = re.compile(r"(?<!\\)\\++(?:boxed|fbox)(?![A-Za-z])\s*+|\\.|[{}]", re.DOTALL)
# All that most boxes are: one level of braces, and no box inside.
_NO_BRACE = r"(?:[^{}\\]++|\\(?!\\|boxed|fbox).)*+"
_PLAIN_BOX = re.compile(rf"\{{({_NO_BRACE}(?:\{{{_NO_BRACE}\}}{_NO_BRACE})*+)\}}", re.DOTALL)
_GROUP = r"\{(?:[^{}]|\{[^{}]{0,100}+\}){0,200}+\}"
_UNBRACED = re.compile(
    rf"""
      [-+−]?\ ?\\?\$?(?:\d+(?:,\d{{3}})*(?:\.\d+)?|\.\d+)(?:/\d+)?(?:\\?%)?
    | \\[dt]?frac\s?(?:\d|{_GROUP})\s?(?:\d|{_GROUP})
    | \\sqrt(?:\[[^\[\]\n]{{0,50}}+\])?\s?(?:\w|{_GROUP})
    | \\(?:text|textbf|mathrm|mathbf|mathbb)\s?{_GROUP}
    | \\(?:pi|infty|emptyset|varnothing)(?![A-Za-z])
    | (?<=[dx])\([^()\n]{{1,40}}\)
    | [A-Za-z](?=\s*+(?:[.$]|\\[\])]|\Z))
    """,
    re.VERBOSE,
)

_WORD_END = re.compile(r"\s|\\[()\[\]]", re.ASCII)
_DIGITS = frozenset("0123456789")
_AROUND = "*_`'\"()[]:;,!?"


def check_think_style(think: str) -> None:
    """Raise UserError unless `think` is a ThinkStyle."""
    if think not in _THINK_STYLES:
        raise UserError(f"There is no think style {think!r}; {did_you_mean(str(think), _THINK_STYLES)}")


def check_fallback(fallback: str) -> None:
    """Raise UserError unless `fallback` is a Fallback."""
    if fallback not in _FALLBACKS:
        raise UserError(f"There is no fallback {fallback!r}; {did_you_mean(str(fallback), _FALLBACKS)}")


def think_style_of(text: str) -> ThinkStyle:
    """The think style of a chat template, or of a prompt that one has rendered.

    "prefilled" if what it writes before the completion ends with an open `<think>`; "generated" if it mentions
    `<think>` anywhere else; "none" if it does not, or if a rendered prompt ends with an empty block, which is how
    templates turn the reasoning off. A rendered prompt (with its generation prompt) decides for sure. Of a Jinja
    template the last thing written counts, without working out its conditions.
    """
    rendered = text
    if "{%" in text or "{{" in text:
        rendered = _last_written(text)
    elif _CLOSED_AT_END.search(text):
        return "none"
    if _OPEN_AT_END.search(rendered):
        return "prefilled"
    return "generated" if THINK_OPEN in text else "none"


def _last_written(template: str) -> str:
    end = template[-_LONGEST_TEMPLATE_TAIL:]
    end = end[: _TEMPLATE_TAIL.search(end).start()]  # type: ignore[union-attr]  # it matches the empty end
    if not end.endswith("}}"):
        return end
    literal = _LAST_LITERAL.search(end[end.rfind("{{") :])
    return literal.group(2).replace("\\n", "\n") if literal else ""


def resolve_think_style(think: str, completion: str, prompt: object = None) -> ThinkStyle:
    """`think`, or the style that "auto" stands for here.

    The prompt comes first: "prefilled" if it ends with an open `<think>`, "none" if it ends with an empty block,
    "generated" if it mentions `<think>` anywhere else. Where it shows nothing, the completion decides: "generated"
    if it opens a block, else "none".

    Args:
        think: the think style.
        completion: what the model wrote.
        prompt: the rendered prompt, or chat messages.

    Raises:
        UserError: `think` is no think style.
    """
    check_think_style(think)
    if think != "auto":
        return think  # type: ignore[return-value]
    texts = _texts(prompt)
    if texts and _OPEN_AT_END.search(texts[-1]):
        return "prefilled"
    if texts and _CLOSED_AT_END.search(texts[-1]):
        return "none"
    if texts and any(THINK_OPEN in text for text in texts):
        return "generated"
    for tag in tags(completion, "think"):
        if not tag.closing:
            return "generated"
    return "none"


def without_prompt(completion: str, prompt: object) -> str:
    """The completion without verbatim copies of the prompt, whose tags, boxes and numbers are not the model's own.

    Of chat messages, copies of each are left out; a prompt of under 12 characters stays where it stands. So are
    copies of a part of it, if that holds a box, a marker, a tag or an announced answer (a copy of other text
    announces nothing, and stays):

    - its sentences and lines of at least 12 characters; one that is nothing but a formula of words, such as
      "The answer is 8.", which a solution may well end with too, only together with the sentence before it;
    - what the completion has in common with its beginning, from 20 characters, up to the last whole sentence;
    - all of the completion, or all after its reasoning, if the prompt holds it, or holds all but one word of it.
    """
    for text in _texts(prompt):
        copied = text.strip()
        if len(copied) >= _SHORTEST_QUOTABLE:
            completion = _without_piece(completion, copied)
            completion = _without_parts(completion, copied)
    return completion


# ---- copies of a part of the prompt

_SHORTEST_ECHO = 20
_MOST_PIECES = 300
_LONGEST_CHANGE = 30
_PIECE_END = re.compile(r"[.!?][)\"'`*”]{0,3}\s+|\n\s*")
_MISTAKABLE = re.compile(
    r"\\(?:boxed|fbox)(?![A-Za-z])|####|</?(?:answer|think)>|\b(?:ans|answers?|option|choice)\b[^.\n]{0,80}?(?:\bis\b|\bare\b|[:=])",
    re.IGNORECASE,
)
# What is left of a sentence without its boxes, commands and the words of every announcement says what it is about.
_EVERYDAY = re.compile(
    r"</?\w{1,20}>|\\(?:boxed|fbox)\s*\{[^{}]*\}|\\[A-Za-z]+"
    r"|\b(?:the|my|our|your|final|correct|right|answers?|ans|result|solution|option|choice|is|are|was|equals|to|be|so|thus"
    r"|hence|therefore|then|and|we|i|get|gives?|have|has|she|he|it|they|there|that|this|which|a|an|of|in|total)\b",
    re.IGNORECASE,
)
_TELLING = re.compile(r"[^\W\d_]{2,}")


def _is_mistakable(text: str) -> bool:
    return _MISTAKABLE.search(text) is not None


def _is_everyday(text: str) -> bool:
    return _TELLING.search(_EVERYDAY.sub(" ", text)) is None


def _without_parts(completion: str, prompt: str) -> str:
    if not _is_mistakable(prompt) or not _is_mistakable(completion):
        return completion
    answer = completion.rpartition(THINK_CLOSE)[2]
    if _is_echo(answer.strip(), prompt):
        return completion[: len(completion) - len(answer)]
    begin = len(completion) - len(completion.lstrip())
    shared = _shared_length(completion[begin:], prompt)
    if shared >= _SHORTEST_ECHO:
        ends = [end.end() for end in _PIECE_END.finditer(prompt, 0, shared)]
        if ends and _is_mistakable(prompt[: ends[-1]]):
            completion = "\n" + completion[begin + ends[-1] :]
    for piece in _mistakable_pieces(prompt):
        completion = _without_piece(completion, piece)
    return completion


def _shared_length(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((position for position, (one, other) in pairs if one != other), min(len(left), len(right)))


def _is_echo(text: str, prompt: str) -> bool:
    """Whether the prompt holds the text, or all of it but a word that is in no box."""
    if len(text) < _SHORTEST_ECHO or not _is_mistakable(text):
        return False
    if text in prompt:
        return not _is_everyday(text)
    before = _shared_length(text, prompt)
    after = _shared_length(text[before:][::-1], prompt[before:][::-1])
    changed = text[before : len(text) - after]
    if max(len(text), len(prompt)) - before - after > _LONGEST_CHANGE or not changed.replace("-", "").isalpha():
        return False
    contents = [box.content for box in boxes(text)]
    return bool(contents) and contents == [box.content for box in boxes(prompt)]


@lru_cache(maxsize=16)  # a group of completions shares its prompt
def _mistakable_pieces(prompt: str) -> tuple[str, ...]:
    """The sentences and lines of the prompt whose copies could be taken for an answer."""
    pieces: list[str] = []
    before = start = 0
    for end in [*(end.end() for end in _PIECE_END.finditer(prompt)), len(prompt)]:
        piece = prompt[start:end].strip()
        if _is_mistakable(piece):
            if _is_everyday(piece):
                piece = prompt[before:end].strip()
            if len(piece) >= _SHORTEST_QUOTABLE and not _is_everyday(piece):
                pieces.append(piece)
        before, start = start, end
    return tuple(dict.fromkeys(pieces))[-_MOST_PIECES:]


def _without_piece(completion: str, piece: str) -> str:
    """The completion without the copies of the piece that do not break off within a word or a number."""
    kept = []
    position = 0
    while (found := completion.find(piece, position)) >= 0:
        end = found + len(piece)
        broken = (piece[-1].isalnum() and re.match(r"[.,]?\w", completion[end : end + 2])) or (
            piece[0].isdigit() and completion[max(found - 1, 0) : found].isdigit()
        )
        kept.append(completion[position : end if broken else found] + ("" if broken else "\n"))
        position = end
    return "".join([*kept, completion[position:]])


def _texts(prompt: object) -> list[str]:
    if isinstance(prompt, str):
        return [prompt]
    if prompt is None or not isinstance(prompt, Sequence):
        return []
    contents = [message.get("content") for message in prompt if isinstance(message, dict)]
    return [content for content in contents if isinstance(content, str)]


def answer_region(completion: str, think: str) -> str | None:
    """The text after the reasoning: what follows the last `</think>` that is a tag and not talked about (`tags`).

    None if the reasoning is still open where the completion ends: a `<think>` with no `</think>` after it, or
    no `</think>` at all where the prompt opened the reasoning. Without any tag, the reasoning having never
    begun, the region is the whole completion. "auto" is read as "generated": tags count where there are some.

    Raises:
        UserError: `think` is no think style.
    """
    check_think_style(think)
    found = tags(completion, "think")
    if not found:
        return None if think == "prefilled" else completion
    if not found[-1].closing:
        return None
    return completion[found[-1].end :]


class Box(NamedTuple):
    r"""A `\boxed{...}` or `\fbox{...}` that stands in no other closed one: text[start:end].

    Attributes:
        start: where its command begins.
        end: where it ends; the end of the text if it never closes.
        content: what is in it, stripped, with boxes inside it unwrapped; None if it, or the last box inside it,
            is empty or never closes.
    """

    start: int
    end: int
    content: str | None


@dataclass(slots=True)
class _Open:
    """A box while the text is read: its command is text[start:inner], its closing brace text[end - 1]."""

    start: int
    inner: int
    end: int = -1
    braced: bool = True


def boxes(text: str) -> list[Box]:
    r"""The boxes of a text in order: `\boxed` or `\fbox` and its argument.

    That stands in braces, or is a number, a letter that ends its statement, or a command such as `\frac12`. With
    anything else after it (`put it in \boxed as asked`) there is no box; at the very end, one that was cut off.
    """
    found: list[Box] = []
    position = 0
    while box := _BOX.search(text, position):
        plain = _PLAIN_BOX.match(text, box.end())
        if plain:
            position = plain.end()
            found.append(Box(box.start(), position, plain.group(1).strip() or None))
            continue
        group = _box_and_inner_ones(text, box)
        if not group:
            position = box.end()
            continue
        found += _outermost(text, group)
        position = max(found[-1].end, box.end())
    return found


def _box_and_inner_ones(text: str, first: re.Match[str]) -> list[_Open]:
    """The box that `first` begins and those that begin inside it; empty if it begins none."""
    begun = _begin(text, first.start(), first.end())
    if begun is None or begun.end >= 0:
        return [] if begun is None else [begun]
    group = [begun]
    stack: list[_Open | None] = [begun]
    position = begun.inner
    while stack and (token := _INSIDE_BOX.search(text, position)):
        position = token.end()
        sign = token.group()
        if sign == "{":
            stack.append(None)
        elif sign == "}":
            closed = stack.pop()
            if closed is not None:
                closed.end = position
        elif len(sign) > 2:
            inner = _begin(text, token.start(), token.end())
            if inner is not None:
                group.append(inner)
                position = inner.inner
                if inner.end < 0:
                    stack.append(inner)
    return group


def _begin(text: str, start: int, end: int) -> _Open | None:
    """The box whose command is text[start:end], as far as it is known there."""
    if end == len(text):
        return _Open(start, end)
    if text[end] == "{":
        return _Open(start, end + 1)
    argument = _UNBRACED.match(text, end)
    return argument and _Open(start, end, argument.end(), braced=False)


def _outermost(text: str, group: list[_Open]) -> list[Box]:
    """The boxes of `group` that stand in no other closed one, from the first that closes or is the last."""
    found: list[Box] = []
    position = 0
    while position < len(group):
        outer = group[position]
        following = position + 1
        if outer.end < 0:
            if following == len(group):
                found.append(Box(outer.start, len(text), None))
            position = following
            continue
        while following < len(group) and group[following].start < outer.end:
            following += 1
        found.append(Box(outer.start, outer.end, _content(text, group[position:following])))
        position = following
    return found


def _content(text: str, nested: list[_Open]) -> str | None:
    outer, last = nested[0], nested[-1]
    if last.end < 0 or not text[last.inner : last.end - last.braced].strip():
        return None
    cuts = [(box.start, box.inner) for box in nested[1:]]
    cuts += [(box.end - box.braced, box.end) for box in nested[1:] if box.end >= 0]
    pieces = []
    position = outer.inner
    for start, end in sorted(cuts):
        pieces.append(text[position:start])
        position = end
    pieces.append(text[position : outer.end - outer.braced])
    # Joined with spaces, lest two boxes side by side make one number.
    return " ".join(pieces).strip() or None


def last_word_with_digit(region: str) -> str | None:
    """The last word with a digit, without the quotes, brackets, emphasis and punctuation around it.

    Words end at ASCII white space and math delimiters, since the wider spaces group digits. Of an equation
    without spaces, the right-hand side counts.
    """
    for word in reversed(_WORD_END.split(region)):
        if not _DIGITS.isdisjoint(word):
            return word.rstrip(_AROUND + ".$").lstrip(_AROUND).rpartition("=")[2]
    return None
