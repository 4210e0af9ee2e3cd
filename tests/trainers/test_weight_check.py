import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rlvr.trainers.engines.weight_check import SentWeights, bit_sum, held_bit_sums, stale_weights


def weights():
    generator = torch.Generator().manual_seed(0)
    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    return {f"layers.0.{name}.weight": torch.randn(4, 3, generator=generator) for name in names}


def holder(q, k, v, o, dtype=torch.float32):
    """A model as vLLM keeps it: three parts fused, transposed and padded, the fourth alone."""
    fused = nn.Parameter(torch.cat([q, k, v, torch.zeros(4, 3)]).T.to(dtype))
    module = nn.Module()
    module.layers = nn.ModuleList([nn.Module()])
    for name, weight in (("qkv_proj", fused), ("o_proj", nn.Parameter(o.to(dtype))), ("packed", nn.Parameter(o[:0]))):
        layer = nn.Module()
        layer.weight = weight
        setattr(module.layers[0], name, layer)
    return module


FUSED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_loaded_is_recognised_however_it_is_laid_out(dtype):
    sent = SentWeights(weights().items(), dtype)
    model = holder(*(weight for _, weight in sent), dtype)
    assert sent.all_taken
    held = held_bit_sums(model, dtype)
    assert set(held) == {"layers.0.qkv_proj.weight", "layers.0.o_proj.weight"}
    assert stale_weights(sent.bit_sums, held, FUSED) == []


@given(st.sampled_from(sorted(weights())), st.integers(0, 3), st.integers(0, 2))
def test_one_element_of_an_older_version_is_noticed(name, row, column):
    old, new = weights(), weights()
    new[name][row, column] = torch.nextafter(new[name][row, column], torch.tensor(9.0))
    sent = SentWeights(new.items(), torch.float32)
    list(sent)
    stale = stale_weights(sent.bit_sums, held_bit_sums(holder(*old.values()), torch.float32), FUSED)
    assert stale == ["layers.0.o_proj.weight" if "o_proj" in name else "layers.0.qkv_proj.weight"]


def test_weights_that_were_not_all_taken_are_no_hand_over():
    sent = SentWeights(weights().items(), torch.float32)
    next(iter(sent))
    assert not sent.all_taken


def test_what_cannot_be_told_is_not_called_stale():
    model = holder(*weights().values(), torch.bfloat16)
    assert held_bit_sums(model, torch.float32) == {}
    assert stale_weights({"elsewhere.weight": 3}, {"layers.0.o_proj.weight": 4}, FUSED) == []


def test_a_bit_sum_is_the_sum_of_the_bits_read_as_integers():
    assert bit_sum(torch.tensor([1.0, 0.0])) == 0x3F800000
    assert bit_sum(torch.tensor([-0.0], dtype=torch.bfloat16)) == -(2**15)
