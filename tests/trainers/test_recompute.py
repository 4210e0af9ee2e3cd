"""Layers that are computed again in the backward pass: the same gradient, less memory, and never a dropout."""

import copy

import pytest
import torch
from transformers import OPTConfig, OPTForCausalLM

from rlvr import UserError
from rlvr.trainers.critic import build_critic
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.lora import add_adapter
from rlvr.trainers.lora_settings import LoraSettings
from rlvr.trainers.recompute import enable_recomputing

# Two groups of two rows: their prompts of five tokens are shared.
IDS = torch.stack([torch.arange(12) + first for first in (3, 3, 9, 9)])
IDS[1, 7:] += 2
IDS[3, 8:] += 4
MASK = (torch.arange(12) >= 5).expand(4, 12)
ATTENTION = torch.ones_like(IDS)


def gradient(model):
    model.zero_grad()
    TokenLogprobs(model)(IDS, ATTENTION, MASK).logprobs[MASK].mean().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def recomputed(model):
    again = copy.deepcopy(model)
    enable_recomputing(again)
    return again


def saved_bytes(model):
    """What the forward pass keeps for the backward one."""
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.setdefault(t.untyped_storage().data_ptr(), (t, t.untyped_storage().nbytes()))[0], lambda t: t
    ):
        TokenLogprobs(model)(IDS, ATTENTION, MASK)
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    return sum(size for place, (_, size) in kept.items() if place not in parameters)


@pytest.mark.parametrize("lora", [False, True])
def test_the_gradient_is_the_same(random_llama, lora):
    model = random_llama()
    if lora:
        add_adapter(model, LoraSettings(r=2), 0, "random")
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.data += 0.01
    expected, found = gradient(model), gradient(recomputed(model))
    assert expected.keys() == found.keys()
    assert all(("lora_" in name) == lora for name in expected)
    for name, grad in expected.items():
        assert (found[name] - grad).norm() <= 1e-5 * grad.norm()


def test_layers_are_computed_again_and_keep_less(random_llama):
    model = random_llama(num_hidden_layers=6)
    again = recomputed(model)
    calls = []
    policy = TokenLogprobs(again)
    again.model.layers[2].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    policy(IDS, ATTENTION, MASK).logprobs.sum().backward()
    assert len(calls) == 2
    assert saved_bytes(again) < 0.5 * saved_bytes(model)


def test_without_a_gradient_nothing_is_different(random_llama):
    model = random_llama()
    again, calls = recomputed(model), []
    policies = [TokenLogprobs(m) for m in (model, again)]
    again.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        mine, theirs = (policy(IDS, ATTENTION, MASK).logprobs for policy in policies)
    assert torch.equal(mine, theirs)
    # A pass over the prompts, and one over the completions.
    assert len(calls) == 2
    written = [HFEngine(m, [1], 0).generate([[5, 6]] * 2, Sampling(6), [1, 2]) for m in (model, again)]
    assert written[0] == written[1]


def test_a_copy_computes_with_weights_of_its_own(random_llama):
    model = recomputed(random_llama())
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    expected = gradient(model)
    assert not torch.allclose(gradient(other)["model.norm.weight"], expected["model.norm.weight"])
    assert all(torch.equal(grad, expected[name]) for name, grad in gradient(model).items())


def test_nothing_is_dropped_out():
    """A layer of OPT drops out what it computes, in training mode."""
    sizes = {"vocab_size": 50, "hidden_size": 16, "ffn_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = OPTForCausalLM(OPTConfig(**sizes, max_position_embeddings=32, word_embed_proj_dim=16, dropout=0.5)).eval()
    expected, found = gradient(model), gradient(recomputed(model))
    for name, grad in expected.items():
        torch.testing.assert_close(found[name], grad, atol=1e-5, rtol=1e-5)


def test_a_critic_has_it_from_the_policy(random_llama):
    model = random_llama()
    grads = []
    for policy in (model, recomputed(model)):
        critic = build_critic(policy, shared=False)
        torch.nn.init.constant_(critic.head.weight, 0.1)
        calls = []
        critic.body.layers[0].mlp.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        critic(IDS, ATTENTION, MASK)[MASK].mean().backward()
        grads.append([parameter.grad for parameter in critic.own_parameters()])
    assert len(calls) == 2
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_a_model_that_cannot_is_refused(random_llama):
    model = random_llama()
    model.supports_gradient_checkpointing = False
    with pytest.raises(UserError, match=r"model\.gradient_checkpointing: false"):
        enable_recomputing(model)
