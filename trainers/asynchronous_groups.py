"""Which groups may be begun, which are being played, and which are waiting to be learnt from."""

from __future__ import annotations

import copy
from collections import Counter, deque
from dataclasses import dataclass

from .rollouts import Group
from .task_queue import TaskQueue
from .trajectory import Trajectory


@dataclass(frozen=True)
class Played:
    """A group that was played.

    Attributes:
        group: which.
        version: of the policy when it was begun.
        trajectories: its members.
    """

    group: Group
    version: int
    trajectories: list[Trajectory]


class GroupBook:
    """Keeps the books on groups that are played ahead of the learner; not for several threads at once.

    Steps learn from groups in the order of their numbers, so that which tasks make up a batch does not depend on which
    of them were quick: a batch of the first to finish would favour short completions. A group that was begun under
    version v is learnt from at step v + `ahead` at the latest: no more groups are begun than the steps until then are
    sure to take (the bound on groups under way of AReaL, Fu et al. 2025, section 5.1). So none is ever dropped for its
    age.

    Args:
        queue: gives the tasks; what it has given is what was learnt from, so that its state resumes the run.
        per_step: how many groups a step takes at the least.
        ahead: how many versions of the policy a group may be behind.
    """

    def __init__(self, queue: TaskQueue, per_step: int, ahead: int) -> None:
        self._queue = queue
        self._coming = copy.copy(queue)
        self._per_step = per_step
        self._ahead = ahead
        self._base = queue.taken
        self._wanted = queue.taken
        self._again: deque[Group] = deque()
        self._under_way: dict[int, tuple[Group, int]] = {}
        self._finished: dict[int, Played] = {}
        self._failures: Counter[int] = Counter()

    @property
    def waiting(self) -> int:
        """How many groups are finished and not taken."""
        return len(self._finished)

    def begin(self, version: int) -> Group | None:
        """The group to play next, under the policy's `version`; None if none may be begun now."""
        if self._again:
            group = self._again.popleft()
        elif self._coming.taken < max(self._base + self._per_step, self._wanted) + self._ahead * self._per_step:
            number = self._coming.taken
            (task,) = self._coming.take(1)
            group = Group(number, task)
        else:
            return None
        self._under_way[group.number] = (group, version)
        return group

    def finish(self, group: Group, trajectories: list[Trajectory]) -> None:
        """A group that was begun has been played."""
        begun, version = self._under_way.pop(group.number)
        self._finished[group.number] = Played(begun, version, trajectories)

    def fail(self, group: Group) -> int:
        """A group that was begun was not played, and is to be begun again; how often that has happened to it."""
        self._under_way.pop(group.number)
        self._again.append(group)
        self._failures[group.number] += 1
        return self._failures[group.number]

    def want(self) -> bool:
        """Ask for the next step's groups; whether all are there."""
        self._wanted = max(self._wanted, self._queue.taken + self._per_step)
        return all(number in self._finished for number in self._next())

    def take(self) -> list[Played]:
        """The next step's groups, which are all there."""
        played = [self._finished.pop(number) for number in self._next()]
        for number in self._next():
            self._failures.pop(number, None)
        tasks = self._queue.take(self._per_step)
        if tasks != [group.group.task for group in played]:
            raise AssertionError(f"the tasks {tasks} were to be learnt from, but others were played")
        return played

    def renew(self) -> None:
        """The policy has a new version."""
        self._base = self._queue.taken

    def _next(self) -> range:
        return range(self._queue.taken, self._queue.taken + self._per_step)
