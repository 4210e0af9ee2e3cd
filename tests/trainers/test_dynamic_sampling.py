from types import SimpleNamespace

import pytest

from rlvr import Verdict
from rlvr.trainers.dynamic_sampling import sample_with_spread
from rlvr.trainers.trajectory import Trajectory

NAN = float("nan")
SPREAD, FLAT = [1.0, 0.0], [0.0, 0.0]


def rollouts(*drawn):
    """A function that draws these, each a list of groups of rewards."""

    def draw(number):
        return [
            Trajectory(
                task_id=f"{number}.{group}",
                group=group,
                prompt="",
                completion="",
                ids=[1],
                loss_mask=[1],
                sampler_logprobs=[0.0],
                entropies=None,
                rewards=[reward],
                verdict=Verdict(0.0, False),
                finish_reason="stop",
            )
            for group, rewards in enumerate(drawn[number])
            for reward in rewards
        ]

    return draw


def sample(*drawn, most=10):
    result = sample_with_spread(rollouts(*drawn), len(drawn[0]), most, lambda trajectory: trajectory.reward)
    tasks = [trajectory.task_id for trajectory in result.kept]
    assert tasks[::2] == tasks[1::2]
    short = {name.removeprefix("dynamic_sampling/"): value for name, value in result.metrics.items()}
    return result, tasks[::2], SimpleNamespace(**short)


def test_one_rollout_is_enough_where_all_groups_have_spread():
    result, tasks, metrics = sample([SPREAD, SPREAD])
    assert tasks == ["0.0", "0.1"]
    assert result.kept == result.everything
    assert (metrics.rollouts, metrics.groups_thrown_away, metrics.groups_without_spread) == (1, 0, 0)


def test_groups_without_spread_are_replaced_and_what_was_thrown_away_is_counted():
    result, tasks, metrics = sample([SPREAD, FLAT], [FLAT, FLAT], [SPREAD, SPREAD])
    assert tasks == ["0.0", "2.0"]
    assert len(result.everything) == 12
    assert (metrics.rollouts, metrics.groups_thrown_away, metrics.completions_thrown_away) == (3, 4, 8)
    assert metrics.groups_without_spread == 0


def test_groups_of_different_rollouts_are_different_groups():
    result, _, _ = sample([SPREAD, FLAT], [SPREAD, FLAT])
    assert [trajectory.group for trajectory in result.kept] == [0, 0, 2, 2]
    assert [trajectory.group for trajectory in result.everything] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_at_the_bound_the_batch_keeps_its_size(most):
    _, tasks, metrics = sample([FLAT, FLAT], [FLAT, SPREAD], [FLAT, FLAT], most=most)
    assert tasks == {1: ["0.0", "0.1"], 2: ["0.0", "1.1"], 3: ["0.0", "1.1"]}[most]
    assert (metrics.rollouts, metrics.groups_without_spread) == (most, 2 if most == 1 else 1)
    assert metrics.groups_thrown_away == 2 * most - 2


def test_the_ungraded_give_no_spread():
    _, tasks, _ = sample([[1.0, NAN]], [[NAN, NAN]], [SPREAD])
    assert tasks == ["2.0"]


def test_what_rounding_alone_sets_apart_is_no_spread():
    """An episode's reward is a sum over turns; advantages are taken in float32, in which these two are equal."""
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    _, tasks, metrics = sample([[0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1]], [SPREAD])
    assert (tasks, metrics.groups_without_spread) == (["1.0"], 0)
