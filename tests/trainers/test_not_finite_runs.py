"""A gradient that is not finite ends a run by its own sentence, after a checkpoint of weights that are still good."""

import json
from itertools import count

import pytest
import torch

import rlvr
from rlvr import UserError
from rlvr.trainers.loop import Trainer
from rlvr.trainers.models import load_model
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig

numbers = count()


def finely(completion: str) -> float:
    return sum(ord(character) % 16 for character in completion) / 16


class Listening(Silent):
    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path / "cache"))
    name = f"test-not-finite/Sums{next(numbers)}-v0"
    tasks = {
        split: [{"prompt": f"{i}+{n}=", "answer": "1"} for i in range(3)] for split, n in (("train", 1), ("eval", 8))
    }
    rlvr.register(name, tasks=tasks, rubric=finely)

    def make(**sections):
        return TrainConfig.model_validate(
            {
                "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
                "env": {"id": name},
                "sampling": {"max_tokens": 6},
                "train": {"steps": 3, "prompts_per_step": 2, "group_size": 3, "learning_rate": 1e-3, "minibatches": 2},
                "eval": {"n": 1, "k": [1]},
                "checkpoint": {"every": 0},
                **sections,
            }
        )

    return make


def weights(model):
    return torch.cat([parameter.detach().flatten().clone() for parameter in model.parameters()])


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_the_run_ends_after_a_checkpoint_of_the_last_good_weights(config, tmp_path, algorithm):
    settings, reporter = config(algorithm={"name": algorithm}), Listening()
    trainer = Trainer(settings, tmp_path / "run", reporter)
    seen = []

    def spoil(gradient):
        """The second minibatch of the second step."""
        if trainer.step != 1:
            return gradient
        seen.append(weights(trainer.policy.model))
        return gradient if torch.equal(seen[-1], seen[0]) else gradient * torch.nan

    trainer.policy.model.model.layers[0].mlp.up_proj.weight.register_hook(spoil)
    with pytest.raises(UserError, match=r"^The gradient of step 2 has norm nan.*lower train\.learning_rate"):
        trainer.run()

    saved = tmp_path / "run" / "checkpoints" / "step-000002"
    kept = weights(load_model(str(saved)).model)
    assert kept.isfinite().all()
    assert torch.equal(kept, seen[-1])
    assert not torch.equal(kept, seen[0])
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    assert rows[1]["grad_norm"] is None
    assert any("not_finite" in line for line in reporter.said)

    Trainer(settings, tmp_path / "run", resume=True).run()
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[2]["grad_norm"] > 0
