"""Whole runs of PPO: resumed to the same bits, started from an earlier critic, and learning."""

import json
from itertools import count
from statistics import fmean

import pytest
import torch

import rlvr
from rlvr import UserError
from rlvr.trainers.critic import load_critic
from rlvr.trainers.loop import Trainer
from rlvr.trainers.models import load_model, save_policy
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig

numbers = count()


@pytest.fixture(scope="module", autouse=True)
def _cached(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLVR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def digits_first(completion: str) -> float:
    """The share of 8 characters that are written before the first one that is no digit: known token by token."""
    leading = len(completion) - len(completion.lstrip("0123456789"))
    return min(leading, 8) / 8


def finely(completion: str) -> float:
    """So that even an untrained policy is rewarded."""
    return sum(ord(character) % 16 for character in completion) / 128


def register(rubric):
    name = f"test-ppo/Digits{next(numbers)}-v0"
    tasks = {
        split: [{"prompt": c, "answer": c} for c in letters]
        for split, letters in (("train", "abcdefgh"), ("eval", "yz"))
    }
    rlvr.register(name, tasks=tasks, rubric=rubric)
    return name


@pytest.fixture(scope="module")
def digits():
    return register(digits_first)


@pytest.fixture(scope="module")
def fine():
    return register(finely)


def configuration(env, **sections):
    settings = {
        "seed": 5,
        "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
        "env": {"id": env},
        "sampling": {"max_tokens": 8},
        "algorithm": {"name": "ppo"},
        "train": {
            "steps": 4,
            "prompts_per_step": 2,
            "group_size": 2,
            "learning_rate": 5e-4,
            "epochs": 2,
            "minibatches": 2,
        },
        "eval": {"every": 0, "n": 1, "k": [1]},
        "checkpoint": {"every": 1, "keep_last": 9},
        "log": {"samples_every": 0},
    }
    for name, section in sections.items():
        settings[name] = {**settings.get(name, {}), **section}
    return TrainConfig.model_validate(settings)


class Stopping(Silent):
    def __init__(self, after=None):
        self.after, self.trainer, self.said = after, None, []

    def say(self, message):
        self.said.append(message)

    def step(self, step, steps, metrics):
        self.trainer.stop_requested = step == self.after


def run(config, folder, stop_after=None, resume=False):
    reporter = Stopping(stop_after)
    reporter.trainer = Trainer(config, folder, reporter, resume=resume)
    reporter.trainer.run()
    return reporter


def metrics_of(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/") and k != "step_time"} for row in rows]


def carried(folder):
    state = torch.load(folder / "checkpoints" / "step-000004" / "optimizer.pt", weights_only=True)
    return state["carried"]["credit"]


def assert_equal_trees(mine, theirs):
    if isinstance(mine, torch.Tensor):
        assert torch.equal(mine, theirs)
    elif isinstance(mine, dict):
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert_equal_trees(mine[name], theirs[name])
    elif isinstance(mine, list):
        for a, b in zip(mine, theirs, strict=True):
            assert_equal_trees(a, b)
    else:
        assert mine == theirs


STEERED = {"kl_coef": 0.2, "kl_controller": "proportional", "kl_target": 0.01, "kl_horizon": 40, "entropy_coef": 0.01}


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_a_resumed_run_is_the_run_that_was_not_stopped(fine, tmp_path, kind):
    config = configuration(fine, algorithm=STEERED, critic={"kind": kind, "learning_rate": 1e-3, "warmup_steps": 2})
    run(config, tmp_path / "whole")
    for stop_after in (1, 3):
        parts = tmp_path / f"parts{stop_after}"
        run(config, parts, stop_after=stop_after)
        run(config, parts, resume=True)
        assert metrics_of(parts) == metrics_of(tmp_path / "whole")
        assert_equal_trees(carried(parts), carried(tmp_path / "whole"))
        name = "final/model.safetensors"
        assert (parts / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert all(
            (parts / "final/critic" / path.name).read_bytes() == path.read_bytes()
            for path in (tmp_path / "whole/final/critic").iterdir()
        )

    rows = metrics_of(tmp_path / "whole")
    assert ["loss" in row for row in rows] == [False, False, True, True]
    assert rows[0]["critic/values/max"] == 0.0
    assert rows[1]["critic/values/max"] != 0.0
    coefs = [row["kl_coef"] for row in rows]
    # While the policy is the reference the KL is 0, far below its target: 4 of 40 episodes times a fifth.
    assert coefs[:3] == pytest.approx([0.2, 0.2 * 0.98, 0.2 * 0.98**2])
    assert carried(tmp_path / "whole")["kl"]["coef"] != coefs[-1]


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_a_resumed_run_moves_by_the_settings_that_it_is_given(fine, tmp_path, kind):
    critic = {"kind": kind, "learning_rate": 1e-3}
    run(configuration(fine, critic=critic), tmp_path, stop_after=1)
    config = configuration(
        fine,
        critic={**critic, "learning_rate": 3e-3, "weight_decay": 0.5},
        train={"weight_decay": 100.0, "adam_betas": [0.0, 0.25]},
    )
    trainer = Trainer(config, tmp_path, resume=True)
    group, own = trainer.optimizer.param_groups[0], trainer.credit.critic.optimizer.param_groups[0]
    assert (group["betas"], group["weight_decay"]) == ((0.0, 0.25), 100.0)
    assert (own["lr"], own["weight_decay"]) == (3e-3, 0.5)
    weight = next(iter(trainer.credit.critic.critic.head.parameters()))
    assert trainer.credit.critic.optimizer.state[weight]["exp_avg"].any()
    before = max(float(weight.detach().abs().max()) for weight in trainer.policy.parameters())
    trainer.run()
    # A learning rate of 0.0005 times a decay of 100 takes a twentieth off each weight at every optimizer step.
    assert max(float(weight.detach().abs().max()) for weight in trainer.policy.parameters()) < 0.8 * before


@pytest.mark.parametrize(
    ("critic", "change", "sentence"),
    [
        ({"kind": "separate"}, {"kind": "shared"}, "kind is 'shared' but the checkpoint holds a separate critic"),
        ({"kind": "shared"}, {"kind": "separate"}, "kind is 'separate' but the checkpoint holds a shared critic"),
        ({}, {"model": "small"}, "critic.model asks for a critic of another shape than the checkpoint's"),
        (None, {}, "algorithm 'ppo' asks a critic, and the checkpoint holds none, as the run was trained without"),
    ],
)  # fmt: skip
def test_a_checkpoint_with_another_critic_or_none_is_refused(fine, tmp_path, random_llama, critic, change, sentence):
    algorithm = {"algorithm": {"name": "grpo"}} if critic is None else {"critic": critic}
    run(configuration(fine, **algorithm), tmp_path / "run", stop_after=1)
    before = (tmp_path / "run" / "config.yaml").read_bytes()
    if "model" in change:
        tokenizer = load_model(str(tmp_path / "run" / "final")).tokenizer
        small = random_llama(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)
        save_policy(small, tokenizer, tmp_path / "small")
        change = {"model": str(tmp_path / "small")}
    with pytest.raises(UserError, match=sentence):
        Trainer(configuration(fine, critic=change), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "config.yaml").read_bytes() == before


def test_a_critic_that_is_asked_no_more_is_left_behind(fine, tmp_path):
    run(configuration(fine), tmp_path, stop_after=1)
    run(configuration(fine, algorithm={"name": "rloo", "advantage": "moving_average"}), tmp_path, resume=True)
    assert ["critic/vf_loss" in row for row in metrics_of(tmp_path)] == [True, False, False, False]


def test_the_critic_of_a_run_is_where_the_next_one_starts(fine, tmp_path):
    critic = {"learning_rate": 1e-3, "warmup_steps": 9}
    run(configuration(fine, critic=critic), tmp_path / "first")
    folder = str(tmp_path / "first" / "final")
    second = run(configuration(fine, critic={**critic, "model": folder}), tmp_path / "second")
    first_values = [metrics_of(tmp_path / name)[0]["critic/values/max"] for name in ("first", "second")]
    assert first_values[0] == 0.0
    assert first_values[1] != 0.0
    assert load_critic(folder, "float32", "cpu", 1).head.weight.any()
    assert any("GAE" in said or "V_t" in said for said in second.said)


def test_the_formula_is_said_with_its_numbers(fine, tmp_path):
    cells = {"gamma": 0.99, "lam": 0.9, "critic_lam": 1.0, "missing_eos_penalty": 0.5, "early_stop_kl": 0.02}
    said = "\n".join(run(configuration(fine, algorithm=cells, train={"steps": 1}), tmp_path).said)
    for part in ("0.99", "lambda 0.9", "of lambda 1", "less 0.5", "1.5 * 0.02", "A_t", "a backbone of its own"):
        assert part in said, part


def test_a_critic_of_another_vocabulary_is_refused(fine, tmp_path, random_llama):
    random_llama(vocab_size=20).save_pretrained(tmp_path / "small")
    with pytest.raises(UserError):
        Trainer(configuration(fine, critic={"model": str(tmp_path / "small")}), tmp_path / "run")


@pytest.mark.slow
def test_it_learns_and_its_critic_foresees_what_comes(digits, tmp_path):
    train = {"steps": 16, "prompts_per_step": 8, "group_size": 8, "epochs": 3, "micro_batch_size": 64}
    config = configuration(
        digits, algorithm={"lam": 0.7}, critic={"learning_rate": 1e-3, "warmup_steps": 2, "clip": None}, train=train,
        checkpoint={"every": 0},
    )  # fmt: skip
    run(config, tmp_path)
    rows = metrics_of(tmp_path)
    assert fmean(row["reward"] for row in rows[:2]) < 0.1
    assert fmean(row["reward"] for row in rows[-3:]) > 0.6
    assert fmean(row["critic/vf_explained_var"] for row in rows[9:]) > 0.5
