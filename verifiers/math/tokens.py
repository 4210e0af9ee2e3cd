r"""LaTeX and plain mathematical text as a flat list of tokens.

Fonts, sizes, spaces and math delimiters leave no token behind; the words inside `\text{...}` are tokens like any
others, marked as set in text. Numbers are read here, with their separators, repeating decimals and powers of ten, since
only the characters tell `1,000` from `1, 000`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal, NamedTuple

from .latex import (
    ALIASES,
    IGNORED,
    IGNORED_WITH_ARGUMENT,
    NEGATED,
    PLAIN_FONTS,
    TEXT_FONTS,
    TWO_ARGUMENTS_KEEP_LAST,
)

MAX_LENGTH = 8_000
"""Characters of an answer; one that is longer is not read."""
MAX_TOKENS = 3_000
MAX_DIGITS = 2_000
"""Digits of one number."""
MAX_EXPONENT = 5_000
"""The largest power of ten, either way, in scientific notation such as `1e-7`."""


class Unreadable(ValueError):
    """The text is no mathematics that the reader knows; the message says what is in the way."""


class Token(NamedTuple):
    r"""One token.

    Attributes:
        kind: `number`; `word`, a run of letters; `command`, a LaTeX command that means something; `sign`, any other
            character, braces among them.
        text: the characters, for a command without the backslash.
        spaced: whether white space stood before it.
        in_text: whether it stood inside `\text{...}` or the like.
        value: the number.
        places: the digits after its decimal point; None if there was no point or the value is no decimal.
    """

    kind: Literal["number", "word", "command", "sign"]
    text: str
    spaced: bool = False
    in_text: bool = False
    value: Fraction | None = None
    places: int | None = None


_TIGHT_GROUPS = re.compile(r"[0-9]{1,3}(?:(?:,\\!|\{,\}) ?[0-9]{3})+(?![0-9])")
_GROUPS = re.compile(r"[0-9]{1,3}(?P<separator>,|\\[ ,:;]|~| )[0-9]{3}(?:(?P=separator)[0-9]{3})*(?![0-9])")
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+|\.(?![.0-9]|\s*\\[lc]?dots))?|\.[0-9]+")
_NUMBER_BEGINS = frozenset("0123456789.")
# A whole number that nothing goes on with: no group of digits, no decimals, no power of ten.
_WHOLE = re.compile(r"[0-9]++(?![.,eE~]|\{,|\\[ ,:;]| [0-9])")
_FRACTION_PART = re.compile(r"\.[0-9]+")
_REPETEND = re.compile(r"\s*(?:\\overline|\\bar)\s*\{\s*([0-9]+)\s*\}|\s*\\overline\s*([0-9])|\(([0-9]+)\)(?:\.{3})?")
_DOTTED = re.compile(r"\s*\\dot\s*(?:\{\s*([0-9])\s*\}|([0-9]))([0-9]*)(?:\\dot\s*(?:\{\s*([0-9])\s*\}|([0-9])))?")
_ELLIPSIS = re.compile(r"\s*(?:\\l?dots|\\cdots|\.\.\.+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,6})(?![0-9.A-Za-z])")
_COMMAND = re.compile(r"\\(?:[A-Za-z]+\*?|.|\Z)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_SPACE = re.compile(r"(?:\s|~|\\[,;:! ]|\\\n)+")
_BRACED_SIGN = re.compile(r"\{\s*([,:;=<>])\s*\}")
_WRAPPED_NUMBER = re.compile(r"\s*\{")
_TWO_SIGNS = {"<=": "le", ">=": "ge", "!=": "ne", "==": "=", "=<": "le", "~=": "approx", "->": "to", "=>": "implies"}
_LINE_SPACING = re.compile(r"\s*\[[^\]\n]{0,12}(?:pt|em|ex|mm|cm)\]")
_NEGATABLE = re.compile(r"\s*(=|\\[a-z]+)")
_BOARD_LETTER = re.compile(r"\s*(?:\{\s*([A-Z])\s*\}|([A-Z]))")
_ENVIRONMENT = re.compile(r"\s*\{([a-zA-Z]+)\*?\}(?:\{[lcr|@!. ]*\})?")
_ARGUMENT = re.compile(r"\s*\{[^{}]*\}")


def tokenize(text: str, grouping: bool = True) -> list[Token]:
    r"""The tokens of `text`, which `unicode_fold.fold` has made LaTeX.

    Args:
        text: an answer.
        grouping: whether commas without spaces between groups of three digits belong to one number.

    Raises:
        Unreadable: the text is too long, or a number of it is.
    """
    if len(text) > MAX_LENGTH:
        raise Unreadable(f"{len(text)} characters are more than {MAX_LENGTH}")
    return _Lexer(text, grouping).run()


class _Lexer:
    """One pass over the text, with a stack that says which open braces belong to a text command."""

    def __init__(self, text: str, grouping: bool) -> None:
        self.text = text
        self.grouping = grouping
        self.at = 0
        self.spaced = False
        self.tokens: list[Token] = []
        # For every open brace: what to do when it closes, and whether its content is text.
        self.braces: list[tuple[Literal["keep", "drop"], bool]] = []

    @property
    def in_text(self) -> bool:
        return bool(self.braces) and self.braces[-1][1]

    def run(self) -> list[Token]:
        """All the tokens."""
        while self.at < len(self.text):
            self._step()
            if len(self.tokens) > MAX_TOKENS:
                raise Unreadable(f"there are more than {MAX_TOKENS} tokens")
        if self.braces:
            raise Unreadable("a brace never closes")
        return self.tokens

    def _emit(self, kind: Literal["number", "word", "command", "sign"], text: str) -> None:
        self.tokens.append(Token(kind, text, self.spaced, self.in_text))
        self.spaced = False

    def _step(self) -> None:
        text, at = self.text, self.at
        character = text[at]
        if character in "\\~" or character.isspace():
            space = _SPACE.match(text, at)
            if space:
                self.at, self.spaced = space.end(), True
                return
        if character == "\\":
            self._command()
        elif character in _NUMBER_BEGINS and _DECIMAL.match(text, at):
            self._number()
        elif character.isascii() and character.isalpha():
            word = _WORD.match(text, at)
            assert word is not None
            self._emit("word", word.group())
            self.at = word.end()
        elif character == "{":
            self._open()
        elif character == "}":
            self._close()
        elif character == "$":
            self.at += 1
            self.spaced = True
        elif text.startswith("...", at):
            self._emit("command", "ldots")
            self.at += 3
        elif text.startswith("**", at):
            self._emit("sign", "^")
            self.at += 2
        else:
            self._sign(character)

    def _sign(self, character: str) -> None:
        two = self.text[self.at : self.at + 2]
        if two in _TWO_SIGNS:
            self._emit("command" if _TWO_SIGNS[two] != "=" else "sign", _TWO_SIGNS[two])
            self.at += 2
            return
        # Any letter beyond ASCII that is left is part of a word of some language.
        self._emit("word" if character.isalpha() else "sign", character)
        self.at += 1

    def _open(self) -> None:
        spacing = _BRACED_SIGN.match(self.text, self.at)
        if spacing:
            self._emit("sign", spacing.group(1))
            self.at = spacing.end()
            return
        self._emit("sign", "{")
        self.braces.append(("keep", self.in_text))
        self.at += 1

    def _close(self) -> None:
        self.at += 1
        if not self.braces:
            raise Unreadable("a brace closes that never opened")
        what, _ = self.braces.pop()
        if what == "keep":
            self._emit("sign", "}")
        else:
            self.spaced = True

    def _command(self) -> None:
        match = _COMMAND.match(self.text, self.at)
        assert match is not None
        name = match.group()[1:]
        self.at = match.end()
        if name in IGNORED_WITH_ARGUMENT:
            self._skip_argument()
        elif name in TWO_ARGUMENTS_KEEP_LAST:
            self._skip_argument()
            self._font(False)
        elif name in TEXT_FONTS:
            self._font(True)
        elif name in PLAIN_FONTS:
            self._font(self.in_text)
        elif name in IGNORED or name in ("(", ")", "[", "]", ""):
            self.spaced = True
            # \left. and \right. stand for no delimiter at all.
            if name in ("left", "right") and self.text[self.at : self.at + 1] == ".":
                self.at += 1
        elif name == "\\":
            self._emit("command", "newline")
            spacing = _LINE_SPACING.match(self.text, self.at)
            self.at = spacing.end() if spacing else self.at
        elif name == "not":
            self._negated()
        elif name in "{}":
            self._emit("command", "lbrace" if name == "{" else "rbrace")
        elif name == "mathbb":
            self._blackboard()
        elif name in ("begin", "end"):
            self._environment(name)
        elif name in "%$#&_":
            self._emit(
                "sign" if name == "%" else "command", {"$": "dollar", "#": "hash", "&": "amp", "_": "_"}.get(name, name)
            )
        else:
            known = ALIASES.get(name, name)
            if known == "$":
                self._emit("command", "dollar")
            elif known in ("{", "}"):
                self._emit("command", "lbrace" if known == "{" else "rbrace")
            elif len(known) == 1 and not known.isalpha():
                self._emit("sign", known)
            else:
                self._emit("command", known)

    def _font(self, in_text: bool) -> None:
        """The braces of a font command vanish; `\rm x`, without them, changes nothing that matters here."""
        opening = _WRAPPED_NUMBER.match(self.text, self.at)
        if opening:
            self.at = opening.end()
            self.spaced = self.spaced or in_text
            self.braces.append(("drop", in_text))

    def _negated(self) -> None:
        match = _NEGATABLE.match(self.text, self.at)
        name = match.group(1).lstrip("\\") if match else ""
        if match is None or name not in NEGATED:
            raise Unreadable(r"\not stands before something unknown")
        self.at = match.end()
        self._emit("command", NEGATED[name])

    def _blackboard(self) -> None:
        match = _BOARD_LETTER.match(self.text, self.at)
        if match is None:
            raise Unreadable(r"\mathbb stands before something unknown")
        self.at = match.end()
        self._emit("command", "set:" + (match.group(1) or match.group(2)))

    def _environment(self, name: str) -> None:
        match = _ENVIRONMENT.match(self.text, self.at)
        if match is None:
            raise Unreadable(rf"\{name} has no environment")
        self.at = match.end()
        kind = match.group(1)
        if kind in ("align", "aligned", "equation", "gather", "gathered", "split", "center", "displaymath", "math"):
            self.spaced = True
            return
        self._emit("command", f"{name}:{kind}")

    def _skip_argument(self) -> None:
        match = _ARGUMENT.match(self.text, self.at)
        self.at = match.end() if match else self.at
        self.spaced = True

    def _number(self) -> None:
        whole = _WHOLE.match(self.text, self.at)
        if whole and whole.end() - self.at <= MAX_DIGITS:
            digits = whole.group()
            self.tokens.append(Token("number", digits, self.spaced, self.in_text, Fraction(int(digits))))
            self.spaced = False
            self.at = whole.end()
            return
        digits, places, end = self._digits()
        value = Fraction(int(digits), 10 ** (places or 0)) if len(digits) <= MAX_DIGITS else None
        if value is None:
            raise Unreadable(f"a number has more than {MAX_DIGITS} digits")
        repeating = self._repeating(value, digits, places, end)
        if repeating is not None:
            value, end = repeating
            places = None
        else:
            exponent = _EXPONENT.match(self.text, end)
            # In braces, `2e-1` is a difference with Euler's number.
            is_power = exponent and (places or not self.braces or exponent.group()[0] == "E")
            if exponent and is_power and not self.in_text:
                power = int(exponent.group(1))
                if abs(power) > MAX_EXPONENT:
                    raise Unreadable(f"the exponent {power} is beyond {MAX_EXPONENT}")
                value *= Fraction(10) ** power
                end = exponent.end()
                places = max(0, (places or 0) - power)
        self.tokens.append(
            Token("number", self.text[self.at : end], self.spaced, self.in_text, value, places if places else None)
        )
        self.spaced = False
        self.at = end

    def _digits(self) -> tuple[str, int | None, int]:
        """The digits, how many of them follow the point, and where the number ends."""
        text, at = self.text, self.at
        grouped = _TIGHT_GROUPS.match(text, at) or _GROUPS.match(text, at)
        if grouped and (self.grouping or "," not in grouped.group()) and text[at] != "0":
            end = grouped.end()
            digits = "".join(character for character in grouped.group() if character.isdigit())
            point = _FRACTION_PART.match(text, end)
            if point:
                return digits + point.group()[1:], len(point.group()) - 1, point.end()
            return digits, None, end
        decimal = _DECIMAL.match(text, at)
        assert decimal is not None
        whole, point_sign, part = decimal.group().partition(".")
        # A point with nothing after it ends a sentence or is left over; either way the number is whole.
        end = decimal.end() - (1 if point_sign and not part else 0)
        return whole + part, len(part) if part else None, end

    def _repeating(self, value: Fraction, digits: str, places: int | None, end: int) -> tuple[Fraction, int] | None:
        r"""The value and the end of `0.1\overline{6}`, `0.\dot{3}`, `0.(3)` or `0.333\ldots`; None for others."""
        shown = places or 0
        if places is None:
            if self.text[end : end + 1] != ".":
                return None
            end += 1
        bar = _REPETEND.match(self.text, end)
        if bar:
            return _with_period(value, shown, bar.group(1) or bar.group(2) or bar.group(3)), bar.end()
        dotted = _DOTTED.match(self.text, end)
        if dotted:
            first, between, last = (
                dotted.group(1) or dotted.group(2),
                dotted.group(3),
                dotted.group(4) or dotted.group(5),
            )
            if last is None and between:
                return None
            return _with_period(value, shown, first + (between + last if last else "")), dotted.end()
        ellipsis = _ELLIPSIS.match(self.text, end)
        if ellipsis and places is not None and places >= 3:
            return self._from_ellipsis(digits, places, ellipsis.end())
        return None

    def _from_ellipsis(self, digits: str, places: int, end: int) -> tuple[Fraction, int] | None:
        """`0.333...` and `0.1666...`: the shortest period that the last digits show at least twice."""
        part = digits[-places:]
        for period in range(1, places // 2 + 1):
            unit = part[-period:]
            repeats = 1
            while part.endswith(unit * (repeats + 1)):
                repeats += 1
            if repeats >= 2 and (period > 1 or repeats >= 3):
                head = part[: places - period * repeats]
                whole = digits[: len(digits) - places] or "0"
                base = Fraction(int(whole + head), 10 ** len(head))
                return _with_period(base, len(head), unit), end
        return None


def _with_period(value: Fraction, places: int, period: str) -> Fraction:
    return value + Fraction(int(period), (10 ** len(period) - 1) * 10**places)


def plain(token: Token, **changes: object) -> Token:
    """The token with some attributes changed."""
    return token._replace(**changes)  # type: ignore[arg-type]
