"""What needs no particular model, on a policy that vLLM starts with in seconds."""

import os
import random

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

pytest.importorskip("vllm")

from rlvr import UserError
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.engines.probe import probe
from rlvr.trainers.engines.vllm import VLLMEngine
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.weights import named_weights

pytestmark = pytest.mark.slow

PROMPTS = [[20, 21, 22], [30, 31, 32, 33, 34], [40]]


def global_state():
    return {
        "torch": torch.random.get_rng_state().tolist(),
        "random": random.getstate(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "threads": (torch.get_num_threads(), torch.set_num_threads),
        "dtype": torch.get_default_dtype(),
        "precision": torch.get_float32_matmul_precision(),
        "gradients": torch.is_grad_enabled(),
    }


def environment():
    # Where torch's compiler keeps what it makes is named for good, by the first engine of a process.
    kept = ("VLLM_", "TORCHINDUCTOR_CACHE_DIR")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(kept)}
    return variables, os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING")


@pytest.fixture(scope="module")
def built(tiny):
    """The engine, and the state of the process before and after it was built."""
    _, tokenizer, folder = tiny
    before = global_state(), environment()
    engine = VLLMEngine(folder, len(tokenizer), [tokenizer.eos_token_id], dtype="float32", max_model_len=256)
    yield engine, before, (global_state(), environment())
    engine.close()


@pytest.fixture
def engine(built, tiny):
    model, tokenizer, _ = tiny
    engine = built[0]
    engine._eos_ids, engine._vocabulary = frozenset([tokenizer.eos_token_id]), len(tokenizer)
    engine.sync(named_weights(model), 0)
    return engine


def perturbed(model, scale=0.02):
    """A copy with every weight moved."""
    other = LlamaForCausalLM(model.config)
    other.load_state_dict(model.state_dict())
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)
    return other.eval()


def worst_difference(engine, model, temperature=1.0):
    policy = TokenLogprobs(model, temperature)
    return probe(engine, policy, PROMPTS, 0, max_mean_diff=1e9)["sampling/probe_logprob_diff_max"]


def test_building_it_leaves_the_process_as_it_was(built):
    _, before, after = built
    assert after == before


def test_generating_leaves_the_global_state_alone_also_between_two_completions(engine):
    before = global_state()
    for _ in engine.stream(PROMPTS, Sampling(8), [1, 2, 3]):
        assert global_state() == before
    engine.generate(PROMPTS, Sampling(8, temperature=0), [1, 2, 3])
    assert global_state() == before


