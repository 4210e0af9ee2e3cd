"""Asynchronous training: rollouts are played while the learner learns, up to some versions of the policy ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import fmean
from threading import Condition, Thread
from typing import TYPE_CHECKING

from ..envs import TextVectorEnv
from ..verifiers import UserError
from .asynchronous_groups import GroupBook, Played
from .rollouts import Group, Player, Rollouts, in_order
from .task_queue import TaskQueue
from .trajectory import Trajectory

if TYPE_CHECKING:
    from torch import Tensor

_MOST_ACTORS = 256
_MOST_FAILURES = 3  # of one group
_GOODBYE = 10.0  # seconds that actors have to end in


class AsynchronousRollouts(Rollouts):
    """Actors, each a thread, play one group at a time against an engine that takes requests from any thread.

    Tasks and seeds are those of a synchronous run; with `ahead` 0 so are the weights that each group is drawn with.
    Where weights come while a group is played, the engine goes on with it under the new ones.

    Args:
        player: plays; its engine must be one that may be asked from several threads while it is given new weights.
        envs: an environment; the actors have their own, of its parts.
        queue: gives the tasks.
        ahead: a group that was begun under version v is learnt from at step v + `ahead` at the latest.
        say: is told in a sentence what goes wrong and is made good.
    """

    def __init__(
        self,
        player: Player,
        envs: TextVectorEnv,
        queue: TaskQueue,
        ahead: int,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._player = player
        self._parts = (envs.tasks, envs.rubric, envs.system, envs.think, envs.turn, envs.max_turns)
        self._queue = queue
        self._ahead = ahead
        self._say = say
        self._changed = Condition()
        self._book: GroupBook | None = None
        self._actors: list[Thread] = []
        self._failure: BaseException | None = None
        self._closed = False
        self._played_again = 0
        self._told_retries = 0
        self._metrics: dict[str, float] = {}
        self._ages: list[int] = []  # of the tokens that were taken

    def take(self, step: int) -> list[Trajectory]:
        """See `Rollouts.take`; waits until the groups are there.

        Raises:
            UserError: if the engine cannot go on.
        """
        version = self._player.engine.version
        if version != step:
            raise AssertionError(f"the engine generates with the weights of step {version} at step {step}")
        self._start()
        assert self._book is not None
        started = time.perf_counter()
        with self._changed:
            ready = self._book.waiting
            while not self._book.want():
                if self._failure is not None:
                    raise self._failure
                self._changed.notify_all()
                self._changed.wait()
            played = self._book.take()
        self._check_age(played, step)
        trajectories = in_order(group.trajectories for group in played)
        self._note(step, played, ready, time.perf_counter() - started)
        return trajectories

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `Rollouts.sync`; what is under way is interrupted, and goes on with the new weights."""
        self._player.engine.sync(weights, version)
        with self._changed:
            if self._book is not None:
                self._book.renew()
            self._changed.notify_all()

    def metrics(self) -> dict[str, float]:
        """Of the groups that were taken since the last call.

        `sampling/staleness/mean` and `max` say, over generated tokens, by how many versions the weights that they were
        drawn with are behind those that learn from them; `async/queue_length` is how many groups were waiting at
        first, and `async/wait` how many seconds the learner waited for the rest; `async/retries` counts requests and
        groups that were asked for again.
        """
        told, self._metrics = self._metrics, {}
        ages, self._ages = self._ages, []
        if ages:
            told |= {"sampling/staleness/mean": fmean(ages), "sampling/staleness/max": float(max(ages))}
        return told

    def close(self) -> None:
        """See `Rollouts.close`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._player.engine.close()
        deadline = time.monotonic() + _GOODBYE
        for actor in self._actors:
            actor.join(max(0.0, deadline - time.monotonic()))

    def _start(self) -> None:
        """Begin to play, once a resumed run knows where it is."""
        if self._book is not None:
            return
        per_step = self._player.groups_per_step
        self._book = GroupBook(self._queue, per_step, self._ahead)
        for number in range(min(_MOST_ACTORS, (self._ahead + 1) * per_step)):
            actor = Thread(target=self._act, name=f"rlvr-actor-{number}", daemon=True)
            self._actors.append(actor)
            actor.start()

    def _act(self) -> None:
        """One actor: plays groups until there is an end."""
        envs: TextVectorEnv | None = None
        while (group := self._next_group()) is not None:
            try:
                envs = envs or TextVectorEnv(self._player.group_size, *self._parts)
                trajectories = self._player.play(envs, [group])
            except BaseException as error:  # whatever it was, the group must not be lost
                envs = None
                self._mourn(group, error)
            else:
                self._hand_in(group, trajectories)

    def _next_group(self) -> Group | None:
        assert self._book is not None
        with self._changed:
            while not self._closed and self._failure is None:
                group = self._book.begin(self._player.engine.version)
                if group is not None:
                    return group
                self._changed.wait()
        return None

    def _hand_in(self, group: Group, trajectories: list[Trajectory]) -> None:
        assert self._book is not None
        with self._changed:
            self._book.finish(group, trajectories)
            self._changed.notify_all()

    def _mourn(self, group: Group, error: BaseException) -> None:
        """An actor failed: another may do better, unless it is the user who must do something."""
        assert self._book is not None
        with self._changed:
            if self._closed:
                return
            failures = self._book.fail(group)
            self._played_again += 1
            if isinstance(error, UserError) or failures >= _MOST_FAILURES:
                self._failure = self._failure or error
            self._changed.notify_all()
        if self._failure is None:
            self._say(
                f"warning: an actor failed ({type(error).__name__}: {error}); group {group.number} is played again"
            )

    def _check_age(self, played: list[Played], step: int) -> None:
        oldest = min(group.version for group in played)
        if step - oldest > self._ahead:
            raise AssertionError(f"step {step} was to learn from a group that was begun under version {oldest}")

    def _note(self, step: int, played: list[Played], ready: int, waited: float) -> None:
        retries = self._played_again + getattr(self._player.engine, "retries", 0)
        self._ages += [step - version for group in played for version in _versions(group)]
        self._metrics = {
            "async/queue_length": self._metrics.get("async/queue_length", float(ready)),
            "async/wait": waited + self._metrics.get("async/wait", 0.0),
            "async/retries": float(retries - self._told_retries) + self._metrics.get("async/retries", 0.0),
        }
        self._told_retries = retries


def _versions(played: Played) -> list[int]:
    """The version that each generated token was drawn with."""
    found: list[int] = []
    for trajectory in played.trajectories:
        if trajectory.versions:
            stamped = zip(trajectory.versions, trajectory.loss_mask, strict=True)
            found += [version for version, generated in stamped if generated]
        else:
            found += [played.version] * trajectory.length
    return found
