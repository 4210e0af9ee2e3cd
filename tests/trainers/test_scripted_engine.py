from __future__ import annotations

import pytest

from rlvr import UserError
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.scripted import ScriptedEngine
from rlvr.trainers.tiny import build_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


def generate(tokenizer, script, prompts, max_tokens=20, seeds=None):
    engine = ScriptedEngine(tokenizer, script, tokenizer.eos_token_id)
    encoded = [tokenizer.encode(prompt) for prompt in prompts]
    return engine.generate(encoded, Sampling(max_tokens), seeds or list(range(len(prompts))))


def test_the_script_reads_prompt_and_seed_and_its_text_is_the_completion(tokenizer):
    completions = generate(tokenizer, lambda prompt, seed: f"{prompt}:{seed}", ["1+1", "22"], seeds=[7, 30])
    assert [tokenizer.decode(completion.ids) for completion in completions] == ["1+1:7<|end|>", "22:30<|end|>"]
    assert all(completion.finish_reason == "stop" for completion in completions)


def test_every_token_has_a_log_prob_and_an_entropy(tokenizer):
    (completion,) = generate(tokenizer, lambda prompt, seed: "<think>a</think>", ["?"])
    assert len(completion.ids) == 4
    assert completion.logprobs == completion.entropies == [0.0] * 4


@pytest.mark.parametrize(
    ("max_tokens", "text", "reason"), [(4, "abc<|end|>", "stop"), (3, "abc", "length"), (1, "a", "length")]
)
def test_the_end_takes_a_token_of_its_own(tokenizer, max_tokens, text, reason):
    (completion,) = generate(tokenizer, lambda prompt, seed: "abc", ["?"], max_tokens)
    assert (tokenizer.decode(completion.ids), completion.finish_reason) == (text, reason)


def test_a_script_that_returns_no_text_is_named(tokenizer):
    with pytest.raises(UserError, match="returned int for"):
        generate(tokenizer, lambda prompt, seed: 3, ["?"])


def test_one_seed_a_prompt(tokenizer):
    with pytest.raises(ValueError, match="shorter than argument 1"):
        generate(tokenizer, lambda prompt, seed: "a", ["?", "!"], seeds=[1])


def test_the_version_is_that_of_the_last_weights(tokenizer):
    engine = ScriptedEngine(tokenizer, lambda prompt, seed: "", tokenizer.eos_token_id)
    assert engine.version == 0
    engine.sync([], 5)
    assert engine.version == 5
