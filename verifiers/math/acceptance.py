"""Whether the texts that a completion commits to are a reference answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .compare import Comparison
from .conventions import Conventions
from .exact import rational
from .forms import Choice, Form, Listing, Value, Words
from .magnitudes import Settle, Undecided, undecided
from .reading import Reading, read_answer, read_reference


def accepts(
    reference: str, answers: Sequence[str], joined: str, conventions: Conventions, settle: Settle = undecided
) -> bool:
    """Whether the answers are the reference: one of them, all of them alike, or together as a list.

    Args:
        reference: the reference answer.
        answers: the texts of the answer.
        joined: "one" text; a "list", which may also be one answer in several forms; "rival" texts, which are an answer
            only if they all are the reference.
        conventions: what may be argued about.
        settle: decides what arithmetic alone cannot.

    Raises:
        Undecided: the outcome depends on an equality that `settle` gave up on.
        UserError: the reference cannot be read.
    """
    readings = [read_answer(text) for text in answers]
    matcher = _Matcher(*read_reference(reference), Comparison(conventions, settle))
    if all(matcher.matches(reading) for reading in readings):
        return True
    if joined == "list" and len(readings) > 1 and all(reading.forms for reading in readings):
        return matcher.some_form((_as_list(readings),))
    return False


def canonical_answer(answers: Sequence[str]) -> str:
    """One text for an answer however it is written, as far as that is cheap to tell: for majority votes."""
    return ", ".join(sorted(map(_canonical, answers))) if len(answers) > 1 else _canonical(answers[0])


class _Matcher:
    """Compares readings with one reference."""

    def __init__(self, reference: Reading, forms: tuple[Form, ...], comparison: Comparison) -> None:
        self.reference = reference
        self.forms = forms
        self.comparison = comparison

    def matches(self, answer: Reading) -> bool:
        """Whether one way to take the answer is one way to take the reference."""
        kind = self.forms[0]
        if isinstance(kind, Choice):
            return answer.option == kind.letter
        if answer.tokens and answer.canonical == self.reference.canonical:
            return True
        if self._worded_alike(answer, isinstance(kind, Words)):
            return True
        if _are_anagrams(self.reference, answer):
            return False
        return self.some_form(answer.forms)

    def _worded_alike(self, answer: Reading, in_words: bool) -> bool:
        ours, theirs = self.reference, answer
        if ours.phrase != theirs.phrase:
            return False
        if ours.is_one_word and theirs.is_one_word and self.comparison.conventions.case == "ignore":
            return ours.words == theirs.words
        words = (*ours.words, *theirs.words)
        if not any(word.isalpha() for word in words) or not all(word.isalnum() for word in words):
            return False
        if self.comparison.conventions.case == "exact" and (
            ours.words != theirs.words or ours.canonical[-1:] != theirs.canonical[-1:]
        ):
            return False
        return in_words or not theirs.forms

    def some_form(self, forms: tuple[Form, ...]) -> bool:
        """Whether a form of the reference is met by one of these."""
        doubt: Undecided | None = None
        for ours in self.forms:
            for theirs in forms:
                try:
                    if self.comparison.matches(ours, theirs):
                        return True
                except Undecided as undecided_here:
                    doubt = undecided_here
        if doubt is not None:
            raise doubt
        return False


def _are_anagrams(left: Reading, right: Reading) -> bool:
    """Whether both are one word of the same letters in another order: `even` and `neve` are no products."""
    if not (left.is_one_word and right.is_one_word):
        return False
    return sorted(left.words[0]) == sorted(right.words[0])


def _as_list(readings: Sequence[Reading]) -> Listing:
    items: list[Form] = []
    for reading in readings:
        form = reading.forms[0]
        items.extend(form.items if isinstance(form, Listing) else (form,))
    return Listing(tuple(items))


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    reading = read_answer(text)
    if reading.option is not None:
        return reading.option
    if reading.forms and isinstance(reading.forms[0], Value) and reading.forms[0].unit is None:
        value = rational(reading.forms[0].expr)
        if value is not None and max(abs(value.numerator), value.denominator).bit_length() < 10_000:
            return str(value)
    return " ".join(reading.canonical) or text.strip()
