from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest
import torch

from rlvr import Rubric, Task, Tasks, TextVectorEnv, UserError, score
from rlvr.trainers.asynchronous import AsynchronousRollouts
from rlvr.trainers.asynchronous_groups import GroupBook
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.server import ServerEngine
from rlvr.trainers.engines.server_weights import FolderWeights
from rlvr.trainers.ranks import Ranks
from rlvr.trainers.rollouts import Player, SynchronousRollouts
from rlvr.trainers.task_queue import TaskQueue
from rlvr.trainers.tiny import build_tokenizer
from rlvr.verifiers import Verifier

TASKS = Tasks.from_list([Task(f"task {number}", f"{number}+1=", number + 1) for number in range(7)])
RUBRIC = Rubric(score("rlvr/number-v1", passes=True))
PER_STEP, GROUP = 3, 2
EOS = 1


def weights(shift):
    return [("shift", torch.tensor(shift))]


class Setup:
    """Rollouts of both kinds on the same servers."""

    def __init__(self, urls, folder, rubric=RUBRIC):
        self.rubric = rubric
        self.said = []
        self.made = []
        self.engine = ServerEngine(
            urls,
            {EOS},
            105,
            lambda connected: FolderWeights(folder, "float32", 60),
            say=self.said.append,
            probe_every=0.05,
        )
        self.engine.sync(weights(0), 0)
        self.player = Player(self.engine, build_tokenizer(), {EOS}, Sampling(20), GROUP, PER_STEP, seed=5)
        self.queue = TaskQueue(1, len(TASKS))

    def synchronous(self):
        envs = TextVectorEnv(PER_STEP * GROUP, TASKS, self.rubric)
        self.made.append(SynchronousRollouts(self.player, envs, self.queue, Ranks()))
        return self.made[-1]

    def asynchronous(self, ahead):
        envs = TextVectorEnv(1, TASKS, self.rubric)
        self.made.append(AsynchronousRollouts(self.player, envs, self.queue, ahead, self.said.append))
        return self.made[-1]


