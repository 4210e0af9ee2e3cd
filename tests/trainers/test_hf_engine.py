import random

import numpy as np
import pytest
import torch

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
