import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    # Ten times the usual: an untrained model is nearly uniform otherwise, which hides mistakes.
    "initializer_range": 0.3,
}


@pytest.fixture(scope="session")
def random_llama():
    """Makes an untrained Llama: one seed, one set of weights."""

    def make(seed=0, **cells):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return LlamaForCausalLM(LlamaConfig(**{**SIZES, **cells})).eval()

    return make
