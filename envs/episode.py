"""Posing one task and scoring the answer: the part that single and vector environments share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from gymnasium.error import ResetNeeded

from ..sandbox.nearest import did_you_mean
from ..verifiers import UserError, Verdict
from ..verifiers.patience import OutOfPatience, call_with_patience
from ..verifiers.registry import PATIENCE
from ..verifiers.verdict import failure
from .dialogue import Message, Reply
from .setup import Setup
from .task import Task

_LONGEST_DETAIL = 500


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
        last: whether the writer can write no more, so that the episode is cut short if it does not end here.
    """

    known: Mapping[str, Any]
    last: bool

    def __new__(cls, text: str, last: bool = False, **known: Any) -> Written:
        """The text with what is known of it."""
        written = super().__new__(cls, text)
        written.known = known
        written.last = last
        return written


@dataclass(repr=False)
class Episode:
    """One attempt at one task: completions and replies in turn, until a reply or the number of turns ends it.

    Attributes:
        setup: of the environment.
        task: what is posed.
        verdict: of the rubric on the last completion; None while the episode goes on.
        conversation: the chat messages so far.
        turns: how many completions there were.
        truncated: whether the episode was cut short, by its number of turns or by the model's having no room left.
    """

    setup: Setup
    task: Task
    verdict: Verdict | None = field(default=None, init=False)
    conversation: list[Message] = field(default_factory=list, init=False)
    turns: int = field(default=0, init=False)
    truncated: bool = field(default=False, init=False)

    def begin(self) -> tuple[str, dict[str, Any]]:
        """The first observation, which is the prompt, and its info."""
        self.conversation = self.setup.messages(self.task.prompt)
        return self.task.prompt, {"task_id": self.task.id}

    def respond(self, completion: str) -> Turn:
        """Takes one completion; see `respond_all`."""
        return respond_all([self], [completion])[0]

    def reply(self, completion: str) -> Reply | Verdict:
        """What the environment says to `completion`, or the verdict that its turn function failed.

        Like a verifier's, a function of the user's that hangs is left to itself after `PATIENCE` seconds.
        """
        if self.setup.turn is None:
            return Reply(None)
        turn = partial(self.setup.turn, self.task, tuple(self.conversation), str(completion))
        own = f"{getattr(self.setup.turn, '__module__', '')}.".startswith("rlvr.")
        try:
            reply = turn() if own else call_with_patience(turn, {}, PATIENCE)
        except UserError:
            raise
        except OutOfPatience as error:
            return failure(f"the turn function did not return within {error.limit:g} s and was left running")
        except Exception as error:
            return failure(f"the turn function raised {type(error).__name__}: {error}"[:_LONGEST_DETAIL])
        if not isinstance(reply, Reply):
            raise UserError(f"The turn function returned a {type(reply).__name__}; return a Reply.")
        return reply

    def goes_on(self, completion: str, reply: Reply | Verdict) -> bool:
        """Whether there is another turn after this one."""
        if isinstance(reply, Verdict) or reply.observation is None:
            return False
        written_last = isinstance(completion, Written) and completion.last
        return not written_last and self.turns + 1 < self.setup.max_turns

    def row(self, completion: str) -> dict[str, Any]:
        """What is graded: `completion` and everything known about it and the task."""
        known = dict(completion.known) if isinstance(completion, Written) else {}
        if self.setup.turn is not None:
            said = {"role": "assistant", "content": str(completion)}
            known |= {"conversation": [*self.conversation, said], "turns": self.turns + 1}
        return self.task.fields(**{"completion": str(completion), "think": self.setup.think, **known})

    def hear(self, completion: str, reply: Reply) -> Turn:
        """Goes on with the reply's message."""
        assert reply.observation is not None
        self._note(completion)
        self.conversation.append({"role": "user", "content": reply.observation})
        return Turn(reply.observation, float(reply.reward), False, False, {"task_id": self.task.id})

    def take(self, completion: str, reply: Reply | Verdict, verdict: Verdict) -> Turn:
        """Ends with a verdict. The reward is the reply's and the verdict's score, or NaN where the grader failed."""
        self._note(completion)
        self.verdict = verdict
        self.truncated = isinstance(reply, Reply) and reply.observation is not None
        if verdict.score is None or isinstance(reply, Verdict):
            reward = math.nan
        else:
            reward = float(reply.reward) + float(verdict.score)
        return Turn("", reward, not self.truncated, self.truncated, self._info(verdict))

    def _note(self, completion: str) -> None:
        self.turns += 1
        self.conversation.append({"role": "assistant", "content": str(completion)})

    def _info(self, verdict: Verdict) -> dict[str, Any]:
        # All numbers are floats: a vector environment makes an array of the first value's type, and
        # casts the others to it silently. `detail` stays out, since it may quote the hidden answer.
        info: dict[str, Any] = {"task_id": self.task.id, "status": verdict.status}
        if verdict.passed is not None:
            info["passed"] = float(verdict.passed)
        info.update({f"parts/{name}": float(score) for name, score in verdict.parts.items()})
        return info


def respond_all(episodes: Sequence[Episode], completions: Sequence[str]) -> list[Turn]:
    """Takes one completion for each episode of one setup; those that end here are scored in one call of the rubric.

    So a verifier that works in batches or in worker processes has them all at once. A mistake of the user's
    that shows in replying or grading leaves no episode stepped.
    """
    pairs = list(zip(episodes, completions, strict=True))
    replies = [episode.reply(completion) for episode, completion in pairs]
    verdicts: dict[int, Verdict] = {}
    rows: dict[int, dict[str, Any]] = {}
    for place, ((episode, completion), reply) in enumerate(zip(pairs, replies, strict=True)):
        if isinstance(reply, Verdict):
            verdicts[place] = reply
        elif not episode.goes_on(completion, reply):
            rows[place] = episode.row(completion)
    if rows:
        verdicts.update(zip(rows, episodes[0].setup.rubric.grade_many(list(rows.values())), strict=True))

    turns = []
    for place, ((episode, completion), reply) in enumerate(zip(pairs, replies, strict=True)):
        if place in verdicts:
            turns.append(episode.take(completion, reply, verdicts[place]))
        else:
            assert isinstance(reply, Reply)
            turns.append(episode.hear(completion, reply))
    return turns


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
