"""A calculator for hostile text: exact rational numbers, and bounds on everything."""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 200
_DEEPEST = 30
_MOST_BITS = 400
_LARGEST_EXPONENT = 1000
_DECIMALS = 10

_TOKEN = re.compile(r"\s*+(?:([0-9]++(?:\.[0-9]++)?+|\.[0-9]++)|(\*\*|[-+*/()^]))")
# What people also write for the operators.
_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})


class CalculationError(Exception):
    """An expression has no value here; the message says why, in words that quote nothing of it."""


def calculate(expression: str) -> Fraction:
    """The exact value of an expression of decimal numbers, `+ - * /`, `**` or `^`, and parentheses.

    The usual precedence holds: powers, which bind to the right, before signs, before products, before sums.

    Args:
        expression: at most `LONGEST` characters.

    Raises:
        CalculationError: if it is no such expression, divides by zero, or is too long, too deep or too large.
    """
    if len(expression) > LONGEST:
        raise CalculationError("the expression is too long")
    parser = _Parser(_tokens(expression.translate(_SPELLINGS)))
    value = parser.sum(0)
    if parser.peek():
        raise CalculationError("that is no expression")
    return value


def written(value: Fraction) -> str:
    """A value as text: a whole number or a finite decimal of few digits exactly, anything else rounded."""
    if value.denominator == 1:
        return str(value.numerator)
    scaled = round(value * 10**_DECIMALS)
    whole, part = divmod(abs(scaled), 10**_DECIMALS)
    text = f"{whole}.{part:0{_DECIMALS}d}".rstrip("0").rstrip(".")
    return f"-{text}" if scaled < 0 else text


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CalculationError("that is no expression")
        tokens.append(match[1] or match[2])
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent, with the depth counted."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self.peek() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            right = self._product(depth)
            value = _bounded(value + sign * right)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._signed(depth)
        while self.peek() in ("*", "/"):
            operator = self._take()
            right = self._signed(depth)
            if operator == "/" and right == 0:
                raise CalculationError("division by zero")
            value = _bounded(value * right if operator == "*" else value / right)
        return value

    def _signed(self, depth: int) -> Fraction:
        _check_depth(depth)
        if self.peek() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            return sign * self._signed(depth + 1)
        return self._power(depth)

    def _power(self, depth: int) -> Fraction:
        base = self._atom(depth)
        if self.peek() not in ("**", "^"):
            return base
        self._take()
        return _raised(base, self._signed(depth + 1))

    def _atom(self, depth: int) -> Fraction:
        token = self._take()
        if token == "(":
            value = self.sum(depth + 1)
            if self._take() != ")":
                raise CalculationError("a parenthesis is not closed")
            return value
        if not token or not (token[0].isdigit() or token[0] == "."):
            raise CalculationError("that is no expression")
        return _bounded(Fraction(token))

    def _take(self) -> str:
        token = self.peek()
        self._position += 1
        return token


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise CalculationError("the expression is nested too deeply")


def _raised(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > _LARGEST_EXPONENT:
        raise CalculationError(f"exponents are whole numbers up to {_LARGEST_EXPONENT}")
    if base == 0 and exponent < 0:
        raise CalculationError("division by zero")
    if base not in (0, 1, -1) and _bits(base) * abs(exponent) > 2 * _MOST_BITS:
        raise CalculationError("the result is too large")
    return _bounded(Fraction(base ** int(exponent)))


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > _MOST_BITS:
        raise CalculationError("the result is too large")
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
