from __future__ import annotations

import json
import queue

import pytest
import torch

from rlvr import UserError
from rlvr.trainers.engine_settings import EngineSettings
from rlvr.trainers.engines import Sampling, server_setup
from rlvr.trainers.engines.model_sizes import ModelSizes
from rlvr.trainers.engines.server import FollowingServerEngine
from rlvr.trainers.engines.server_process import WORKER_EXTENSION
from rlvr.trainers.engines.server_setup import open_servers


class Own:
    """A server that was started for the run."""

    def __init__(self, server, log):
        self.url, self.log, self.closed = server.url, log, False

    def close(self):
        self.closed = True


@pytest.fixture
def opened(tmp_path):
    made = []

    def make(*servers, settings=None, say=lambda sentence: None, **options):
        asked = EngineSettings(kind="vllm-server", servers=tuple(server.url for server in servers), **(settings or {}))
        made.append(open_servers(asked, lambda: tmp_path / "policy", tmp_path, 100, {1}, "float32", say, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def test_servers_that_are_named_are_used(rule_server, opened, tmp_path):
    server = rule_server()
    engine = opened(server)
    engine.sync([("shift", torch.tensor(2))], 1)
    assert engine.generate([[5]], Sampling(5), [1])[0].logprobs[0] == -3.0
    assert (tmp_path / "weights").exists()
    engine.close()
    assert not (tmp_path / "weights").exists()


def test_with_none_named_one_is_started_and_ends_with_the_engine(rule_server, opened, monkeypatch, tmp_path):
    server, asked = rule_server(), []

    def start(options, log, say):
        asked.append((options, Own(server, log)))
        return asked[-1][1]

    monkeypatch.setattr(server_setup, "start_server", start)
    engine = opened()
    ((options, own),) = asked
    assert (options.model, options.dtype, options.gpu_memory_utilization) == (str(tmp_path / "policy"), "float32", 0.4)
    assert own.log == tmp_path / "vllm-server.log"
    server.kill()
    with pytest.raises(UserError, match=r"vllm-server.log has its last words; go on with --resume"):
        engine.generate([[5]], Sampling(5), [1])
    engine.close()
    assert own.closed


def test_a_started_server_that_does_not_fit_is_stopped(rule_server, opened, monkeypatch, tmp_path):
    own = Own(rule_server(logprobs_mode="raw_logprobs"), tmp_path)
    monkeypatch.setattr(server_setup, "start_server", lambda *_: own)
    with pytest.raises(UserError, match="is not fit to train with"):
        opened()
    assert own.closed


def test_other_processes_start_none_and_follow(rule_server, opened):
    server = rule_server()
    engine = opened(main=False, run="a", alone=lambda start: server.url)
    assert isinstance(engine, FollowingServerEngine)
    assert engine.generate([[5]], Sampling(5), [1])[0].ids


def test_servers_of_another_precision_than_was_asked_for_are_refused(rule_server, opened):
    same, other = rule_server(), rule_server(dtype="torch.bfloat16")
    assert opened(same, settings={"dtype": "float32"}).dtype == "float32"
    with pytest.raises(UserError) as refused:
        opened(same, other, settings={"dtype": "float32"})
    assert str(refused.value) == (
        f"engine.dtype is 'float32' but the server {other.url} keeps its weights in bfloat16; start it by `rlvr serve` "
        "with --dtype float32, or set engine.dtype: auto."
    )
    assert opened(same, other).dtype == "bfloat16 and float32"


def test_settings_that_only_a_server_of_the_run_s_own_follows_are_said(rule_server, opened):
    said = []
    opened(rule_server(), settings={"max_model_len": 512, "enforce_eager": True}, say=said.append)
    assert said == [
        "warning: engine.max_model_len and engine.enforce_eager are for a server that the run starts itself; those of "
        "engine.servers are as they were started"
    ]
    opened(rule_server(), settings={"max_model_len": 512}, say=said.append)
    assert said[1].startswith("warning: engine.max_model_len is for a server")
    opened(rule_server(), settings={"max_model_len": 512}, say=said.append, main=False, run="a")
    opened(rule_server(), settings={"dtype": "float32"}, say=said.append)
    assert len(said) == 2


POLICY = ModelSizes("the/policy", {"vocab_size": 300, "hidden_size": 8, "num_hidden_layers": 3})


def refused(opened, *servers):
    with pytest.raises(UserError) as caught:
        opened(*servers, policy=POLICY)
    return str(caught.value)


def test_a_server_with_another_model_is_refused_and_left_as_it_was(rule_server, opened):
    right = rule_server(sizes=dict(POLICY.sizes))
    wrong = rule_server(sizes={"vocab_size": 100, "hidden_size": 4, "num_hidden_layers": 3}, model="other/model")
    opened(right, policy=POLICY)
    assert refused(opened, right, wrong) == (
        f"The server {wrong.url} has another model than the policy: 'other/model' has vocab_size 100, hidden_size 4, "
        "where the policy ('the/policy') has 300, 8; start one with the policy's model by `rlvr serve`, or correct "
        "engine.servers."
    )
    assert "/pause" not in wrong.calls


@pytest.mark.parametrize("extension", [WORKER_EXTENSION, None])
def test_of_a_server_that_does_not_tell_the_folder_is_looked_at(rule_server, opened, tmp_path, extension):
    """A server without our worker, and one whose worker is of an earlier version."""
    asked = {"sizes": None, "extension": extension, "model": str(tmp_path), "device": "cuda"}
    opened(rule_server(**asked), policy=POLICY)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"hidden_size": 9}, "vocab_size": None}))
    assert "has hidden_size 9, where the policy ('the/policy') has 8;" in refused(opened, rule_server(**asked))


def test_a_server_that_comes_back_with_another_model_gets_no_weights(rule_server, opened):
    left, server = rule_server(sizes={}), rule_server(sizes=dict(POLICY.sizes))
    said = queue.SimpleQueue()
    engine = opened(left, server, policy=POLICY, say=said.put)
    engine.sync([("shift", torch.tensor(1))], 1)
    server.kill()
    engine.sync([("shift", torch.tensor(2))], 2)
    assert "is lost" in said.get(timeout=60)
    server.facts["sizes"] = {"vocab_size": 5}
    server.start()
    assert "is of no use: The server" in said.get(timeout=60)
    assert (server.version, server.shift) == ("default", 0)