@pytest.fixture
def setup(tmp_path):
    made = []

    def make(*servers, **options):
        made.append(Setup([server.url for server in servers], tmp_path / f"weights-{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        for rollouts in each.made:
            rollouts.close()
        each.engine.close()


def run(rollouts, steps):
    """What the steps learn from, with new weights after each."""
    taken = []
    for step in range(steps):
        taken.append(rollouts.take(step))
        rollouts.sync(weights(step + 1), step + 1)
    return taken


def test_none_ahead_is_the_synchronous_run(rule_server, setup):
    synchronous, asynchronous = setup(rule_server()), setup(rule_server(), rule_server())
    rollouts = asynchronous.asynchronous(0)
    assert run(rollouts, 4) == run(synchronous.synchronous(), 4)
    assert rollouts.metrics()["sampling/staleness/max"] == 0
    assert asynchronous.queue.state_dict() == synchronous.queue.state_dict()


@pytest.mark.parametrize("ahead", [1, 2])
def test_tasks_and_seeds_are_those_of_the_synchronous_run(rule_server, setup, ahead):
    server, plain = rule_server(), rule_server()
    taken = run(setup(server).asynchronous(ahead), 4)
    expected = run(setup(plain).synchronous(), 4)
    tasks = [[(t.task_id, t.group) for t in step] for step in taken]
    assert tasks == [[(t.task_id, t.group) for t in step] for step in expected]
    seeds = {request["seed"] for request in server.asked}
    assert {request["seed"] for request in plain.asked} <= seeds


@pytest.mark.parametrize("ahead", [1, 2])
def test_groups_are_begun_ahead_of_the_learner_and_no_further(rule_server, setup, ahead):
    server = rule_server()
    made = setup(server)
    rollouts = made.asynchronous(ahead)
    rollouts.take(0)
    most = (1 + ahead) * PER_STEP * GROUP
    server.wait_for(lambda: len(server.asked) == most and server.running == 0)
    rollouts.metrics()
    rollouts.sync(weights(1), 1)
    server.wait_for(lambda: len(server.asked) == most + PER_STEP * GROUP and server.running == 0)
    rollouts.take(1)
    told = rollouts.metrics()
    assert told["async/queue_length"] >= PER_STEP
    assert (told["sampling/staleness/mean"], told["sampling/staleness/max"]) == (1.0, 1.0)
    assert told["async/retries"] == 0
    assert told["async/wait"] >= 0


def test_the_staleness_of_a_step_that_takes_twice_is_that_of_both_rollouts(rule_server, setup):
    server = rule_server()
    rollouts = setup(server).asynchronous(1)
    rollouts.take(0)
    server.wait_for(lambda: len(server.asked) == 2 * PER_STEP * GROUP and server.running == 0)
    rollouts.sync(weights(1), 1)
    rollouts.metrics()
    server.wait_for(lambda: len(server.asked) == 3 * PER_STEP * GROUP and server.running == 0)
    old, new = rollouts.take(1), rollouts.take(1)
    tokens = [sum(trajectory.length for trajectory in rollout) for rollout in (old, new)]
    told = rollouts.metrics()
    assert told["sampling/staleness/mean"] == pytest.approx(tokens[0] / sum(tokens))
    assert told["sampling/staleness/max"] == 1
    assert told["async/queue_length"] >= PER_STEP  # at first


def test_weights_that_come_in_the_middle_of_a_group_are_stamped_on_its_tokens(rule_server, setup):
    server = rule_server()
    rollouts = setup(server).asynchronous(1)
    rollouts.take(0)
    server.wait_for(lambda: len(server.asked) == 2 * PER_STEP * GROUP and server.running == 0)
    server.hold_at = 3
    rollouts.sync(weights(1), 1)  # lets the groups of step 2 begin
    server.wait_for(lambda: server.running == PER_STEP * GROUP)
    rollouts.take(1)
    rollouts.sync(weights(2), 2)
    server.release()
    third = rollouts.take(2)
    told = rollouts.metrics()
    logprobs = {value for t in third for value, mask in zip(t.sampler_logprobs, t.loss_mask, strict=True) if mask}
    assert logprobs == {-2.0, -3.0}  # of the weights of versions 1 and 2, as they were when each token was drawn
    assert 0 <= told["sampling/staleness/mean"] <= 1
    assert told["sampling/staleness/max"] == 1


def test_a_killed_server_costs_no_group_and_doubles_none(rule_server, setup):
    one, other = rule_server(), rule_server()
    made = setup(one, other)
    rollouts = made.asynchronous(1)
    other.hold_at = 2
    first = threading.Thread(target=lambda: taken.append(rollouts.take(0)), daemon=True)
    taken = []
    first.start()
    other.wait_for(lambda: other.running > 0)
    other.kill()
    first.join(60)
    for step in (1, 2):
        rollouts.sync(weights(step), step)
        taken.append(rollouts.take(step))
    expected = run(setup(rule_server()).synchronous(), 3)
    assert [[t.task_id for t in step] for step in taken] == [[t.task_id for t in step] for step in expected]
    assert taken[0] == expected[0]
    assert any("is lost" in sentence for sentence in made.said)
    assert rollouts.metrics()["async/retries"] >= 1


def test_a_request_that_never_returns_is_made_again(rule_server, setup):
    one, other = rule_server(), rule_server()
    made = setup(one, other)
    made.engine._patience.limit = 0.2
    other.hung = True
    taken = run(made.asynchronous(1), 2)
    expected = run(setup(rule_server()).synchronous(), 2)
    assert [[t.task_id for t in step] for step in taken] == [[t.task_id for t in step] for step in expected]


class Hanging:
    """A verifier of which one call never returns."""

    def __init__(self):
        self.release = threading.Event()
        self._taken = threading.Lock()

    def hangs(self):
        return self._taken.acquire(blocking=False)

    def plain(self, completion: str) -> float:
        return 0.0 if self.hangs() and self.release.wait() else 1.0

    async def waiting(self, completion: str) -> float:
        return 0.0 if self.hangs() and await asyncio.get_running_loop().create_future() else 1.0

    async def blocking(self, completion: str) -> float:
        return self.plain(completion)


@pytest.mark.parametrize("kind", ["plain", "waiting", "blocking"])
def test_a_verifier_that_never_returns_costs_one_completion(rule_server, setup, kind):
    hanging = Hanging()
    grader = Verifier("hanging", getattr(hanging, kind), patience=0.2)
    made = setup(rule_server(), rubric=Rubric(score(grader, passes=True)))
    taken = run(made.asynchronous(1), 3)
    hanging.release.set()
    trajectories = [trajectory for step in taken for trajectory in step]
    assert len(trajectories) == 3 * PER_STEP * GROUP
    (lost,) = [trajectory for trajectory in trajectories if trajectory.reward != 1.0]
    assert lost.verdict.score is None
    assert "did not return within 0.2 s" in lost.verdict.detail
    assert not made.said  # no group was played again


def test_a_killed_actor_s_group_is_played_again(rule_server, setup):
    made = setup(rule_server())
    rollouts = made.asynchronous(1)
    lock, killed = threading.Lock(), []

    class Mortal(type(made.player)):
        def play(self, envs, groups):
            with lock:
                if len(killed) < 2:
                    killed.append(groups[0].number)
                    raise SystemExit("killed")
            return super().play(envs, groups)

    rollouts._player = Mortal(**vars(made.player))
    taken = run(rollouts, 3)
    expected = run(setup(rule_server()).synchronous(), 3)
    assert [[t.task_id for t in step] for step in taken] == [[t.task_id for t in step] for step in expected]
    assert sum("is played again" in sentence for sentence in made.said) == 2


def test_a_group_that_fails_again_and_again_ends_the_run(rule_server, setup):
    made = setup(rule_server())
    rollouts = made.asynchronous(0)

    class Doomed(type(made.player)):
        def play(self, envs, groups):
            if groups[0].number == 1:
                raise OSError("no disk")
            return super().play(envs, groups)

    rollouts._player = Doomed(**vars(made.player))
    with pytest.raises(OSError, match="no disk"):
        rollouts.take(0)
    assert made.queue.taken == 0  # a resumed run plays them again


def test_with_all_servers_lost_the_learner_is_told(rule_server, setup):
    server = rule_server()
    rollouts = setup(server).asynchronous(1)
    rollouts.take(0)
    rollouts.sync(weights(1), 1)
    server.kill()

    def rest():
        for step in range(1, 4):
            rollouts.take(step)
            rollouts.sync(weights(step + 1), step + 1)

    with pytest.raises(UserError, match="No server is left"):
        rest()


def test_closing_ends_the_actors(rule_server, setup):
    server = rule_server()
    rollouts = setup(server).asynchronous(2)
    rollouts.take(0)
    server.hold_at = 0
    rollouts.sync(weights(1), 1)
    server.wait_for(lambda: server.running > 0)
    rollouts.close()
    assert not any(actor.is_alive() for actor in rollouts._actors)


def test_a_resumed_run_begins_again_what_was_under_way(rule_server, setup):
    whole = run(setup(rule_server()).asynchronous(1), 3)
    stopped, resumed = setup(rule_server()), setup(rule_server())
    run(stopped.asynchronous(1), 2)
    resumed.queue.load_state_dict(stopped.queue.state_dict())
    resumed.engine.sync(weights(2), 2)
    assert [t.task_id for t in resumed.asynchronous(1).take(2)] == [t.task_id for t in whole[2]]


class TestGroupBook:
    def book(self, ahead, per_step=2):
        self.queue = TaskQueue(1, 50)
        return GroupBook(self.queue, per_step, ahead)

    def begun(self, book, version):
        groups = []
        while (group := book.begin(version)) is not None:
            groups.append(group)
        return groups

    def numbers(self, groups):
        return [group.number for group in groups]

    @pytest.mark.parametrize("ahead", [0, 1, 3])
    def test_the_bound_is_met_whatever_is_quick(self, ahead):
        """With groups begun as early as may be, none is older than `ahead` when it is taken."""
        book = self.book(ahead)
        for step in range(6):
            for group in self.begun(book, step):
                book.finish(group, [])
            assert book.want()
            assert max(step - played.version for played in book.take()) <= ahead
            book.renew()
        assert book.waiting == ahead * 2

    def test_a_step_that_takes_more_than_once_may_have_more_begun(self):
        book = self.book(0)
        first = self.begun(book, 0)
        assert self.numbers(first) == [0, 1]
        for group in first:
            book.finish(group, [])
        assert book.want()
        book.take()
        assert self.begun(book, 0) == []  # the step may be content
        assert not book.want()
        assert self.numbers(self.begun(book, 0)) == [2, 3]

    def test_groups_are_taken_in_order_and_a_failed_one_comes_first(self):
        book = self.book(1)
        groups = self.begun(book, 0)
        assert book.fail(groups[0]) == 1
        for group in groups[1:]:
            book.finish(group, [])
        assert not book.want()
        assert self.begun(book, 0) == [groups[0]]
        book.finish(groups[0], [])
        assert book.want()
        assert self.numbers(played.group for played in book.take()) == [0, 1]
        assert self.queue.taken == 2

    def test_tasks_follow_the_queue(self):
        book = self.book(2)
        tasks = [group.task for group in self.begun(book, 0)]
        assert tasks == TaskQueue(1, 50).take(6)
        assert all(before != after for before, after in pairwise(tasks))
