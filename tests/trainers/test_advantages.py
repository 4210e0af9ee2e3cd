import pytest
import torch

from rlvr.trainers.advantages import baseline_advantages, batch_advantages, group_advantages

NAN = float("nan")
KINDS = ["group_mean_std", "group_mean", "leave_one_out"]


def advantages(rewards, groups=None, kind="group_mean_std", **options):
    groups = [0] * len(rewards) if groups is None else groups
    return group_advantages(torch.tensor(rewards), torch.tensor(groups), kind, **options)


def test_one_of_four_solved_by_hand():
    # mean 1/4; squares 9/16 + 3/16 = 3/4; variance 1/4 with ddof 1, 3/16 with ddof 0
    assert advantages([1.0, 0, 0, 0], eps=0.0).tolist() == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert advantages([1.0, 0, 0, 0]).tolist() == pytest.approx([0.75 / 0.5001, *[-0.25 / 0.5001] * 3])
    assert advantages([1.0, 0, 0, 0], ddof=0, eps=0.0)[0].item() == pytest.approx(0.75 / (3 / 16) ** 0.5)
    assert advantages([1.0, 0, 0, 0], kind="group_mean").tolist() == [0.75, -0.25, -0.25, -0.25]
    # the others' means are 0 and 1/3
    third = pytest.approx(-1 / 3)
    assert advantages([1.0, 0, 0, 0], kind="leave_one_out").tolist() == [1.0, third, third, third]


@pytest.mark.parametrize("value", [0.95, 0.1, 1e8 + 0.3, -3.3])
@pytest.mark.parametrize("eps", [0.0, 1e-4])
def test_a_group_without_spread_gives_exactly_nothing(value, eps):
    for kind in KINDS:
        assert advantages([value] * 7, kind=kind, eps=eps).tolist() == [0.0] * 7
    for kind in ("batch_mean", "batch_mean_std"):
        assert batch_advantages(torch.tensor([value] * 7), kind, eps=eps).tolist() == [0.0] * 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_one_gives_nothing(kind):
    assert advantages([1.0], kind=kind, eps=0.0).tolist() == [0.0]
    assert advantages([1.0, 1.0, 0.0], [0, 1, 1], kind, eps=0.0)[0] == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_an_ungraded_member_is_in_no_baseline(kind):
    with_nan = advantages([1.0, NAN, 0.0, 0.0], kind=kind)
    assert with_nan[1] == 0
    assert with_nan[[0, 2, 3]].tolist() == advantages([1.0, 0.0, 0.0], kind=kind).tolist()
    assert advantages([NAN, NAN], kind=kind).tolist() == [0.0, 0.0]
    assert advantages([NAN, 1.0], kind=kind).tolist() == [0.0, 0.0]


def test_over_the_whole_batch_by_hand():
    rewards = torch.tensor([1.0, NAN, 0.0, 0.0, 0.0])
    assert batch_advantages(rewards, "batch_mean").tolist() == [0.75, 0.0, -0.25, -0.25, -0.25]
    scaled = batch_advantages(rewards, "batch_mean_std").tolist()
    assert scaled == pytest.approx([0.75 / 0.5001, 0.0, *[-0.25 / 0.5001] * 3])
    with_ddof_0 = batch_advantages(rewards, "batch_mean_std", ddof=0, eps=0.0)
    assert with_ddof_0[0].item() == pytest.approx(0.75 / (3 / 16) ** 0.5)
    assert batch_advantages(torch.tensor([NAN, 0.7]), "batch_mean_std", eps=0.0).tolist() == [0.0, 0.0]


def test_above_a_baseline_by_hand():
    rewards = torch.tensor([1.0, NAN, 0.25])
    assert baseline_advantages(rewards, 0.25).tolist() == [0.75, 0.0, 0.0]


def test_groups_do_not_mix_and_order_does_not_matter():
    rewards, groups = [1.0, 0.0, 5.0, 5.5, 1.0, 0.0], [7, 7, 3, 3, 7, 7]
    whole = advantages(rewards, groups)
    assert whole[[0, 1, 4, 5]].tolist() == advantages([1.0, 0.0, 1.0, 0.0]).tolist()
    assert whole[[2, 3]].tolist() == advantages([5.0, 5.5]).tolist()
    order = [3, 0, 5, 2, 4, 1]
    shuffled = advantages([rewards[i] for i in order], [groups[i] for i in order])
    assert shuffled.tolist() == whole[order].tolist()
