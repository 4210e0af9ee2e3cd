import math

import pytest
import torch

from rlvr.trainers.kl import k1, k2, k3, kl_estimate
from rlvr.trainers.losses import cispo_surrogate, clipped_surrogate, importance_ratio, logprob_surrogate, token_weights


def token_ratio(logprobs):
    """To old log-probs of 0."""
    return importance_ratio(logprobs, torch.zeros_like(logprobs), torch.ones_like(logprobs, dtype=torch.bool), "token")


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
    result = clipped_surrogate(token_ratio(logprobs), torch.tensor([[advantage]]), 0.2, 0.2)
    assert result.loss.item() == pytest.approx(loss)
    assert (result.clipped_low.item(), result.clipped_high.item()) == (low, high)
    result.loss.sum().backward()
    assert logprobs.grad.item() == pytest.approx(-advantage * ratio if has_gradient else 0.0)


def test_the_two_bounds_are_their_own():
    logprobs = torch.tensor([[math.log(1.25), math.log(0.85)]])
    up = clipped_surrogate(token_ratio(logprobs), torch.tensor([[1.0]]), 0.1, 0.3)
    down = clipped_surrogate(token_ratio(logprobs), torch.tensor([[-1.0]]), 0.1, 0.3)
    assert up.loss[0, 0].item() == pytest.approx(-1.25)
    assert down.loss[0, 1].item() == pytest.approx(0.9)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_of_its_loss_tokens():
    # two loss tokens of ratio 2 and 8 and one that is no loss token: sqrt(2 * 8) = 4
    logprobs = torch.tensor([[2.0, 8.0, 1000.0]]).log().requires_grad_()
    mask = torch.tensor([[True, True, False]])
    ratio = importance_ratio(logprobs, torch.zeros(1, 3), mask, "sequence")
    assert ratio.tolist() == [pytest.approx([4.0] * 3)]
    # d s / d log pi_t = s / |o|, and none to what is no loss token
    ratio[0, 0].backward()
    assert logprobs.grad.tolist() == [pytest.approx([2.0, 2.0, 0.0])]


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_ratio_of_a_policy_to_itself_is_exactly_one_and_none_overflows(level):
    logprobs, mask = torch.tensor([[-0.1, -700.0, -3.3]]), torch.ones(1, 3, dtype=torch.bool)
    assert importance_ratio(logprobs, logprobs.clone(), mask, level).tolist() == [[1.0] * 3]
    assert importance_ratio(logprobs, logprobs - 1e4, mask, level).isfinite().all()
    assert importance_ratio(logprobs - 1e4, logprobs, mask, level).min() > 0
    assert importance_ratio(logprobs, logprobs, ~mask, level).tolist() == [[1.0] * 3]


@pytest.mark.parametrize("advantage", [0.5, -0.5])
@pytest.mark.parametrize(("ratio", "weight"), [(1.35, 1.28), (0.70, 0.8), (1.10, 1.10)])
def test_cispo_caps_the_weight_and_keeps_every_gradient(advantage, ratio, weight):
    logprobs = torch.tensor([[math.log(ratio)]], requires_grad=True)
    result = cispo_surrogate(token_ratio(logprobs), logprobs, torch.tensor([[advantage]]), 0.2, 0.28)
    assert result.loss.item() == pytest.approx(-weight * advantage * math.log(ratio), rel=1e-5)
    assert (result.clipped_low.item(), result.clipped_high.item()) == (ratio < 0.8, ratio > 1.28)
    result.loss.sum().backward()
    assert logprobs.grad.item() == pytest.approx(-weight * advantage)


def test_the_plain_policy_gradient_by_hand():
    logprobs = torch.tensor([[-0.5, -2.0]], requires_grad=True)
    result = logprob_surrogate(logprobs, torch.tensor([[3.0, -1.0]]))
    assert result.loss.tolist() == [[1.5, -2.0]]
    result.loss.sum().backward()
    assert logprobs.grad.tolist() == [[-3.0, 1.0]]


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


def test_k1_and_k2_by_hand():
    # log(0.14 / 0.08) = 0.559616; half its square is 0.156585
    policy, reference = torch.tensor(0.14).log(), torch.tensor(0.08).log()
    assert k1(policy, reference).item() == pytest.approx(0.559616, abs=1e-6)
    assert k2(policy, reference).item() == pytest.approx(0.156585, abs=1e-6)
    for name, function in [("k1", k1), ("k2", k2), ("k3", k3)]:
        assert kl_estimate(policy, reference, name).item() == function(policy, reference).item()


def test_k1_is_the_kl_on_average_and_the_gradient_of_k2_is_that_of_the_kl():
    reference = torch.tensor([0.2, 0.2, 0.6]).log()
    logits = torch.tensor([0.5, 0.3, 0.2]).log().requires_grad_()
    logprobs = torch.log_softmax(logits, dim=0)
    kl = (logprobs.exp() * (logprobs - reference)).sum()
    assert (logprobs.exp() * k1(logprobs, reference)).sum().item() == pytest.approx(kl.item())
    (exact,) = torch.autograd.grad(kl, logits, retain_graph=True)
    on_average = (logprobs.detach().exp() * k2(logprobs, reference)).sum()
    torch.testing.assert_close(torch.autograd.grad(on_average, logits, retain_graph=True)[0], exact)
    nothing = (logprobs.detach().exp() * k1(logprobs, reference)).sum()
    torch.testing.assert_close(torch.autograd.grad(nothing, logits)[0], torch.zeros(3))


def test_k3_overflows_nowhere_and_pulls_back_from_afar():
    logprobs = torch.tensor([-1000.0, -0.1], requires_grad=True)
    estimate = k3(logprobs, torch.tensor([-0.1, -1000.0]))
    assert estimate.isfinite().all()
    estimate.sum().backward()
    assert logprobs.grad.tolist() == [0.0, 1.0]


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
