"""The verifier of multiple-choice answers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ..sandbox.errors import UserError
from .commitment import commitment
from .exact import normalised, unwrapped
from .registry import verifier
from .verdict import Verdict, failure

LETTERS = "ABCDEFGHIJ"
"""What options are called."""

_LONGEST_ANSWER = 2000
_NOUN = r"(?:option|choice|answer|alternative)"
_LETTER = re.compile(
    rf"(?:(?:the\s)?(?:(?:correct|right|best|final)\s)?{_NOUN}(?:\s(?:is|choice|option)\b)?\s?:?\s?)?"
    r"(?:[(\[](?P<inside>[A-J])[)\]]|(?P<bare>[A-J]))(?P<rest>.*)",
    re.DOTALL | re.IGNORECASE,
)
_IS_CORRECT = re.compile(
    rf"(?:(?i:so|thus|hence|therefore),?\s)?(?:(?i:the\s)?(?i:{_NOUN})\s)?[*(\[]{{0,3}}(?P<letter>[A-J])[*)\]]{{0,3}}"
    rf"\sis\s(?:the\s)?(?:correct|right|best)(?:\s{_NOUN})?[.!]?"
)
_REST = re.compile(r"\s*[)\].:,;–—-]+\s*(?P<text>.*)|\s+(?P<spaced>.+)|", re.DOTALL)
# Another option named beside the first one, or a sentence about it instead of its text.
_RIVAL = re.compile(
    r"(?:\A|[\s,;/&])(?:or|and|nor|/|&|,)?\s*[(\[]?[A-J](?:[)\].:,;]|\s*\Z)|\b(?:or|and|nor)\s+[(\[]?[A-J]\b", re.DOTALL
)
_ABOUT_IT = re.compile(
    r"(?:is|are|was|were|isn['’]t|cannot|can['’]t|could|may|might|must|would|or|and|but|nor|not|seems|looks|maybe|perhaps"
    r"|incorrect|wrong|false)\b",
    re.IGNORECASE,
)
_OPTION_LINE = re.compile(r"(?:^|:)[^\S\n]*[*_]{0,2}[(\[]?[A-J][)\].:]", re.MULTILINE)
_ARTICLE = re.compile(r"(?:a|an|the)\s+")
_AROUND = " \t\n.,;:!?\"'“”‘’*_"


@verifier("rlvr/choice-v1")
def choice(
    completion: str,
    answer: object,
    choices: Sequence[object] | None = None,
    first: int = 0,
    think: str = "generated",
    prompt: object = None,
) -> Verdict:
    r"""Whether the completion commits to the right one of several options.

    It may do so by the letter (`\boxed{B}`, "the answer is (B)", "Answer: B", "**B**"), by the letter with the
    option's text ("B) Paris"), or, where `choices` are given, by the text alone. The answer is what
    `commitment` finds, else the last line. Several letters, a letter with another option's text, a letter
    that is denied, and one that is a word or a part of a name ("a number", "vitamin B") are no choice. The
    score is 1 or 0.

    Args:
        completion: what the model wrote.
        answer: the right option: its letter from A to J, its text (where `choices` are given), or its number.
        choices: the texts of the options, in the order of their letters.
        first: the number of the first option, for an `answer` that is a number.
        think: the think style.
        prompt: the prompt or chat messages, of which copies do not count.

    Raises:
        UserError: `choices` are none, or too many for the letters, or `think` is no think style.
    """
    texts = _option_texts(choices)
    right = _reference(answer, texts, first)
    if right is None:
        return failure(f"the reference answer {str(answer)[:80]!r} is none of the options")
    found = commitment(completion, think, prompt=prompt, fallback="whole")
    if isinstance(found, str):
        return Verdict(0.0, False, "unparseable", detail=f"{found}; reference {right}")
    written = [_last_line(found.answers[0])] if found.source == "whole" else found.answers
    letters = {read_choice(text, texts) for text in written}
    letter = letters.pop() if len(letters) == 1 else None
    if letter is None:
        shown = " | ".join(text[:80] for text in written)
        return Verdict(0.0, False, "unparseable", detail=f"{shown!r} is not one option; reference {right}")
    passed = letter == right
    return Verdict(float(passed), passed, detail=f"read {letter}, reference {right}", answer=letter)


def read_choice(text: str, texts: Sequence[str] | None = None) -> str | None:
    """The letter of the option that a text names; None if it names none, or several.

    Args:
        text: what the completion commits to.
        texts: the texts of the options, normalised with `option_text`.
    """
    if len(text) > _LONGEST_ANSWER:
        return None
    said_so = _IS_CORRECT.fullmatch(text.strip())
    if said_so is not None:
        return said_so["letter"]
    plain = _plain(text)
    by_text = _letter_of_text(plain, texts)
    found = _LETTER.fullmatch(plain)
    if found is None:
        return by_text
    named = found["inside"] or found["bare"]
    rest = _REST.fullmatch(found["rest"])
    # A small letter names an option in brackets, before one or alone; before anything else it is a word.
    bracketed = found["inside"] is not None or found["rest"].startswith(")") or not found["rest"].strip(_AROUND)
    if rest is None or (named.islower() and not bracketed):
        return by_text
    named = named.upper()
    said = rest["text"] or rest["spaced"] or ""
    if not said.strip(_AROUND):
        return named if by_text in (None, named) or len(plain) == 1 else None
    if by_text is not None:
        return by_text
    meant = _letter_of_text(said, texts)
    if meant is not None:
        return named if meant == named else None
    if rest["spaced"] is not None and found["inside"] is None:
        return None
    return None if _RIVAL.search(said) or _ABOUT_IT.match(said) else named


def option_text(text: object) -> str:
    """The text of an option as it is compared: without case, outer punctuation and a leading article."""
    plain = normalised(str(text), True, False, False).strip(_AROUND)
    return _ARTICLE.sub("", plain, count=1) if _ARTICLE.match(plain) else plain


def _plain(text: str) -> str:
    return unwrapped(unicodedata.normalize("NFKC", unwrapped(text.strip())).strip(" \t\n.*_\"'“”")).strip(" \t\n.")


def _letter_of_text(text: str, texts: Sequence[str] | None) -> str | None:
    """The letter of the only option with this text."""
    if texts is None:
        return None
    wanted = option_text(text)
    found = [letter for letter, known in zip(LETTERS, texts, strict=False) if known == wanted and known]
    return found[0] if len(found) == 1 else None


def _last_line(region: str) -> str:
    """The last line, unless the lines list several options."""
    lines = region.strip().splitlines()
    return region if len(_OPTION_LINE.findall(region)) > 1 else lines[-1]


def _option_texts(choices: Sequence[object] | None) -> list[str] | None:
    if choices is None:
        return None
    if isinstance(choices, str) or not isinstance(choices, Sequence) or not 1 <= len(choices) <= len(LETTERS):
        raise UserError(f"choices={choices!r} are no options; pass a list of 1 to {len(LETTERS)} texts.")
    return [option_text(one) for one in choices]


def _reference(answer: object, texts: Sequence[str] | None, first: int) -> str | None:
    """The letter of the right option."""
    known = LETTERS if texts is None else LETTERS[: len(texts)]
    if isinstance(answer, str):
        letter = answer.strip().strip("()[].").upper()
        if len(letter) == 1 and letter in known:
            return letter
        by_text = _letter_of_text(answer, texts)
        if by_text is not None or not answer.strip().isascii() or not answer.strip().isdigit():
            return by_text
        answer = int(answer) if len(answer) < 10 else -1
    # Numbers of numpy and of JSON's floats too.
    if isinstance(answer, bool) or not hasattr(answer, "__index__"):
        return None
    index = answer.__index__() - first
    return known[index] if 0 <= index < len(known) else None
