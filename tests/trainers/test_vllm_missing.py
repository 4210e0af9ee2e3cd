import importlib.util

import pytest

from rlvr import UserError
from rlvr.trainers.engine_settings import EngineSettings
from rlvr.trainers.engines.vllm import VLLMEngine, open_vllm


def test_a_missing_vllm_names_what_to_install(monkeypatch, tmp_path):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vllm" else found(name))
    with pytest.raises(UserError, match=r"pip install 'rlvr\[vllm\]'"):
        VLLMEngine(tmp_path, 100, [1])


def test_several_devices_for_one_copy_are_for_servers(tmp_path):
    settings = EngineSettings(kind="vllm", tensor_parallel_size=2)
    with pytest.raises(UserError, match=r"set engine\.kind: vllm-server"):
        open_vllm(settings, tmp_path, 100, [1], "float32")
