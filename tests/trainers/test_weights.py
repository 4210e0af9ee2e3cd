import copy

import pytest
import torch

from rlvr.trainers.gradients import clip_gradients
from rlvr.trainers.weights import digest, named_weights


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_once_by_its_name_in_a_checkpoint(random_llama, tmp_path, tied):
    from safetensors.torch import load_file

    model = random_llama(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    given = list(named_weights(model))
    assert sorted(name for name, _ in given) == sorted(saved)
    assert all(torch.equal(tensor, saved[name]) and not tensor.requires_grad for name, tensor in given)


def test_weights_are_handed_over_without_a_copy(random_llama):
    model = random_llama()
    places = {tensor.data_ptr() for tensor in model.state_dict().values()}
    assert {tensor.data_ptr() for _, tensor in named_weights(model)} <= places


@pytest.mark.parametrize("wrapped", [True, False])
def test_adapters_are_merged_in(random_llama, wrapped):
    peft = pytest.importorskip("peft")
    model, plain = random_llama(), dict(named_weights(random_llama()))
    ids = torch.arange(8)[None]
    config = peft.LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(model, config) if wrapped else peft.inject_adapter_in_model(config, model)
    given = dict(named_weights(adapted))
    assert given.keys() == plain.keys()
    changed = {name for name in plain if not torch.equal(plain[name], given[name])}
    assert changed == {name for name in plain if "q_proj" in name or "down_proj" in name}

    merged = random_llama()
    merged.load_state_dict(given, strict=False)
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, adapted.eval()(ids).logits, rtol=1e-4, atol=1e-4)


def test_a_digest_tells_any_one_weight(random_llama):
    model = random_llama()
    same, other = copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        weight = other.model.layers[1].mlp.down_proj.weight
        weight[-1, -1] = torch.nextafter(weight[-1, -1], torch.tensor(9.0))
    assert digest(model) == digest(same)
    assert digest(model) != digest(other)
    assert digest(model) != digest(model.to(torch.bfloat16))


def test_a_long_gradient_is_cut_by_hand():
    first, second, still = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    first.grad, second.grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])
    assert clip_gradients(iter([first, second, still]), 10.0) == pytest.approx(5.0)
    assert first.grad.tolist() == [3.0, 0.0]
    assert clip_gradients(iter([first, second, still]), 1.0) == pytest.approx(5.0)
    assert first.grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-5)
    assert second.grad.tolist() == pytest.approx([0.0, 0.8], rel=1e-5)
    assert still.grad is None
    assert clip_gradients(iter([still]), 1.0) == 0.0
