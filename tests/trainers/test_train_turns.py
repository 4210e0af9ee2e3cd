"""The recipes of several turns, trained end to end for a few steps."""

from __future__ import annotations

import json
import math

import pytest
import torch

import rlvr
from rlvr.config import load_config
from rlvr.trainers.loop import Trainer
from rlvr.trainers.models import load_model


@rlvr.verifier("test/finely-v1")
def finely(completion: str, turns: int) -> float:
    """So that the groups of a policy that has learned next to nothing have spread."""
    return (sum(map(ord, completion)) % 16) / 16 + turns


SMALL = [
    "env.rubric=test/finely-v1",
    "train.steps=3",
    "train.prompts_per_step=4",
    "train.group_size=4",
    "train.warmup_steps=0",
    "train.learning_rate=0.001",
    "model.warm_start.steps=60",
    "model.warm_start.batch_size=16",
    "model.warm_start.uneven=0.3",
    "eval.tasks=4",
    "eval.n=2",
    "eval.k=[1]",
    "log.samples_every=1",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
@pytest.mark.parametrize("recipe", ["guess_number", "calculator"])
def test_a_recipe_trains_end_to_end(recipe, algorithm, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("RLVR_CACHE", str(cache))
    config = load_config(recipe, [*SMALL, f"algorithm.name={algorithm}"])
    trainer = Trainer(config, tmp_path / "run")
    seen = []
    collected = trainer._rollout

    def watched(*arguments):
        seen.append(collected(*arguments))
        return seen[-1]

    monkeypatch.setattr(trainer, "_rollout", watched)
    before = [parameter.detach().clone() for parameter in trainer.policy.parameters()]
    results = trainer.run()

    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(math.isfinite(row["reward"]) for row in rows)
    assert all(row["verdicts/error"] == 0 for row in rows)
    assert {*results} == {"before", "after"}
    # What it trained on were conversations, of which only the model's part is in the loss.
    trajectories = [trajectory for rollout in seen for trajectory in rollout]
    assert max(trajectory.turns for trajectory in trajectories) > 1
    for trajectory in trajectories:
        runs = "".join(map(str, trajectory.loss_mask)).split("0")
        assert len([run for run in runs if run]) == trajectory.turns
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))
    loaded = load_model(str(tmp_path / "run" / "final"), device="cpu")
    assert loaded.tokenizer.chat_template
