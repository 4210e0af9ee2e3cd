import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.trainers.gae import gae, length_adaptive_lambda

NAN = float("nan")


def row(*values):
    return torch.tensor([values])


def ones(width):
    return torch.ones(1, width, dtype=torch.bool)


def plain(rewards, values, bootstrap, gamma, lam):
    """By the definition, forwards: the sum of all later temporal differences."""
    following = [*values, bootstrap][1:]
    deltas = [r + gamma * v_next - v for r, v, v_next in zip(rewards, values, following, strict=True)]
    return [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, len(deltas))) for t in range(len(deltas))]


def test_three_tokens_by_hand():
    # deltas: 0+4-2 = 2, 0+1-4 = -3, 6+0-1 = 5; so 5, -3+2.5, 2-0.25
    mine = gae(row(0.0, 0.0, 6.0), row(2.0, 4.0, 1.0), ones(3), torch.zeros(1), gamma=1.0, lam=0.5)
    assert mine.tolist() == [[1.75, -0.5, 5.0]]


def test_three_tokens_discounted_by_hand():
    # deltas: 0+2-2 = 0, 0+0.5-4 = -3.5, 6-1 = 5; decay 0.25
    mine = gae(row(0.0, 0.0, 6.0), row(2.0, 4.0, 1.0), ones(3), torch.zeros(1), gamma=0.5, lam=0.5)
    assert mine.tolist() == [[-0.5625, -2.25, 5.0]]


def test_lambda_1_is_the_return_less_the_value_and_lambda_0_the_temporal_difference():
    rewards, values = row(1.0, 0.0, 6.0), row(2.0, 4.0, 1.0)
    assert gae(rewards, values, ones(3), torch.zeros(1), 1.0, 1.0).tolist() == [[5.0, 2.0, 5.0]]
    assert gae(rewards, values, ones(3), torch.zeros(1), 1.0, 0.0).tolist() == [[3.0, -3.0, 5.0]]


def test_what_was_cut_off_goes_on_from_the_critics_value_and_what_has_ended_does_not():
    rewards, values = torch.zeros(2, 3), torch.tensor([[2.0, 4.0, 1.0]] * 2)
    ended, cut_off = gae(rewards, values, ones(3).expand(2, 3), torch.tensor([0.0, 3.0]), 1.0, 0.5).tolist()
    # The last delta is 0-1 = -1 of the one, 3-1 = 2 of the other; the earlier ones are 2 and -3 of both.
    assert ended == [0.25, -3.5, -1.0]
    assert cut_off == [1.0, -2.0, 2.0]


def test_tokens_that_the_model_did_not_generate_are_stepped_across():
    rewards, values = row(NAN, 1.0, 0.0, NAN, NAN, 6.0, NAN), row(NAN, 2.0, 4.0, NAN, NAN, 1.0, NAN)
    mask = row(False, True, True, False, False, True, False)
    mine = gae(rewards, values, mask, torch.tensor([3.0]), 0.9, 0.5)
    closed = gae(row(1.0, 0.0, 6.0), row(2.0, 4.0, 1.0), ones(3), torch.tensor([3.0]), 0.9, 0.5)
    assert torch.equal(mine[mask], closed[0])
    assert not mine[~mask].any()


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_mask_is_as_its_row_with_the_gaps_cut_out(data):
    width = data.draw(st.integers(1, 9))
    numbers = st.floats(-5, 5, width=32)
    mask = data.draw(st.lists(st.booleans(), min_size=width, max_size=width))
    rewards, values = (data.draw(st.lists(numbers, min_size=width, max_size=width)) for _ in range(2))
    bootstrap, gamma, lam = data.draw(numbers), data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))
    mine = gae(row(*rewards), row(*values), row(*mask), torch.tensor([bootstrap]), gamma, lam)[0]
    kept = [[number for number, there in zip(numbers, mask, strict=True) if there] for numbers in (rewards, values)]
    assert mine[torch.tensor(mask)].tolist() == pytest.approx(plain(*kept, bootstrap, gamma, lam), abs=1e-4)
    assert not mine[~torch.tensor(mask)].any()


def test_each_row_may_have_a_lambda_of_its_own():
    rewards, values, mask = torch.tensor([[0.0, 0.0, 6.0]] * 2), torch.tensor([[2.0, 4.0, 1.0]] * 2), ones(3)
    mine = gae(rewards, values, mask.expand(2, 3), torch.zeros(2), 1.0, torch.tensor([0.5, 0.0]))
    assert mine.tolist() == [[1.75, -0.5, 5.0], [2.0, -3.0, 5.0]]


def test_advantages_carry_no_gradient():
    values = row(2.0, 4.0, 1.0).requires_grad_()
    assert not gae(row(0.0, 0.0, 6.0), values, ones(3), torch.zeros(1)).requires_grad


def test_lambda_grows_with_the_length():
    # 1 - 1/(0.05 * 40) = 0.5, 1 - 1/(0.05 * 200) = 0.9; up to 20 tokens there is nothing to carry.
    mine = length_adaptive_lambda(torch.tensor([0, 1, 20, 40, 200]), alpha=0.05)
    assert mine.tolist() == pytest.approx([0.0, 0.0, 0.0, 0.5, 0.9])
