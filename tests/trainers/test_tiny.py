from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from transformers import AutoTokenizer  # noqa: E402

from rlvr.trainers.tiny import build_tiny, build_tokenizer  # noqa: E402

PRINTABLE = "".join(map(chr, range(32, 127)))


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


@pytest.mark.parametrize(
    "text",
    [PRINTABLE, PRINTABLE[::-1], "two  spaces, don't !  ?\n\n x .", r"<think>1 + 2</think>\boxed{3}", "", " "],
)
def test_what_is_encoded_decodes_to_the_same_text(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


def test_characters_are_tokens_and_so_is_the_markup(tokenizer):
    assert tokenizer.tokenize(r"<think>12</think>\boxed{-3}") == [
        *("<think>", "1", "2", "</think>", "\\boxed{", "-", "3", "}")
    ]
    assert tokenizer.tokenize("é") == ["<|unknown|>"]


def test_the_chat_template_writes_roles_and_ends_answers(tokenizer):
    asked = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 2="}]
    text = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    assert text == "<|system|>Add.<|user|>1 + 2=<|assistant|>"
    answered = [*asked, {"role": "assistant", "content": "3"}]
    assert tokenizer.apply_chat_template(answered, tokenize=False) == text + "3<|end|>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len("Add.") + len("1 + 2=") + 3


def test_a_saved_tokenizer_is_the_same_when_loaded(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in (PRINTABLE, "a  b\n<think> </think>\\boxed{ .", "<|user|>"):
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == text
    assert (loaded.eos_token_id, loaded.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert loaded.chat_template == tokenizer.chat_template
    assert loaded.eos_token_id != loaded.pad_token_id


def test_the_model_is_small_and_a_function_of_its_seed():
    before = torch.get_rng_state()
    one, tokenizer = build_tiny(1)
    again, _ = build_tiny(1)
    other, _ = build_tiny(2)
    assert torch.equal(torch.get_rng_state(), before)
    weights = one.model.layers[0].mlp.up_proj.weight
    assert torch.equal(weights, again.model.layers[0].mlp.up_proj.weight)
    assert not torch.equal(weights, other.model.layers[0].mlp.up_proj.weight)
    assert 0.7e6 < sum(parameter.numel() for parameter in one.parameters()) < 1.1e6
    assert one.config.vocab_size == len(tokenizer)
    assert one.generation_config.eos_token_id == tokenizer.eos_token_id
