"""An answer's text with everything that it may be taken for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from ...sandbox.errors import UserError
from .exact import is_undefined
from .forms import Choice, FiniteSet, Form, Value, Words
from .nodes import Number
from .quantities import is_shy
from .reader import read
from .regions import REALS
from .splitting import trimmed
from .tokens import MAX_LENGTH, Token, Unreadable, tokenize
from .unicode_fold import fold
from .wording import ALL_NUMBERS, NO_SOLUTION, option_of, phrase_of, words_of

T = TypeVar("T")


class _Lazy(Generic[T]):
    """`functools.cached_property` without the lock that it takes before Python 3.12."""

    def __init__(self, work: Callable[[Reading], T]) -> None:
        self.work = work
        self.__doc__ = work.__doc__

    def __get__(self, reading: Reading, owner: type | None = None) -> T:
        found = reading.__dict__[self.work.__name__] = self.work(reading)
        return found


@dataclass(frozen=True)
class Reading:
    """What a text says; only what is asked for is worked out.

    Attributes:
        text: the text as LaTeX, without marks around it.
        tokens: its tokens, without what only announces or ends an answer; none if it has none that are known.
        problem: why there are no tokens.
    """

    text: str
    tokens: tuple[Token, ...]
    problem: str = ""

    @_Lazy
    def canonical(self) -> tuple[str, ...]:
        """The tokens' texts, by which it equals itself written with other spaces and sizes of brackets."""
        return tuple(map(_spelled, self.tokens))

    @_Lazy
    def words(self) -> tuple[str, ...]:
        """Its words."""
        return words_of(self.tokens)

    @_Lazy
    def is_one_word(self) -> bool:
        """Whether it is one word rather than a product of two letters."""
        return (
            len(self.words) == 1
            and self.words[0].isalpha()
            and (len(self.words[0]) > 2 or self.words[0] in ("no", "on"))
        )

    @_Lazy
    def phrase(self) -> str:
        """The words as one phrase."""
        return phrase_of(self.words)

    @_Lazy
    def option(self) -> str | None:
        """The letter of the option that it names, if any."""
        return option_of(list(self.tokens))

    @_Lazy
    def forms(self) -> tuple[Form, ...]:
        """What it may be, the likeliest first; none if only its words can be compared."""
        return self._forms_or_problem[0]

    @property
    def complaint(self) -> str:
        """Why it has no form."""
        return self.problem or self._forms_or_problem[1]

    @_Lazy
    def _forms_or_problem(self) -> tuple[tuple[Form, ...], str]:
        tokens = list(self.tokens)
        if not tokens:
            return (), self.problem
        if len(tokens) == 1 and tokens[0].value is not None and "," not in tokens[0].text:
            return (Value(Number(tokens[0].value, tokens[0].places)),), ""
        phrase = self.phrase
        if phrase == NO_SOLUTION:
            return (FiniteSet(()),), ""
        if phrase in ALL_NUMBERS:
            return (REALS,), ""
        return _forms(self.text, tokens)


@lru_cache(maxsize=1024)
def read_answer(text: str) -> Reading:
    """The reading of what a model wrote; never an error, since anything may stand there."""
    if len(text) > MAX_LENGTH:
        return Reading("", (), f"an answer of {len(text)} characters is too long")
    folded = _without_emphasis(fold(text))
    try:
        return Reading(folded, tuple(trimmed(tokenize(folded))))
    except Unreadable as problem:
        return Reading(folded, (), str(problem))


@lru_cache(maxsize=16_384)
def read_reference(text: str) -> tuple[Reading, tuple[Form, ...]]:
    """The reading of a reference answer and its forms, which decide what kind of answer is asked for.

    Raises:
        UserError: the text is empty, has no value, or is no answer that can be compared with another.
    """
    if not text.strip():
        raise UserError("A reference answer is empty; every task of rlvr/math-v1 needs one.")
    reading = read_answer(text)
    if reading.option is not None and _is_option(text):
        return reading, (Choice(reading.option),)
    if _is_name(reading.canonical):
        return reading, (Words(reading.words),)
    if any(isinstance(form, Value) and is_undefined(form.expr) for form in reading.forms):
        raise UserError(f"The reference answer {text[:80]!r} has no value; correct it or leave the task out.")
    if reading.forms:
        return reading, reading.forms
    if not any(token.kind == "word" for token in reading.tokens) or reading.words == ("nan",):
        raise UserError(
            f"The reference answer {text[:80]!r} cannot be read ({reading.complaint or 'it has no words'}); "
            "correct it or leave the task out."
        )
    return reading, (Words(reading.words),)


def _without_emphasis(text: str) -> str:
    """The text without quotes, or Markdown's marks of bold, slanted or typewriter letters, around all of it."""
    text = text.strip()
    if text[:1] not in ("*", "_", "`", '"'):
        return text
    for mark in ("**", "__", "*", "`", '"'):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            text = text[len(mark) : -len(mark)].strip()
    return text


def _forms(text: str, tokens: list[Token]) -> tuple[tuple[Form, ...], str]:
    """The forms of a text, the likeliest first, and why there is none."""
    forms: list[Form] = []
    problem = ""
    try:
        forms.append(read(tokens))
    except Unreadable as unreadable:
        problem = str(unreadable)
    except RecursionError:
        # The parser bounds its depth, but whoever calls may have used up the stack.
        problem = "it is nested too deep"
    if any(token.kind == "number" and "," in token.text for token in tokens) and _may_be_a_list(text, tokens):
        # 1,000 is a thousand, unless it turns out to be a list.
        forms += _more(lambda: read(trimmed(tokenize(text, grouping=False))))
    if any(is_shy(token) for token in tokens[1:]):
        forms += [form for form in _more(lambda: read(tokens, shy=True)) if form not in forms]
    return tuple(forms), problem


def _more(reading: Callable[[], Form]) -> list[Form]:
    try:
        return [reading()]
    except (Unreadable, RecursionError):
        return []


def _spelled(token: Token) -> str:
    value = token.value
    if value is not None and token.text.isdigit():
        return token.text.lstrip("0") or "0"
    # Python writes no whole number of more than 4300 digits.
    if value is None or max(abs(value.numerator), value.denominator).bit_length() > 10_000:
        return token.text
    return str(value)


def _may_be_a_list(text: str, tokens: list[Token]) -> bool:
    """Whether the groups of `1,234` may be items: without brackets, none of them begins with a zero."""
    return tokens[0].text in ("(", "[", "lbrace") or ",0" not in text.replace(" ", "")


def _is_option(text: str) -> bool:
    """Whether a reference is an option's letter: a capital A to J alone, in brackets or before its text."""
    bare = text.strip().strip("$().[]{}: ")
    if len(bare) == 1:
        return bare.isupper()
    return ("text" in text or "(" in text or ")" in text or "." in text) and any(map(str.isupper, text))


def _is_name(canonical: tuple[str, ...]) -> bool:
    """Whether a reference is one word in capitals, as `ASA`, whose letters are no factors."""
    return len(canonical) == 1 and len(canonical[0]) > 1 and canonical[0].isalpha() and canonical[0][0].isupper()
