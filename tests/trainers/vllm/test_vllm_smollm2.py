"""A pretrained model in the engine, against the embedded engine and the policy's own log-probs."""

import contextlib
import copy

import pytest
import torch

pytest.importorskip("vllm")

from rlvr import UserError
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.engines.probe import probe
from rlvr.trainers.engines.vllm import VLLMEngine
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.rollout import encode_prompt
from rlvr.trainers.weights import named_weights

pytestmark = pytest.mark.slow

QUESTIONS = [
    "What is 3 + 4?",
    "Name three colours.",
    "Say a rhyme for cat.",
    "What is the capital of Peru?",
]


@pytest.fixture(scope="module")
def prompts(smollm2):
    return [encode_prompt(smollm2[0].tokenizer, [{"role": "user", "content": text}]) for text in QUESTIONS]


@pytest.fixture(scope="module")
def in_float32(smollm2):
    loaded, folder = smollm2
    engine = VLLMEngine(folder, len(loaded.tokenizer), loaded.eos_ids, dtype="float32", max_model_len=512)
    yield engine
    engine.close()


def differences(engine, model, prompts, temperature=1.0):
    found = probe(engine, TokenLogprobs(model, temperature), prompts, 2, max_mean_diff=1e9, max_tokens=24)
    return found["sampling/probe_logprob_diff_mean"], found["sampling/probe_logprob_diff_max"]


def test_greedy_completions_are_those_of_the_embedded_engine(in_float32, smollm2, prompts):
    loaded = smollm2[0]
    own = HFEngine(loaded.model, loaded.eos_ids, loaded.tokenizer.pad_token_id)
    expected = own.generate(prompts, Sampling(32, 0), range(4))
    found = in_float32.generate(prompts, Sampling(32, 0), range(4))
    assert [c.ids for c in found] == [c.ids for c in expected]
    assert [c.finish_reason for c in found] == [c.finish_reason for c in expected]
    assert "stop" in {c.finish_reason for c in found}


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_agree_in_float32(in_float32, smollm2, prompts, temperature):
    mean, largest = differences(in_float32, smollm2[0].model, prompts, temperature)
    assert mean < 1e-4
    assert largest < 2e-3


def test_new_weights_are_those_that_it_generates_with(in_float32, smollm2, prompts):
    model = smollm2[0].model
    moved = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=generator)
    assert differences(in_float32, moved, prompts)[0] > 0.05
    in_float32.sync(named_weights(moved), 1)
    mean, largest = differences(in_float32, moved, prompts)
    assert mean < 1e-4
    assert largest < 2e-3
    with pytest.raises(UserError, match=r"the policy's of version 1 differ by .* where engine.max_logprob_diff allows"):
        probe(in_float32, TokenLogprobs(model), prompts, 2, max_mean_diff=0.05, max_tokens=24)
    in_float32.sync(named_weights(model), 2)


def test_log_probs_agree_in_bfloat16_as_far_as_its_digits_reach(smollm2, prompts, in_float32):
    in_float32.close()
    loaded, folder = smollm2
    engine = VLLMEngine(folder, len(loaded.tokenizer), loaded.eos_ids, dtype="bfloat16", max_model_len=512)
    with contextlib.closing(engine):
        engine.sync(named_weights(loaded.model), 1)  # from float32
        mean, largest = differences(engine, loaded.model, prompts)
    assert mean < 0.05
    assert largest < 0.5
