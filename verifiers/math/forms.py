"""What an answer can be: a value, a list, a set of numbers, an equation, a matrix, words, and so on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .nodes import Expr
from .units import Unit


@dataclass(frozen=True, slots=True)
class Value:
    r"""A number or an expression, perhaps with a unit (of a percentage, the dimension "percent")."""

    expr: Expr
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Several answers side by side, without brackets: `1, 2` or `x=1 or x=2`.

    Attributes:
        items: the answers.
        in_words: whether `and` or `or` joins them.
    """

    items: tuple[Form, ...]
    in_words: bool = False


@dataclass(frozen=True, slots=True)
class Bracketed:
    """A tuple, point, vector or interval, which the brackets alone do not always tell apart."""

    opening: str
    closing: str
    items: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class FiniteSet:
    r"""`\{1, 2\}`; without items, the empty set."""

    items: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """The numbers from `low` to `high`, either of which may be infinite, with or without its ends."""

    low: Expr
    high: Expr
    with_low: bool
    with_high: bool


@dataclass(frozen=True, slots=True)
class Region:
    """A set of real numbers: disjoint pieces, ascending where their ends are numbers.

    Attributes:
        pieces: the intervals, a single number being one of length 0.
        variable: which variable lies in it, where one was named.
    """

    pieces: tuple[Piece, ...]
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class NumberSet:
    """The whole numbers Z, the rationals Q, the naturals N or the complex numbers C, perhaps with a `+` or `*`."""

    name: str


@dataclass(frozen=True, slots=True)
class Named:
    """`name = form`."""

    name: str
    form: Form


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation that is not solved for a name."""

    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Identity:
    """An equation between numbers, such as `6 * 7 = 42`: true or false, with the value of its last side."""

    sides: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Inequality:
    """An inequality that is not solved for a name; `sign` is one of `<` `le` `>` `ge` `ne`."""

    sign: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Congruence:
    """`left = residue (mod modulus)`; the left side may be left out."""

    left: Expr | None
    residue: Expr
    modulus: Expr


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix or vector by its rows."""

    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    """`a : b : ...`."""

    items: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day in minutes since midnight, or since noon and midnight alike where no half is told."""

    minutes: int
    seconds: int
    half: str | None


@dataclass(frozen=True, slots=True)
class Numeral:
    """Digits in a base, such as `101_2`."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Division:
    """A quotient and its remainder."""

    quotient: Expr
    remainder: Expr


@dataclass(frozen=True, slots=True)
class Cases:
    """A function given piece by piece: pairs of an expression and its condition."""

    rows: tuple[tuple[Form, Form], ...]


@dataclass(frozen=True, slots=True)
class Dots:
    r"""`\ldots` in the place of an item."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words and signs, in lower case, without a leading article and the final full stop."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The letter of an option, in upper case."""

    letter: str


Form: TypeAlias = (
    Value
    | Listing
    | Bracketed
    | FiniteSet
    | Region
    | NumberSet
    | Named
    | Equation
    | Identity
    | Inequality
    | Congruence
    | Matrix
    | Ratio
    | Clock
    | Numeral
    | Division
    | Cases
    | Dots
    | Words
    | Choice
)
