"""The environment that poses one task at a time."""

from __future__ import annotations

from typing import Any

import gymnasium

from ..verifiers import Rubric, Verdict
from ..verifiers.extraction import ThinkStyle
from .dialogue import Message, TurnFunction
from .episode import Episode, checked_completion, checked_options, open_episode
from .setup import HasSetup, Setup
from .spaces import UnicodeText
from .tasks import Tasks


class TextEnv(HasSetup, gymnasium.Env[str, str]):
    """A Gymnasium environment whose observations are prompts and whose actions are completions.

    `reset` poses a task, `step` scores the completion and ends the episode. The reward is the score of the
    rubric's verdict, NaN where the grader failed.

    With a turn function, an episode is a conversation: `step` gives back the next message as the observation, and
    the turn's reward, until a reply ends the episode (`terminated`) or the turns run out (`truncated`). Then the
    rubric grades the last completion, and its verdict's score is added to the reward of the last turn. Its
    verifiers may also ask for `conversation`, the chat messages of the episode, and `turns`, how many completions
    there were.

    `info` carries `task_id` and, after the last step, `status`, `parts/<name>` for each part of the rubric, and
    `passed` (1.0 or 0.0; absent where the grader failed). The hidden answer is in none of it.

    Args:
        tasks: what is posed.
        rubric: what completions are worth.
        system: the system prompt, or `None` for none.
        think: who opens the reasoning: "generated" (the model writes `<think>`), "prefilled" (the chat
            template already did) or "none" (there is no reasoning block).
        turn: replies to the completions, see `TurnFunction`; `None` for episodes of a single turn.
        max_turns: the most completions of an episode.

    Raises:
        UserError: if the rubric's verifiers ask for fields that the tasks do not have, or if `max_turns` is above 1
            without a turn function.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(
        self,
        tasks: Tasks,
        rubric: Rubric,
        system: str | None = None,
        think: ThinkStyle = "generated",
        turn: TurnFunction | None = None,
        max_turns: int = 1,
    ) -> None:
        self._setup = Setup(tasks, rubric, system, think, turn, max_turns)
        self._episode: Episode | None = None
        self.observation_space = UnicodeText()
        self.action_space = UnicodeText()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of this episode, or `None` before its last step."""
        return None if self._episode is None else self._episode.verdict

    @property
    def conversation(self) -> list[Message]:
        """The chat messages of this episode so far, the last one being what is to be answered."""
        return [] if self._episode is None else [dict(message) for message in self._episode.conversation]

    def messages(self, observation: str) -> list[Message]:
        """The first `observation` as chat messages for the model, the system prompt (if any) first."""
        return self._setup.messages(observation)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Poses a task: the one that `options={"task": i}` names, else one drawn from `np_random`.

        Raises:
            UserError: for an unknown option or a task that does not exist.
        """
        super().reset(seed=seed)
        chosen = checked_options(options, ("task",))
        if "task" in chosen:
            index = self._setup.index(chosen["task"])
        else:
            index = int(self.np_random.integers(len(self.tasks)))
        self._episode = Episode(self._setup, self.tasks[index])
        return self._episode.begin()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the completion: scores it, or gives back the next message.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset, and after an episode's end.
            UserError: if the completion is not a `str`.
        """
        return open_episode(self._episode).respond(checked_completion(action))
