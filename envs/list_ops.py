"""`rlvr/ListOps-v0`: write a function that maps lists as the examples show; hidden calls decide.

Whether a function belongs to the training or to the held-out split is a property of the function alone (a hash of what
it makes of fixed probes), so no choice of level, seed or size, and no other way to write the same function, can make
the splits meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..verifiers import UserError
from .code import CODE_RUBRIC, SYSTEM_PROMPT, sandbox_options
from .list_functions import OPERATIONS, ListFunction, Numbers, draw_function, single_functions
from .procedural import item_rng
from .registry import register
from .task import Task
from .tasks import Tasks

ENV_ID = "rlvr/ListOps-v0"
ENTRY_POINT = "f"
TEMPLATE = (
    "Write a Python function `f(xs)` that maps a list of whole numbers to a list, as in these examples:\n\n{examples}"
)

Split = Literal["train", "eval"]

_TRAIN_SIZE = 1_000_000_000
_EVAL_SIZE = 256
_MOST_DRAWS = 10_000
_LARGEST = 9


@dataclass(frozen=True)
class Level:
    """Which functions a level draws.

    Attributes:
        operations: the names of their operations.
        steps: how many of these are chained.
    """

    operations: tuple[str, ...]
    steps: int


_EASY = ("add", "subtract", "multiply", "subtract_from", "reverse", "sort", "sort_down", "take", "drop", "every")
_MORE = (*_EASY, "rotate", "mirror", "twice", "above", "below", "even", "odd", "at_most", "at_least", "distinct")

LEVELS = {
    1: Level(_EASY, 1),
    2: Level(tuple(OPERATIONS), 1),
    3: Level(_EASY, 2),
    4: Level(_MORE, 2),
    5: Level(tuple(OPERATIONS), 3),
}


def split_of(function: ListFunction) -> Split:
    """The split that a function belongs to, however it is written: `eval` for about one in five, else `train`."""
    return "eval" if int(function.behaviour[:16], 16) % 5 == 0 else "train"


def draw(level: int, split: Split, rng: np.random.Generator) -> ListFunction:
    """A function of this level and split, none that a shorter chain would do or that makes little difference.

    Raises:
        UserError: when the split holds no such function.
    """
    shape = LEVELS[level]
    for _ in range(_MOST_DRAWS):
        function = draw_function(shape.operations, shape.steps, rng)
        if split_of(function) == split and not function.is_dull and not function.is_reducible:
            return function
    raise UserError(f"The {split} split has no list function of level {level}; take another level.")


def list_ops_tasks(
    split: Split = "train",
    level: int = 1,
    size: int | None = None,
    seed: int = 0,
    examples: int = 4,
    hidden: int = 12,
    template: str = TEMPLATE,
    backend: str = "auto",
    image: str | None = None,
    runtime: str | None = None,
    limits: Mapping[str, Any] | None = None,
    allow_unsafe: bool = False,
    partial: bool = False,
) -> Tasks:
    """Functions of one level and split to be found from examples.

    Items are made when they are asked for. The examples are the visible tests, calls with other lists the hidden ones;
    no single operation fits all examples unless it is the function.

    Args:
        split: `train` or `eval`; no function is ever in both.
        level: 1 to 5; sets the operations and how many of them are chained.
        size: how many tasks; None means a thousand million for `train` and 256 for `eval`.
        seed: another seed gives other tasks of the same split, in another order.
        examples: how many examples the prompt shows.
        hidden: how many hidden calls there are.
        template: the prompt, with `{examples}` where the examples go, one a line.
        backend: the sandbox: "auto", "docker" or "namespace".
        image: the image for Docker.
        runtime: the runtime of Docker's daemon, such as "runsc" for gVisor.
        limits: what one run of a program may use, as the fields of `rlvr.sandbox.Limits`.
        allow_unsafe: whether programs may run without isolation where the system has none to offer.
        partial: whether the score is the share of the tests passed, instead of all or nothing.

    Raises:
        UserError: for an option that is unknown or out of range.
    """
    _check(split, level, size, seed, examples, hidden, template)
    options = sandbox_options(backend, image, runtime, limits, allow_unsafe, partial)

    def task(index: int) -> Task:
        rng = item_rng(seed, split, ENV_ID, index)
        function = draw(level, split, rng)
        shown = _examples(function, examples, rng)
        prompt = _prompt(function, shown, template)
        tests = _tests(function, shown, hidden, rng)
        name = f"level{level}/{split}/{seed}/{index}"
        return Task(name, prompt, function.source(ENTRY_POINT), {"tests": tests, **options})

    task(0)
    return Tasks.from_function(task, size or (_TRAIN_SIZE if split == "train" else _EVAL_SIZE))


def demonstrated(
    level: int, rng: np.random.Generator, template: str = TEMPLATE, examples: int = 4, guess: bool = False
) -> tuple[str, str]:
    """A prompt of the training split, and a completion to learn from.

    Args:
        level: of the function.
        rng: where the draws come from.
        template: as `list_ops_tasks` takes it.
        examples: how many examples the prompt shows.
        guess: whether the completion is the solution or another function of the level.
    """
    function = draw(level, "train", rng)
    prompt = _prompt(function, _examples(function, examples, rng), template)
    written = draw(level, "train", rng) if guess else function
    return prompt, f"```python\n{written.source(ENTRY_POINT)}\n```"


def _prompt(function: ListFunction, shown: list[Numbers], template: str) -> str:
    return template.replace("{examples}", "\n".join(f"f({given}) == {function(given)}" for given in shown))


def _tests(function: ListFunction, shown: list[Numbers], hidden: int, rng: np.random.Generator) -> dict[str, Any]:
    kept = _lists(hidden, (1, 9), rng, shown)
    cases = [{"args": [given], "expected": function(given), "visible": True} for given in shown]
    cases += [{"args": [given], "expected": function(given)} for given in kept]
    return {"form": "calls", "entry_point": ENTRY_POINT, "cases": cases}


def _examples(function: ListFunction, count: int, rng: np.random.Generator) -> list[Numbers]:
    """Lists that show the function: no single operation that is another function maps all of them alike."""
    best: list[Numbers] = []
    fewest = len(single_functions()) + 1
    for _ in range(50):
        shown = _lists(count, (4, 6), rng, [])
        others = [
            other
            for other in single_functions()
            if all(other(given) == function(given) for given in shown) and other.behaviour != function.behaviour
        ]
        if len(others) < fewest:
            best, fewest = shown, len(others)
        if not others:
            break
    return best


def _lists(count: int, lengths: tuple[int, int], rng: np.random.Generator, besides: list[Numbers]) -> list[Numbers]:
    """So many different lists of numbers from 0 to 9, none of those that there are already."""
    made: list[Numbers] = []
    while len(made) < count:
        length = int(rng.integers(lengths[0], lengths[1] + 1))
        numbers = [int(number) for number in rng.integers(0, _LARGEST + 1, size=length)]
        if numbers not in made and numbers not in besides:
            made.append(numbers)
    return made


def _check(
    split: object, level: object, size: object, seed: object, examples: object, hidden: object, template: object
) -> None:
    if split not in get_args(Split):
        raise UserError(f"ListOps has no split {split!r}; choose 'train' or 'eval'.")
    if not _is_whole(level, 1) or level not in LEVELS:
        raise UserError(f"ListOps has no level {level!r}; choose one from {min(LEVELS)} to {max(LEVELS)}.")
    if size is not None and not _is_whole(size, 1):
        raise UserError(f"size={size!r} must be a whole number of at least 1.")
    if not _is_whole(seed, 0):
        raise UserError(f"seed={seed!r} must be a whole number of at least 0.")
    for name, count in (("examples", examples), ("hidden", hidden)):
        if not _is_whole(count, 1, 100):
            raise UserError(f"{name}={count!r} must be a whole number from 1 to 100.")
    if not isinstance(template, str) or template.count("{examples}") != 1:
        raise UserError(f"template={template!r} must contain {{examples}} exactly once.")


def _is_whole(value: object, least: int, most: float = float("inf")) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value <= most)


register(
    ENV_ID,
    tasks=list_ops_tasks,
    rubric=CODE_RUBRIC,
    system=SYSTEM_PROMPT,
    description="functions on lists to be found from examples, in five levels, made on demand",
)
