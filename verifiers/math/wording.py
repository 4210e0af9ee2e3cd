"""Answers that are words: names, yes and no, options of a multiple choice, and the ways to say that there is none."""

from __future__ import annotations

from collections.abc import Sequence

from .tokens import Token

_ARTICLES = frozenset({"a", "an", "the"})
_DROPPED = frozenset("{}\".,;:!'`*")
_OPTION_WORDS = frozenset({"option", "choice", "answer", "letter"})
_OPTION_LETTERS = frozenset("ABCDEFGHIJ")
_HEDGES = frozenset(
    {"or", "and", "not", "nor", "is", "isnt", "but", "either", "neither", "both", "except", "maybe", "than"}
)
# Each row says one thing.
_SAME = (
    (
        "no solution", "no solutions", "no real solution", "no real solutions", "no such number", "no such numbers",
        "there is no solution", "there are no solutions", "has no solution", "has no solutions", "no root", "no roots",
        "no real roots", "no real root", "empty set", "empty",
    ),
    ("does not exist", "dne", "doesn t exist", "do not exist", "doesnt exist", "no limit"),
    ("undefined", "not defined"),
    ("infinitely many", "infinitely many solutions", "infinite solutions", "infinite number of solutions",
     "an infinite number of solutions"),
    ("true", "t"),
    ("false", "f"),
    ("cannot be determined", "can t be determined", "not enough information", "cannot determine"),
)  # fmt: skip
_CANONICAL = {phrase: row[0] for row in _SAME for phrase in row}
NO_SOLUTION = "no solution"
ALL_NUMBERS = frozenset(
    {"all real numbers", "all reals", "real numbers", "reals", "all real x", "all real values", "any real number"}
)


def words_of(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The words, numbers and signs in lower case, without punctuation and a leading article."""
    words = [token.text.casefold() for token in tokens if token.kind != "sign" or token.text not in _DROPPED]
    if len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    return tuple(words)


def phrase_of(words: tuple[str, ...]) -> str:
    """The words as one phrase; of several ways to say one thing, always the same."""
    phrase = " ".join(words)
    return _CANONICAL.get(phrase, phrase)


def option_of(tokens: list[Token]) -> str | None:
    r"""The letter of the option that the tokens name: `B`, `(B)`, `\text{B. } 12`, `Option B`; None if they name none.

    A letter in front of other words is an option's only with brackets or a mark after it, since `A` is an article; and
    what follows it must not take it back or offer another.
    """
    tokens = [token for token in tokens if token.text not in ("{", "}", "*", "**", "`") or token.kind == "word"]
    while tokens and tokens[0].kind == "word" and tokens[0].text.casefold() in _OPTION_WORDS:
        tokens = tokens[1:]
        if tokens and tokens[0].text in (":", "is"):
            tokens = tokens[1:]
    if not tokens:
        return None
    bracketed = tokens[0].text in ("(", "[")
    at = 1 if bracketed else 0
    if at >= len(tokens) or tokens[at].kind != "word" or len(tokens[at].text) != 1:
        return None
    letter = tokens[at].text
    rest = tokens[at + 1 :]
    if bracketed:
        if not rest or rest[0].text not in (")", "]"):
            return None
        rest = rest[1:]
    elif rest and rest[0].text in (")", ".", ":"):
        rest = rest[1:]
    elif rest:
        return None
    # A small e or i by itself is a number.
    if letter.upper() not in _OPTION_LETTERS or (letter in "ei" and not bracketed) or _hedged(rest):
        return None
    return letter.upper()


def _hedged(rest: list[Token]) -> bool:
    """Whether what follows an option's letter takes it back or names another option."""
    for at, token in enumerate(rest):
        if token.kind != "word":
            continue
        if at == 0 and token.text.casefold() in _HEDGES:
            return True
        single = len(token.text) == 1 and token.text in _OPTION_LETTERS
        after = rest[at + 1].text if at + 1 < len(rest) else ""
        before = rest[at - 1].text if at else ""
        if single and (before in ("(", "or", "and", "not", ",", "/") or after == ")"):
            return True
    return False
