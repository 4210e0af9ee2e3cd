import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from rlvr import UserError
from rlvr.trainers import logprobs as module
from rlvr.trainers.logprobs import TokenLogprobs


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    input_ids = torch.randint(0, 50, (3, 9), generator=generator)
    loss_mask = torch.zeros(3, 9, dtype=torch.bool)
    loss_mask[0, 4:9], loss_mask[1, 2:5], loss_mask[2, 7:8] = True, True, True
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 5:] = 0
    return input_ids, attention_mask, loss_mask


def plainly(model, input_ids, attention_mask, temperature):
    """The definition, with all logits held at once."""
    logits = model(input_ids=input_ids, attention_mask=attention_mask).logits / temperature
    distributions = torch.distributions.Categorical(logits=logits[:, :-1])
    return distributions.log_prob(input_ids[:, 1:]), distributions.entropy()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk_floats", [50, 150, 2**24])
def test_equal_to_the_definition_with_gradient(batch, temperature, chunk_floats, monkeypatch, random_llama):
    monkeypatch.setattr(module, "_CHUNK_FLOATS", chunk_floats)
    input_ids, attention_mask, loss_mask = batch
    model, reference = random_llama(), random_llama()
    statistics = TokenLogprobs(model, temperature)(input_ids, attention_mask, loss_mask, entropies=True)
    logprobs, entropies = plainly(reference, input_ids, attention_mask, temperature)
    mask = loss_mask[:, 1:]
    torch.testing.assert_close(statistics.logprobs[:, 1:][mask], logprobs[mask])
    torch.testing.assert_close(statistics.entropies[:, 1:][mask], entropies[mask])
    assert statistics.logprobs[~loss_mask].abs().max() == 0

    weights = torch.linspace(-1, 1, int(mask.sum()))
    (statistics.logprobs[loss_mask] * weights).sum().backward()
    (logprobs[mask] * weights).sum().backward()
    for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-4)


def test_the_vocabulary_is_never_projected_for_more_than_a_chunk(batch, monkeypatch, random_llama):
    monkeypatch.setattr(module, "_CHUNK_FLOATS", 150)
    model = random_llama()
    seen = []
    model.lm_head.register_forward_hook(lambda module, args, output: seen.append(output.numel()))
    policy = TokenLogprobs(model)
    seen.clear()
    policy(*batch).logprobs.sum().backward()
    assert max(seen) <= 150
    assert sum(seen) == (9 + 6) * 50  # nine loss tokens, all but the last chunk of three projected twice


def test_a_model_that_bends_its_logits_is_refused():
    config = Gemma2Config(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        final_logit_softcapping=0.1,
    )
    with pytest.raises(UserError, match="Gemma2ForCausalLM does more to its logits"):
        TokenLogprobs(Gemma2ForCausalLM(config).eval())


def test_the_random_state_is_left_alone(batch, random_llama):
    policy = TokenLogprobs(random_llama())
    before = torch.random.get_rng_state()
    policy(*batch).logprobs.sum().backward()
    assert torch.equal(before, torch.random.get_rng_state())
