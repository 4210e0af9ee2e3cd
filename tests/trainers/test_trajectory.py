import math

import pytest
import torch

from rlvr import Verdict
from rlvr.trainers.trajectory import Batch, Trajectory

PAD = 9


def trajectory(prompt, completion, group=0, rewards=(1.0,)):
    return Trajectory(
        task_id="t",
        group=group,
        prompt="",
        completion="",
        ids=[*prompt, *completion],
        loss_mask=[0] * len(prompt) + [1] * len(completion),
        sampler_logprobs=[0.0] * len(prompt) + [-0.5] * len(completion),
        entropies=None,
        rewards=list(rewards),
        verdict=Verdict(1.0, True),
        finish_reason="stop",
    )


@pytest.fixture
def batch():
    return Batch.from_trajectories(
        [
            trajectory([1, 2], [3], group=4),
            trajectory([1, 2, 3], [4, PAD, 5], group=4, rewards=[0.25, 0.5]),
            trajectory([PAD], [6, 7, 8], group=6, rewards=[math.nan]),
        ],
        PAD,
    )


def test_the_return_is_the_sum_of_the_turns_rewards():
    assert trajectory([1], [2], rewards=[0.25, 0.5]).reward == 0.75
    assert math.isnan(trajectory([1], [2], rewards=[1.0, math.nan]).reward)


def test_padding_by_hand(batch):
    assert batch.input_ids.tolist() == [[1, 2, 3, PAD, PAD, PAD], [1, 2, 3, 4, PAD, 5], [PAD, 6, 7, 8, PAD, PAD]]
    # A padding token that was sampled, or that is part of the prompt, is a token like any other.
    assert batch.attention_mask.tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6, [1, 1, 1, 1, 0, 0]]
    assert batch.loss_mask.int().tolist() == [[0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 0, 0]]
    assert batch.sampler_logprobs.tolist() == [[0, 0, -0.5, 0, 0, 0], [0, 0, 0, *[-0.5] * 3], [0, *[-0.5] * 3, 0, 0]]
    assert batch.rewards[:2].tolist() == [1.0, 0.75]
    assert batch.rewards[2].isnan()
    assert batch.groups.tolist() == [4, 4, 6]


def test_types(batch):
    assert batch.input_ids.dtype == batch.attention_mask.dtype == batch.groups.dtype == torch.long
    assert batch.loss_mask.dtype == torch.bool
    assert batch.sampler_logprobs.dtype == batch.rewards.dtype == torch.float32


def test_lengths_count_generated_tokens(batch):
    assert len(batch) == 3
    assert batch.lengths.tolist() == [1, 3, 3]


def test_rows_are_cut_to_the_longest_of_them(batch):
    chosen = batch.rows(torch.tensor([2, 0]))
    assert chosen.input_ids.tolist() == [[PAD, 6, 7, 8], [1, 2, 3, PAD]]
    assert chosen.attention_mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert chosen.loss_mask.int().tolist() == [[0, 1, 1, 1], [0, 0, 1, 0]]
    assert chosen.sampler_logprobs.tolist() == [[0, -0.5, -0.5, -0.5], [0, 0, -0.5, 0]]
    assert chosen.groups.tolist() == [6, 4]
    assert chosen.lengths.tolist() == [3, 1]
    assert batch.rows(torch.tensor([1])).input_ids.shape == (1, 6)


def spoken(*turns, rewards=None, **fields):
    """A trajectory of (message length, completion length) pairs."""
    mask = [generated for message, completion in turns for generated in [0] * message + [1] * completion]
    return Trajectory(
        task_id="t",
        group=0,
        prompt="",
        completion="last",
        ids=list(range(1, len(mask) + 1)),
        loss_mask=mask,
        sampler_logprobs=[0.0] * len(mask),
        entropies=None,
        rewards=list(range(1, len(turns) + 1)) if rewards is None else rewards,
        verdict=Verdict(1.0, True),
        finish_reason="stop",
        **fields,
    )


def test_turns_end_at_the_last_token_of_each_run():
    assert spoken((2, 3), (1, 2), (2, 1)).turn_ends == [4, 7, 10]
    assert spoken((2, 3)).turn_ends == [4]
    assert spoken((2, 0)).turn_ends == [-1]
    assert trajectory([1, 2], [3, 4]).turn_ends == [3]
    # What is known better is not read off the mask.
    assert spoken((2, 3), (1, 0), turn_ends=[4, 4]).turn_ends == [4, 4]


def test_a_batch_knows_what_each_turn_was_worth_and_where_it_ended():
    batch = Batch.from_trajectories([spoken((2, 3), (1, 2), truncated=True), spoken((1, 1))], PAD)
    assert batch.turn_rewards.tolist() == [[1, 2], [1, 0]]
    assert batch.turn_ends.tolist() == [[4, 7], [1, -1]]
    assert batch.truncated.tolist() == [True, False]
    assert batch.rewards.tolist() == [3, 1]
    second = batch.rows(torch.tensor([1])).to(torch.device("cpu"))
    assert (second.turn_rewards.tolist(), second.turn_ends.tolist()) == ([[1, 0]], [[1, -1]])
    assert second.input_ids.shape == (1, 2)


def test_the_transcript_is_all_that_was_said_after_the_prompt():
    said = [("system", "s"), ("user", "p"), ("assistant", "a"), ("user", "b"), ("assistant", "last")]
    conversation = [{"role": role, "content": content} for role, content in said]
    assert spoken((1, 1), (1, 1), conversation=conversation).transcript == "a\n[user] b\nlast"
    assert spoken((1, 1), conversation=conversation[:3]).transcript == "last"
