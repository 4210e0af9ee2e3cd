"""Runs whose completions vLLM servers write."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from contextlib import closing
from pathlib import Path

import psutil
import pytest

pytest.importorskip("vllm")

import rlvr
from rlvr.trainers.engines.server_process import ServerOptions, ServerProcess
from rlvr.trainers.loop import Trainer
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig

pytestmark = pytest.mark.slow

STEPS, PROMPTS, GROUP = 14, 8, 8


def digits(completion: str) -> float:
    """The share of digits: an untrained policy writes one in ten, and there is something to learn at once."""
    return sum(character.isdigit() for character in completion) / max(1, len(completion))


@pytest.fixture(scope="module", autouse=True)
def environment():
    tasks = [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(5)]
    rlvr.register("test-servers/Digits-v0", tasks={"train": tasks, "eval": tasks}, rubric=digits)


class Reporter(Silent):
    """Keeps what is said, and does something after a step."""

    def __init__(self, after_step=lambda step: None):
        self.said, self.after_step = [], after_step

    def say(self, message):
        self.said.append(message)

    def step(self, step, steps, metrics):
        self.after_step(step)


def run(tmp_path, monkeypatch, reporter, **engine):
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path / "cache"))
    config = TrainConfig.model_validate(
        {
            "seed": 0,
            "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
            "env": {"id": "test-servers/Digits-v0"},
            "sampling": {"max_tokens": 8},
            "engine": {"kind": "vllm-server", "max_logprob_diff": 0.01, **engine},
            "algorithm": {"name": "grpo", "correction": "token_truncate"},
            "train": {
                "steps": STEPS, "prompts_per_step": PROMPTS, "group_size": GROUP, "learning_rate": 3e-4,
                "micro_batch_size": 64,
            },
            "eval": {"n": 2, "k": [1]},
            "checkpoint": {"every": 0},
        }
    )  # fmt: skip
    with closing(Trainer(config, tmp_path / "run", reporter)) as trainer:
        trainer.run()
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert not (tmp_path / "run" / "weights").exists()
    return rows


def assert_learns(rows):
    rewards = [row["reward"] for row in rows]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2
    # The weights of every step reached the servers.
    assert max(row["sampling/probe_logprob_diff_mean"] for row in rows) < 1e-4


def test_a_run_learns_through_a_server_of_its_own(tmp_path, monkeypatch):
    reporter = Reporter()
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        rows = run(tmp_path, monkeypatch, reporter, max_model_len=64)
        assert not list(Path(temporary).iterdir())
    assert_learns(rows)
    assert any("starting a vLLM server" in sentence for sentence in reporter.said)
    run_dir = str(tmp_path / "run")
    assert not [p for p in psutil.process_iter(["cmdline"]) if run_dir in " ".join(p.info["cmdline"] or [])]


def test_a_run_that_is_ahead_goes_on_and_learns_when_a_server_is_killed(tiny, tmp_path, monkeypatch):
    options = ServerOptions(str(tiny[2]), dtype="float32", max_model_len=64)
    servers = [ServerProcess(options, tmp_path / f"server-{number}.log") for number in range(2)]

    def kill(step):
        if step == 4:
            os.killpg(servers[1].pid, signal.SIGKILL)

    try:
        for server in servers:
            server.wait_until_ready(900)
        reporter = Reporter(kill)
        rows = run(tmp_path, monkeypatch, reporter, servers=[server.url for server in servers], async_steps=1)
    finally:
        for server in servers:
            server.close()
    assert_learns(rows)
    assert sum("is lost" in sentence for sentence in reporter.said) == 1
    # Nothing was dropped, and nothing counted twice.
    assert all(row["completions/num_tokens"] <= PROMPTS * GROUP * 8 for row in rows)
    staleness = [row["sampling/staleness/max"] for row in rows]
    assert staleness[0] == 0
    assert max(staleness) == 1
