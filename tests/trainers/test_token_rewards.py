import pytest
import torch
from torch.nn.functional import pad

from rlvr.trainers.token_rewards import subtract_missing_eos, token_rewards

# A row of two turns with an observation between them, and one that ends early.
MASK = torch.tensor([[0, 1, 1, 0, 0, 1, 1, 0], [0, 0, 1, 1, 0, 0, 0, 0]], dtype=torch.bool)
ENDS = torch.tensor([[2, 6], [3, -1]])
SCORES = torch.tensor([[0.25, 1.0], [0.5, 0.0]])


def test_each_turns_score_lies_on_its_last_generated_token():
    mine = token_rewards(SCORES, ENDS, MASK, None, 0.0)
    assert mine.tolist() == [[0, 0, 0.25, 0, 0, 0, 1.0, 0], [0, 0, 0, 0.5, 0, 0, 0, 0]]


def test_the_kl_costs_on_every_generated_token_and_nowhere_else():
    kl = torch.full(MASK.shape, float("nan")).masked_fill(MASK, 0.0)
    kl[MASK] = torch.tensor([1.0, 2.0, 3.0, -4.0, 5.0, 6.0])
    mine = token_rewards(SCORES, ENDS, MASK, kl, 0.1)
    assert mine[0].tolist() == pytest.approx([0, -0.1, 0.25 - 0.2, 0, 0, -0.3, 1.0 + 0.4, 0])
    assert mine[1].tolist() == pytest.approx([0, 0, -0.5, 0.5 - 0.6, 0, 0, 0, 0])


@pytest.mark.parametrize("sides", [(0, 0), (0, 5), (5, 0), (2, 3)])
def test_the_place_is_that_of_the_token_with_any_padding(sides):
    ends = torch.where(ENDS >= 0, ENDS + sides[0], -1)
    mine = token_rewards(SCORES, ends, pad(MASK, sides, value=False), None, 0.0)
    assert torch.equal(mine, pad(token_rewards(SCORES, ENDS, MASK, None, 0.0), sides))


def test_a_row_that_fills_the_batch_earns_at_its_end():
    mine = token_rewards(torch.tensor([[2.0]]), torch.tensor([[2]]), torch.tensor([[False, True, True]]), None, 0.0)
    assert mine.tolist() == [[0.0, 0.0, 2.0]]


def test_a_turn_without_tokens_earns_nothing():
    mask = torch.zeros(1, 4, dtype=torch.bool)
    assert not token_rewards(torch.tensor([[1.0]]), torch.tensor([[-1]]), mask, None, 0.0).any()


def test_a_missing_eos_costs_the_last_turn_once():
    cut_off = torch.tensor([True, True])
    assert subtract_missing_eos(SCORES, ENDS, cut_off, 0.5).tolist() == [[0.25, 0.5], [0.0, 0.0]]
    assert subtract_missing_eos(SCORES, ENDS, torch.tensor([True, False]), 0.5).tolist() == [[0.25, 0.5], [0.5, 0.0]]
    assert torch.equal(subtract_missing_eos(SCORES, ENDS, ~cut_off, 0.5), SCORES)
