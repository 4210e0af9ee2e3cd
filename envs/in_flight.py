"""Completions that were handed over for verification, and what has come of them."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ..verifiers.combinator import Combinator
from ..verifiers.foreign import BATCH_SIGNS
from ..verifiers.registry import Grader, Verifier
from .background import background
from .episode import Episode, Turn, respond_all


class _Answer(NamedTuple):
    """What came of completions that were graded together: a turn each, or what grading raised."""

    rows: Sequence[int]
    episodes: Sequence[Episode]
    turns: Sequence[Turn] | BaseException


class InFlight:
    """The completions of an environment that are being verified in the background, by their rows."""

    def __init__(self) -> None:
        self._episodes: dict[int, Episode] = {}
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._done: dict[int, Turn] = {}

    def __len__(self) -> int:
        return len(self._episodes) + len(self._done)

    def __contains__(self, row: int) -> bool:
        return row in self._episodes or row in self._done

    def add(self, rows: Sequence[int], episodes: Sequence[Episode], completions: Sequence[str]) -> None:
        """Have completions graded in one call of their own."""
        self._episodes.update(zip(rows, episodes, strict=True))
        background().run(partial(_answer, self._answers, rows, episodes, completions))

    def forget(self, row: int) -> None:
        """Expect nothing more for a row."""
        self._episodes.pop(row, None)
        self._done.pop(row, None)

    def land(self, count: int) -> dict[int, Turn]:
        """All that is done, in that order, once `count` are.

        Raises:
            BaseException: what grading raised. The completions that it was about are out, the others stay for later.
        """
        while self._episodes:
            try:
                answer = self._answers.get(block=len(self._done) < count)
            except queue.Empty:
                break
            self._take(answer)
        done, self._done = self._done, {}
        return done

    def _take(self, answer: _Answer) -> None:
        # An episode that was begun anew in the meantime has nothing to do with what came of the old one.
        places = [place for place, row in enumerate(answer.rows) if self._episodes.get(row) is answer.episodes[place]]
        for place in places:
            del self._episodes[answer.rows[place]]
        if not isinstance(answer.turns, BaseException):
            self._done.update((answer.rows[place], answer.turns[place]) for place in places)
        elif places:
            raise answer.turns


def takes_batches(grader: Grader) -> bool:
    """Whether a function in it grades many completions in one call, so that its results may depend on which."""
    if isinstance(grader, Combinator):
        return any(takes_batches(part.grader) for part in grader.parts)
    return not isinstance(grader, Verifier) or not BATCH_SIGNS.isdisjoint(grader.parameters)


def _answer(
    answers: queue.SimpleQueue[_Answer], rows: Sequence[int], episodes: Sequence[Episode], completions: Sequence[str]
) -> None:
    try:
        turns: Sequence[Turn] | BaseException = respond_all(episodes, completions)
    except BaseException as error:
        turns = error
    answers.put(_Answer(rows, episodes, turns))
