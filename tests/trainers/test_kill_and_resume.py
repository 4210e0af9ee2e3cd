"""Real runs of the command line, killed with SIGKILL at several moments and resumed, against one that nobody killed."""

import json
import os
import random
import signal
import time

import pytest
import torch
import yaml

EXTENSION = """
import rlvr

def finely(completion: str) -> float:
    return sum(ord(character) % 16 for character in completion) / 128

def coarsely(completion: str) -> float:
    return float(sum(map(ord, completion)) % 3 == 0)

tasks = {
    "train": [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(5)],
    "eval": [{"prompt": f"{i}+8=", "answer": str(i + 8)} for i in range(3)],
}
rlvr.register("test-kill/Finely-v0", tasks=tasks, rubric=finely)
rlvr.register("test-kill/Coarsely-v0", tasks=tasks, rubric=coarsely)
"""

BASE = {
    "seed": 5,
    "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
    "env": {"id": "test-kill/Finely-v0"},
    "sampling": {"max_tokens": 6},
    "train": {"steps": 6, "prompts_per_step": 2, "group_size": 4, "learning_rate": 1e-3, "warmup_steps": 4},
    "eval": {"every": 2, "n": 4, "k": [1]},
    "checkpoint": {"every": 2, "keep_last": 2},
    "log": {"samples_every": 1, "samples": 2},
}

RUNS = {
    "grpo": {"algorithm": {"name": "grpo", "kl_coef": 0.05}},
    "ppo": {
        "algorithm": {
            "name": "ppo", "kl_coef": 0.2, "kl_controller": "proportional", "kl_target": 0.01, "kl_horizon": 40
        },
        "critic": {"learning_rate": 1e-3, "warmup_steps": 3},
        "train": {"epochs": 2, "minibatches": 2},
    },
    "dapo": {"algorithm": {"name": "dapo", "dynamic_sampling_rollouts": 6}, "env": {"id": "test-kill/Coarsely-v0"}},
    "entropy": {
        "algorithm": {"name": "reinforce", "advantage": "moving_average", "entropy_coef": 0.01, "entropy_target": 2.0}
    },
    "lora": {"model": {"lora": {"r": 4}}, "algorithm": {"name": "grpo", "kl_coef": 0.05}},
}  # fmt: skip

# The moments at which a run is killed, each as what there is in its folder by then.
MOMENTS = {
    "evaluation before": lambda run: (run / "eval" / "step-000000.jsonl").exists(),
    "first step": lambda run: lines(run) >= 1,
    "evaluation between": lambda run: (run / "eval" / "step-000004.about.json").exists(),
    "after a checkpoint": lambda run: lines(run) >= 3,
    "long after a checkpoint": lambda run: lines(run) >= 5,
    "the end": lambda run: (run / ".final.partial").exists(),
}
CHECKPOINTS = {
    "checkpoint begun": lambda run: any((run / "checkpoints").glob(".step-*.partial")),
    "checkpoint half written": lambda run: (
        any((run / "checkpoints").glob(".step-*.partial/model.safetensors"))
        or any((run / "checkpoints").glob(".step-*.partial/adapter/*.safetensors"))
    ),
    "checkpoint nearly written": lambda run: any((run / "checkpoints").glob(".step-*.partial/optimizer.pt")),
}


def lines(run):
    try:
        return (run / "metrics.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def merged(base, more):
    both = {**base}
    for name, value in more.items():
        both[name] = merged(base[name], value) if isinstance(base.get(name), dict) and name != "env" else value
    return both


@pytest.fixture
def start(fork, tmp_path_factory, tmp_path):
    """Starts the command line with some arguments."""
    environment = {**os.environ, "RLVR_CACHE": str(tmp_path_factory.getbasetemp() / "kill-cache")}

    def begin(*arguments):
        return fork("rlvr", *arguments, output=tmp_path / "output.txt", folder=tmp_path, environment=environment)

    return begin


def ended(process):
    process.join()
    return process.exitcode


def kill_when(process, reached):
    """Kill the process as soon as `reached`; says whether it lived until then."""
    while process.exitcode is None:
        if reached():
            process.kill()
            process.join()
        else:
            time.sleep(0.0002)
    return process.exitcode == -signal.SIGKILL


def metrics(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/") and k != "step_time"} for row in rows]


def assert_equal_trees(mine, theirs):
    if isinstance(mine, torch.Tensor):
        assert torch.equal(mine, theirs)
    elif isinstance(mine, dict):
        assert mine.keys() == theirs.keys()
        for name in mine:
            if not str(name).startswith("time/") and name != "step_time":
                assert_equal_trees(mine[name], theirs[name])
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_equal_trees(a, b)
    else:
        assert mine == theirs


def assert_same_run(mine, theirs):
    assert metrics(mine) == metrics(theirs)
    assert {p.relative_to(mine) for p in mine.rglob("*")} == {p.relative_to(theirs) for p in theirs.rglob("*")}
    for folder in ("final", "eval", "samples"):
        for path in (mine / folder).rglob("*"):
            assert path.is_dir() or path.read_bytes() == (theirs / path.relative_to(mine)).read_bytes(), path
    assert (mine / "summary.json").read_bytes() == (theirs / "summary.json").read_bytes()
    states = [torch.load(run / "checkpoints/step-000006/optimizer.pt", weights_only=True) for run in (mine, theirs)]
    assert_equal_trees(*states)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_killed_again_and_again_is_the_run_that_was_not(name, start, tmp_path):
    (tmp_path / "mine.py").write_text(EXTENSION)
    config = merged(BASE, {**RUNS[name], "imports": [str(tmp_path / "mine.py")]})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert ended(start("train", "config.yaml", f"run_dir={whole}")) == 0, (tmp_path / "output.txt").read_text()

    rng = random.Random(name)
    moments = {**MOMENTS, **CHECKPOINTS}
    chosen = [*rng.sample(sorted(MOMENTS), 2), rng.choice(sorted(CHECKPOINTS))]
    chosen.sort(key=list(moments).index)
    process = start("train", "config.yaml", f"run_dir={killed}")
    for moment in chosen:
        was_killed = kill_when(process, lambda reached=moments[moment]: reached(killed))
        # What comes and goes within a millisecond may be missed on a busy machine, but then the run went on.
        assert was_killed or process.exitcode == 0, (tmp_path / "output.txt").read_text()
        process = start("train", "--resume", killed)
    assert ended(process) == 0, (tmp_path / "output.txt").read_text()
    assert_same_run(killed, whole)
