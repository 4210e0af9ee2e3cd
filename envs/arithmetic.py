"""`rlvr/Arithmetic-v0`: procedural integer arithmetic in five levels.

Whether a problem belongs to the training or to the held-out split is a property of the problem alone
(a hash of its operands and operators), so no choice of level, seed, template or size can make them meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np

from ..verifiers import Rubric, UserError, metric, score, verify
from .expressions import APPLY, BINDING, Expression, Operation, canonical, evaluate, render
from .procedural import item_rng
from .registry import register
from .task import Task
from .tasks import Tasks

ENV_ID = "rlvr/Arithmetic-v0"
SYSTEM = r"Think step by step inside <think></think>, then give the final answer in \boxed{}."

Split = Literal["train", "eval"]

_TRAIN_SIZE = 1_000_000_000
_EVAL_SIZE = 256
_LARGEST_OPERAND = 10**9
_MOST_TERMS = 8
# Spaces of two-term problems up to this many expressions are listed rather than drawn from.
_LISTABLE = 25_000
_MOST_DRAWS = 10_000


@dataclass(frozen=True)
class Shape:
    """Which expressions may be drawn.

    Attributes:
        operators: a non-empty selection of `+`, `-` and `*`.
        max_operand: operands are whole numbers from 0 to this one.
        terms: the fewest and the most operands of an expression.
        parentheses: whether operations may be grouped against the usual precedence.
    """

    operators: str
    max_operand: int
    terms: tuple[int, int]
    parentheses: bool = False


LEVELS = {
    1: Shape("+", 9, (2, 2)),
    2: Shape("+-", 20, (2, 2)),
    3: Shape("+-", 99, (2, 2)),
    4: Shape("+-*", 20, (2, 3)),
    5: Shape("+-*", 99, (2, 4), parentheses=True),
}


def shape_of(
    level: int,
    operators: str | Sequence[str] | None = None,
    max_operand: int | None = None,
    terms: int | Sequence[int] | None = None,
) -> Shape:
    """The shape of a level, with those parts replaced that are not None.

    `terms` is one number of operands or the pair of the fewest and the most.

    Raises:
        UserError: for a level that does not exist or a replacement out of range.
    """
    if not _is_int(level) or level not in LEVELS:
        raise UserError(f"Arithmetic has no level {level!r}; choose one from {min(LEVELS)} to {max(LEVELS)}.")
    shape = LEVELS[level]
    return Shape(
        shape.operators if operators is None else _checked_operators(operators),
        shape.max_operand if max_operand is None else _checked_max_operand(max_operand),
        shape.terms if terms is None else _checked_terms(terms),
        shape.parentheses,
    )


def _checked_operators(operators: str | Sequence[str]) -> str:
    chosen = list(operators) if isinstance(operators, (str, list, tuple)) else []
    if not chosen or any(name not in APPLY for name in chosen) or len(set(chosen)) != len(chosen):
        raise UserError(f"operators={operators!r} must be one or more of '+', '-' and '*', each at most once.")
    return "".join(chosen)


def _checked_max_operand(max_operand: int) -> int:
    if not _is_int(max_operand) or not 1 <= max_operand <= _LARGEST_OPERAND:
        raise UserError(f"max_operand={max_operand!r} must be a whole number from 1 to {_LARGEST_OPERAND}.")
    return int(max_operand)


def _checked_terms(terms: int | Sequence[int]) -> tuple[int, int]:
    pair = terms if isinstance(terms, (list, tuple)) else (terms, terms)
    if len(pair) == 2 and all(_is_int(bound) for bound in pair):
        fewest, most = (int(bound) for bound in pair)
        if 2 <= fewest <= most <= _MOST_TERMS:
            return fewest, most
    raise UserError(
        f"terms={terms!r} must be a whole number from 2 to {_MOST_TERMS}, or the pair of the fewest and the most."
    )


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def split_of(expression: Expression) -> Split:
    """The split an expression belongs to: `eval` for about one canonical form in five, else `train`."""
    digest = hashlib.sha256(f"{ENV_ID} {canonical(expression)}".encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") % 5 == 0 else "train"


def draw(shape: Shape, split: Split, rng: np.random.Generator) -> Expression:
    """An expression of this shape and split, by rejection.

    Raises:
        UserError: when the split holds no such expression (there are very few, and all are in the other one).
    """
    for _ in range(_MOST_DRAWS):
        count = int(rng.integers(shape.terms[0], shape.terms[1] + 1))
        operands = rng.integers(0, shape.max_operand + 1, size=count).tolist()
        operators = [shape.operators[i] for i in rng.integers(0, len(shape.operators), size=count - 1)]
        if shape.parentheses:
            expression = _tree(operands, operators, lambda names: int(rng.integers(len(names))))
        else:
            expression = _tree(operands, operators, _weakest)
        if split_of(expression) == split:
            return expression
    raise UserError(f"The {split} split has no arithmetic problem with {shape}; allow more operands or terms.")


def _tree(operands: list[int], operators: list[str], root: Callable[[list[str]], int]) -> Expression:
    if not operators:
        return operands[0]
    at = root(operators)
    left = _tree(operands[: at + 1], operators[:at], root)
    right = _tree(operands[at + 1 :], operators[at + 1 :], root)
    return Operation(operators[at], left, right)


def _weakest(operators: list[str]) -> int:
    # The last of the loosest operators is evaluated last: the usual, left-to-right reading.
    return min(reversed(range(len(operators))), key=lambda at: BINDING[operators[at]])


def arithmetic_tasks(
    split: Split = "train",
    level: int = 1,
    size: int | None = None,
    seed: int = 0,
    template: str = "What is {expression}?",
    operators: str | Sequence[str] | None = None,
    max_operand: int | None = None,
    terms: int | Sequence[int] | None = None,
    fallback: str = "none",
) -> Tasks:
    """Arithmetic problems of one level and split.

    Items are made when they are asked for. Where an `eval` split holds few problems (two terms, small
    operands) it lists each of them once.

    Args:
        split: `train` or `eval`; no problem is ever in both.
        level: 1 to 5; sets operators, operands and terms.
        size: how many tasks; None means a thousand million for `train`, and for `eval` 256 or as many as there are.
        seed: another seed gives other problems of the same split, in another order.
        template: the prompt, with `{expression}` where the expression goes.
        operators: replaces the level's operators.
        max_operand: replaces the level's largest operand.
        terms: replaces the level's number of operands, or fewest and most.
        fallback: where `rlvr/number-v1` looks when a completion has no `\\boxed{}`.

    Raises:
        UserError: for an option that is unknown or out of range.
    """
    _check_options(split, size, seed, template, fallback)
    shape = shape_of(level, operators, max_operand, terms)
    info = {} if fallback == "none" else {"fallback": fallback}

    def task(index: int, expression: Expression) -> Task:
        prompt = template.replace("{expression}", render(expression))
        return Task(f"level{level}/{split}/{seed}/{index}", prompt, evaluate(expression), info)

    if split == "eval" and _listable(shape):
        problems = _listed(shape, seed)
        if not problems or (size or 0) > len(problems):
            raise UserError(
                f"The eval split has {len(problems)} problems with {shape}; "
                f"allow more operands or terms, or ask for fewer than size={size}."
            )
        return Tasks.from_function(lambda index: task(index, problems[index]), size or min(_EVAL_SIZE, len(problems)))

    def drawn(index: int) -> Task:
        return task(index, draw(shape, split, item_rng(seed, split, ENV_ID, index)))

    drawn(0)
    return Tasks.from_function(drawn, size or (_TRAIN_SIZE if split == "train" else _EVAL_SIZE))


def _check_options(split: str, size: int | None, seed: int, template: str, fallback: str) -> None:
    if split not in get_args(Split):
        raise UserError(f"Arithmetic has no split {split!r}; choose 'train' or 'eval'.")
    if size is not None and (not _is_int(size) or size < 1):
        raise UserError(f"size={size!r} must be a whole number of at least 1.")
    if not _is_int(seed) or seed < 0:
        raise UserError(f"seed={seed!r} must be a whole number of at least 0.")
    if not isinstance(template, str) or template.count("{expression}") != 1:
        raise UserError(f"template={template!r} must contain {{expression}} exactly once.")
    # The verifier knows its fallbacks, and objects to others now rather than at the first completion.
    verify("rlvr/number-v1", completion="", answer=0, fallback=fallback)


def _listable(shape: Shape) -> bool:
    return shape.terms == (2, 2) and len(shape.operators) * (shape.max_operand + 1) ** 2 <= _LISTABLE


def _listed(shape: Shape, seed: int) -> list[Expression]:
    # 3 + 5 and 5 + 3 are one problem, 3 - 5 and 5 - 3 are two: their values differ.
    found: dict[tuple[str, int], Expression] = {}
    for expression in _all_pairs(shape):
        if split_of(expression) == "eval":
            found.setdefault((canonical(expression), evaluate(expression)), expression)
    problems = list(found.values())
    order = item_rng(seed, "eval", ENV_ID, 0).permutation(len(problems))
    return [problems[i] for i in order]


def _all_pairs(shape: Shape) -> Iterator[Expression]:
    operands = range(shape.max_operand + 1)
    for name, left, right in product(shape.operators, operands, operands):
        yield Operation(name, left, right)


register(
    ENV_ID,
    tasks=arithmetic_tasks,
    rubric=Rubric(score("rlvr/number-v1", passes=True), metric("rlvr/think-v1")),
    system=SYSTEM,
    description="integer arithmetic in five levels, made on demand",
)
