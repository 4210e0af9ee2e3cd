from __future__ import annotations

import pytest
import torch

from rlvr import UserError
from rlvr.trainers.engine_settings import EngineSettings
from rlvr.trainers.engines import Sampling, server_setup
from rlvr.trainers.engines.server import FollowingServerEngine
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

    def make(*servers, **options):
        settings = EngineSettings(kind="vllm-server", servers=tuple(server.url for server in servers))
        made.append(
            open_servers(
                settings, lambda: tmp_path / "policy", tmp_path, 100, {1}, "float32", lambda sentence: None, **options
            )
        )
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
