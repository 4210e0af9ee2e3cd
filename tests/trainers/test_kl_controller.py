from types import SimpleNamespace

import pytest
import torch

from rlvr.trainers.algorithms import Algorithm
from rlvr.trainers.credit import BanditCredit
from rlvr.trainers.kl_controller import KLController


def controller(kind="proportional", coef=0.1):
    steered = {"kl_target": 6.0, "kl_horizon": 1000} if kind == "proportional" else {}
    cells = {"kl_controller": kind, "kl_coef": coef, **steered}
    return KLController(Algorithm.model_validate({"name": "ppo", **cells}))


@pytest.mark.parametrize(
    ("kl", "coef"),
    [
        (6.0, 0.1),  # on target
        (6.6, 0.1 * (1 + 0.1 * 0.1)),  # a tenth above it; 100 of 1000 episodes
        (5.4, 0.1 * (1 - 0.1 * 0.1)),
        (60.0, 0.1 * (1 + 0.2 * 0.1)),  # the error counts up to a fifth
        (0.0, 0.1 * (1 - 0.2 * 0.1)),
        (-3.0, 0.1 * (1 - 0.2 * 0.1)),
    ],
)
def test_one_step_by_hand(kl, coef):
    mine = controller()
    mine.observe(kl, episodes=100)
    assert mine.coef == pytest.approx(coef)


def test_steps_multiply_and_no_batch_turns_the_sign():
    mine = controller()
    mine.observe(60.0, 500)
    mine.observe(0.0, 100_000)
    assert mine.coef == pytest.approx(0.1 * 1.1 * 0.8)


def test_a_step_without_a_graded_episode_changes_nothing():
    mine = controller()
    mine.observe(float("nan"), 0)
    assert mine.coef == 0.1


def test_the_state_goes_on_where_it_was():
    first, second = controller(), controller()
    first.observe(60.0, 500)
    second.load_state_dict(first.state_dict())
    assert second.coef == first.coef == pytest.approx(0.11)


def test_a_weight_that_was_changed_since_is_where_it_goes_on():
    first, second = controller(), controller(coef=0.9)
    first.observe(60.0, 500)
    second.load_state_dict(first.state_dict())
    assert second.coef == 0.9
    second.observe(60.0, 500)
    third = controller(coef=0.9)
    third.load_state_dict(second.state_dict())
    assert third.coef == second.coef == pytest.approx(0.99)


def test_a_checkpoint_that_does_not_say_where_it_started_is_gone_on_with():
    mine = controller(coef=0.9)
    mine.load_state_dict({"coef": 0.11})
    assert mine.coef == 0.11


def test_the_fixed_one_stays():
    mine = controller("fixed")
    mine.observe(60.0, 500)
    assert mine.coef == 0.1
    again = controller("fixed", coef=0.2)
    again.load_state_dict(mine.state_dict())
    assert again.coef == 0.2


def test_bandits_are_steered_too():
    batch = SimpleNamespace(
        rewards=torch.tensor([1.0, 0.0, float("nan")]),
        groups=torch.tensor([0, 0, 0]),
        loss_mask=torch.tensor([[True, True], [True, False], [True, True]]),
    )
    # 3 nats of the first, 1 of the second; the third was not graded. A mean of 2 a trajectory, a third of 6.
    frozen = SimpleNamespace(
        old_logprobs=torch.tensor([[1.0, 2.0], [1.0, 9.0], [5.0, 5.0]]), reference_logprobs=torch.zeros(3, 2)
    )
    cells = {"kl_coef": 0.1, "kl_controller": "proportional", "kl_target": 6.0, "kl_horizon": 20}
    credit = BanditCredit(Algorithm.model_validate({"name": "rloo", **cells}))
    _, told = credit(batch, frozen)
    assert told["kl_coef"] == 0.1
    assert credit.kl.coef == pytest.approx(0.1 * (1 - 0.2 * 2 / 20))
    again = BanditCredit(credit.algorithm)
    again.load_state_dict(credit.state_dict())
    assert again.kl.coef == credit.kl.coef
