import pytest
import torch

from rlvr.trainers.value_loss import clipped_value_loss, explained_variance


@pytest.mark.parametrize(
    ("value", "old", "target", "loss", "clipped", "gradient"),
    [
        (0.1, 0.0, 1.0, 0.405, False, -0.9),  # within the clip
        (0.5, 0.0, 1.0, 0.32, True, 0.0),  # went too far the right way: as if at 0.2, no gradient
        (-0.5, 0.0, -1.0, 0.32, True, 0.0),
        (-0.5, 0.0, 1.0, 1.125, False, -1.5),  # went too far the wrong way: all of it, back again
        (1.5, 0.0, 1.0, 0.32, True, 0.0),  # overshot, but nearer than where the clip would put it
        (3.0, 0.0, 1.0, 2.0, False, 2.0),  # overshot by more than that
    ],
)
def test_clip_cases_by_hand(value, old, target, loss, clipped, gradient):
    values = torch.tensor([value], requires_grad=True)
    mine = clipped_value_loss(values, torch.tensor([old]), torch.tensor([target]), clip=0.2)
    mine.loss.sum().backward()
    assert mine.loss.item() == pytest.approx(loss)
    assert mine.clipped.item() is clipped
    assert values.grad.item() == pytest.approx(gradient)


def test_without_a_clip_it_is_half_the_square():
    values = torch.tensor([0.5], requires_grad=True)
    mine = clipped_value_loss(values, torch.tensor([0.0]), torch.tensor([1.0]), clip=None)
    mine.loss.sum().backward()
    assert (mine.loss.item(), mine.clipped.item(), values.grad.item()) == (0.125, False, -0.5)


def test_returns_and_old_values_get_no_gradient():
    old, target = torch.tensor([0.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    values = torch.tensor([0.5], requires_grad=True)
    clipped_value_loss(values, old, target, clip=0.2).loss.sum().backward()
    assert old.grad is None
    assert target.grad is None


def test_explained_variance_by_hand():
    mask = torch.tensor([True, True, True, False])
    returns = torch.tensor([1.0, 2.0, 3.0, 99.0])
    assert explained_variance(returns, returns, mask) == 1.0
    assert explained_variance(torch.tensor([5.0, 5.0, 5.0, 0.0]), returns, mask) == 0.0
    # residuals 1, 0, -1 of twice the values: as far off as the mean
    assert explained_variance(2 * returns, returns, mask) == pytest.approx(0.0)
    assert explained_variance(-returns, returns, mask) == pytest.approx(-3.0)
    # residuals 0, 1, 1: variance 1/3 against 1
    assert explained_variance(torch.tensor([1.0, 1.0, 2.0, 0.0]), returns, mask) == pytest.approx(2 / 3)


def test_there_is_nothing_to_explain_where_returns_are_equal():
    assert explained_variance(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.5]), torch.tensor([True, True])) is None
