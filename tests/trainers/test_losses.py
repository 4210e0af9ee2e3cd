import math

import pytest
import torch

from rlvr.trainers.kl import k3
from rlvr.trainers.losses import clipped_surrogate, token_weights


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "low", "high", "has_gradient"),
    [
        (0.5, 1.35, -0.5 * 1.2, False, True, False),
        (-0.5, 0.70, 0.5 * 0.8, True, False, False),
        (0.5, 1.10, -0.5 * 1.1, False, False, True),
        (-0.5, 1.35, 0.5 * 1.35, False, False, True),  # a bad token made likelier is pulled back, unclipped
        (0.5, 0.70, -0.5 * 0.70, False, False, True),
    ],
)
def test_clipping_by_hand(advantage, ratio, loss, low, high, has_gradient):
    logprobs = torch.tensor([[math.log(ratio)]], requires_grad=True)
    result = clipped_surrogate(logprobs, torch.zeros(1, 1), torch.tensor([advantage]), 0.2, 0.2)
    assert result.loss.item() == pytest.approx(loss)
    assert (result.clipped_low.item(), result.clipped_high.item()) == (low, high)
    result.loss.sum().backward()
    assert logprobs.grad.item() == pytest.approx(-advantage * ratio if has_gradient else 0.0)


def test_the_two_bounds_are_their_own():
    logprobs = torch.tensor([[math.log(1.25), math.log(0.85)]])
    up = clipped_surrogate(logprobs, torch.zeros(1, 2), torch.tensor([1.0]), 0.1, 0.3)
    down = clipped_surrogate(logprobs, torch.zeros(1, 2), torch.tensor([-1.0]), 0.1, 0.3)
    assert up.loss[0, 0].item() == pytest.approx(-1.25)
    assert down.loss[0, 1].item() == pytest.approx(0.9)


LOSSES = [[1.0] * 4 + [10.0], [1.0] * 9 + [10.0]]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("sequence_mean", (14 / 5 + 19 / 10) / 2),
        ("token_mean", (14 + 19) / 15),
        ("fixed_length", (14 + 19) / (2 * 20)),
        ("sequence_sum", (14 + 19) / 2),
    ],
)
def test_aggregation_by_hand(aggregate, expected):
    weights = token_weights(torch.tensor([len(row) for row in LOSSES]), aggregate, max_length=20)
    total = sum(weight * sum(row) for weight, row in zip(weights.tolist(), LOSSES, strict=True))
    assert total == pytest.approx(expected)


@pytest.mark.parametrize("aggregate", ["sequence_mean", "token_mean", "fixed_length", "sequence_sum"])
def test_a_row_that_does_not_count_is_in_no_denominator(aggregate):
    with_empty = token_weights(torch.tensor([5, 0, 10]), aggregate, max_length=20)
    assert with_empty[1] == 0
    assert with_empty[[0, 2]].tolist() == token_weights(torch.tensor([5, 10]), aggregate, max_length=20).tolist()
    assert token_weights(torch.tensor([0, 0]), aggregate, max_length=20).tolist() == [0.0, 0.0]


def test_k3_by_hand():
    # d = log(0.08 / 0.14); exp(d) - d - 1 = 0.571429 + 0.559616 - 1
    estimate = k3(torch.tensor(0.14).log(), torch.tensor(0.08).log())
    assert estimate.item() == pytest.approx(0.131044, abs=1e-6)


def test_k3_is_the_kl_on_average_and_never_negative():
    policy = torch.tensor([0.5, 0.3, 0.2])
    reference = torch.tensor([0.2, 0.2, 0.6])
    estimate = k3(policy.log(), reference.log())
    assert (estimate >= 0).all()
    assert (policy * estimate).sum().item() == pytest.approx((policy * (policy / reference).log()).sum().item())
    assert k3(policy.log(), policy.log()).tolist() == [0.0, 0.0, 0.0]
