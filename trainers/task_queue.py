"""Which tasks come next, whatever number of them a step takes."""

from __future__ import annotations

from .seeding import task_order


class TaskQueue:
    """An endless shuffled pass over the tasks, taken from the front.

    Args:
        seed: of the order.
        count: how many tasks there are.
        taken: how many were taken already.
    """

    def __init__(self, seed: int, count: int, taken: int = 0) -> None:
        self._seed = seed
        self._count = count
        self.taken = taken

    def take(self, size: int) -> list[int]:
        """The indices of the next `size` tasks."""
        tasks = task_order(self._seed, self._count, self.taken, size)
        self.taken += size
        return tasks

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint keeps."""
        return {"taken": self.taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a checkpoint."""
        self.taken = state["taken"]
