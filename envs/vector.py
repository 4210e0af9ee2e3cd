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
from .episode import Episode, checked_completion, checked_options, open_episode, respond_all
from .setup import HasSetup, Message, Setup
from .spaces import UnicodeText
from .tasks import Tasks


class TextVectorEnv(HasSetup, VectorEnv[tuple[str, ...], Sequence[str], NDArray[Any]]):
    """`num_envs` episodes of one `TextEnv`, side by side.

    Observations are tuples of `str`. Infos are in Gymnasium's vector format: for each key an array over
    the episodes, and under `_key` the mask of the episodes that have it (`passed` is missing where the
    grader failed, and the key as a whole where all did).

    There is no autoreset: after a step, `reset` begins new episodes, and Gymnasium's
    `options={"reset_mask": mask}` begins them for some.

    Args:
        num_envs: how many episodes.
        tasks: see `TextEnv`.
        rubric: see `TextEnv`.
        system: see `TextEnv`.
        think: see `TextEnv`.

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
    ) -> None:
        if num_envs < 1:
            raise UserError(f"num_envs={num_envs} leaves no episodes; pass at least 1.")
        self._setup = Setup(tasks, rubric, system, think)
        self._episodes: list[Episode | None] = [None] * num_envs
        self._observations = [""] * num_envs
        self.num_envs = num_envs
        self.single_observation_space = UnicodeText()
        self.single_action_space = UnicodeText()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def verdicts(self) -> list[Verdict | None]:
        """The verdict of each episode, or `None` before its step."""
        return [None if episode is None else episode.verdict for episode in self._episodes]

    def messages(self, observations: Sequence[str]) -> list[list[Message]]:
        """Each observation as chat messages for the model, the system prompt (if any) first."""
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
        self, actions: Sequence[str]
    ) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Scores one completion for each episode, all in one call of the rubric's `grade_many`.

        Raises:
            gymnasium.error.ResetNeeded: if any episode is over or was never begun.
            UserError: if `actions` is not `num_envs` completions.
        """
        if isinstance(actions, str) or len(actions) != self.num_envs:
            raise UserError(f"step takes a sequence of {self.num_envs} completions, one an episode; pass that.")
        # All are checked before any is scored, so that a mistake leaves no episode half stepped.
        episodes = [open_episode(episode) for episode in self._episodes]
        completions = [checked_completion(action) for action in actions]
        turns = respond_all(episodes, completions)
        infos: dict[str, Any] = {}
        for position, turn in enumerate(turns):
            infos = self._add_info(infos, turn.info, position)
        self._observations = [turn.observation for turn in turns]
        return (
            tuple(self._observations),
            np.array([turn.reward for turn in turns], dtype=np.float64),
            np.array([turn.terminated for turn in turns], dtype=np.bool_),
            np.array([turn.truncated for turn in turns], dtype=np.bool_),
            infos,
        )

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
