"""The verifier of answers that are one string."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, get_args

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .commitment import commitment
from .extraction import answer_region, resolve_think_style
from .registry import verifier
from .verdict import Verdict, failure

AnswerPlace = Literal["committed", "boxed", "whole"]
"""Where the answer stands: wherever the completion commits to one; in the last box; all after the reasoning."""

# What NFKC makes of these is another text: 10² would be 102, and 1½ would be 11/2.
_NOT_FOLDED = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
_WRAPPED = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s?\{(?P<command>[^{}]*)\}|\$(?P<dollars>[^$]*)\$"
    r"|\\\((?P<round>[^\\]*)\\\)|\*\*(?P<bold>[^*]*)\*\*|`(?P<code>[^`]*)`"
)
_MOST_WRAPPINGS = 5
_SIGNS_OF_NUMBERS = "-−.,/:"


@verifier("rlvr/exact-v1")
def exact(
    completion: str,
    answer: object,
    part: str = "committed",
    ignore_case: bool = False,
    ignore_whitespace: bool = False,
    ignore_punctuation: bool = False,
    think: str = "generated",
    prompt: object = None,
) -> Verdict:
    r"""Whether the completion's answer is the text `answer`, or one of several.

    Both are normalised first: composed Unicode with compatibility forms folded (full-width letters, ligatures,
    no-break spaces, but neither superscripts nor fractions), white space trimmed and each run of it one
    space, and what wraps the whole answer (`\text{}`, `$`, `**`) taken off. The score is 1 or 0.

    Args:
        completion: what the model wrote.
        answer: the reference, or a list of those that are accepted; what is no text counts as Python writes it.
        part: "committed", the answer that the completion commits to (`commitment` has the rules), else all that
            follows the reasoning; "boxed", the last box and nothing else; "whole", all that follows the reasoning.
        ignore_case: whether letters that differ in case alone are equal.
        ignore_whitespace: whether all white space is taken out.
        ignore_punctuation: whether punctuation is taken out, other than in numbers (`-1,234.5`, `50%`).
        think: the think style.
        prompt: the prompt or chat messages, of which copies do not count.

    Raises:
        UserError: `part` or `think` is not one of the possible values.
    """
    if part not in get_args(AnswerPlace):
        raise UserError(f"There is no part={part!r} to read an answer from; {did_you_mean(str(part), _PLACES)}")
    options = (ignore_case, ignore_whitespace, ignore_punctuation)
    accepted = [str(one) for one in _each(answer)]
    references = {normalised(one, *options) for one in accepted} - {""}
    if not references:
        return failure("the reference answer is empty")
    written = _written(completion, part, think, prompt)
    if isinstance(written, str):
        return Verdict(0.0, False, "unparseable", detail=written)
    # A text that is many times as long cannot be equal, and composing it may take quadratic time.
    longest = 1000 + 20 * max(map(len, accepted))
    read = {normalised(text, *options) if len(text) <= longest else "" for text in written}
    passed = len(read) == 1 and read <= references
    shown = " | ".join(sorted(text[:80] for text in read))
    return Verdict(float(passed), passed, detail=f"read {shown!r}", answer=read.pop() if len(read) == 1 else None)


_PLACES = get_args(AnswerPlace)


def normalised(text: str, ignore_case: bool, ignore_whitespace: bool, ignore_punctuation: bool) -> str:
    """The text as it is compared; see `exact`."""
    folded = "".join(_fold(character) for character in unicodedata.normalize("NFC", text))
    folded = " ".join(unicodedata.normalize("NFC", folded).split())
    folded = unwrapped(folded)
    if ignore_punctuation:
        folded = _without_punctuation(folded)
    folded = ("" if ignore_whitespace else " ").join(folded.split())
    return folded.casefold() if ignore_case else folded


def unwrapped(text: str) -> str:
    r"""The text without `\text{}`, `$`, `\(`, `**` or backticks around all of it."""
    for _ in range(_MOST_WRAPPINGS):
        wrapped = _WRAPPED.fullmatch(text)
        if wrapped is None:
            break
        text = wrapped[wrapped.lastgroup or 0].strip()
    return text


def _written(completion: str, part: str, think: str, prompt: object) -> tuple[str, ...] | str:
    """The texts that all have to be the answer, or why there is none."""
    if part == "whole":
        region = answer_region(completion, resolve_think_style(think, completion, prompt))
        if region is None:
            return "the reasoning never closed"
        return (region.strip(),) if region.strip() else "there is no answer after the reasoning"
    found = commitment(completion, think, prompt=prompt, fallback="whole" if part == "committed" else "none")
    if isinstance(found, str):
        return found
    if part == "boxed" and found.source != "box":
        return "there is no box after the reasoning"
    return (", ".join(found.answers),) if found.joined == "list" else found.answers


def _each(answer: object) -> Iterable[object]:
    return answer if isinstance(answer, list | tuple | set | frozenset) else (answer,)


def _fold(character: str) -> str:
    if character < "\x80" or unicodedata.decomposition(character).startswith(_NOT_FOLDED):
        return character
    return unicodedata.normalize("NFKC", character)


def _without_punctuation(text: str) -> str:
    kept = []
    for before, character, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        sign_of_number = (character in _SIGNS_OF_NUMBERS and after.isdigit()) or (character == "%" and before.isdigit())
        if sign_of_number or not unicodedata.category(character).startswith("P"):
            kept.append(character)
        elif not sign_of_number:
            kept.append(" " if character in "-–—/" else "")
    return "".join(kept)
