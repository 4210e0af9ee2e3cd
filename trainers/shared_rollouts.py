"""Rollouts that one process of a run plays for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .engines import Engine
from .ranks import Ranks
from .rollouts import Rollouts
from .task_queue import TaskQueue
from .trajectory import Trajectory

if TYPE_CHECKING:
    from torch import Tensor


class SharedRollouts(Rollouts):
    """The main process plays, and hands every process the trajectories; its servers do the work in any case.

    Args:
        played: the rollouts of the main process; None in the others.
        engine: of this process, for its part of evaluations.
        queue: gives the tasks; kept up with those that were taken in every process.
        groups_per_step: how many groups a step takes.
        ranks: the processes of the run.
    """

    def __init__(
        self, played: Rollouts | None, engine: Engine, queue: TaskQueue, groups_per_step: int, ranks: Ranks
    ) -> None:
        self._played = played
        self._engine = engine
        self._queue = queue
        self._groups_per_step = groups_per_step
        self._ranks = ranks

    def take(self, step: int) -> list[Trajectory]:
        """See `Rollouts.take`."""
        return self._ranks.together(lambda: self._take(step))[0]

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `Rollouts.sync`; no process goes on before the servers have the weights."""
        target = self._engine if self._played is None else self._played
        self._ranks.together(lambda: target.sync(weights, version))

    def metrics(self) -> dict[str, float]:
        """See `Rollouts.metrics`; the same in every process."""
        return self._ranks.broadcast({} if self._played is None else self._played.metrics())

    def close(self) -> None:
        """See `Rollouts.close`."""
        (self._engine if self._played is None else self._played).close()

    def _take(self, step: int) -> list[Trajectory]:
        if self._played is not None:
            return self._played.take(step)
        self._queue.take(self._groups_per_step)
        return []
