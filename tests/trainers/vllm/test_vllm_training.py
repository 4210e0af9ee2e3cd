"""A run whose completions vLLM writes."""

import json
from contextlib import closing

import pytest

pytest.importorskip("vllm")

import rlvr
from rlvr.trainers.loop import Trainer
from rlvr.trainers.settings import TrainConfig

pytestmark = pytest.mark.slow


def digits(completion: str) -> float:
    """The share of digits: an untrained policy writes one in ten, and there is something to learn at once."""
    return sum(character.isdigit() for character in completion) / max(1, len(completion))


def test_a_short_run_learns_through_vllm(tmp_path, monkeypatch):
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path / "cache"))
    tasks = [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(5)]
    rlvr.register("test-vllm/Digits-v0", tasks={"train": tasks, "eval": tasks}, rubric=digits)
    config = TrainConfig.model_validate(
        {
            "seed": 0,
            "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
            "env": {"id": "test-vllm/Digits-v0"},
            "sampling": {"max_tokens": 8},
            "engine": {"kind": "vllm", "max_model_len": 64, "max_logprob_diff": 0.01},
            "train": {
                "steps": 14, "prompts_per_step": 8, "group_size": 8, "learning_rate": 3e-4, "micro_batch_size": 64
            },
            "eval": {"n": 2, "k": [1]},
            "checkpoint": {"every": 0},
        }
    )  # fmt: skip
    with closing(Trainer(config, tmp_path / "run")) as trainer:
        trainer.run()
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rewards = [row["reward"] for row in rows if "reward" in row]
    assert len(rewards) == 14
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2
    # The weights of every step reached it.
    differences = [row["sampling/probe_logprob_diff_mean"] for row in rows if "reward" in row]
    assert max(differences) < 1e-4
