import math

import pytest
import torch

from rlvr.trainers.whitening import whiten


def test_three_values_by_hand():
    # mean 2, variance (1 + 0 + 1) / 2 = 1
    assert whiten(torch.tensor([1.0, 2.0, 3.0]), torch.ones(3, dtype=torch.bool)).tolist() == pytest.approx([-1, 0, 1])
    # mean 3, variance (9 + 1 + 1 + 9) / 3 = 20 / 3
    values = torch.tensor([[0.0, 2.0], [4.0, 6.0]])
    by_hand = [x / math.sqrt(20 / 3 + 1e-8) for x in (-3, -1, 1, 3)]
    assert whiten(values, torch.ones(2, 2, dtype=torch.bool)).flatten().tolist() == pytest.approx(by_hand)


def test_a_spread_as_small_as_eps_is_not_blown_up():
    # variance 2e-8 against eps 1e-8: 1e-4 / sqrt(3e-8)
    values = torch.tensor([-1e-4, 1e-4], dtype=torch.float64)
    mine = whiten(values, torch.ones(2, dtype=torch.bool))
    assert mine.tolist() == pytest.approx([-1e-4 / math.sqrt(3e-8), 1e-4 / math.sqrt(3e-8)])


@pytest.mark.parametrize("garbage", [0.0, 1e9, float("nan")])
@pytest.mark.parametrize("sides", [(0, 3), (3, 0), (2, 2)])
def test_padding_on_any_side_changes_nothing(garbage, sides):
    values, mask = (
        torch.tensor([[1.0, 5.0, 2.0], [7.0, 0.5, 0.0]]),
        torch.tensor([[True, True, True], [True, True, False]]),
    )
    padded = torch.nn.functional.pad(values, sides, value=garbage)
    mine = whiten(padded, torch.nn.functional.pad(mask, sides, value=False))
    assert torch.equal(mine[:, sides[0] : sides[0] + 3], whiten(values, mask))
    assert not mine[:, : sides[0]].any()
    assert not mine[:, sides[0] + 3 :].any()


def test_equal_values_are_exactly_0():
    mask = torch.ones(7, dtype=torch.bool)
    assert whiten(torch.full((7,), 0.95), mask).tolist() == [0.0] * 7


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_to_compare_are_0(count):
    mask = torch.tensor([True] * count + [False] * 2)
    assert whiten(torch.full(mask.shape, 4.0), mask).tolist() == [0.0] * len(mask)
