"""Posing one task and scoring the answer: the part that single and vector environments share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gymnasium.error import ResetNeeded

from ..verifiers import UserError, Verdict
from ..verifiers.nearest import did_you_mean
from .setup import Setup
from .task import Task


class Turn(NamedTuple):
    """What a step gives back: Gymnasium's five values, for one episode."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(repr=False)
class Episode:
    """One attempt at one task, of a single turn: the completion is scored and the episode is over."""

    setup: Setup
    task: Task
    verdict: Verdict | None = field(default=None, init=False)

    def begin(self) -> tuple[str, dict[str, Any]]:
        """The first observation, which is the prompt, and its info."""
        return self.task.prompt, {"task_id": self.task.id}

    def respond(self, completion: str) -> Turn:
        """Scores `completion`. The reward is the verdict's score, or NaN where the grader failed."""
        self.verdict = self.setup.rubric(**self.task.fields(completion=completion, think=self.setup.think))
        reward = math.nan if self.verdict.score is None else float(self.verdict.score)
        return Turn("", reward, True, False, self._info(self.verdict))

    def _info(self, verdict: Verdict) -> dict[str, Any]:
        # All numbers are floats: a vector environment makes an array of the first value's type, and
        # casts the others to it silently. `detail` stays out, since it may quote the hidden answer.
        info: dict[str, Any] = {"task_id": self.task.id, "status": verdict.status}
        if verdict.passed is not None:
            info["passed"] = float(verdict.passed)
        info.update({f"parts/{name}": float(score) for name, score in verdict.parts.items()})
        return info


def open_episode(episode: Episode | None) -> Episode:
    """`episode` if it can still be answered; Gymnasium's `ResetNeeded` if it cannot."""
    if episode is None:
        raise ResetNeeded("Cannot step before the first reset: call reset() first.")
    if episode.verdict is not None:
        raise ResetNeeded(f"The episode of task {episode.task.id!r} is over: call reset() first.")
    return episode


def checked_completion(completion: Any) -> str:
    """`completion` if it is a `str`; `UserError` otherwise."""
    if not isinstance(completion, str):
        raise UserError(f"A completion is a str, but step was given a {type(completion).__name__}.")
    return completion


def checked_options(options: Mapping[str, Any] | None, known: tuple[str, ...]) -> Mapping[str, Any]:
    """The options of a reset; `UserError` for a key that is not `known`."""
    options = options or {}
    for key in options:
        if key not in known:
            raise UserError(f"reset has no option {key!r}; {did_you_mean(str(key), known)}")
    return options
