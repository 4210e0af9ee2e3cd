"""`rlvr/Calculator-v0`: arithmetic with a calculator that the model may call.

A call is written as `<calc>12*34</calc>`. What it comes to is the next message, and a completion without a call is
the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..verifiers import Rubric, score
from .arithmetic import Split, arithmetic_tasks, draw, shape_of
from .calculation import CalculationError, calculate, written
from .dialogue import Message, Reply
from .expressions import evaluate, render
from .registry import register
from .task import Task
from .tasks import Tasks

ENV_ID = "rlvr/Calculator-v0"
OPEN, CLOSE = "<calc>", "</calc>"
SYSTEM = (
    f"You have a calculator: end a message with {OPEN}12*34{CLOSE}, say, and the next message is the result. "
    r"When you know the answer, give it in \boxed{} without calling the calculator."
)
MAX_TURNS = 4

_MOST_CALLS = 4


def calculator_tasks(
    split: Split = "train",
    level: int = 5,
    size: int | None = None,
    seed: int = 0,
    template: str = "What is {expression}?",
    operators: str | Sequence[str] | None = None,
    max_operand: int | None = None,
    terms: int | Sequence[int] | None = None,
    fallback: str = "none",
) -> Tasks:
    """The problems of `rlvr/Arithmetic-v0`, by default the hardest; see `arithmetic_tasks`.

    Raises:
        UserError: for an option that is unknown or out of range.
    """
    return arithmetic_tasks(split, level, size, seed, template, operators, max_operand, terms, fallback)


def reply(task: Task, conversation: Sequence[Message], completion: str) -> Reply:
    """The results of the calls in a completion, one a line; one without a call ends the episode."""
    expressions = calls(completion)
    if not expressions:
        return Reply(None)
    return Reply("\n".join(_result(expression) for expression in expressions))


def calls(completion: str) -> list[str]:
    """What stands in the first few `<calc>...</calc>` of a completion; what follows them is not read."""
    found: list[str] = []
    end = 0
    while len(found) < _MOST_CALLS:
        start = completion.find(OPEN, end)
        stop = completion.find(CLOSE, start + len(OPEN)) if start >= 0 else -1
        if stop < 0:
            break
        # Of a call that was begun anew before it was closed, the last beginning counts.
        inside = completion[start + len(OPEN) : stop].rpartition(OPEN)[2]
        found.append(inside)
        end = stop + len(CLOSE)
    return found


def _result(expression: str) -> str:
    try:
        return written(calculate(expression))
    except CalculationError as error:
        return f"Error: {error}."


def demonstrated(
    level: int,
    rng: np.random.Generator,
    template: str,
    guess: bool,
    operators: str | Sequence[str] | None = None,
    max_operand: int | None = None,
    terms: int | Sequence[int] | None = None,
) -> list[tuple[list[Message], str]]:
    """A training problem as worked examples for a warm start: each completion with the messages before it.

    Args:
        level: of the expression, see `shape_of`.
        rng: where the draws come from.
        template: as `calculator_tasks` takes it.
        guess: whether the answer is a guess at the first go; else the calculator is called for it.
        operators: see `shape_of`.
        max_operand: see `shape_of`.
        terms: see `shape_of`.
    """
    expression = draw(shape_of(level, operators, max_operand, terms), "train", rng)
    value = evaluate(expression)
    asked: list[Message] = [{"role": "user", "content": template.replace("{expression}", render(expression))}]
    if guess:
        near = value + int(rng.integers(-9, 10))
        return [(asked, f"\\boxed{{{near}}}")]
    call = f"{OPEN}{render(expression)}{CLOSE}"
    told = [*asked, {"role": "assistant", "content": call}, {"role": "user", "content": str(value)}]
    return [(asked, call), (told, f"\\boxed{{{value}}}")]


register(
    ENV_ID,
    tasks=calculator_tasks,
    rubric=Rubric(score("rlvr/number-v1", passes=True)),
    system=SYSTEM,
    turn=reply,
    max_turns=MAX_TURNS,
    description="arithmetic in five levels with a calculator that may be called",
)
