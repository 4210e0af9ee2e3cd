"""Posing one task and scoring the answer: the part that single and vector environments share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gymnasium.error import ResetNeeded

from ..sandbox.nearest import did_you_mean
from ..verifiers import UserError, Verdict
from .setup import Setup
from .task import Task


class Turn(NamedTuple):
    """What a step gives back: Gymnasium's five values, for one episode."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Written(str):
    """A completion with what its writer knows of it beyond the text, as fields for the verifiers.

    Attributes:
        known: `completion_tokens`, its length in tokens, say; or `think`, its think style, where the environment's is
            "auto".
    """

    known: Mapping[str, Any]

    def __new__(cls, text: str, **known: Any) -> Written:
        """The text with what is known of it."""
        written = super().__new__(cls, text)
        written.known = known
        return written


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
        """Scores `completion`; see `respond_all`."""
        return respond_all([self], [completion])[0]

    def row(self, completion: str) -> dict[str, Any]:
        """What is graded: `completion` and everything known about it and the task."""
        known = completion.known if isinstance(completion, Written) else {}
        return self.task.fields(**{"completion": str(completion), "think": self.setup.think, **known})

    def take(self, verdict: Verdict) -> Turn:
        """Ends with a verdict. The reward is its score, or NaN where the grader failed."""
        self.verdict = verdict
        reward = math.nan if verdict.score is None else float(verdict.score)
        return Turn("", reward, True, False, self._info(verdict))

    def _info(self, verdict: Verdict) -> dict[str, Any]:
        # All numbers are floats: a vector environment makes an array of the first value's type, and
        # casts the others to it silently. `detail` stays out, since it may quote the hidden answer.
        info: dict[str, Any] = {"task_id": self.task.id, "status": verdict.status}
        if verdict.passed is not None:
            info["passed"] = float(verdict.passed)
        info.update({f"parts/{name}": float(score) for name, score in verdict.parts.items()})
        return info


def respond_all(episodes: Sequence[Episode], completions: Sequence[str]) -> list[Turn]:
    """Scores one completion for each episode of one setup, all in one call of its rubric.

    So a verifier that works in batches or in worker processes has them all at once. A mistake of the user's
    that shows in grading leaves no episode stepped.
    """
    rows = [episode.row(completion) for episode, completion in zip(episodes, completions, strict=True)]
    verdicts = episodes[0].setup.rubric.grade_many(rows)
    return [episode.take(verdict) for episode, verdict in zip(episodes, verdicts, strict=True)]


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
