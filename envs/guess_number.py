"""`rlvr/GuessNumber-v0`: find a hidden number within a few guesses, each answered by "Higher." or "Lower.".

Whether a game belongs to the training or to the held-out split is a property of the game alone (a hash of its range
and its number), so no choice of seed or size can make the splits meet.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from ..verifiers import Rubric, UserError, score, verify
from .dialogue import Message, Reply
from .procedural import item_rng
from .registry import register
from .task import Task
from .tasks import Tasks

ENV_ID = "rlvr/GuessNumber-v0"
SYSTEM = r"Guess the number. Write one guess in each of your messages, in \boxed{}."
TEMPLATE = "I think of a whole number from {low} to {high}. After each wrong guess I say Higher or Lower."
MAX_TURNS = 7
HIGHER, LOWER = "Higher.", "Lower."

Split = Literal["train", "eval"]

_TRAIN_SIZE = 1_000_000_000
_EVAL_SIZE = 256
_LARGEST = 10**9
# Held-out splits of up to this many games are listed rather than drawn from.
_LISTABLE = 50_000
_MOST_DRAWS = 10_000
_LONGEST_GUESS = 20


class Game(NamedTuple):
    """A range and the number in it that is to be found."""

    low: int
    high: int
    number: int


def split_of(game: Game) -> Split:
    """The split that a game belongs to: `eval` for about one in five, else `train`."""
    digest = hashlib.sha256(f"{ENV_ID} {game.low} {game.high} {game.number}".encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") % 5 == 0 else "train"


def draw(lowest: int, highest: int, span: int, split: Split, rng: np.random.Generator) -> Game:
    """A game of this split whose range of `span` numbers lies between `lowest` and `highest`, by rejection.

    Raises:
        UserError: when the split holds no such game (there are very few, and all are in the other one).
    """
    for _ in range(_MOST_DRAWS):
        low = int(rng.integers(lowest, highest - span + 2))
        game = Game(low, low + span - 1, low + int(rng.integers(span)))
        if split_of(game) == split:
            return game
    raise UserError(f"The {split} split has no game of {span} numbers from {lowest} to {highest}; allow more.")


def guess_number_tasks(
    split: Split = "train",
    span: int = 100,
    lowest: int = 1,
    highest: int = 500,
    size: int | None = None,
    seed: int = 0,
    template: str = TEMPLATE,
    fallback: str = "none",
    narrowing: float = 0.0,
) -> Tasks:
    """Games of one split.

    Args:
        split: `train` or `eval`; no game is ever in both.
        span: how many numbers a range has.
        lowest: the smallest number of any range.
        highest: the largest number of any range.
        size: how many tasks; None means a thousand million for `train`, and for `eval` 256 or as many as there are.
        seed: another seed gives other games of the same split.
        template: the prompt, with `{low}` and `{high}` where the ends of the range go.
        fallback: where `rlvr/number-v1` looks for the guess when a completion has no `\\boxed{}`.
        narrowing: a reward for each turn, this weight times the share of the log of the range that the guess ruled
            out. A solved game adds up to the weight, however it was played, so there is nothing to gain by delay.

    Raises:
        UserError: for an option that is unknown or out of range.
    """
    _check(split, span, lowest, highest, size, seed, template, fallback, narrowing)

    def task(index: int, game: Game) -> Task:
        info = {"low": game.low, "high": game.high, "narrowing": float(narrowing), "fallback": fallback}
        return Task(f"{split}/{seed}/{index}", _prompt(game, template), game.number, info)

    if split == "eval" and (highest - lowest - span + 2) * span <= _LISTABLE:
        games = _listed(lowest, highest, span, seed)
        if not games or (size or 0) > len(games):
            raise UserError(
                f"The eval split has {len(games)} games of {span} numbers from {lowest} to {highest}; allow more "
                f"numbers, or ask for fewer than size={size}."
            )
        return Tasks.from_function(lambda index: task(index, games[index]), size or min(_EVAL_SIZE, len(games)))

    def drawn(index: int) -> Task:
        return task(index, draw(lowest, highest, span, split, item_rng(seed, split, ENV_ID, index)))

    drawn(0)
    return Tasks.from_function(drawn, size or (_TRAIN_SIZE if split == "train" else _EVAL_SIZE))


def reply(task: Task, conversation: Sequence[Message], completion: str) -> Reply:
    """Whether the number is higher or lower than the guess; the right one ends the game."""
    guesses = [_guess(task, message["content"]) for message in conversation if message["role"] == "assistant"]
    before = _left(task, guesses)
    guess = _guess(task, completion)
    after = _left(task, [*guesses, guess])
    info, possible = task.info, _size(task.info["low"], task.info["high"])
    share = math.log(_size(*before) / _size(*after)) / math.log(possible) if possible > 1 else 0.0
    if guess is None:
        return Reply(f"Guess a whole number from {info['low']} to {info['high']}.")
    if guess == task.answer:
        return Reply(None, info["narrowing"] * share)
    return Reply(HIGHER if guess < task.answer else LOWER, info["narrowing"] * share)


def _guess(task: Task, completion: str) -> int | None:
    read = verify("rlvr/number-v1", completion=completion, answer=task.answer, fallback=task.info["fallback"])
    text = read.answer or ""
    return int(text) if len(text) <= _LONGEST_GUESS and text.removeprefix("-").isdecimal() else None


def _left(task: Task, guesses: Sequence[int | None]) -> tuple[int, int]:
    """The ends of what is left of the range after some guesses."""
    low, high = int(task.info["low"]), int(task.info["high"])
    for guess in guesses:
        if guess == task.answer:
            return task.answer, task.answer
        if guess is not None and guess < task.answer:
            low = max(low, guess + 1)
        elif guess is not None:
            high = min(high, guess - 1)
    return low, high


def _size(low: int, high: int) -> int:
    return high - low + 1


def demonstrated(game: Game, template: str, step_by_step: bool, max_turns: int) -> list[tuple[list[Message], str]]:
    """One game as worked examples for a warm start: each guess with the messages before it, without a system prompt.

    Args:
        game: the game.
        template: as `guess_number_tasks` takes it.
        step_by_step: whether each guess is the smallest number that is left; else it halves what is left.
        max_turns: the most guesses.
    """
    messages: list[Message] = [{"role": "user", "content": _prompt(game, template)}]
    low, high = game.low, game.high
    examples = []
    for _ in range(max_turns):
        guess = low if step_by_step else (low + high) // 2
        written = f"\\boxed{{{guess}}}"
        examples.append((list(messages), written))
        if guess == game.number:
            break
        low, high = (guess + 1, high) if guess < game.number else (low, guess - 1)
        said = HIGHER if guess < game.number else LOWER
        messages += [{"role": "assistant", "content": written}, {"role": "user", "content": said}]
    return examples


def _prompt(game: Game, template: str) -> str:
    return template.replace("{low}", str(game.low)).replace("{high}", str(game.high))


def _listed(lowest: int, highest: int, span: int, seed: int) -> list[Game]:
    lows = range(lowest, highest - span + 2)
    every = (Game(low, low + span - 1, number) for low in lows for number in range(low, low + span))
    games = [game for game in every if split_of(game) == "eval"]
    return [games[place] for place in item_rng(seed, "eval", ENV_ID, 0).permutation(len(games))]


def _check(
    split: object,
    span: object,
    lowest: object,
    highest: object,
    size: object,
    seed: object,
    template: object,
    fallback: str,
    narrowing: object,
) -> None:
    if split not in get_args(Split):
        raise UserError(f"GuessNumber has no split {split!r}; choose 'train' or 'eval'.")
    for name, value, least in (("span", span, 2), ("lowest", lowest, 0), ("highest", highest, 1), ("seed", seed, 0)):
        if not _is_whole(value, least, _LARGEST):
            raise UserError(f"{name}={value!r} must be a whole number from {least} to {_LARGEST}.")
    if size is not None and not _is_whole(size, 1):
        raise UserError(f"size={size!r} must be a whole number of at least 1.")
    if highest - lowest + 1 < span:  # type: ignore[operator]  # whole numbers, as was just seen
        raise UserError(f"There are fewer than span={span} numbers from {lowest} to {highest}; lower span.")
    if not isinstance(template, str) or template.count("{low}") != 1 or template.count("{high}") != 1:
        raise UserError(f"template={template!r} must contain {{low}} and {{high}} exactly once each.")
    # The verifier knows its fallbacks, and objects to others now rather than at the first completion.
    verify("rlvr/number-v1", completion="", answer=0, fallback=fallback)
    if isinstance(narrowing, bool) or not isinstance(narrowing, int | float) or not 0 <= narrowing < math.inf:
        raise UserError(f"narrowing={narrowing!r} must be a number of at least 0.")


def _is_whole(value: object, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value <= most)


register(
    ENV_ID,
    tasks=guess_number_tasks,
    rubric=Rubric(score("rlvr/number-v1", passes=True)),
    system=SYSTEM,
    turn=reply,
    max_turns=MAX_TURNS,
    description="a hidden number to be found with a few guesses, each answered by Higher or Lower",
)
