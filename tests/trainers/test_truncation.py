import dataclasses

import torch

from rlvr.trainers.losses import token_weights
from rlvr.trainers.trajectory import Batch
from rlvr.trainers.truncation import has_loss, worth_of_truncated

NAN = float("nan")


def batch_of(rewards, cut_off):
    ones = torch.ones(len(rewards), 2, dtype=torch.long)
    return Batch(
        input_ids=ones,
        attention_mask=ones,
        loss_mask=ones.bool(),
        sampler_logprobs=torch.zeros(len(rewards), 2),
        rewards=torch.tensor(rewards),
        groups=torch.zeros(len(rewards), dtype=torch.long),
        turn_rewards=torch.tensor([[reward / 2, reward / 2] for reward in rewards]),
        cut_off=None if cut_off is None else torch.tensor(cut_off),
    )


def test_what_was_cut_off_is_worth_nothing_in_any_turn_if_so_configured():
    batch = worth_of_truncated(batch_of([1.0, 0.5, NAN, 1.0], [True, False, True, False]), "zero_reward")
    assert batch.rewards[[0, 1, 3]].tolist() == [0.0, 0.5, 1.0]
    assert batch.rewards[2].isnan()
    assert batch.turn_rewards[[0, 1, 3]].tolist() == [[0.0, 0.0], [0.25, 0.25], [0.5, 0.5]]
    assert has_loss(batch, "zero_reward").all()


def test_otherwise_it_is_worth_what_it_is_worth():
    batch = batch_of([1.0, 0.5], [True, False])
    for rule in ("as_is", "mask"):
        assert worth_of_truncated(batch, rule) is batch
    assert has_loss(batch, "as_is").tolist() == [True, True]
    assert has_loss(batch, "mask").tolist() == [False, True]


def test_a_batch_that_does_not_say_has_nothing_cut_off():
    batch = batch_of([1.0, 0.5], None)
    assert worth_of_truncated(batch, "zero_reward") is batch
    assert has_loss(batch, "mask").all()


def test_the_weight_of_a_token_does_not_depend_on_how_many_were_cut_off():
    """The weights are of all the graded rows, so the rule has no part in them."""
    lengths = torch.tensor([4, 6, 10])
    for aggregate, weight in [("sequence_mean", 1 / 12), ("token_mean", 1 / 20), ("fixed_length", 1 / 60)]:
        assert torch.isclose(token_weights(lengths, aggregate, 20)[0], torch.tensor(weight))


def test_an_episode_that_ran_out_of_turns_was_not_cut_off():
    """Its last completion ended by itself; losing a game is no truncation."""
    batch = dataclasses.replace(batch_of([1.0, 0.5], [False, False]), truncated=torch.tensor([True, False]))
    assert worth_of_truncated(batch, "zero_reward").rewards.tolist() == [1.0, 0.5]
    assert has_loss(batch, "mask").all()
