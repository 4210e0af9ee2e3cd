import math

import pytest
import torch

from rlvr.trainers.algorithms import Algorithm
from rlvr.trainers.credit import BanditCredit, along_rows
from rlvr.trainers.trajectory import Batch
from rlvr.trainers.update import Frozen

NAN = float("nan")


def batch_of(rewards, lengths=None):
    """Rows of a one-token prompt; all of one group."""
    lengths = torch.tensor([2] * len(rewards) if lengths is None else lengths)
    place = torch.arange(int(lengths.max()) + 1)
    attention = (place <= lengths[:, None]).long()
    return Batch(
        input_ids=torch.zeros_like(attention),
        attention_mask=attention,
        loss_mask=(attention == 1) & (place > 0),
        sampler_logprobs=torch.zeros(attention.shape),
        rewards=torch.tensor(rewards),
        groups=torch.zeros(len(rewards), dtype=torch.long),
    )


def credit(**cells):
    return BanditCredit(Algorithm.model_validate(cells))


def test_an_advantage_lies_on_the_loss_tokens_of_its_row_alone():
    batch = batch_of([1.0, 0.0, 0.0, 0.0], [3, 1, 2, 3])
    advantages, metrics = credit(name="dr_grpo")(batch, None)
    assert metrics == {}
    assert advantages.tolist() == [
        [0.0, 0.75, 0.75, 0.75], [0.0, -0.25, 0.0, 0.0], [0.0, -0.25, -0.25, 0.0], [0.0, -0.25, -0.25, -0.25]
    ]  # fmt: skip
    assert along_rows(torch.tensor([2.0]), torch.tensor([[False, True]])).tolist() == [[0.0, 2.0]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reinforce", [0.75, -0.25, -0.25, -0.25]),
        ("rloo", [1.0, -1 / 3, -1 / 3, -1 / 3]),
        ("reinforce_pp", [0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001]),
        ("grpo", [0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001]),
        ("dapo", [0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001]),
        ("gspo", [0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001]),
        ("cispo", [0.75 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001, -0.25 / 0.5001]),
        ("dr_grpo", [0.75, -0.25, -0.25, -0.25]),
    ],
)
def test_one_of_four_solved_under_every_row_of_the_table(name, expected):
    advantages, _ = credit(name=name)(batch_of([1.0, 0.0, 0.0, 0.0]), None)
    assert advantages[:, 1].tolist() == pytest.approx(expected)


def test_the_moving_average_by_hand():
    made = credit(name="reinforce", advantage="moving_average", baseline_momentum=0.75)
    # The first batch has nothing but itself to be measured against.
    assert made(batch_of([1.0, 0.0]), None)[0][:, 1].tolist() == [0.5, -0.5]
    assert made.baseline == 0.5
    # Then the average before the batch, which is moved a quarter of the way to its mean: 0.375 + 0.25
    assert made(batch_of([1.0, NAN, 1.0]), None)[0][:, 1].tolist() == [0.5, 0.0, 0.5]
    assert made.baseline == 0.625
    assert made(batch_of([NAN, NAN]), None)[0].abs().max() == 0.0
    assert made.baseline == 0.625

    again = credit(name="reinforce", advantage="moving_average", baseline_momentum=0.75)
    again.load_state_dict(made.state_dict())
    batch = batch_of([0.25, 0.0])
    assert torch.equal(again(batch, None)[0], made(batch, None)[0])


def test_a_kl_comes_off_the_reward_of_the_sequence_before_the_baseline():
    batch = batch_of([1.0, 0.0, NAN, 0.0], [2, 1, 2, 2])
    old, reference = (
        torch.full(batch.input_ids.shape, math.log(0.14)),
        torch.full(batch.input_ids.shape, math.log(0.08)),
    )
    advantages, metrics = credit(name="rloo", kl_coef=0.5)(batch, Frozen(old, reference))
    k1 = math.log(0.14 / 0.08)
    # a sum over tokens, so that the one token of the second row costs half of the two of the others
    worth = [1.0 - k1, -0.5 * k1, -k1]
    expected = [worth[0] - (worth[1] + worth[2]) / 2, worth[1] - (worth[0] + worth[2]) / 2]
    assert advantages[:2, 1].tolist() == pytest.approx(expected)
    assert advantages[2].abs().max() == 0.0
    assert metrics["kl"] == pytest.approx(k1)


def test_the_estimator_in_the_reward_is_the_configured_one():
    batch = batch_of([0.0, 0.0], [2, 1])
    old, reference = (
        torch.full(batch.input_ids.shape, math.log(0.14)),
        torch.full(batch.input_ids.shape, math.log(0.08)),
    )
    for estimator, value in [("k1", 0.559616), ("k2", 0.156585), ("k3", 0.131044)]:
        made = credit(name="reinforce", kl_coef=1.0, kl_estimator=estimator)
        advantages, metrics = made(batch, Frozen(old, reference))
        assert metrics["kl"] == pytest.approx(value, abs=1e-6)
        assert advantages[0, 1].item() == pytest.approx(-value / 2, abs=1e-6)
