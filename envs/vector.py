"""The environment that poses many tasks at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ..verifiers import Rubric, UserError, Verdict
from ..verifiers.extraction import ThinkStyle
from .dialogue import Message, TurnFunction
from .episode import Episode, checked_completion, checked_options, open_episode, respond_all
from .setup import HasSetup, Setup
from .spaces import UnicodeText
from .tasks import Tasks


class TextVectorEnv(HasSetup, VectorEnv[tuple[str, ...], Sequence[str | None], NDArray[Any]]):
    """`num_envs` episodes of one `TextEnv`, side by side.

    Observations are tuples of `str`. Infos are in Gymnasium's vector format: for each key an array over
    the episodes, and under `_key` the mask of the episodes that have it (`passed` is missing where the
    grader failed, and the key as a whole where all did).

    There is no autoreset: after an episode's end, `reset` begins new episodes, and Gymnasium's
    `options={"reset_mask": mask}` begins them for some. Where episodes have several turns, some end before others:
    the action of one that is over is `None`, and it stays as it is, with reward 0, its `terminated` or `truncated`
    still set, and nothing in the infos.

    Args:
        num_envs: how many episodes.
        tasks: see `TextEnv`.
        rubric: see `TextEnv`.
        system: see `TextEnv`.
        think: see `TextEnv`.
        turn: see `TextEnv`.
        max_turns: see `TextEnv`.

    Raises:
        UserError: as `TextEnv`, or if num_envs is below 1.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": [],
        "autoreset_mode": AutoresetMode.DISABLED,
    }

    def __init__(
        self,
        num_envs: int,
        tasks: Tasks,
        rubric: Rubric,
        system: str | None = None,
        think: ThinkStyle = "generated",
        turn: TurnFunction | None = None,
        max_turns: int = 1,
    ) -> None:
        if num_envs < 1:
            raise UserError(f"num_envs={num_envs} leaves no episodes; pass at least 1.")
        self._setup = Setup(tasks, rubric, system, think, turn, max_turns)
        self._episodes: list[Episode | None] = [None] * num_envs
        self._observations = [""] * num_envs
        self.num_envs = num_envs
        self.single_observation_space = UnicodeText()
        self.single_action_space = UnicodeText()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def verdicts(self) -> list[Verdict | None]:
        """The verdict of each episode, or `None` before its last step."""
        return [None if episode is None else episode.verdict for episode in self._episodes]

    @property
    def conversations(self) -> list[list[Message]]:
        """The chat messages of each episode so far, the last one being what is to be answered."""
        return [
            [] if episode is None else [dict(message) for message in episode.conversation] for episode in self._episodes
        ]

    def messages(self, observations: Sequence[str]) -> list[list[Message]]:
        """Each first observation as chat messages for the model, the system prompt (if any) first."""
        return [self._setup.messages(observation) for observation in observations]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Poses tasks: those that `options` names, else each drawn on its own from `np_random`.

        Args:
            seed: seeds `np_random`.
            options: "task", the index of a task for all episodes or a sequence of one for each;
                "reset_mask", a boolean array of the episodes to begin anew (the others stay as they are).

        Raises:
            UserError: for an unknown option, a task that does not exist or a wrong length.
        """
        super().reset(seed=seed)
        chosen = checked_options(options, ("task", "reset_mask"))
        indices = self._indices(chosen)
        infos: dict[str, Any] = {}
        for position in np.flatnonzero(self._mask(chosen)):
            episode = Episode(self._setup, self.tasks[indices[position]])
            self._episodes[position] = episode
            self._observations[position], info = episode.begin()
            infos = self._add_info(infos, info, int(position))
        return tuple(self._observations), infos

    def step(
        self, actions: Sequence[str | None]
    ) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Takes one completion for each episode; all that end are scored in one call of the rubric's `grade_many`.

        Args:
            actions: one an episode; `None` for each that is over, while others go on.

        Raises:
            gymnasium.error.ResetNeeded: if any episode with a completion is over or was never begun, or if all are
                over.
            UserError: if `actions` is not `num_envs` completions.
        """
        if isinstance(actions, str) or len(actions) != self.num_envs:
            raise UserError(f"step takes a sequence of {self.num_envs} completions, one an episode; pass that.")
        places = self._to_step(actions)
        # All are checked before any is scored, so that a mistake leaves no episode half stepped.
        episodes = [open_episode(self._episodes[place]) for place in places]
        completions = [checked_completion(actions[place]) for place in places]
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        infos: dict[str, Any] = {}
        for place, turn in zip(places, respond_all(episodes, completions), strict=True):
            infos = self._add_info(infos, turn.info, place)
            rewards[place] = turn.reward
            self._observations[place] = turn.observation
        over = np.array([episode is not None and episode.verdict is not None for episode in self._episodes])
        truncated = np.array([episode is not None and episode.truncated for episode in self._episodes])
        return tuple(self._observations), rewards, over & ~truncated, truncated, infos

    def _to_step(self, actions: Sequence[str | None]) -> list[int]:
        """The places of the episodes that are stepped: all but those that are over and have no action."""
        finished = [episode is not None and episode.verdict is not None for episode in self._episodes]
        places = [place for place, action in enumerate(actions) if action is not None or not finished[place]]
        return places or list(range(self.num_envs))

    def _indices(self, options: Any) -> list[int]:
        if "task" not in options:
            return self.np_random.integers(len(self.tasks), size=self.num_envs).tolist()
        task = options["task"]
        if np.ndim(task) == 0:
            return [self._setup.index(task)] * self.num_envs
        if len(task) != self.num_envs:
            raise UserError(f"options['task'] names {len(task)} tasks; pass one, or {self.num_envs}.")
        return [self._setup.index(value) for value in task]

    def _mask(self, options: Any) -> NDArray[np.bool_]:
        if "reset_mask" not in options:
            return np.ones(self.num_envs, dtype=np.bool_)
        mask = np.asarray(options["reset_mask"])
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise UserError(
                f"options['reset_mask'] has shape {mask.shape} and dtype {mask.dtype}; pass a boolean "
                f"array of {self.num_envs} values."
            )
        return mask
