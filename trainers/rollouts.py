"""Where the trajectories of a step come from."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..envs import TextVectorEnv
from .engines import Engine, Sampling
from .ranks import Ranks
from .rollout import collect
from .seeding import derive
from .task_queue import TaskQueue
from .trajectory import Trajectory

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Group:
    """The completions of one task that are to be drawn.

    Attributes:
        number: its place among all groups of the run; tasks and seeds are functions of it.
        task: index of the task.
    """

    number: int
    task: int


@dataclass(frozen=True)
class Player:
    """Plays groups, whenever and in whatever company: a group's draws depend on its number alone.

    Attributes:
        engine: generates.
        tokenizer: of the policy.
        eos_ids: of the policy.
        sampling: how tokens are drawn.
        group_size: episodes of each task.
        groups_per_step: how many groups a step learns from.
        seed: of the run.
    """

    engine: Engine
    tokenizer: Any
    eos_ids: Collection[int]
    sampling: Sampling
    group_size: int
    groups_per_step: int
    seed: int

    def play(self, envs: TextVectorEnv, groups: Sequence[Group]) -> list[Trajectory]:
        """The trajectories of the groups, in their order."""
        return collect(
            envs,
            self.engine,
            self.tokenizer,
            self.eos_ids,
            [group.task for group in groups],
            self.group_size,
            self.sampling,
            [self._seed(group, member) for group in groups for member in range(self.group_size)],
        )

    def _seed(self, group: Group, member: int) -> int:
        step, place = divmod(group.number, self.groups_per_step)
        return derive(self.seed, "rollout", step, place * self.group_size + member)


class Rollouts(ABC):
    """Gives each step its trajectories, and the engine its weights."""

    @abstractmethod
    def take(self, step: int) -> list[Trajectory]:
        """The next `groups_per_step` groups for step `step`, numbered from 0, members side by side.

        A step that throws groups away takes again.
        """

    @abstractmethod
    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Generate with these weights from now on."""

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """What there is to say of the rollouts since the last call."""

    @abstractmethod
    def close(self) -> None:
        """End what is being played, and close the engine."""


class SynchronousRollouts(Rollouts):
    """Plays a step's groups when the step asks for them, all at once; each process of a run plays its share.

    Args:
        player: plays.
        envs: as many as this process's share has episodes.
        queue: gives the tasks.
        ranks: the processes of the run.
        generating: makes the context that completions are generated in.
    """

    def __init__(
        self,
        player: Player,
        envs: TextVectorEnv,
        queue: TaskQueue,
        ranks: Ranks,
        generating: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._player = player
        self._envs = envs
        self._queue = queue
        self._ranks = ranks
        self._generating = generating

    def take(self, step: int) -> list[Trajectory]:
        """See `Rollouts.take`."""
        version = self._player.engine.version
        if version != step:
            raise AssertionError(f"the engine generates with the weights of step {version} at step {step}")
        first = self._queue.taken
        tasks = self._queue.take(self._player.groups_per_step)
        groups = [Group(first + place, task) for place, task in enumerate(tasks)]
        share = self._ranks.share(len(groups))
        with self._generating():
            parts = self._ranks.together(lambda: self._player.play(self._envs, groups[share.start : share.stop]))
        return in_order(members for part in parts for members in _groups(part))

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `Rollouts.sync`."""
        self._ranks.together(lambda: self._player.engine.sync(weights, version))

    def metrics(self) -> dict[str, float]:
        """Nothing: all was drawn with the weights that learn from it."""
        return {}

    def close(self) -> None:
        """See `Rollouts.close`."""
        self._player.engine.close()


def _groups(trajectories: Iterable[Trajectory]) -> list[list[Trajectory]]:
    return [list(members) for _, members in groupby(trajectories, key=lambda trajectory: trajectory.group)]


def in_order(groups: Iterable[Sequence[Trajectory]]) -> list[Trajectory]:
    """The trajectories of several groups as those of one rollout."""
    return [replace(trajectory, group=number) for number, members in enumerate(groups) for trajectory in members]
