"""The engine of an evaluation as the command line has it."""

from __future__ import annotations

import pytest

from rlvr import UserError
from rlvr.config import engine_settings


def test_settings_are_those_of_a_recipe():
    settings = engine_settings("vllm-server", {"servers": ["http://127.0.0.1:8000"], "request_timeout": 5})
    assert (settings.kind, settings.servers, settings.request_timeout) == (
        "vllm-server", ("http://127.0.0.1:8000",), 5.0
    )  # fmt: skip
    assert engine_settings("hf", {}).kind == "hf"
    # There are no updates to give memory back for.
    assert not engine_settings("vllm", {}).sleep


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("vlm", {}, r"engine.kind is 'vlm' on the command line.*'hf', 'vllm' or 'vllm-server'\.$"),
        ("vllm", {"max_modl_len": 9}, r"Unknown key 'engine.max_modl_len'.*did you mean 'max_model_len'\?$"),
        ("vllm", {"max_model_len": "many"}, r"engine.max_model_len is 'many' on the command line"),
        ("hf", {"max_model_len": 9}, r"set engine.kind to vllm or vllm-server, or leave max_model_len out\.$"),
        ("vllm-server", {"servers": ["here"]}, r"the server 'here' is no address"),
        ("vllm-server", {"async_steps": 1}, r"engine.async_steps is no setting of an evaluation.*leave it out\.$"),
        ("vllm", {"sleep": True}, r"engine.sleep is no setting of an evaluation.*leave it out\.$"),
        ("hf", {"kind": "vllm"}, r"engine.kind is no setting of an evaluation, because --engine says it"),
    ],
)
def test_a_mistake_is_one_sentence(kind, options, words):
    with pytest.raises(UserError, match=words):
        engine_settings(kind, options)
