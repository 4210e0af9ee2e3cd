"""Two real vLLM servers on the tiny policy."""

from __future__ import annotations

import os
import signal
import threading

import psutil
import pytest
import torch

pytest.importorskip("vllm")

from rlvr import UserError
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.engines.probe import probe
from rlvr.trainers.engines.server import ServerEngine
from rlvr.trainers.engines.server_process import ServerOptions, ServerProcess
from rlvr.trainers.engines.server_weights import FolderWeights
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.tiny import build_tiny
from rlvr.trainers.weights import named_weights

pytestmark = pytest.mark.slow

PROMPTS = [[20, 21, 22], [30, 31, 32, 33, 34], [40]]


@pytest.fixture(scope="module")
def processes(tiny, tmp_path_factory):
    logs = tmp_path_factory.mktemp("logs")
    options = ServerOptions(str(tiny[2]), dtype="float32", max_model_len=512)
    started = [ServerProcess(options, logs / f"server-{number}.log") for number in range(2)]
    try:
        for process in started:
            process.wait_until_ready(600)
        yield started
    finally:
        for process in started:
            process.close()


@pytest.fixture
def engine(processes, tiny, tmp_path):
    model, tokenizer, _ = tiny
    made = ServerEngine(
        [process.url for process in processes if psutil.pid_exists(process.pid)],
        {tokenizer.eos_token_id},
        len(tokenizer),
        lambda servers: FolderWeights(tmp_path / "weights", servers[0].facts.dtype, 60),
    )
    made.sync(named_weights(model), 0)
    yield made
    made.close()


def own_logprobs(model, prompt, completion):
    ids = torch.tensor([[*prompt, *completion.ids]])
    mask = torch.zeros_like(ids, dtype=torch.bool)
    mask[:, len(prompt) :] = True
    with torch.no_grad():
        return TokenLogprobs(model, 1.0)(ids, torch.ones_like(ids), mask).logprobs[mask]


def other_weights(tiny):
    model, _ = build_tiny(1)
    return model.eval()


def test_the_log_probs_are_the_policys(engine, tiny):
    for prompt, completion in zip(PROMPTS, engine.generate(PROMPTS, Sampling(20), [1, 2, 3]), strict=True):
        expected = own_logprobs(tiny[0], prompt, completion)
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-3, rtol=1e-3)


def test_greedy_completions_are_those_of_the_embedded_engine(engine, tiny):
    model, tokenizer, _ = tiny
    embedded = HFEngine(model, [tokenizer.eos_token_id], tokenizer.pad_token_id)
    greedy = Sampling(10, temperature=0)
    expected = [completion.ids for completion in embedded.generate(PROMPTS, greedy, [1, 2, 3])]
    assert [completion.ids for completion in engine.generate(PROMPTS, greedy, [1, 2, 3])] == expected


def test_a_completion_depends_on_its_seed(engine):
    twice = [engine.generate(PROMPTS[:1] * 4, Sampling(20), [1, 2, 1, 3]) for _ in range(2)]
    assert [c.ids for c in twice[0]] == [c.ids for c in twice[1]]
    assert twice[0][0].ids == twice[0][2].ids
    assert twice[0][0].ids != twice[0][1].ids


def test_an_eos_ends_a_completion_and_is_part_of_it(engine, tiny):
    free = engine.generate(PROMPTS[:1], Sampling(20), [1])[0]
    engine._eos_ids = frozenset({free.ids[5]})
    ended = engine.generate(PROMPTS[:1], Sampling(20), [1])[0]
    end = free.ids.index(free.ids[5]) + 1
    assert (ended.ids, ended.finish_reason) == (free.ids[:end], "stop")


def test_new_weights_reach_every_server_and_a_skipped_hand_over_is_noticed(engine, tiny):
    model, tokenizer, _ = tiny
    other = other_weights(tiny)
    policies = {"old": TokenLogprobs(model, 1.0), "new": TokenLogprobs(other, 1.0)}
    prompts = PROMPTS * 2
    assert probe(engine, policies["old"], prompts, tokenizer.pad_token_id, max_mean_diff=0.01)
    with pytest.raises(UserError, match="The engine is not the policy"):
        probe(engine, policies["new"], prompts, tokenizer.pad_token_id, max_mean_diff=0.01)
    engine.sync(named_weights(other), 1)
    assert probe(engine, policies["new"], prompts, tokenizer.pad_token_id, max_mean_diff=0.01)


def test_each_segment_of_an_interrupted_completion_was_drawn_under_its_version(engine, tiny):
    """As many as the servers have room for, so that some are in the middle whenever the weights come."""
    model, other = tiny[0], other_weights(tiny)
    count, finished = 192, {}
    stream = threading.Thread(
        target=lambda: finished.update(engine.stream(PROMPTS * (count // 3), Sampling(400), range(count)))
    )
    started = len(engine._pool.servers)
    stream.start()
    while sum(len(server.running) for server in engine._pool.servers) < 64 * started:
        pass
    engine.sync(named_weights(other), 1)
    stream.join()
    assert sorted(finished) == list(range(count))
    mixed = [place for place, completion in finished.items() if len(set(completion.versions)) == 2]
    assert mixed
    for place in mixed[:5]:
        completion = finished[place]
        kept = completion.versions.count(0)
        prompt = PROMPTS[place % 3]
        expected = torch.cat(
            [own_logprobs(model, prompt, completion)[:kept], own_logprobs(other, prompt, completion)[kept:]]
        )
        assert completion.versions == [0] * kept + [1] * (len(completion.ids) - kept)
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-3, rtol=1e-3)


def test_a_killed_server_s_completions_come_from_the_other(engine, processes, tiny):
    expected = engine.generate(PROMPTS * 8, Sampling(100), range(24))
    finished = {}
    stream = threading.Thread(
        target=lambda: finished.update(engine.stream(PROMPTS * 8, Sampling(100), range(24))), daemon=True
    )
    stream.start()
    while not all(server.running for server in engine._pool.servers):
        pass
    os.killpg(processes[1].pid, signal.SIGKILL)
    processes[1].close()
    stream.join(120)
    assert [finished[place].ids for place in range(24)] == [completion.ids for completion in expected]
    assert engine.lost == 1
    engine.sync(named_weights(tiny[0]), 1)
    assert len(engine.generate(PROMPTS, Sampling(20), [1, 2, 3])) == 3


def test_a_stopped_server_leaves_no_process(processes):
    children = psutil.Process(processes[0].pid).children(recursive=True)
    assert children
    processes[0].close()
    assert not psutil.pid_exists(processes[0].pid)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
