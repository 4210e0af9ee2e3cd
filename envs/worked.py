"""Demonstrations of arithmetic to learn from, of uneven quality: worked out with care, or guessed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .expressions import Expression, evaluate, render

_LUCK = 0.2
_OFF_BY = (-10, -2, -1, 1, 2, 10)


def careful_solution(expression: Expression) -> str:
    r"""A demonstration that works the expression out digit by digit, as one learns at school.

    Each operation is restated and its columns follow from the right, with carries and borrows:
    `<think>17+8:7+8=15,1+0+1=2</think>\boxed{25}`. A negative difference is turned round first:
    `<think>-(17-3):7-3=4,1-0=1</think>\boxed{-14}`. A column knows only digits, so every fact that a
    held-out problem needs appears in training problems too.
    """
    pad = _Scratchpad()
    value = pad.work(expression)
    return f"<think>{';'.join(pad.lines)}</think>\\boxed{{{value}}}"


def careless_solution(expression: Expression, rng: np.random.Generator) -> str:
    r"""A demonstration that restates the problem and guesses: `<think>17+8</think>\boxed{24}`.

    One guess in five is right, the others are off by 1, 2 or 10 either way: in the right region, as guesses are.
    """
    value = evaluate(expression)
    if rng.random() >= _LUCK:
        value += int(rng.choice(_OFF_BY))
    restated = render(expression).replace(" ", "")
    return f"<think>{restated}</think>\\boxed{{{value}}}"


class _Scratchpad:
    """Written arithmetic: `lines` holds one line an operation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._written: list[str] = []

    def work(self, expression: Expression) -> int:
        if isinstance(expression, int):
            return expression
        left, right = self.work(expression.left), self.work(expression.right)
        if expression.operator == "*":
            return self._multiply(left, right)
        return self._add(left, expression.operator, right)

    def _add(self, a: int, name: str, b: int) -> int:
        """`a + b` or `a - b` with signs, through one sum or one difference of natural numbers."""
        sign = -1 if a < 0 else 1
        same_sign = (name == "+") == ((a < 0) == (b < 0))
        a, b = abs(a), abs(b)
        if same_sign:
            return self._line(sign, a, "+", b, self._sum)
        if a < b:
            return self._line(-sign, b, "-", a, self._difference)
        return self._line(sign, a, "-", b, self._difference)

    def _multiply(self, a: int, b: int) -> int:
        sign = -1 if (a < 0) != (b < 0) else 1
        a, b = abs(a), abs(b)
        partials = [int(digit) * 10**place for place, digit in enumerate(reversed(str(b))) if digit != "0"]
        values = [self._line(sign, a, "*", partial, self._product) for partial in partials or [0]]
        total = values[0]
        for value in values[1:]:
            total = self._add(total, "+", value)
        return total

    def _line(self, sign: int, a: int, name: str, b: int, columns: Callable[[int, int], int]) -> int:
        self._written = []
        value = sign * columns(a, b)
        restated = f"{a}{name}{b}" if sign > 0 else f"-({a}{name}{b})"
        self.lines.append(f"{restated}:{','.join(self._written)}")
        return value

    def _sum(self, a: int, b: int) -> int:
        carry, value, places = 0, 0, len(str(max(a, b)))
        for place in range(places):
            x, y = _digit(a, place), _digit(b, place)
            column = self._column(f"{x}+{y}" + f"+{carry}" * (carry > 0), x + y + carry)
            carry = column // 10
            value += (column if place == places - 1 else column % 10) * 10**place
        return value

    def _difference(self, a: int, b: int) -> int:
        borrow, value = 0, 0
        for place in range(len(str(a))):
            x, y = _digit(a, place), _digit(b, place)
            lent = 10 if x < y + borrow else 0
            column = self._column(f"{x + lent}-{y}" + "-1" * borrow, x + lent - y - borrow)
            borrow = lent // 10
            value += column * 10**place
        return value

    def _product(self, a: int, b: int) -> int:
        """`a` times `b`, where `b` is one digit followed by zeros, which are only appended."""
        y, zeros = int(str(b)[0]), len(str(b)) - 1
        carry, value, places = 0, 0, len(str(a))
        for place in range(places):
            x = _digit(a, place)
            column = self._column(f"{x}*{y}" + f"+{carry}" * (carry > 0), x * y + carry)
            carry = column // 10
            value += (column if place == places - 1 else column % 10) * 10**place
        return value * 10**zeros

    def _column(self, text: str, value: int) -> int:
        self._written.append(f"{text}={value}")
        return value


def _digit(number: int, place: int) -> int:
    return number // 10**place % 10
