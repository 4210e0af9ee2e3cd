"""Small functions from lists of whole numbers to lists, as chains of operations.

Every operation is a Python expression of the list `xs`, which serves to compute it here and to write it down as a
solution. Which function a chain is shows in what it makes of a fixed set of probes.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

Numbers = list[int]


@dataclass(frozen=True)
class Operation:
    """One step.

    Args:
        expression: the new list in Python, from `xs`, with `{n}` where the number goes.
        apply: the same as a function of the list and the number.
        numbers: the numbers it may have; empty for none.
    """

    expression: str
    apply: Callable[[Numbers, int], Numbers]
    numbers: tuple[int, ...] = ()


OPERATIONS: dict[str, Operation] = {
    "add": Operation("[x + {n} for x in xs]", lambda xs, n: [x + n for x in xs], (1, 2, 3, 4, 5, 6, 7, 8, 9)),
    "subtract": Operation("[x - {n} for x in xs]", lambda xs, n: [x - n for x in xs], (1, 2, 3, 4, 5, 6, 7, 8, 9)),
    "multiply": Operation("[x * {n} for x in xs]", lambda xs, n: [x * n for x in xs], (2, 3, 4, 5, 6, 7, 8, 9)),
    "subtract_from": Operation("[{n} - x for x in xs]", lambda xs, n: [n - x for x in xs], (0, 5, 10, 20)),
    "remainder": Operation("[x % {n} for x in xs]", lambda xs, n: [x % n for x in xs], (2, 3, 4, 5, 7, 10)),
    "halve": Operation("[x // {n} for x in xs]", lambda xs, n: [x // n for x in xs], (2, 3, 4, 5)),
    "reverse": Operation("xs[::-1]", lambda xs, n: xs[::-1]),
    "sort": Operation("sorted(xs)", lambda xs, n: sorted(xs)),
    "sort_down": Operation("sorted(xs)[::-1]", lambda xs, n: sorted(xs)[::-1]),
    "take": Operation("xs[:{n}]", lambda xs, n: xs[:n], (1, 2, 3)),
    "drop": Operation("xs[{n}:]", lambda xs, n: xs[n:], (1, 2, 3)),
    "drop_last": Operation("xs[:-{n}]", lambda xs, n: xs[:-n], (1, 2)),
    "every": Operation("xs[::{n}]", lambda xs, n: xs[::n], (2, 3)),
    "rotate": Operation("xs[{n}:] + xs[:{n}]", lambda xs, n: xs[n:] + xs[:n], (1, 2)),
    "twice": Operation("xs + xs", lambda xs, n: xs + xs),
    "mirror": Operation("xs + xs[::-1]", lambda xs, n: xs + xs[::-1]),
    "above": Operation("[x for x in xs if x > {n}]", lambda xs, n: [x for x in xs if x > n], (2, 3, 4, 5, 6)),
    "below": Operation("[x for x in xs if x < {n}]", lambda xs, n: [x for x in xs if x < n], (4, 5, 6, 7)),
    "even": Operation("[x for x in xs if x % 2 == 0]", lambda xs, n: [x for x in xs if x % 2 == 0]),
    "odd": Operation("[x for x in xs if x % 2 == 1]", lambda xs, n: [x for x in xs if x % 2 == 1]),
    "at_most": Operation("[min(x, {n}) for x in xs]", lambda xs, n: [min(x, n) for x in xs], (3, 4, 5, 6)),
    "at_least": Operation("[max(x, {n}) for x in xs]", lambda xs, n: [max(x, n) for x in xs], (3, 4, 5, 6)),
    "distinct": Operation("list(dict.fromkeys(xs))", lambda xs, n: list(dict.fromkeys(xs))),
    "sums": Operation("[sum(xs[: i + 1]) for i in range(len(xs))]", lambda xs, n: list(accumulate(xs))),
    "steps": Operation("[b - a for a, b in zip(xs, xs[1:])]", lambda xs, n: [b - a for a, b in pairwise(xs)]),
    "neighbours": Operation("[a + b for a, b in zip(xs, xs[1:])]", lambda xs, n: [a + b for a, b in pairwise(xs)]),
    "with_place": Operation("[i + x for i, x in enumerate(xs)]", lambda xs, n: [i + x for i, x in enumerate(xs)]),
    "square": Operation("[x * x for x in xs]", lambda xs, n: [x * x for x in xs]),
}  # fmt: skip


@dataclass(frozen=True)
class ListFunction:
    """A chain of operations, the first one first, each with its number (0 where it has none)."""

    steps: tuple[tuple[str, int], ...]

    def __call__(self, numbers: Numbers) -> Numbers:
        """What the function makes of a list, which stays as it is."""
        result = list(numbers)
        for name, number in self.steps:
            result = OPERATIONS[name].apply(result, number)
        return result

    def source(self, name: str = "f") -> str:
        """The function in Python."""
        *before, last = [OPERATIONS[step].expression.format(n=number) for step, number in self.steps]
        lines = [*(f"xs = {expression}" for expression in before), f"return {last}"]
        return f"def {name}(xs):\n" + "\n".join(f"    {line}" for line in lines)

    @functools.cached_property
    def behaviour(self) -> str:
        """A digest of what it makes of the probes: equal for chains that are one function."""
        made = repr([self(list(probe)) for probe in probes()])
        return hashlib.sha256(made.encode()).hexdigest()

    @property
    def is_dull(self) -> bool:
        """Whether it makes the same of many probes, so that a program could be right without the function."""
        made = Counter(tuple(self(list(probe))) for probe in probes())
        return max(made.values()) > len(probes()) // 4

    @property
    def is_reducible(self) -> bool:
        """Whether a shorter chain, this one without a step, is the same function."""
        shorter = (ListFunction((*self.steps[:at], *self.steps[at + 1 :])) for at in range(len(self.steps)))
        return any(function.behaviour == self.behaviour for function in shorter)


@functools.cache
def probes() -> tuple[tuple[int, ...], ...]:
    """The lists that tell functions apart: the same ones always."""
    rng = np.random.default_rng(np.random.SeedSequence([20111, 5]))
    lengths = [0, 1, 1, 2, 2, 3, 3, *range(4, 12), *range(4, 12)]
    drawn = [tuple(rng.integers(0, 10, size=length).tolist()) for length in lengths]
    wide = [tuple(rng.integers(-30, 31, size=length).tolist()) for length in (3, 6, 9)]
    return (*drawn, *wide)


def draw_function(names: tuple[str, ...], length: int, rng: np.random.Generator) -> ListFunction:
    """A chain of so many operations out of these, drawn alike."""
    steps: list[tuple[str, Any]] = []
    for _ in range(length):
        name = names[int(rng.integers(len(names)))]
        numbers = OPERATIONS[name].numbers or (0,)
        steps.append((name, numbers[int(rng.integers(len(numbers)))]))
    return ListFunction(tuple(steps))


@functools.cache
def single_functions() -> tuple[ListFunction, ...]:
    """Every chain of one operation."""
    return tuple(
        ListFunction(((name, number),)) for name, step in OPERATIONS.items() for number in step.numbers or (0,)
    )
