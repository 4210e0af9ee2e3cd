r"""Numbers as people and models write them, read exactly.

    number   = [sign] [$] [sign] value [% | unit]
    value    = decimal | decimal e integer | decimal \times 10^{integer} | decimal / decimal | \frac{..}{..}
    decimal  = digits, perhaps grouped in threes (1,234 1{,}234 1\,234, or thin or no-break spaces), perhaps
               with a decimal point
    unit     = one word of two letters or more after a space, or one word in \text{}

The whole text has to be such a number; math delimiters around it and one full stop after it make no
difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

MAX_DIGITS = 1000
"""The digits that a decimal may have. Results then stay well below the 4300 digits that Python prints."""
MAX_EXPONENT = 1000
"""The largest power of ten, either way, in scientific notation."""

# Two grouped decimals of MAX_DIGITS in a fraction fit; nothing longer is looked at.
_MAX_LENGTH = 8 * MAX_DIGITS
_MINUS_SIGNS = dict.fromkeys(map(ord, "\u2212\ufe63\uff0d"), "-")
_WIDE_SPACES = "\u00a0\u2009\u202f"
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))

_SIGN = re.compile(r"(?P<outer>[+-]?)\s*(?:\\?\$)?\s*(?P<inner>[+-]?)\s*", re.ASCII)
_SEPARATOR = rf"(?P<separator>,\\!\ ?|,|\{{,\}}|\\,|[{_WIDE_SPACES}])"
_DECIMAL = re.compile(
    # No group before a first zero: 0,123 is a decimal comma, not a hundred and twenty-three.
    rf"(?P<whole>[1-9][0-9]{{0,2}}{_SEPARATOR}[0-9]{{3}}(?:(?P=separator)[0-9]{{3}})*|[0-9]*)"
    r"(?:\.(?P<part>[0-9]+))?"
)
_NOT_A_DIGIT = re.compile(r"[^0-9]+")
_POWER_OF_TEN = re.compile(
    r"(?:[eE](?P<e>[+-]?[0-9]{1,4})"
    r"|(?:\\times|\\cdot|×|\*)\s*10\s*\^\s*"
    r"(?:\{\s*(?P<braced>[+-]?[0-9]{1,4})\s*\}|(?P<bare>[+-]?[0-9]{1,4})))\Z",
    re.ASCII,
)
_OPERAND = r"\s*(?:\{{(?P<{0}>(?:\{{,\}}|[^{{}}])*)\}}|(?P<{0}_digit>[0-9]))"
_LATEX_FRACTION = re.compile(r"\\[dtc]?frac" + _OPERAND.format("above") + _OPERAND.format("below"), re.ASCII)
_UNIT = re.compile(
    rf"(?:[\s{_WIDE_SPACES}](?P<word>[A-Za-z]{{2,}})"
    r"|\\(?:text|textrm|mbox|mathrm)\s*\{\s*(?P<text>[A-Za-z]+)\s*\})\Z",
    re.ASCII,
)
_SPACE_BEFORE_UNIT = re.compile(rf"(?:\\[ ,;]|[~\s{_WIDE_SPACES}])\Z", re.ASCII)

# Words after a number that are not its unit: they change its value, offer another, or take it back.
_NO_UNITS = frozenset(
    """
    k K M B mn bn mil mill mio hundred thousand million billion trillion quadrillion lakh crore dozen score
    gross half halve third quarter fourth fifth sixth seventh eighth ninth tenth hundredth thousandth millionth
    squared cubed factorial pi tau mod modulo plus minus times over negative root infinity
    or and to not no is wrong incorrect false approximately approx about almost roughly
    """.split()
)


@dataclass(frozen=True)
class Number:
    """An exact value and, where one is written, its unit in lower case (`%` for percent)."""

    value: Fraction
    unit: str | None = None

    def matches(self, other: Number) -> bool:
        """Whether the values are equal and the units too, if both have one."""
        return self.value == other.value and (
            self.unit is None or other.unit is None or _stem(self.unit) == _stem(other.unit)
        )


def _stem(unit: str) -> str:
    """One form for singular and plural: mile and miles, inch and inches."""
    return unit.removesuffix("s").removesuffix("e")


def read_number(text: str) -> Number | None:
    r"""The number that the text is, as a whole; None if it is none or too long.

    Percentages keep their figure: `50%` is 50. Lists (`1, 2`), malformed groups (`12,34`), zero denominators
    and words that change the value (`5 million`) are no numbers.
    """
    text = text.strip()
    if len(text) > _MAX_LENGTH:
        return None
    body, unit = _split_unit(_unwrap(text.translate(_MINUS_SIGNS)))
    sign = _SIGN.match(body)
    if sign is None or (sign["outer"] and sign["inner"]):
        return None
    value = _value(body[sign.end() :])
    if value is None:
        return None
    return Number(-value if "-" in (sign["outer"], sign["inner"]) else value, unit)


def _unwrap(text: str) -> str:
    """The text without math delimiters around it and without a full stop, within or without them."""
    text = _without_stop(text)
    for left, right in _DELIMITERS:
        inner = text[len(left) : -len(right)]
        if text == left + inner + right and not inner.endswith("\\"):
            return _without_stop(inner)
    return text


def _without_stop(text: str) -> str:
    return text.strip().removesuffix(".").rstrip()


def _split_unit(text: str) -> tuple[str, str | None]:
    if text.endswith("%"):
        return text.removesuffix("%").removesuffix("\\").rstrip(), "%"
    match = _UNIT.search(text)
    if match is None:
        return text, None
    word = match["word"] or match["text"]
    lowered = word.casefold()
    # Case counts for a single letter only: M is a million, m is a metre.
    if not _NO_UNITS.isdisjoint({word} if len(word) == 1 else {lowered, lowered.removesuffix("s")}):
        return text, None
    body = _SPACE_BEFORE_UNIT.sub("", text[: match.start()]).rstrip()
    return body, "%" if lowered == "percent" else lowered


def _value(text: str) -> Fraction | None:
    """The unsigned value of a decimal, a fraction, or a decimal in scientific notation."""
    power = _POWER_OF_TEN.search(text)
    if power is not None:
        exponent = int(power["e"] or power["braced"] or power["bare"])
        mantissa = _decimal(text[: power.start()].rstrip())
        if mantissa is None or abs(exponent) > MAX_EXPONENT:
            return None
        return mantissa * Fraction(10) ** exponent
    fraction = _LATEX_FRACTION.fullmatch(text)
    if fraction is not None:
        above = _signed_decimal(fraction["above"] or fraction["above_digit"] or "")
        below = _signed_decimal(fraction["below"] or fraction["below_digit"] or "")
        return _ratio(above, below)
    left, slash, right = text.partition("/")
    if slash:
        return _ratio(_decimal(left.rstrip()), _decimal(right.lstrip()))
    return _decimal(text)


def _ratio(above: Fraction | None, below: Fraction | None) -> Fraction | None:
    return None if above is None or not below else above / below


def _signed_decimal(text: str) -> Fraction | None:
    text = text.strip()
    value = _decimal(text.removeprefix("-").lstrip())
    return -value if value is not None and text.startswith("-") else value


def _decimal(text: str) -> Fraction | None:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    part = match["part"] or ""
    digits = _NOT_A_DIGIT.sub("", match["whole"]) + part
    if not digits or len(digits) > MAX_DIGITS:
        return None
    return Fraction(int(digits), 10 ** len(part))
