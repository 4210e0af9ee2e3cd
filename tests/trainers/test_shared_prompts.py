import pytest

torch = pytest.importorskip("torch")
from transformers import (  # noqa: E402
    BloomConfig,
    BloomForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from rlvr.trainers.logprobs import TokenLogprobs  # noqa: E402

# (prompt, completion length) of each row: groups with prompts of three lengths, and a prompt that is another's end.
ROWS = [([5, 6, 7], 4), ([5, 6, 7], 1), ([9, 8, 7, 6, 5], 2), ([5, 6, 7], 3), ([9, 8, 7, 6, 5], 5), ([6, 7], 2)]
SIZES = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def build(kind, config, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config).eval().double()


def llama():
    return build(LlamaForCausalLM, LlamaConfig(**SIZES, num_key_value_heads=2, initializer_range=0.3))


def padded(rows):
    generator = torch.Generator().manual_seed(1)
    width = max(len(prompt) + count for prompt, count in rows)
    ids, attention, loss = (torch.zeros(len(rows), width, dtype=torch.long) for _ in range(3))
    for row, (prompt, count) in enumerate(rows):
        end = len(prompt) + count
        ids[row, :end] = torch.cat([torch.tensor(prompt), torch.randint(0, 40, (count,), generator=generator)])
        attention[row, :end] = 1
        loss[row, len(prompt) : end] = 1
    return ids, attention, loss.bool()


def plainly(model, ids, attention):
    logits = model(input_ids=ids, attention_mask=attention).logits
    return torch.distributions.Categorical(logits=logits[:, :-1]).log_prob(ids[:, 1:])


def positions_of(policy, batch):
    seen = []
    handle = policy.model.get_input_embeddings().register_forward_hook(
        lambda m, args, out: seen.append(args[0].numel())
    )
    result = policy(*batch)
    handle.remove()
    return sum(seen), result


@pytest.mark.parametrize("count", [len(ROWS), 2])
def test_equal_to_whole_rows_with_gradient(count):
    ids, attention, loss = padded(ROWS[:count])
    model, reference = llama(), llama()
    statistics = TokenLogprobs(model)(ids, attention, loss)
    expected = plainly(reference, ids, attention)
    mask = loss[:, 1:]
    torch.testing.assert_close(statistics.logprobs[:, 1:][mask].double(), expected[mask], rtol=1e-5, atol=1e-5)
    weights = torch.linspace(-1, 1, int(mask.sum()))
    (statistics.logprobs[loss] * weights).sum().backward()
    (expected[mask] * weights).sum().backward()
    for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-5)


def test_tokens_between_and_after_those_with_a_loss_are_context():
    ids, attention, loss = padded(ROWS)
    loss[0, 4], loss[4, 8:] = False, False
    statistics = TokenLogprobs(llama())(ids, attention, loss)
    expected = plainly(llama(), ids, attention)
    torch.testing.assert_close(
        statistics.logprobs[:, 1:][loss[:, 1:]].double(), expected[loss[:, 1:]], rtol=1e-5, atol=1e-5
    )
    assert (statistics.logprobs[~loss] == 0).all()


def test_a_row_without_loss_changes_nothing():
    ids, attention, loss = padded(ROWS)
    loss[3] = False
    statistics = TokenLogprobs(llama())(ids, attention, loss)
    torch.testing.assert_close(
        statistics.logprobs[:, 1:][loss[:, 1:]].double(),
        plainly(llama(), ids, attention)[loss[:, 1:]],
        rtol=1e-5,
        atol=1e-5,
    )


def test_a_prompt_is_computed_once_for_its_group():
    group = padded([([5, 6, 7, 8, 9, 10], 3)] * 4)
    positions, _ = positions_of(TokenLogprobs(llama()), group)
    assert positions == 6 + 4 * 2  # the last token of a completion predicts nothing


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        # No position ids; and a past that is forgotten after a window.
        (BloomForCausalLM, BloomConfig(vocab_size=40, hidden_size=32, n_layer=2, n_head=4)),
        (MistralForCausalLM, MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=4)),
    ],
)
def test_models_that_keep_no_plain_past_compute_whole_rows(kind, config):
    policy = TokenLogprobs(build(kind, config))
    ids, attention, loss = padded(ROWS)
    positions, statistics = positions_of(policy, (ids, attention, loss))
    assert not policy.shares_prompts
    assert positions == ids[:, 1:].numel()
    torch.testing.assert_close(
        statistics.logprobs[:, 1:][loss[:, 1:]].double(),
        plainly(build(kind, config), ids, attention)[loss[:, 1:]],
        rtol=1e-5,
        atol=1e-5,
    )
