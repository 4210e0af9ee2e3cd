import pytest
from pydantic import ValidationError

from rlvr.trainers.algorithms import ALGORITHMS, Algorithm
from rlvr.trainers.settings import TrainConfig


def row(name, **cells):
    return Algorithm.model_validate({"name": name, **cells})


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("reinforce", ("batch_mean", "none", "logprob", "sequence_sum", "reward", "k1")),
        ("rloo", ("leave_one_out", "none", "logprob", "sequence_sum", "reward", "k1")),
        ("reinforce_pp", ("batch_mean_std", "token", "clip", "token_mean", "reward", "k1")),
        ("grpo", ("group_mean_std", "token", "clip", "sequence_mean", "loss", "k3")),
        ("dr_grpo", ("group_mean", "token", "clip", "fixed_length", "none", "k3")),
        ("dapo", ("group_mean_std", "token", "clip", "token_mean", "none", "k3")),
        ("gspo", ("group_mean_std", "sequence", "clip", "sequence_mean", "none", "k3")),
        ("cispo", ("group_mean_std", "token", "cispo", "token_mean", "none", "k3")),
    ],
)
def test_a_name_gives_the_whole_row(name, cells):
    made = row(name)
    found = (made.advantage, made.ratio, made.surrogate, made.aggregate, made.kl, made.kl_estimator)
    assert found == cells


def test_the_numbers_of_the_papers():
    assert (row("grpo").std_ddof, row("grpo").std_eps) == (1, 1e-4)
    assert (row("grpo").clip_low, row("grpo").clip_high) == (0.2, 0.2)
    assert (row("dapo").clip_low, row("dapo").clip_high, row("dapo").dynamic_sampling) == (0.2, 0.28, True)
    assert (row("gspo").clip_low, row("gspo").clip_high) == (3e-4, 4e-4)
    assert not row("grpo").dynamic_sampling
    assert {made.truncated for made in map(row, ALGORITHMS)} == {"as_is"}


def test_every_cell_may_be_overridden_and_a_saved_row_is_read_back():
    made = row("grpo", advantage="leave_one_out", ratio="sequence", aggregate="token_mean", clip_high=0.4, kl="reward")
    assert (made.advantage, made.ratio, made.aggregate, made.clip_high) == (
        "leave_one_out",
        "sequence",
        "token_mean",
        0.4,
    )
    # an estimator that was not asked for is that of the place
    assert (made.kl, made.kl_estimator) == ("reward", "k1")
    assert row("rloo", kl="loss").kl_estimator == "k3"
    assert row("rloo", kl="loss", kl_estimator="k2").kl_estimator == "k2"
    for name in ALGORITHMS:
        assert Algorithm.model_validate(row(name).model_dump(mode="json")) == row(name)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"name": "grop"}, "there is no algorithm 'grop'.*grpo"),
        ({"name": "dr_grpo", "kl_coef": 0.1}, "kl_coef is 0.1 but kl is 'none'"),
        ({"name": "grpo", "ratio": "none"}, "clips a ratio but ratio is 'none'"),
        ({"name": "rloo", "ratio": "token"}, "has no ratio but ratio is 'token'"),
        ({"name": "grpo", "clip_low": 1.0}, "clip_low is 1, which only the surrogate cispo takes"),
        ({"name": "reinforce", "dynamic_sampling": True}, "throws away groups without spread"),
        (
            {"name": "grpo", "entropy_target": 0.2, "entropy_coef": 2.0},
            "entropy_coef is 2.0 but entropy_coef_max is 1.0",
        ),
        ({"name": "grpo", "truncated": "maks"}, "truncated"),
        ({"name": "grpo", "clip_hi": 0.3}, "clip_hi"),
    ],
)
def test_what_does_not_fit_is_refused(cells, message):
    with pytest.raises(ValidationError, match=message):
        Algorithm.model_validate(cells)


def test_which_terms_a_row_has():
    assert not row("grpo").needs_reference
    assert (row("grpo", kl_coef=0.1).kl_in_loss, row("grpo", kl_coef=0.1).kl_in_reward) == (True, False)
    assert (row("rloo", kl_coef=0.1).kl_in_loss, row("rloo", kl_coef=0.1).kl_in_reward) == (False, True)
    assert row("grpo", entropy_target=0.0).entropy_bonus
    assert not row("grpo").entropy_bonus


def test_a_group_of_one_is_refused_where_its_members_are_compared():
    def config(name):
        return {
            "model": {"name": "x"}, "env": {"id": "rlvr/Arithmetic-v0"}, "algorithm": {"name": name},
            "train": {"group_size": 1},
        }  # fmt: skip

    with pytest.raises(ValidationError, match="group_size is 1 but advantage 'leave_one_out' compares"):
        TrainConfig.model_validate(config("rloo"))
    assert TrainConfig.model_validate(config("reinforce")).train.group_size == 1


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        ({"name": "rloo", "clip_high": 0.3}, "set surrogate: clip, or leave clip_high out"),
        ({"name": "dr_grpo", "std_ddof": 0}, "set advantage: group_mean_std, or leave std_ddof out"),
        ({"name": "ppo", "std_eps": 0.1}, "leave std_eps out"),
        ({"name": "grpo", "baseline_momentum": 0.5}, "set advantage: moving_average"),
        ({"name": "ppo", "kl_coef": 0.1, "kl_target": 3}, "set kl_controller: proportional"),
        ({"name": "grpo", "entropy_coef": 0.1, "entropy_coef_delta": 0.1}, "set entropy_target"),
        ({"name": "grpo", "dynamic_sampling_rollouts": 3}, "set dynamic_sampling: True"),
        ({"name": "grpo", "gamma": 0.9}, "set advantage: gae"),
    ],
)
def test_a_cell_that_nothing_asks_for_is_refused(cells, remedy):
    with pytest.raises(ValidationError, match=remedy):
        Algorithm.model_validate(cells)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_a_row_is_saved_as_is_that_row(name):
    row = Algorithm.model_validate({"name": name})
    assert Algorithm.model_validate(row.model_dump()) == row
