import subprocess
import sys

import pytest

from rlvr.trainers.algorithms import ALGORITHMS, Algorithm
from rlvr.trainers.critic_settings import CriticSettings
from rlvr.trainers.formula import formula
from rlvr.trainers.settings import TrainSettings

TRAIN = TrainSettings(prompts_per_step=4, group_size=8, minibatches=2, epochs=3, learning_rate=1e-5)


def block(**cells):
    return formula(Algorithm.model_validate(cells), TRAIN, max_tokens=48, temperature=0.7)


@pytest.mark.parametrize(
    ("cells", "lines"),
    [
        (
            {"name": "grpo", "kl_coef": 0.04},
            [
                "A_i = (R_i - mean R) / (std R + 0.0001) over the group of 8, std with ddof 1",
                "rho_t = exp(log pi_t - log pi_old_t), one a token; log pi at temperature 0.7",
                "L_t = -min(rho_t * A_i, clip(rho_t, 0.8, 1.2) * A_i)",
                "loss = 1/N sum_i 1/|o_i| sum_t L_t",
                "in the loss, L_t + 0.04 * k3_t, with k3_t = exp(d) - d - 1, d = log pi_ref_t - log pi_t",
                "N = 16 rows",
                "4 prompts * 8 completions",
                "3 epoch(s) * 2 minibatch(es)",
            ],
        ),
        (
            {"name": "dr_grpo", "truncated": "mask"},
            [
                "A_i = R_i - mean R over the group of 8; no division by the deviation",
                "N * L_max = 16 rows * 48 tokens = 768",
                "none, and no reference policy is kept",
                "in the baseline and the normaliser, but not in the loss",
            ],
        ),
        ({"name": "dapo"}, ["clip(rho_t, 0.8, 1.28)", "T = the tokens of 16 rows", "in at most 10 rollouts"]),
        ({"name": "gspo"}, ["rho = exp(mean_t(", "-min(rho * A_i, clip(rho, 0.9997, 1.0004) * A_i)"]),
        ({"name": "cispo"}, ["L_t = -stop_gradient(clip(rho_t, 0.8, 1.2)) * A_i * log pi_t"]),
        (
            {"name": "rloo", "kl_coef": 0.05},
            ["R_i = r_i - 0.05 * sum_t k1_t, with log pi_t - log pi_ref_t", "mean R of the 7 others of the group"],
        ),
        ({"name": "reinforce"}, ["A_i = R_i - mean R over the batch of 32", "L_t = -A_i * log pi_t"]),
        ({"name": "reinforce", "advantage": "moving_average"}, ["A_i = R_i - b, with b <- 0.9 b + 0.1 mean R"]),
        (
            {"name": "ppo", "length_adaptive_alpha": 0.05},
            ["with lambda 1 - 1 / (0.05 * |o_i|); R_t = A_t + V_t of lambda 0.95; A_t then whitened"],
        ),
        ({"name": "ppo", "critic_lam": 1, "whiten": False}, ["R_t = A_t + V_t of lambda 1; A_t not whitened"]),
        ({"name": "ppo", "critic_lam": 0.95}, ["with lambda 0.95; R_t = A_t + V_t; A_t then whitened"]),
        ({"name": "grpo", "entropy_coef": 0.01}, ["loss - 0.01 * mean entropy a token"]),
        ({"name": "grpo", "entropy_target": 0.3}, ["while that is at most 0.3 nats"]),
        ({"name": "grpo", "kl_coef": 0.1, "kl_estimator": "k1"}, ["on average its gradient is nought"]),
    ],
)
def test_the_block_has_the_formula_and_its_numbers(cells, lines):
    text = block(**cells)
    assert text.startswith(f"objective of {cells['name']}\n")
    for line in lines:
        assert line in text


@pytest.mark.parametrize(
    ("name", "normaliser"),
    [
        ("grpo", "N = 7 or 8 rows,"),
        ("reinforce", "N = 7 or 8 rows;"),
        ("dapo", "T = the tokens of 7 or 8 rows (at most 384);"),
        ("dr_grpo", "N * L_max = 7 or 8 rows * 48 tokens = 336 or 384;"),
    ],
)
def test_minibatches_that_do_not_divide_the_rows_have_two_sizes(name, normaliser):
    train = TrainSettings(prompts_per_step=3, group_size=5, minibatches=2)
    assert normaliser in formula(Algorithm.model_validate({"name": name}), train, max_tokens=48)


def test_the_block_has_the_optimizer_as_it_is_set():
    train = TrainSettings(learning_rate=1e-5, warmup_steps=6, weight_decay=0.1, adam_betas=(0.9, 0.95))
    text = formula(Algorithm.model_validate({"name": "ppo"}), train, 48, critic=CriticSettings(weight_decay=0.02))
    assert "AdamW, betas 0.9, 0.95, weight decay 0.1, learning rate 1e-05, reached linearly after 6 steps\n" in text
    assert train.learning_rate_at(6) == 1e-5 > train.learning_rate_at(5)
    assert text.endswith("weight decay 0.02, learning rate 1e-05")


@pytest.mark.parametrize(("steps", "said"), [(4, "alone for 3 of 4 steps"), (3, "alone for all 3 steps")])
def test_a_critic_that_only_warms_up_is_said_to(steps, said):
    row, train = Algorithm.model_validate({"name": "ppo"}), TrainSettings(steps=steps)
    last = formula(row, train, max_tokens=48, critic=CriticSettings(warmup_steps=3)).splitlines()[-1]
    assert said in last
    assert ("the policy never moves" in last) == (steps == 3)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_row_has_a_block_that_is_short(name):
    lines = block(name=name).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 180


def test_it_takes_no_torch():
    code = "import sys, rlvr.trainers.formula; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
