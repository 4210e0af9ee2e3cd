"""Conversations of several turns whose completions vLLM writes, in the same process and on two servers."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
import yaml

pytest.importorskip("vllm")

from rlvr.config import find_recipe
from rlvr.trainers.engines.server_process import ServerOptions, ServerProcess
from rlvr.trainers.loop import Trainer
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig

pytestmark = pytest.mark.slow

STEPS = 3


class Reporter(Silent):
    """Keeps what is said."""

    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)


@pytest.fixture(scope="module")
def servers(tiny, tmp_path_factory):
    logs = tmp_path_factory.mktemp("logs")
    options = ServerOptions(str(tiny[2]), dtype="float32", max_model_len=256)
    started = [ServerProcess(options, logs / f"{number}.log") for number in range(2)]
    try:
        for server in started:
            server.wait_until_ready(900)
        yield [server.url for server in started]
    finally:
        for server in started:
            server.close()


def run(tmp_path, monkeypatch, recipe, **engine):
    """The metrics of a few steps of a recipe, after a warm start that teaches it little more than the form."""
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path / "cache"))
    settings = yaml.safe_load(find_recipe(recipe).read_text())
    settings["model"]["warm_start"] |= {"steps": 40}
    settings |= {
        "engine": {"max_logprob_diff": 0.001, **engine},
        "algorithm": {"name": "grpo", "correction": "token_truncate"},
        "train": {"steps": STEPS, "prompts_per_step": 4, "group_size": 4, "learning_rate": 1e-3},
        "eval": {"n": 1, "k": [1], "tasks": 4},
        "checkpoint": {"every": 0},
        "log": {"samples_every": 1, "samples": 16},
    }
    reporter = Reporter()
    with closing(Trainer(TrainConfig.model_validate(settings), tmp_path / "run", reporter)) as trainer:
        trainer.run()
    assert not [sentence for sentence in reporter.said if "server" in sentence or "actor" in sentence]
    samples = "".join(path.read_text() for path in (tmp_path / "run" / "samples").iterdir())
    assert re.search(r"  [2-9] turns  ", samples)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    return rows


def assert_every_turn_was_drawn_from_the_policy(rows):
    """The sampler's log-probs of all turns are the trainer's, which reads each conversation as one sequence."""
    assert max(row["sampling/logprob_diff_max"] for row in rows) < 1e-3


@pytest.mark.parametrize("recipe", ["guess_number", "calculator"])
def test_in_the_same_process(tmp_path, monkeypatch, recipe):
    rows = run(tmp_path, monkeypatch, recipe, kind="vllm", max_model_len=256)
    assert_every_turn_was_drawn_from_the_policy(rows)


@pytest.mark.parametrize("recipe", ["guess_number", "calculator"])
def test_on_servers(servers, tmp_path, monkeypatch, recipe):
    rows = run(tmp_path, monkeypatch, recipe, kind="vllm-server", servers=servers)
    assert_every_turn_was_drawn_from_the_policy(rows)


@pytest.mark.parametrize("recipe", ["guess_number", "calculator"])
def test_on_servers_a_step_ahead(servers, tmp_path, monkeypatch, recipe):
    rows = run(tmp_path, monkeypatch, recipe, kind="vllm-server", servers=servers, async_steps=1)
    # The first step learns from its own version, the later ones from this one's or the one before.
    assert_every_turn_was_drawn_from_the_policy(rows[:1])
    staleness = [row["sampling/staleness/max"] for row in rows]
    assert staleness[0] == 0
    assert max(staleness) <= 1
