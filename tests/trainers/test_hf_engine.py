import random

import numpy as np
import pytest
import torch
import transformers

from rlvr import UserError
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.logprobs import TokenLogprobs

EOS, PAD = 1, 0


@pytest.fixture(scope="module")
def model(random_llama):
    return random_llama(vocab_size=60)


def engine(model, eos_ids=(EOS,), **options):
    return HFEngine(model, eos_ids, PAD, **options)


PROMPTS = [[10, 11, 12], [20, 21, 22, 23, 24], [30]]


def test_a_row_does_not_depend_on_its_neighbours(model):
    sampling = Sampling(12)
    together = engine(model).generate(PROMPTS, sampling, [1, 2, 3])
    apart = [engine(model).generate([p], sampling, [s])[0] for p, s in zip(PROMPTS, [1, 2, 3], strict=True)]
    split = engine(model, max_batch=2).generate(PROMPTS, sampling, [1, 2, 3])
    assert [c.ids for c in together] == [c.ids for c in apart] == [c.ids for c in split]
    assert together[0].ids != engine(model).generate(PROMPTS[:1], sampling, [4])[0].ids


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_log_probs_and_entropies_are_the_policys(model, temperature):
    for prompt, completion in zip(
        PROMPTS, engine(model).generate(PROMPTS, Sampling(12, temperature), [1, 2, 3]), strict=True
    ):
        ids = torch.tensor([[*prompt, *completion.ids]])
        mask = torch.zeros_like(ids, dtype=torch.bool)
        mask[:, len(prompt) :] = True
        with torch.no_grad():
            statistics = TokenLogprobs(model, temperature)(ids, torch.ones_like(ids), mask, entropies=True)
        torch.testing.assert_close(torch.tensor(completion.logprobs), statistics.logprobs[mask], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(torch.tensor(completion.entropies), statistics.entropies[mask], atol=1e-4, rtol=1e-4)


def test_tokens_come_as_often_as_the_policy_says(model):
    count = 4000
    drawn = engine(model, max_batch=1000).generate([PROMPTS[0]] * count, Sampling(1), range(count))
    with torch.no_grad():
        expected = torch.softmax(model(input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1], dim=-1)
    observed = torch.bincount(torch.tensor([c.ids[0] for c in drawn]), minlength=len(expected)) / count
    common = expected > 0.01
    standard_error = (expected * (1 - expected) / count).sqrt()
    assert common.sum() > 3
    assert ((observed - expected).abs() < 4.5 * standard_error + 1e-3)[common].all()


def test_greedy_takes_the_likeliest_token(model):
    completion = engine(model).generate([PROMPTS[0]], Sampling(1, temperature=0), [1])[0]
    with torch.no_grad():
        assert completion.ids == [int(model(input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1].argmax())]


def test_top_k_and_top_p_cut_the_distribution(model):
    assert len({c.ids[0] for c in engine(model).generate([[10]] * 200, Sampling(1, top_k=2), range(200))}) == 2
    assert len({c.ids[0] for c in engine(model).generate([[10]] * 50, Sampling(1, top_p=1e-6), range(50))}) == 1


def test_every_eos_ends_a_completion_and_is_part_of_it(model):
    free = engine(model, eos_ids={0}).generate(PROMPTS, Sampling(12), [1, 2, 3])
    ends = {free[0].ids[4], free[1].ids[2]}
    for before, after in zip(free, engine(model, eos_ids=ends).generate(PROMPTS, Sampling(12), [1, 2, 3]), strict=True):
        place = next((i for i, token in enumerate(before.ids) if token in ends), None)
        if place is None:
            assert (after.ids, after.finish_reason) == (before.ids, "length")
        else:
            assert (after.ids, after.finish_reason) == (before.ids[: place + 1], "stop")
            assert len(after.logprobs) == len(after.entropies) == place + 1


def test_an_eos_at_the_very_limit_is_no_cut(model):
    first = engine(model, eos_ids={0}).generate(PROMPTS[:1], Sampling(5), [1])[0]
    limit = first.ids.index(first.ids[-1]) + 1
    completion = engine(model, eos_ids={first.ids[-1]}).generate(PROMPTS[:1], Sampling(limit), [1])[0]
    assert (completion.finish_reason, completion.ids[-1]) == ("stop", first.ids[-1])


def test_the_checkpoints_generation_config_does_not_bend_the_distribution(model):
    plain = engine(model).generate(PROMPTS, Sampling(12), [1, 2, 3])
    kept = model.generation_config
    try:
        model.generation_config = type(kept)(
            **{**kept.to_dict(), "repetition_penalty": 5.0, "top_k": 1, "temperature": 0.1, "no_repeat_ngram_size": 1,
               "suppress_tokens": list(range(9, 60)), "do_sample": True}
        )  # fmt: skip
        bent = engine(model).generate(PROMPTS, Sampling(12), [1, 2, 3])
    finally:
        model.generation_config = kept
    assert [c.ids for c in bent] == [c.ids for c in plain]
    assert [c.logprobs for c in bent] == [c.logprobs for c in plain]


def test_the_global_random_states_are_left_alone(model):
    states = torch.random.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    engine(model).generate(PROMPTS, Sampling(4), [1, 2, 3])
    assert torch.equal(states[0], torch.random.get_rng_state())
    assert states[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002


def test_what_does_not_fit_the_model_is_said(model):
    with pytest.raises(UserError, match="do not fit in the model's 64 positions"):
        engine(model).generate([[10] * 50], Sampling(20), [1])


def test_the_members_of_a_group_share_their_prompt_and_nothing_else(model, monkeypatch):
    prompts = [PROMPTS[0]] * 3 + [PROMPTS[1]] * 2 + [PROMPTS[2]] * 2
    seen = []
    hook = model.model.embed_tokens.register_forward_hook(lambda module, args, output: seen.append(args[0].numel()))
    try:
        together = engine(model).generate(prompts, Sampling(6), range(7))
    finally:
        hook.remove()
    apart = [engine(model).generate([p], Sampling(6), [s])[0] for s, p in enumerate(prompts)]
    assert [c.ids for c in together] == [c.ids for c in apart]
    assert together[4].logprobs == pytest.approx(apart[4].logprobs, abs=1e-4)
    assert seen[0] == 3 * 4  # three prompts, all but the last token of each, padded to the longest
    assert seen[1] == 7  # from there on, one token a row


def test_a_completion_is_given_when_it_ends_and_its_row_takes_no_more_of_the_model(model):
    prompts = [PROMPTS[0]] * 8
    free = engine(model, eos_ids={0}).generate(prompts, Sampling(12), range(8))
    ends = {free[0].ids[2], free[5].ids[6]}
    seen = []
    hook = model.model.embed_tokens.register_forward_hook(lambda module, args, output: seen.append(len(args[0])))
    try:
        stream = engine(model, eos_ids=ends).stream(prompts, Sampling(12), range(8))
        # Those of one length come in the order of the prompts.
        finished, passes = [], []
        for place, completion in stream:
            finished.append((len(completion.ids), place, completion))
            passes.append(len(seen))
    finally:
        hook.remove()
    assert finished == sorted(finished, key=lambda entry: entry[:2])
    lengths = [length for length, _, _ in finished]
    assert len(set(lengths)) > 2
    # One pass for the prompt that all share, and then one a token.
    assert passes == [1 + length for length in lengths]
    assert seen[1:] == [sum(length > drawn for length in lengths) for drawn in range(lengths[-1])]
    for _, place, completion in finished:
        end = next((i + 1 for i, token in enumerate(free[place].ids) if token in ends), None)
        assert completion.ids == free[place].ids[:end]
        assert completion.logprobs == pytest.approx(free[place].logprobs[:end], abs=1e-4)
        assert completion.entropies == pytest.approx(free[place].entropies[:end], abs=1e-4)


def test_prompts_that_are_added_while_it_generates_are_left_for_later(model):
    """What is generated together decides the last bits of the log-probs, so it must not depend on who was quick."""
    prompts, seeds, finished = [list(prompt) for prompt in PROMPTS], [1, 2, 3], {}
    for place, completion in engine(model, max_batch=2).stream(prompts, Sampling(5), seeds):
        finished[place] = completion
        seeds.append(9)
        prompts.append([30])
    assert finished == dict(enumerate(engine(model, max_batch=2).generate(PROMPTS, Sampling(5), [1, 2, 3])))


def test_a_model_with_a_sliding_window_is_generated_with_as_it_is_trained():
    from transformers import MistralConfig, MistralForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(
        vocab_size=60, num_key_value_heads=1, head_dim=8, sliding_window=4, max_position_embeddings=64, **sizes
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        windowed = MistralForCausalLM(config).eval()
    prompts = [[10, 11, 12, 13, 14, 15], [20, 21], [30, 31, 32]]
    completions = engine(windowed, eos_ids={1, 2, 3, 4, 5}).generate(prompts, Sampling(10), [1, 2, 3])
    for prompt, completion in zip(prompts, completions, strict=True):
        ids = torch.tensor([[*prompt, *completion.ids]])
        with torch.no_grad():
            logprobs = windowed(input_ids=ids).logits.log_softmax(dim=-1)[0, len(prompt) - 1 : -1]
        expected = logprobs.gather(1, torch.tensor(completion.ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("Mamba", {"state_size": 2}),
        ("Rwkv", {"attention_hidden_size": 8, "intermediate_size": 16}),
        # A cache of its own kind, which some versions of transformers pass by the name that others use for all.
        ("xLSTM", {"embedding_dim": 8, "num_heads": 2, "num_blocks": 1}),
    ],
)
def test_a_model_without_keys_and_values_is_refused(kind, sizes):
    config = getattr(transformers, f"{kind}Config")(vocab_size=20, hidden_size=8, num_hidden_layers=2, **sizes)
    recurrent = getattr(transformers, f"{kind}ForCausalLM")(config)
    with pytest.raises(UserError, match=rf"{kind}ForCausalLM does not keep .* set engine\.kind to vllm"):
        engine(recurrent)


def test_whoever_reads_the_stream_computes_as_before_and_the_weights_are_cast_once(model):
    casts = []

    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten._to_copy.default and args[0] is weight:
                casts.append(args[0])
            return function(*args, **(kwargs or {}))

    weight = model.model.layers[0].mlp.up_proj.weight
    mixed = engine(model, eos_ids=range(1, 9), autocast=lambda: torch.autocast("cpu", torch.bfloat16))
    reached = []
    with Counted():
        for _ in mixed.stream([PROMPTS[0]] * 20, Sampling(8), range(20)):
            reached.append((torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()))
    assert set(reached) == {(False, True)}
    assert len(casts) == 1
    assert not torch.is_autocast_enabled("cpu")
