"""The loop under rows of the table that keep a state, draw more than once, or change what a completion is worth."""

import json
from itertools import count

import pytest
import torch

import rlvr
from rlvr.trainers.loop import Trainer
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig

numbers = count()
TASKS = {
    "train": [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(5)],
    "eval": [{"prompt": f"{i}+8=", "answer": str(i + 8)} for i in range(2)],
}


@pytest.fixture(scope="module", autouse=True)
def _cached(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLVR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def register(rubric):
    name = f"test-loop-algorithms/Sums{next(numbers)}-v0"
    rlvr.register(name, tasks=TASKS, rubric=rubric)
    return name


def finely(completion: str) -> float:
    """So that even an untrained policy's groups have spread."""
    return sum(ord(character) % 16 for character in completion) / 16


def seldom(completion: str) -> float:
    """So that many groups have none."""
    return float(completion[:1] in ("1", "(", "="))


@pytest.fixture(scope="module")
def fine():
    return register(finely)


@pytest.fixture(scope="module")
def rare():
    return register(seldom)


def configuration(env, algorithm, steps=4, /, **sections):
    return TrainConfig.model_validate(
        {
            "seed": 5,
            "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
            "env": {"id": env},
            "sampling": {"max_tokens": 6},
            "algorithm": algorithm,
            "train": {"steps": steps, "prompts_per_step": 2, "group_size": 4, "learning_rate": 1e-3},
            "eval": {"n": 1, "k": [1], "tasks": 1},
            "log": {"samples_every": 0},
            **sections,
        }
    )


class Listening(Silent):
    def __init__(self, stop_after=None):
        self.said, self.stop_after, self.trainer = [], stop_after, None

    def say(self, message):
        self.said.append(message)

    def step(self, step, steps, metrics):
        if step == self.stop_after:
            self.trainer.stop_requested = True


def run(config, run_dir, resume=False, stop_after=None):
    reporter = Listening(stop_after)
    reporter.trainer = Trainer(config, run_dir, reporter, resume=resume)
    reporter.trainer.run()
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    weights = (run_dir / "final" / "model.safetensors").read_bytes()
    timeless = [{k: v for k, v in row.items() if "time" not in k} for row in rows]
    return timeless, weights, reporter


CARRYING = [
    {"name": "reinforce", "advantage": "moving_average", "baseline_momentum": 0.5},
    {"name": "rloo", "kl_coef": 0.1},
    {"name": "grpo", "entropy_coef": 0.02, "entropy_target": 10.0, "entropy_coef_delta": 0.1},
    {"name": "dapo", "dynamic_sampling_rollouts": 3},
]


@pytest.mark.parametrize("algorithm", CARRYING, ids=lambda cells: cells["name"])
@pytest.mark.parametrize("stop_after", [1, 3])
def test_a_resumed_run_is_to_the_bit_the_run_that_was_not_stopped(algorithm, stop_after, rare, tmp_path):
    config = configuration(rare, algorithm)
    whole, weights, _ = run(config, tmp_path / "whole")
    run(config, tmp_path / "parts", stop_after=stop_after)
    resumed, resumed_weights, _ = run(config, tmp_path / "parts", resume=True)
    assert resumed == whole
    assert resumed_weights == weights


def test_the_moving_average_and_the_entropy_weight_do_move(rare, tmp_path):
    trainer = Trainer(configuration(rare, CARRYING[0]), tmp_path / "baseline")
    baselines = []
    for _ in range(3):
        trainer.train_step()
        baselines.append(trainer.credit.baseline)
    assert len(set(baselines)) == 3
    trainer = Trainer(configuration(rare, CARRYING[2]), tmp_path / "entropy")
    assert [trainer.train_step()["entropy_coef"] for _ in range(2)] == pytest.approx([0.12, 0.22])


@pytest.mark.parametrize("name", ["reinforce", "rloo", "reinforce_pp", "grpo", "dr_grpo", "dapo", "gspo", "cispo"])
def test_every_row_trains_and_says_its_formula_first(name, fine, tmp_path):
    rows, _, reporter = run(configuration(fine, {"name": name}, 2), tmp_path)
    assert reporter.said[0].startswith(f"objective of {name}\n")
    assert "learning rate 0.001" in reporter.said[0]
    assert all(row["grad_norm"] > 0 and row["loss"] is not None for row in rows)


def test_dynamic_sampling_draws_on_and_counts_what_it_threw_away(rare, tmp_path):
    config = configuration(rare, {"name": "dapo", "dynamic_sampling_rollouts": 4})
    trainer = Trainer(config, tmp_path, reporter := Listening())
    given, step = [], trainer.updater.step
    trainer.updater.step = lambda *args: given.append(args) or step(*args)
    taken, flat = 0, 0
    for _ in range(4):
        metrics = trainer.train_step()
        rollouts = int(metrics["dynamic_sampling/rollouts"])
        taken += 2 * rollouts
        assert trainer.queue.taken == taken
        assert metrics["dynamic_sampling/groups_thrown_away"] == 2 * rollouts - 2
        assert metrics["dynamic_sampling/completions_thrown_away"] == 4 * (2 * rollouts - 2)
        batch, advantages, *_ = given[-1]
        assert len(batch) == 8
        without = sum(bool((advantages[batch.groups == group] == 0).all()) for group in batch.groups.unique())
        assert without == metrics["dynamic_sampling/groups_without_spread"]
        flat += without > 0
    assert taken > 8
    warned = [line for line in reporter.said if "no spread after 4 rollouts" in line]
    assert len(warned) == flat


def test_the_metrics_are_of_all_that_was_drawn(rare, tmp_path):
    trainer = Trainer(configuration(rare, {"name": "dapo"}), tmp_path)
    drawn, kept = [], trainer._rollout
    trainer._rollout = lambda *args: drawn.append(kept(*args)) or drawn[-1]
    metrics = trainer.train_step()
    rewards = [trajectory.reward for rollout in drawn for trajectory in rollout]
    assert len(rewards) > 8
    assert metrics["reward"] == pytest.approx(sum(rewards) / len(rewards))
    assert metrics["frac_reward_zero_std"] > 0


def test_what_was_cut_off_is_worth_nothing_in_the_advantages(fine, tmp_path):
    trainer = Trainer(configuration(fine, {"name": "dr_grpo", "truncated": "zero_reward"}), tmp_path)
    given, step = [], trainer.updater.step
    trainer.updater.step = lambda *args: given.append(args) or step(*args)
    trainer.train_step()
    batch, advantages, *_ = given[0]
    assert batch.truncated.any()
    assert batch.rewards[batch.truncated].abs().max() == 0
    for group in batch.groups.unique():
        rewards = batch.rewards[batch.groups == group]
        first = advantages[batch.groups == group].gather(
            1, batch.loss_mask[batch.groups == group].int().argmax(dim=1, keepdim=True)
        )
        torch.testing.assert_close(first[:, 0], rewards - rewards.mean())


def test_dapos_overlong_punishment_is_switched_on_by_name(tmp_path):
    """The longer a completion runs into the last four of its six tokens, the more comes off: down to -1."""
    env = register(seldom)
    rubric = [
        {"score": env_verifier(), "passes": True},
        {"score": "rlvr/overlong-v1", "options": {"maximum": 6, "cache": 4}},
    ]
    trainer = Trainer(configuration(env, {"name": "dapo"}, env={"id": env, "rubric": rubric}), tmp_path)
    trajectories = trainer._rollout()
    for trajectory in trajectories:
        punishment = 0.0 if trajectory.length <= 2 else (2 - trajectory.length) / 4
        assert trajectory.reward == pytest.approx(seldom(trajectory.completion) + punishment)
    assert min(trajectory.reward for trajectory in trajectories) < 0


def env_verifier():
    name = f"test-loop-algorithms/seldom{next(numbers)}-v1"

    @rlvr.verifier(name)
    def verify(completion: str) -> float:
        return seldom(completion)

    return name
