import pytest
import torch

from rlvr import UserError
from rlvr.trainers.engines import Completion, Engine
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.engines.probe import probe
from rlvr.trainers.logprobs import TokenLogprobs

PROMPTS = [[10, 11, 12], [20, 21, 22, 23, 24], [30]]


class Shifted(Engine):
    """Says that each token was `shift` nats likelier than it was, and the first of all `extra` more."""

    def __init__(self, engine, shift, extra=0.0):
        self.engine, self.shift, self.extra = engine, shift, extra

    def stream(self, prompts, sampling, seeds):
        for place, completion in self.engine.stream(prompts, sampling, seeds):
            shifted = [logprob + self.shift for logprob in completion.logprobs]
            shifted[0] += self.extra if place == 0 else 0.0
            yield place, Completion(completion.ids, shifted, None, completion.finish_reason)

    def sync(self, weights, version):
        self.version = version


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_an_engine_of_the_policy_differs_by_rounding_alone(random_llama, temperature):
    model = random_llama()
    found = probe(HFEngine(model, [1], 0), TokenLogprobs(model, temperature), PROMPTS, 0, max_mean_diff=1e-4)
    assert 0 <= found["sampling/probe_logprob_diff_mean"] <= found["sampling/probe_logprob_diff_max"] < 1e-3


def test_the_mean_and_the_largest_difference_are_those_of_the_generated_tokens(random_llama):
    model = random_llama()
    engine = Shifted(HFEngine(model, [], 0), 0.25, extra=1.5)
    found = probe(engine, TokenLogprobs(model), PROMPTS, 0, max_mean_diff=1, max_tokens=5)
    assert found["sampling/probe_logprob_diff_max"] == pytest.approx(1.75, abs=1e-4)
    assert found["sampling/probe_logprob_diff_mean"] == pytest.approx(0.25 + 1.5 / 15, abs=1e-4)


def test_it_asks_for_no_more_than_the_engine_has_room_for(random_llama):
    model = random_llama()
    engine = Shifted(HFEngine(model, [], 0), 0.0, extra=0.7)
    engine.max_length = 7
    found = probe(engine, TokenLogprobs(model), PROMPTS, 0, max_mean_diff=1)
    # The longest prompt has 5 tokens, so that each of the three is completed with 2.
    assert found["sampling/probe_logprob_diff_mean"] == pytest.approx(0.7 / 6, abs=1e-4)


def test_older_weights_are_noticed_and_named(random_llama):
    stale, policy = random_llama(0), random_llama(1)
    engine = HFEngine(stale, [1], 0)
    engine.sync([], 7)
    with pytest.raises(UserError, match=r"the policy's of version 7 differ by .* nats on average .* stale weights"):
        probe(engine, TokenLogprobs(policy), PROMPTS, 0, max_mean_diff=0.5)


def test_log_probs_that_ignore_the_temperature_are_noticed(random_llama):
    model = random_llama()
    with pytest.raises(UserError, match="processed_logprobs"):
        probe(_Raw(HFEngine(model, [], 0)), TokenLogprobs(model, 0.5), PROMPTS, 0, max_mean_diff=0.1)


class _Raw(Shifted):
    """Draws at the temperature that it is asked for, and reports log-probs at 1."""

    def __init__(self, engine):
        super().__init__(engine, 0.0)

    def stream(self, prompts, sampling, seeds):
        model = self.engine._model
        for place, completion in self.engine.stream(prompts, sampling, seeds):
            ids = [*prompts[place], *completion.ids]
            rows = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            start = len(prompts[place])
            raw = [float(rows[start + step - 1, token]) for step, token in enumerate(completion.ids)]
            yield place, Completion(completion.ids, raw, None, completion.finish_reason)


def test_a_difference_that_is_no_number_is_beyond_every_bound(random_llama):
    model = random_llama()
    with pytest.raises(UserError, match="nan nats on average"):
        probe(Shifted(HFEngine(model, [1], 0), float("nan")), TokenLogprobs(model), PROMPTS, 0, max_mean_diff=1e9)
