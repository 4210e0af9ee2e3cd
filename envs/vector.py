"""The environment that poses many tasks at a time."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ..verifiers import Rubric, UserError, Verdict
from ..verifiers.extraction import ThinkStyle
from .dialogue import Message, TurnFunction
from .episode import Episode, Turn, checked_completion, checked_options, open_episode, respond_all
from .in_flight import InFlight, takes_batches
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

    `send` and `recv` are `step` in two halves, for whoever writes more completions meanwhile: `send` hands some over,
    and they are verified in the background, at most `background.AT_ONCE` at a time; `recv` gives back what came of
    those that are done, whichever they are, so that a slow verdict holds up no other.

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
        self._in_flight = InFlight()
        self.num_envs = num_envs
        self.single_observation_space = UnicodeText()
        self.single_action_space = UnicodeText()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def grades_together(self) -> bool:
        """Whether a function of the rubric grades many completions in one call: those of one `send`."""
        return takes_batches(self.rubric)

    @property
    def in_flight(self) -> int:
        """How many completions were sent whose replies are still to be received."""
        return len(self._in_flight)

    @property
    def verdicts(self) -> list[Verdict | None]:
        """The verdict of each episode, or `None` before its last step."""
        return [None if episode is None else episode.verdict for episode in self._episodes]

    def verdict(self, row: int) -> Verdict:
        """That of one episode, which is over.

        Raises:
            UserError: if it is not.
        """
        episode = self._episodes[row]
        if episode is None or episode.verdict is None:
            raise UserError(f"The episode of row {row} has no verdict yet; take it to its end first.")
        return episode.verdict

    @property
    def conversations(self) -> list[list[Message]]:
        """The chat messages of each episode so far, the last one being what is to be answered."""
        return [self.conversation(row) for row in range(self.num_envs)]

    def conversation(self, row: int) -> list[Message]:
        """That of one episode; see `conversations`."""
        episode = self._episodes[row]
        return [] if episode is None else [dict(message) for message in episode.conversation]

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
            self._in_flight.forget(int(position))
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
            UserError: if `actions` is not `num_envs` completions, or if some that were sent are not received yet.
        """
        if isinstance(actions, str) or len(actions) != self.num_envs:
            raise UserError(f"step takes a sequence of {self.num_envs} completions, one an episode; pass that.")
        if self.in_flight:
            raise UserError(f"step came while {self.in_flight} completions are in flight; recv them first.")
        places = self._to_step(actions)
        # All are checked before any is scored, so that a mistake leaves no episode half stepped.
        episodes = [open_episode(self._episodes[place]) for place in places]
        completions = [checked_completion(actions[place]) for place in places]
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        turns = respond_all(episodes, completions)
        rewards[places] = [turn.reward for turn in turns]
        infos = self._note(places, turns)
        over = np.array([episode is not None and episode.verdict is not None for episode in self._episodes])
        truncated = np.array([episode is not None and episode.truncated for episode in self._episodes])
        return tuple(self._observations), rewards, over & ~truncated, truncated, infos

    def send(self, completions: Sequence[str], rows: Sequence[int]) -> None:
        """Takes one completion for each of some episodes, and does not wait for what comes of it.

        Each is a matter of its own, except where `grades_together`: then those of one call are graded together, as
        they are by `step`, whatever else is sent.

        Args:
            completions: one for each of `rows`.
            rows: which episodes.

        Raises:
            gymnasium.error.ResetNeeded: if one of the episodes is over or was never begun.
            UserError: if there is no such episode, or it waits for a reply; then nothing was sent.
        """
        if isinstance(completions, str) or len(completions) != len(rows):
            raise UserError(f"send takes a completion for each of the {len(rows)} rows; pass as many.")
        places = [self._sendable(row) for row in rows]
        if len(set(places)) != len(places):
            raise UserError(f"send was given a row twice ({', '.join(map(str, places))}); pass each once.")
        episodes = [open_episode(self._episodes[place]) for place in places]
        written = [checked_completion(completion) for completion in completions]
        parts = [slice(None)] if self.grades_together else [slice(row, row + 1) for row in range(len(places))]
        for part in parts if places else []:
            self._in_flight.add(places[part], episodes[part], written[part])

    def recv(
        self, min_rows: int = 1
    ) -> tuple[
        NDArray[np.int64],
        tuple[str, ...],
        NDArray[np.float64],
        NDArray[np.bool_],
        NDArray[np.bool_],
        dict[str, Any],
    ]:
        """What came of completions that were sent: of all that are done, in the order in which they were.

        Args:
            min_rows: for how many to wait; 0 for what there is.

        Returns:
            The rows, and for each its observation, reward, and whether it is terminated and truncated; and the infos,
            whose arrays have an entry a row too.

        Raises:
            UserError: if fewer than `min_rows` are in flight; or what grading raised, and then the completions that it
                was about are as if they had not been sent, and all others are still to be received.
        """
        if min_rows > self.in_flight:
            raise UserError(f"recv was to wait for {min_rows} completions, but {self.in_flight} are in flight.")
        landed = self._in_flight.land(min_rows)
        rows, turns = list(landed), list(landed.values())
        infos = self._note(rows, turns)
        return (
            np.array(rows, dtype=np.int64),
            tuple(turn.observation for turn in turns),
            np.array([turn.reward for turn in turns], dtype=np.float64),
            np.array([turn.terminated for turn in turns], dtype=np.bool_),
            np.array([turn.truncated for turn in turns], dtype=np.bool_),
            {key: values[rows] for key, values in infos.items()},
        )

    def _sendable(self, row: Any) -> int:
        if isinstance(row, bool) or not isinstance(row, SupportsIndex) or not 0 <= operator.index(row) < self.num_envs:
            raise UserError(f"There is no row {row!r}; pass whole numbers from 0 to {self.num_envs - 1}.")
        place = operator.index(row)
        if place in self._in_flight:
            raise UserError(f"Row {place} was sent a completion before; recv what came of it first.")
        return place

    def _note(self, rows: Sequence[int], turns: Sequence[Turn]) -> dict[str, Any]:
        """Keep the observations; the infos, in arrays over all episodes."""
        infos: dict[str, Any] = {}
        for row, turn in zip(rows, turns, strict=True):
            infos = self._add_info(infos, turn.info, row)
            self._observations[row] = turn.observation
        return infos

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
