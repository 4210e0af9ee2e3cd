"""Building, closing, and what is refused before there is an engine."""

import contextlib
import json
import shutil

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

pytest.importorskip("vllm")

from rlvr import UserError
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.engines.vllm import VLLMEngine

pytestmark = pytest.mark.slow

PROMPTS = [[20, 21, 22], [30, 31, 32, 33, 34], [40]]


def test_closing_ends_the_process_group_that_it_made_and_another_engine_can_follow(tiny):
    _, tokenizer, folder = tiny
    assert not torch.distributed.is_initialized()
    for _ in range(2):
        with contextlib.closing(
            VLLMEngine(folder, len(tokenizer), [tokenizer.eos_token_id], max_model_len=64)
        ) as engine:
            assert torch.distributed.is_initialized()
            assert engine.max_length == 64
            assert len(engine.generate(PROMPTS, Sampling(4), [1, 2, 3])) == 3
        assert not torch.distributed.is_initialized()
        engine.close()


def test_the_checkpoints_generation_config_does_not_bend_the_distribution(tiny, tmp_path):
    model, tokenizer, folder = tiny
    bent = shutil.copytree(folder, tmp_path / "bent")
    (bent / "generation_config.json").write_text(
        json.dumps({"repetition_penalty": 5.0, "top_k": 1, "temperature": 0.1, "eos_token_id": list(range(9, 60))})
    )
    own = HFEngine(model, [tokenizer.eos_token_id], 0).generate(PROMPTS, Sampling(16, 0), [1, 2, 3])
    engine = VLLMEngine(bent, len(tokenizer), [tokenizer.eos_token_id], dtype="float32", max_model_len=64)
    with contextlib.closing(engine):
        greedy = engine.generate(PROMPTS, Sampling(16, 0), [1, 2, 3])
        drawn = engine.generate(PROMPTS, Sampling(16), [1, 2, 3])
    assert [c.ids for c in greedy] == [c.ids for c in own]
    assert {c.finish_reason for c in drawn} == {"length"}
    assert min(min(c.logprobs) for c in drawn) < -1  # not the likeliest token each time


def test_ids_that_pad_the_models_vocabulary_are_refused(tiny, tmp_path):
    tokenizer = tiny[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        padded = LlamaForCausalLM(LlamaConfig(**{**tiny[0].config.to_dict(), "vocab_size": 4 * len(tokenizer)}))
    padded.save_pretrained(tmp_path)
    engine = VLLMEngine(tmp_path, len(tokenizer), [tokenizer.eos_token_id], max_model_len=64)
    with contextlib.closing(engine), pytest.raises(UserError, match="pad the model's vocabulary"):
        engine.generate(PROMPTS, Sampling(16), [1, 2, 3])


def test_a_model_that_vllm_cannot_run_is_said(tiny):
    _, tokenizer, folder = tiny
    with pytest.raises(UserError, match=r"vLLM cannot run .*max_model_len"):
        VLLMEngine(folder, len(tokenizer), [tokenizer.eos_token_id], max_model_len=10**6)
    assert not torch.distributed.is_initialized()


def test_a_process_of_its_own_is_not_what_this_engine_has(tiny, monkeypatch):
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    with pytest.raises(UserError, match=r"engine\.kind: vllm-server"):
        VLLMEngine(tiny[2], len(tiny[1]), [1])
