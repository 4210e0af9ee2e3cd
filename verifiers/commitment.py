r"""The answer that a completion commits to, as text.

What counts comes after the reasoning and is no copy of the prompt. Where a box begins there, the last one is the
answer, and an empty or unterminated last one leaves none. Where none does: what `####` marks, else
`<answer>...</answer>`, else a sentence ("the answer is ..."), else bold text at the very end. The last statement
of a kind wins, so a later correction does; but statements that stand side by side, or that come after what was
read and give a value, stand beside it as rivals.

Boxes belong to one statement where only a short joint stands between them:

    nothing, a full stop                          rivals: \boxed{41}\boxed{42}
    "that is", "i.e.", "=", "or equivalently"     rivals: one value in two forms
    "or", "perhaps", "another possibility is"     rivals, unless the sentence announces several (roots, values are)
    ",", ";", "and", "x =", "(b)"                 a list
    anything else                                 a correction: the later box alone counts

A box that is denied on the spot ("not \boxed{41}", "\boxed{41} is wrong", "... is what you would get if") is
passed over, and so is one that is only asked about ("Is it \boxed{41}?"). A box in code or quotes that shows the
format ("e.g. `\boxed{41}`") is none. An answer announced without a box and then called wrong leaves none, unless
another one follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from .extraction import (
    Box,
    answer_region,
    boxes,
    check_fallback,
    last_word_with_digit,
    resolve_think_style,
    without_prompt,
)
from .statements import Statement, emboldened, is_value, marked, phrased, retracted, tagged

Joined = Literal["one", "list", "rival"]
Source = Literal["box", "marker", "tag", "phrase", "bold", "whole", "last_number"]
NoAnswer = Literal[
    "the reasoning never closed",
    "the last box is empty or never closes",
    "every box is withdrawn",
    "every answer is withdrawn",
    "too many boxes stand side by side",
    "the last answer is empty or was cut off",
    "there is no answer after the reasoning",
]
"""Why a completion commits to nothing."""


class Commitment(NamedTuple):
    """The answer that a completion commits to.

    Attributes:
        answers: its texts (LaTeX or plain), stripped, in order; at least one.
        joined: "one" answer; a "list" of several that together are the answer, or one answer if all have the same
            value; or "rival" texts, which are an answer only if all have the same value.
        source: where it was found.
    """

    answers: tuple[str, ...]
    joined: Joined
    source: Source


def commitment(
    completion: str, think: str = "generated", *, prompt: object = None, fallback: str = "none"
) -> Commitment | NoAnswer:
    """The answer that the completion commits to, or why there is none.

    Args:
        completion: what the model wrote.
        think: the think style; "auto" is resolved from the prompt and the completion.
        prompt: the prompt, or chat messages, of which copies in the completion do not count.
        fallback: what is the answer where nothing announces one: "none", nothing is; "whole", all the text after
            the reasoning; "last_number", its last word with a digit.

    Raises:
        UserError: `think` or `fallback` is not one of the possible values.
    """
    check_fallback(fallback)
    own = without_prompt(completion, prompt)
    region = answer_region(own, resolve_think_style(think, own, prompt))
    if region is None:
        return "the reasoning never closed"
    found = boxes(region)
    if found:
        found, region = _without_hints(found, region)
    if found:
        return _boxed(region, found)
    return _announced(region) or _fallen_back(region, fallback) or "there is no answer after the reasoning"


def _fallen_back(region: str, fallback: str) -> Commitment | None:
    if fallback == "whole" and region.strip():
        return Commitment((region.strip(),), "one", "whole")
    word = last_word_with_digit(region) if fallback == "last_number" else None
    return Commitment((word,), "one", "last_number") if word else None


# ---- without a box

_READERS: tuple[tuple[Source, Callable[[str], list[Statement]]], ...] = (
    ("marker", marked),
    ("tag", tagged),
    ("phrase", phrased),
    ("bold", emboldened),
)


def _announced(region: str) -> Commitment | NoAnswer | None:
    for source, read in _READERS:
        found = read(region)
        if found:
            if not found[-1].text:
                return "the last answer is empty or was cut off"
            if found[-1].withdrawn:
                return _replaced(region, found[-1].end)
            texts = [statement.text for statement in found if statement.text]
            return _with_rivals(texts, _values_after(region, found[-1].end), "one", source)
    return None


def _replaced(region: str, position: int) -> Commitment | NoAnswer:
    """What is announced after the withdrawn answer that ends at `position`."""
    tail = region[position:]
    for source, read in _READERS:
        found = [statement for statement in read(tail) if statement.text]
        if found and not found[-1].withdrawn:
            return Commitment(tuple(each.text for each in found), "rival" if len(found) > 1 else "one", source)
    return "every answer is withdrawn"


# Nothing shorter announces a value.
_SHORTEST_STATEMENT = 5


def _values_after(region: str, position: int) -> list[str]:
    """The values that sentences, markers and tags after `position` announce."""
    tail = region[position:]
    if len(tail) < _SHORTEST_STATEMENT:
        return []
    found = [statement.text for _, read in _READERS[:3] for statement in read(tail)]
    return [text for text in found if text and is_value(text)]


_CHOICE = re.compile(r"\W*(?:\\(?:text|textbf|mathrm|mathbf)\s*\{\W*)?[A-J]\W*")


def _with_rivals(texts: list[str], later: list[str], joined: Joined, source: Source) -> Commitment:
    rivals: list[str] = []
    if later:
        # A letter beside a value names the option that has the value.
        letter = _CHOICE.fullmatch(texts[-1]) is not None
        rivals = [text for text in later if (_CHOICE.fullmatch(text) is not None) is letter]
    if rivals and joined == "list":
        texts = [", ".join(texts)]
    if rivals or (joined == "one" and len(texts) > 1):
        joined = "rival"
    return Commitment((*texts, *rivals), joined, source)


# ---- boxes

_DECORATION = re.compile(
    r"\\(?:text|textbf|textit|mbox|mathrm)\s?\{|\\[\[\]()]|\\(?:quad|qquad|left|right)\b|\\[,;:! ]|\\\\|[${}&~*`]"
)
_LONGEST_JOINT = 160
_MOST_BOXES = 100
_LABEL = (
    r"(?:\(?(?:[a-z]|[ivx]{1,4}|[0-9]{1,2})[).:]|[-•]|case \d+:?"
    r"|[a-z]{1,3}(?:_?\d)?(?: ?\([^()]*\))? ?(?:=|≈|\\approx|\\in))"
)
_SIDE_BY_SIDE = re.compile(r"[^\w,;=+/|≈]*")
_LIST = re.compile(rf"[,;.]?\s*(?:and(?: also)?|as well as|also|plus|\+)?[,:]?\s*(?:{_LABEL})?")
_EQUAL = re.compile(
    r"[,;:.(]*\s*(?:or\s)?(?:(?:which|this|that) (?:is|equals)(?: equal to| the same as)?|that['’]s|i\.?\s?e\.?|is"
    r"|equals|equal to|equivalently|in other words|namely|simply|also written as|the same as|in decimal(?: form)?|="
    rf"|≈|\\approx|\\equiv|\\iff)[,:]?\s*(?:{_LABEL})?"
)
_MAYBE = r"(?:or|alternatively|maybe|perhaps|possibly|(?:could|might|may) be)"
_HEDGE = re.compile(
    rf"\W*{_MAYBE}\b(?:\W+\w+){{0,5}}\W*(?:{_LABEL})?|\W*(?:\w+\W+){{0,4}}{_MAYBE}\W*(?:{_LABEL})?|[/|]"
    r"|\W*(?:the |an)other (?:solution|root|value|answer|possibility|candidate|option)(?:\W+\w+){0,4}\W*"
)
# "or x = \\boxed{2}" and "the other root is \\boxed{2}" go on with the solutions of one equation.
_ONE_OF_SEVERAL = re.compile(r"=\Z|\b(?:solution|root|value)\b")
_CORRECTION = re.compile(r"\b(?:or rather|wait|actually|no|correct\w*|instead|mistake|wrong|so|gives?|final(?:ly)?)\b")
_SEVERAL = re.compile(
    r"\b(?:solutions|roots|values|answers|zeros|zeroes|eigenvalues|intercepts|points|numbers|integers|primes|factors"
    r"|pairs|are)\b"
)
_EITHER = re.compile(r"\beither\b")
_SENTENCE_BREAK = re.compile(r"[.!?]\s|\n\s*\n")
_DENIED = re.compile(
    r"(?:(?:\b(?:not|never|cannot|neither|nor|no\slonger|rather\sthan|instead\sof)|n['’]t)(?:\s*+[a-z]\s?=)?|\\neq?|≠)"
    r"\s*+(?:(?:be|equal|equal\sto|the|answer|is)\s)*+[\s:(*]*+\Z",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"""
    [\s$*})\]\\,.]*+
    (?:\?\s*+no\b
      |(?:(?:but|which|this|that|it|wait|no|hmm)\b[,.]?\s)*
       (?:(?:cannot|can['’]t|could\snot)\sbe\s(?:right|correct|the)\b
         |(?:(?:is|was|would\sbe|that['’]s|it['’]s)\s)
          (?:(?:the|a|an|also|just|only)\s)*
          (?:wrong|incorrect|not\s(?:the|correct|right|it)\b|tempting|(?:common\s)?mistake|what\swould\s
            |(?:answer\s|what\s)*(?:you|one|we|they)\s(?:(?:would|might|could)\s)?(?:get|obtain)
            |(?:answer|result|value)\sif\b)))
    """,
    re.IGNORECASE | re.VERBOSE,
)


def _boxed(region: str, found: list[Box]) -> Commitment | NoAnswer:
    if found[-1].content is None:
        return "the last box is empty or never closes"
    last = len(found) - 1
    while last >= 0 and _withdrawn(region, found[last]):
        last -= 1
    later = _values_after(region, found[-1].end)
    if last < len(found) - 1 and later:
        return Commitment(tuple(later), "rival" if len(later) > 1 else "one", "phrase")
    if last < 0 or found[last].content is None:
        return "every box is withdrawn"
    first = last
    joints: set[Joined] = set()
    while first > 0 and found[first - 1].content is not None:
        joint = _joint(region, found[first - 1], found[first])
        if joint is None or _withdrawn(region, found[first - 1]):
            break
        if last - first + 1 >= _MOST_BOXES:
            return "too many boxes stand side by side"
        joints.add(joint)
        first -= 1
    texts = [_without_words(box.content) for box in found[first : last + 1] if box.content is not None]
    joined: Joined = "rival" if "rival" in joints else "list" if joints else "one"
    return _with_rivals(texts, later, joined, "box")


# A part of every denial, in small letters; of "instead" what has one small form only.
_DENYING = re.compile(r"n[o'’]t|never|neither|nor|longer|rather|tead|\\ne|≠")
_NOTHING_FOLLOWS = re.compile(r"[\s$*})\]\\,.;!]*+\Z")


def _withdrawn(region: str, box: Box) -> bool:
    before = region[max(box.start - 40, 0) : box.start].rpartition(".")[2]
    if _DENYING.search(before.lower()) and _DENIED.search(_DECORATION.sub(" ", before)):
        return True
    if _NOTHING_FOLLOWS.match(region, box.end):
        return False
    return (
        _WITHDRAWN.match(region[box.end : box.end + 120]) is not None
        or retracted(region, box.end)
        or (_ASKED.match(region, box.end) is not None and _QUESTION.match(_sentence(region, box.start)) is not None)
    )


_ASKED = re.compile(r"[\s$*_)}\]\\`\"']{0,8}\?")
_QUESTION = re.compile(
    r"\W*(?:(?:so|but|and|hmm|wait|then),?\s)?(?:is|are|was|could|can|does|would|should|might|what\sif)\b",
    re.IGNORECASE,
)
_HINT = re.compile(r"\bformat(?:s|ted)?\b|\be\.\s?g\.|\bfor\s(?:example|instance)\b|\bsuch\sas\b", re.IGNORECASE)
_HINT_BREAK = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?]\s|\n")
_QUOTE_BEFORE = re.compile(r"[`\"“'‘]\$?\Z")
_QUOTE_AFTER = re.compile(r"\$?[.,]?[`\"”'’]")


def _sentence(region: str, position: int) -> str:
    """What of the sentence stands before `position`, at most 200 characters."""
    before = region[max(position - 200, 0) : position]
    breaks = list(_HINT_BREAK.finditer(before))
    return before[breaks[-1].end() :] if breaks else before


def _without_hints(found: list[Box], region: str) -> tuple[list[Box], str]:
    """The boxes that do not just show the format, and the region with blanks in place of those that do."""
    if not any(_is_quoted(region, box) for box in found) or not _HINT.search(region):
        return found, region
    kept: list[Box] = []
    pieces: list[str] = []
    position = 0
    for box in found:
        if _is_quoted(region, box) and _HINT.search(_sentence(region, box.start)):
            pieces += [region[position : box.start], " " * (box.end - box.start)]
            position = box.end
        else:
            kept.append(box)
    return kept, "".join([*pieces, region[position:]])


def _is_quoted(region: str, box: Box) -> bool:
    if not _QUOTE_AFTER.match(region, box.end):
        return False
    return _QUOTE_BEFORE.search(region, max(box.start - 2, 0), box.start) is not None


def _joint(region: str, left: Box, right: Box) -> Joined | None:
    """How two boxes that follow each other belong to one answer; None if the later one stands for itself."""
    if right.start - left.end > _LONGEST_JOINT:
        return None
    gap = region[left.end : right.start]
    words = " ".join(_DECORATION.sub(" ", gap).lower().split())
    several, either = _announcement(region, left.start)
    if _SIDE_BY_SIDE.fullmatch(words):
        return "list" if several and gap.strip("$") else "rival"
    if _LIST.fullmatch(words):
        return "rival" if either else "list"
    if _EQUAL.fullmatch(words):
        return "rival"
    if _HEDGE.fullmatch(words) and not _CORRECTION.search(words):
        return "list" if (several or _ONE_OF_SEVERAL.search(words)) and not either else "rival"
    return None


def _announcement(region: str, position: int) -> tuple[bool, bool]:
    """Whether the sentence up to `position` announces several answers, and whether it says "either"."""
    before = region[max(position - 200, 0) : position]
    breaks = list(_SENTENCE_BREAK.finditer(before))
    sentence = before[breaks[-1].end() :].lower() if breaks else before.lower()
    return _SEVERAL.search(sentence) is not None, _EITHER.search(sentence) is not None


_SENTENCE_IN_BOX = re.compile(
    r"\\(?:text|textbf|mathrm|mbox)\s*\{\s*(?:the\s)?(?:final\s)?answer\s?(?:is|:|=)\s*:?\s*\}\s*", re.IGNORECASE
)


def _without_words(content: str) -> str:
    """A box's content without a leading "The answer is"."""
    words = _SENTENCE_IN_BOX.match(content)
    return content[words.end() :].strip() or content if words else content
