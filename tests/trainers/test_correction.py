import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rlvr.trainers.algorithms import ALGORITHMS, Algorithm
from rlvr.trainers.correction import correction_weights
from rlvr.trainers.formula import formula
from rlvr.trainers.settings import TrainConfig, TrainSettings

LN2 = math.log(2)


def weights(log_ratios, kind, low, high, mask=None):
    """Of tokens that the sampler gave a log-prob of -1."""
    old = torch.tensor(log_ratios) - 1
    mask = torch.ones_like(old, dtype=torch.bool) if mask is None else torch.tensor(mask)
    return correction_weights(old, torch.full_like(old, -1.0), mask, kind, low, high)


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        # ratios 1/4, 1, 2 and 8
        ("none", 0, math.inf, [1, 1, 1, 1]),
        ("token_truncate", 0, 2, [0.25, 1, 2, 2]),
        ("token_truncate", 0.5, 5, [0.5, 1, 2, 5]),
        ("token_mask", 0.5, 5, [0, 1, 2, 0]),
        # their geometric mean is (1/4 * 1 * 2 * 8)^(1/4) = 2^(1/2) = 1.414
        ("sequence_mask", 0.5, 1.5, [1, 1, 1, 1]),
        ("sequence_mask", 0.5, 1.4, [0, 0, 0, 0]),
        ("sequence_mask", 1.42, 2, [0, 0, 0, 0]),
    ],
)
def test_weights_by_hand(kind, low, high, expected):
    assert weights([[-2 * LN2, 0, LN2, 3 * LN2]], kind, low, high).tolist() == [pytest.approx(expected)]


@given(length=st.integers(1, 400), drift=st.floats(-0.02, 0.02))
def test_a_row_is_judged_by_the_mean_whatever_its_length(length, drift):
    # exp(0.02) = 1.0202; the sum of 400 such log-ratios is 8.
    kept = weights([[drift] * length], "sequence_mask", 0.9, 1.1)
    assert kept.eq(1).all()


def test_only_loss_tokens_are_asked_and_others_are_left_alone():
    mask = [[False, True, True, False]]
    assert weights([[50.0, 0.0, 0.0, -50.0]], "sequence_mask", 0.9, 1.1, mask).tolist() == [[1.0] * 4]
    assert weights([[50.0, LN2, 9.0, -50.0]], "token_mask", 0.5, 5, mask).tolist() == [pytest.approx([1, 2, 0, 1])]
    assert weights([[1e4, -1e4]], "token_truncate", 0, 2).tolist() == [pytest.approx([2, 0], abs=1e-8)]


def test_weights_have_no_gradient():
    old = torch.zeros(1, 3, requires_grad=True)
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert not correction_weights(old, torch.zeros(1, 3), mask, "token_truncate", 0, 2).requires_grad


def test_bounds_are_those_of_the_kind_unless_given():
    assert Algorithm.model_validate({"correction": "token_truncate"}).correction_bounds == (0, 2)
    assert Algorithm.model_validate({"correction": "token_mask", "correction_high": 3}).correction_bounds == (0.5, 3)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"correction": "token_truncate", "old_logprobs": "sampler"}, "count twice"),
        ({"name": "rloo", "old_logprobs": "sampler"}, "has no ratio that would divide by them"),
        ({"correction_high": 3}, "leave correction_high out"),
        ({"correction": "token_mask", "correction_low": 5}, "raise the second"),
        ({"correction": "sequence_sum"}, "sequence_mask"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(cells, reason):
    with pytest.raises(ValidationError, match=reason):
        Algorithm.model_validate(cells)


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 20}])
@pytest.mark.parametrize("cells", [{"correction": "token_truncate"}, {"old_logprobs": "sampler"}])
def test_a_cut_distribution_is_not_compared_with_a_whole_one(cut, cells):
    config = {"model": {"name": "x"}, "env": {"id": "rlvr/Arithmetic-v0"}, "sampling": cut}
    TrainConfig.model_validate(config)
    with pytest.raises(ValidationError, match="two different distributions"):
        TrainConfig.model_validate({**config, "algorithm": cells})


def test_rollouts_of_older_policies_need_a_correction():
    config = {"model": {"name": "x"}, "env": {"id": "rlvr/Arithmetic-v0"}}
    engine = {"engine": {"kind": "vllm-server", "async_steps": 2}}
    with pytest.raises(ValidationError, match=r"set algorithm\.correction"):
        TrainConfig.model_validate({**config, **engine})
    for cells in ({"correction": "token_mask"}, {"old_logprobs": "sampler"}):
        TrainConfig.model_validate({**config, **engine, "algorithm": cells})


@pytest.mark.parametrize("kind", ["hf", "vllm"])
def test_settings_of_another_engine_are_refused(kind):
    with pytest.raises(ValidationError, match=r"engine\.async_steps"):
        TrainConfig.model_validate(
            {"model": {"name": "x"}, "env": {"id": "e"}, "engine": {"kind": kind, "async_steps": 1}}
        )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_formula_says_what_corrects_it(name):
    row = Algorithm.model_validate({"name": name, "correction": "token_truncate", "correction_high": 3})
    assert "L_t * clip(w_t, 0, 3)" in formula(row, TrainSettings(), 16)
    assert "none for what sampler" in formula(Algorithm.model_validate({"name": name}), TrainSettings(), 16)
