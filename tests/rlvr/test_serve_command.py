from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

RLVR = Path(sys.executable).with_name("rlvr")


def serve(*arguments):
    done = subprocess.run(
        [RLVR, "serve", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_it_is_said_what_to_install():
    code, said = serve("model")
    assert code == 2
    assert "Serving a model needs vllm; pip install 'rlvr[vllm]'" in said


def test_a_dtype_that_there_is_not_is_said():
    code, said = serve("model", "--dtype", "float33")
    assert code == 2
    assert said.endswith("--dtype is 'float33'; choose one of auto, float32, bfloat16, float16.")


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such/folder"], "There is no model in '/no/such/folder'"),
        (["./no/such"], "There is no model in './no/such'"),
        (["no/such/folder/"], "There is no model in 'no/such/folder/'"),
        (["no.gguf"], "There is no file 'no.gguf'"),
        (["model", "--host", "203.0.113.7"], "cannot listen at 203.0.113.7:8000"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(arguments, sentence):
    code, said = serve(*arguments)
    assert code == 2
    assert sentence in said