def test_greedy_completions_are_those_of_the_policy_itself(engine, tiny):
    model, tokenizer, _ = tiny
    own = HFEngine(model, [tokenizer.eos_token_id], 0).generate(PROMPTS, Sampling(24, 0), [1, 2, 3])
    found = engine.generate(PROMPTS, Sampling(24, 0), [1, 2, 3])
    assert [c.ids for c in found] == [c.ids for c in own]
    for one, other in zip(found, own, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_log_probs_are_those_of_the_distribution_that_was_sampled(engine, tiny, temperature):
    assert worst_difference(engine, tiny[0], temperature) < 1e-4


def test_top_k_and_top_p_cut_the_distribution_and_the_log_probs_are_of_what_is_left(engine):
    cut = engine.generate([PROMPTS[0]] * 60, Sampling(1, top_k=2), range(60))
    probabilities = {c.ids[0]: np.exp(c.logprobs[0]) for c in cut}
    assert len(probabilities) == 2
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert {c.logprobs[0] for c in engine.generate([PROMPTS[0]] * 9, Sampling(1, top_p=1e-6), range(9))} == {0.0}


def test_a_completion_depends_on_its_own_seed_and_not_on_its_neighbours(engine):
    sampling = Sampling(12)
    together = engine.generate(PROMPTS, sampling, [1, 2, 3])
    apart = [engine.generate([p], sampling, [s])[0] for p, s in zip(PROMPTS, [1, 2, 3], strict=True)]
    swapped = engine.generate(PROMPTS[::-1], sampling, [3, 2, 1])[::-1]
    assert [c.ids for c in together] == [c.ids for c in apart] == [c.ids for c in swapped]
    group = engine.generate([PROMPTS[0]] * 16, sampling, range(16))
    assert len({tuple(c.ids) for c in group}) == 16


def test_tokens_come_as_often_as_the_policy_says(engine, tiny):
    count = 4000
    drawn = engine.generate([PROMPTS[0]] * count, Sampling(1), range(count))
    with torch.no_grad():
        expected = torch.softmax(tiny[0](input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1], dim=-1)
    observed = torch.bincount(torch.tensor([c.ids[0] for c in drawn]), minlength=len(expected)) / count
    common = expected > 0.01
    standard_error = (expected * (1 - expected) / count).sqrt()
    assert common.sum() > 3
    assert ((observed - expected).abs() < 4.5 * standard_error + 1e-3)[common].all()


def test_every_eos_ends_a_completion_and_is_part_of_it(engine):
    free = engine.generate(PROMPTS, Sampling(12), [1, 2, 3])
    ends = {free[0].ids[4], free[1].ids[2]}
    engine._eos_ids = frozenset(ends)
    for before, after in zip(free, engine.generate(PROMPTS, Sampling(12), [1, 2, 3]), strict=True):
        place = next((i for i, token in enumerate(before.ids) if token in ends), None)
        if place is None:
            assert (after.ids, after.finish_reason) == (before.ids, "length")
        else:
            assert (after.ids, after.finish_reason) == (before.ids[: place + 1], "stop")
            assert len(after.logprobs) == place + 1


def test_an_eos_at_the_very_limit_is_no_cut(engine):
    first = engine.generate(PROMPTS[:1], Sampling(5), [1])[0]
    limit = first.ids.index(first.ids[-1]) + 1
    engine._eos_ids = frozenset([first.ids[-1]])
    completion = engine.generate(PROMPTS[:1], Sampling(limit), [1])[0]
    assert (completion.finish_reason, completion.ids[-1]) == ("stop", first.ids[-1])


def test_completions_come_as_they_finish_and_appended_prompts_join_in(engine):
    everything = engine.generate(PROMPTS, Sampling(30), [1, 2, 3])
    engine._eos_ids = frozenset([everything[1].ids[3]])
    expected = engine.generate([*PROMPTS, [50]], Sampling(30), [1, 2, 3, 4])
    prompts, seeds, came = list(PROMPTS), [1, 2, 3], []
    for place, completion in engine.stream(prompts, Sampling(30), seeds):
        if not came:
            seeds.append(4)
            prompts.append([50])
        came.append(place)
        assert completion.ids == expected[place].ids
    assert sorted(came) == [0, 1, 2, 3]
    assert came[0] == min(range(3), key=lambda place: len(expected[place].ids))


def test_a_stream_that_is_left_early_leaves_nothing_behind(engine):
    stream = engine.stream(PROMPTS * 3, Sampling(40), range(9))
    next(stream)
    with pytest.raises(RuntimeError, match="not read to its end"):
        engine.generate(PROMPTS, Sampling(2), [1, 2, 3])
    stream.close()
    assert len(engine.generate(PROMPTS, Sampling(2), [1, 2, 3])) == 3
    assert engine.generate([], Sampling(2), []) == []


def test_more_prompt_tokens_than_vllm_reads_at_once_are_no_trouble(engine):
    prompts = [[20 + (i + k) % 50 for i in range(200)] for k in range(30)]
    together = engine.generate(prompts, Sampling(2), range(30))
    assert together[29].ids == engine.generate(prompts[29:], Sampling(2), [29])[0].ids


def test_what_does_not_fit_is_said(engine):
    with pytest.raises(UserError, match="A prompt of 250 tokens and 20 new ones do not fit in the 256 positions"):
        engine.generate([[10] * 250], Sampling(20), [1])
    assert len(engine.generate(PROMPTS[:1], Sampling(2), [1])) == 1


def test_ids_beyond_the_tokenizer_are_refused(engine):
    engine._vocabulary = 20
    with pytest.raises(UserError, match=r"sampled token \d+, but the tokenizer has 20 tokens"):
        engine.generate(PROMPTS, Sampling(20), [1, 2, 3])


def test_a_sync_changes_the_weights_to_exactly_the_policys(engine, tiny):
    model, moved = tiny[0], perturbed(tiny[0])
    assert moved.lm_head.weight is moved.model.embed_tokens.weight  # of which vLLM keeps a packed copy of its own
    assert worst_difference(engine, moved) > 0.05
    engine.sync(named_weights(moved), 5)
    assert engine.version == 5
    assert worst_difference(engine, moved) < 1e-4
    assert worst_difference(engine, model) > 0.05
    engine.sync(named_weights(model), 6)
    assert worst_difference(engine, model) < 1e-4


def test_what_moves_after_a_sync_is_the_policy_alone(engine, tiny):
    policy = perturbed(tiny[0])
    engine.sync(named_weights(policy), 1)
    before = engine.generate(PROMPTS, Sampling(8), [1, 2, 3])
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.1
    assert engine.generate(PROMPTS, Sampling(8), [1, 2, 3]) == before


def test_the_prefix_cache_is_not_that_of_older_weights(engine, tiny):
    model, moved = tiny[0], perturbed(tiny[0])
    prompt = [20 + i % 50 for i in range(200)]  # longer than a block of the cache
    policy = TokenLogprobs(moved)
    engine.generate([prompt] * 2, Sampling(1), [1, 2])
    engine.sync(named_weights(moved), 1)
    assert probe(engine, policy, [prompt], 0, max_mean_diff=1e9)["sampling/probe_logprob_diff_max"] < 1e-4
    engine.sync(named_weights(model), 2)


def test_a_sync_that_was_skipped_is_an_error_and_so_is_generating_after_it(engine, tiny, monkeypatch):
    monkeypatch.setattr(engine, "_hand_over", lambda weights: None)
    with pytest.raises(UserError, match=r"did not take all the weights of version 1 \(it stopped after 0\)"):
        engine.sync(named_weights(perturbed(tiny[0])), 1)
    with pytest.raises(UserError, match="its completions would be stale"):
        engine.generate(PROMPTS, Sampling(2), [1, 2, 3])


def test_a_sync_that_took_the_weights_and_did_not_load_them_is_an_error(engine, tiny, monkeypatch):
    monkeypatch.setattr(engine, "_hand_over", lambda weights: list(weights))
    with pytest.raises(UserError, match="are not those of version 1 that it was handed"):
        engine.sync(named_weights(perturbed(tiny[0])), 1)
    monkeypatch.undo()
    engine.sync(named_weights(tiny[0]), 1)
    assert worst_difference(engine, tiny[0]) < 1e-4


def test_a_version_that_vllm_does_not_confirm_is_an_error(engine, tiny, monkeypatch):
    monkeypatch.setattr(engine._vllm, "get_weight_version", lambda: "0")
    with pytest.raises(UserError, match="holds weights of version '0' while the policy is at version 3"):
        engine.sync(named_weights(tiny[0]), 3)


def test_completions_stamped_with_another_version_are_refused(engine):
    engine._vllm.set_weight_version("8")
    with pytest.raises(UserError, match="its completions would be stale"):
        engine.generate(PROMPTS, Sampling(2), [1, 2, 3])
    engine._vllm.set_weight_version("0")
    stream = engine.stream(PROMPTS, Sampling(2), [1, 2, 3])
    engine._vllm.set_weight_version("0")
    next(stream)
    stream.close()


def test_sleeping_where_there_is_no_memory_to_free_changes_nothing(engine, tiny):
    before = engine.generate(PROMPTS, Sampling(4), [1, 2, 3])
    engine.sleep()
    engine.sync(named_weights(tiny[0]), 9)
    engine.wake()
    assert engine.generate(PROMPTS, Sampling(4), [1, 2, 3]) == before
