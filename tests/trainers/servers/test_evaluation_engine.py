"""The engine of an evaluation on servers that generate by rule: whose weights it has, and how it ends."""

from __future__ import annotations

import pytest
import torch

from rlvr import UserError
from rlvr.envs import make_vec
from rlvr.trainers.engine_settings import EngineSettings
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.evaluation_engine import evaluation_engine
from rlvr.trainers.models import LoadedModel
from rlvr.trainers.tiny import build_tiny


@pytest.fixture(scope="module")
def loaded():
    """The tiny model with one tensor more, which is all that the servers look at."""
    model, tokenizer = build_tiny(0)
    model.register_buffer("shift", torch.tensor(3))
    return LoadedModel(model.eval(), tokenizer, frozenset({tokenizer.eos_token_id}))


def opened(loaded, folder, *servers, said=None, **settings):
    settings = EngineSettings.model_validate(
        {"kind": "vllm-server" if servers else "hf", "servers": [server.url for server in servers], **settings}
    )
    posed = make_vec("rlvr/Arithmetic-v0", 1, level=1, system=None, template="{expression}=", split="eval")
    return evaluation_engine(
        settings,
        loaded,
        posed,
        folder,
        [].append if said is None else said.append,
        dtype="float32",
        batch_size=4,
        temperature=0.0,
        go_on="go on with --out rows.jsonl",
    )


def test_servers_are_given_the_weights_of_the_model(rule_server, loaded, tmp_path):
    """They have others at first, whose log-probs are -1."""
    servers = rule_server(), rule_server()
    with opened(loaded, tmp_path / "rows.engine", *servers, probe_prompts=0) as engine:
        completions = engine.generate([[5], [6]], Sampling(5), [1, 2])
        assert {logprob for completion in completions for logprob in completion.logprobs} == {-4.0}
        assert engine.dtype == "float32"
        assert all(server.version == servers[0].version != "default" for server in servers)
    # The weights are not left on the disk.
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_is_not_the_model_is_refused_and_closed(rule_server, loaded, tmp_path):
    server = rule_server()
    with (
        pytest.raises(UserError, match="The engine is not the policy"),
        opened(loaded, tmp_path / "rows.engine", server),
    ):
        raise AssertionError("it was taken for the model")
    assert list(tmp_path.iterdir()) == []


def test_what_was_lost_is_gone_on_with_by_the_file_of_samples(rule_server, loaded, tmp_path):
    server = rule_server()
    with opened(loaded, tmp_path / "rows.engine", server, probe_prompts=0) as engine:
        server.kill()
        with pytest.raises(UserError, match=r"start them again, and go on with --out rows\.jsonl\.$"):
            engine.generate([[5]], Sampling(5), [1])


def test_hf_is_the_model_itself(loaded, tmp_path):
    said = []
    with opened(loaded, tmp_path / "rows.engine", said=said) as engine:
        assert isinstance(engine, HFEngine)
        assert engine.dtype is None
    assert not said
    assert list(tmp_path.iterdir()) == []
