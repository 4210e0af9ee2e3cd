"""Several short runs in one go: `python runs.py FOLDER NAME...`, or the same under torchrun."""

import sys
from pathlib import Path

import rlvr
from rlvr.trainers.loop import Trainer
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig


def finely(completion: str) -> float:
    """So that even an untrained policy's groups have spread."""
    return sum(ord(character) % 16 for character in completion) / 16


def coarsely(completion: str) -> float:
    """So that some groups have none."""
    return float("e" in completion)


TASKS = {"train": [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(5)]}
TASKS["eval"] = [{"prompt": f"{i}+8=", "answer": str(i + 8)} for i in range(3)]
FINE, COARSE = "test-ranks/Fine-v0", "test-ranks/Coarse-v0"
rlvr.register(FINE, tasks=TASKS, rubric=finely)
rlvr.register(COARSE, tasks=TASKS, rubric=coarsely)

PPO = {"name": "ppo", "kl_coef": 0.1, "kl_controller": "proportional", "kl_target": 0.01, "kl_horizon": 40}
RUNS = {
    "grpo": {},
    "grpo_kl": {"algorithm": {"name": "grpo", "kl_coef": 0.1}},
    "dapo": {"algorithm": {"name": "dapo", "dynamic_sampling_rollouts": 3}, "env": {"id": COARSE}},
    "ppo": {"algorithm": PPO, "critic": {"learning_rate": 1e-3, "warmup_steps": 1}},
    "ppo_shared": {"algorithm": {**PPO, "entropy_coef": 0.01}, "critic": {"kind": "shared", "warmup_steps": 1}},
    "early_stop": {"algorithm": {"name": "ppo", "early_stop_kl": 1e-4}, "train": {"epochs": 4}},
    "lora": {
        "model": {"lora": {"r": 4}, "gradient_checkpointing": True},
        "algorithm": PPO,
        "critic": {"kind": "shared", "learning_rate": 1e-5},
        "train": {"learning_rate": 1e-5},
    },
    # Steps so small that what rounding does to them is smaller than what is compared.
    "grpo_small": {"algorithm": {"name": "grpo", "kl_coef": 0.1}, "train": {"learning_rate": 1e-5}},
    "dapo_small": {
        "algorithm": {"name": "dapo", "dynamic_sampling_rollouts": 3},
        "env": {"id": COARSE},
        "train": {"learning_rate": 1e-5},
    },
    "ppo_small": {"algorithm": PPO, "critic": {"learning_rate": 1e-5}, "train": {"learning_rate": 1e-5}},
    "shared_small": {"algorithm": PPO, "critic": {"kind": "shared"}, "train": {"learning_rate": 1e-5}},
}


def configuration(name):
    settings = {
        "seed": 5,
        "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
        "env": {"id": FINE},
        "sampling": {"max_tokens": 6},
        "train": {
            "steps": 3,
            "prompts_per_step": 3,
            "group_size": 4,
            "epochs": 2,
            "minibatches": 2,
            "micro_batch_size": 4,
            "learning_rate": 1e-4,
        },
        "eval": {"every": 2, "n": 2, "k": [1, 2]},
        "checkpoint": {"every": 1, "keep_last": 9},
        "log": {"samples_every": 0},
    }
    for section, cells in RUNS[name].items():
        settings[section] = {**settings.get(section, {}), **cells}
    return TrainConfig.model_validate(settings)


class Stopping(Silent):
    def __init__(self, after):
        self.after, self.trainer = after, None

    def step(self, step, steps, metrics):
        self.trainer.stop_requested = step == self.after


def main(folder, names):
    for name in names:
        name, _, stop = name.partition(":")
        reporter = Stopping(int(stop or 0))
        place = Path(folder) / name
        reporter.trainer = Trainer(configuration(name), place, reporter, resume=place.exists())
        reporter.trainer.run()
        reporter.trainer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(RUNS))
