"""Two real vLLM servers on the tiny policy."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch

pytest.importorskip("vllm")

import httpx2

from rlvr import UserError
from rlvr.envs import make_vec
from rlvr.trainers.asynchronous import AsynchronousRollouts
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.engines.model_sizes import sizes_of
from rlvr.trainers.engines.probe import probe
from rlvr.trainers.engines.server import ServerEngine
from rlvr.trainers.engines.server_process import ServerOptions, ServerProcess, stop_group
from rlvr.trainers.engines.server_weights import FolderWeights
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.rollouts import Player
from rlvr.trainers.task_queue import TaskQueue
from rlvr.trainers.tiny import build_tiny
from rlvr.trainers.weights import named_weights

pytestmark = pytest.mark.slow

PROMPTS = [[20, 21, 22], [30, 31, 32, 33, 34], [40]]


class Servers:
    """One that is started as a trainer does, and one as a user does."""

    def __init__(self, folder, logs):
        self.own = ServerProcess(ServerOptions(folder, dtype="float32", max_model_len=512), logs / "own.log")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        self.log = logs / "served.log"
        command = [Path(sys.executable).with_name("rlvr"), "serve", folder, "--port", port]
        command += ["--dtype", "float32", "--max-model-len", "512", "--", "--max-num-seqs", "64"]
        with self.log.open("wb") as file:
            self.served = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        self.served_url = f"http://127.0.0.1:{port}"

    @property
    def urls(self):
        alive = [(self.own.url, psutil.pid_exists(self.own.pid)), (self.served_url, self.served.poll() is None)]
        return [url for url, is_alive in alive if is_alive]

    def wait_until_ready(self):
        self.own.wait_until_ready(900)
        while self.served.poll() is None:
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.served_url}/health", trust_env=False).status_code == 200:
                    return
            time.sleep(0.25)
        raise AssertionError(self.log.read_text()[-2000:])

    def close(self):
        self.own.close()
        stop_group(self.served, 20)


@pytest.fixture(scope="module")
def servers(tiny, tmp_path_factory):
    started = Servers(str(tiny[2]), tmp_path_factory.mktemp("logs"))
    try:
        started.wait_until_ready()
        yield started
    finally:
        started.close()


@pytest.fixture
def engine(servers, tiny, tmp_path):
    model, tokenizer, _ = tiny
    made = ServerEngine(
        servers.urls,
        {tokenizer.eos_token_id},
        len(tokenizer),
        lambda connected: FolderWeights(tmp_path / "weights", connected[0].facts.dtype, 60),
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
        time.sleep(0.001)
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


def test_a_run_that_is_one_step_ahead(engine, tiny):
    model, tokenizer, _ = tiny
    envs = make_vec("rlvr/Arithmetic-v0", 1, level=1, template="{expression}=", system=None)
    player = Player(engine, tokenizer, {tokenizer.eos_token_id}, Sampling(60), 4, 3, seed=5)
    queue = TaskQueue(1, len(envs.tasks))
    rollouts = AsynchronousRollouts(player, envs, queue, 1)
    taken = []
    for step in range(4):
        taken += rollouts.take(step)
        rollouts.sync(named_weights(model if step % 2 else other_weights(tiny)), step + 1)
    told = rollouts.metrics()
    rollouts.close()
    assert [t.group for t in taken] == [group for _ in range(4) for group in range(3) for _ in range(4)]
    tasks = [envs.tasks[index].id for index in TaskQueue(1, len(envs.tasks)).take(12)]
    assert [t.task_id for t in taken[::4]] == tasks
    assert 0 <= told["sampling/staleness/max"] <= 1
    versions = [version for t in taken for version, generated in zip(t.versions, t.loss_mask, strict=True) if generated]
    assert set(versions) <= {0, 1, 2, 3}


def test_a_server_says_that_requests_wait_while_it_works_on_others(engine, servers):
    """It generates 64 at a time, and is given more, as several who do not know of each other may do."""
    server = next(server for server in engine._pool.servers if server.url == servers.served_url)
    ask, load = server.client.complete, server.client.load
    loads = [engine._loop.run(load())]
    sampling = Sampling(400)
    jobs = [engine._loop.start(ask(server.facts.model, [40], sampling, seed, set())) for seed in range(192)]
    while not all(job.done() for job in jobs):
        loads.append(engine._loop.run(load()))
    assert all(len(job.result().ids) == 400 for job in jobs)
    assert max(load.waiting for load in loads) > 64
    assert loads[0].tokens < loads[-1].tokens


def test_servers_take_the_right_weights_after_wrong_ones(engine, tiny):
    """The reload ends in the last layer, when it has taken in the others."""
    model = tiny[0]
    last = "model.layers.2.mlp.up_proj.weight"
    wrong = [(name, weight[:7] if name == last else weight) for name, weight in named_weights(other_weights(tiny))]
    with pytest.raises(UserError, match=r"could not take the weights .*at the weight model.layers.2.mlp.up_proj"):
        engine.sync(wrong, 1)
    engine.sync(named_weights(model), 2)
    prompts = PROMPTS * 4
    for prompt, completion in zip(prompts, engine.generate(prompts, Sampling(20), range(len(prompts))), strict=True):
        expected = own_logprobs(model, prompt, completion)
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-3, rtol=1e-3)


def test_a_server_tells_how_large_its_model_is(engine, tiny):
    assert {server.facts.sizes.name for server in engine._pool.servers} == {str(tiny[2])}
    for server in engine._pool.servers:
        assert server.facts.sizes.sizes == sizes_of(tiny[0].config)
        assert len(server.facts.sizes.sizes) == 6


def test_a_killed_server_s_completions_come_from_the_other(engine, servers, tiny):
    expected = engine.generate(PROMPTS * 8, Sampling(100), range(24))
    finished = {}
    stream = threading.Thread(
        target=lambda: finished.update(engine.stream(PROMPTS * 8, Sampling(100), range(24))), daemon=True
    )
    stream.start()
    while not all(server.running for server in engine._pool.servers):
        time.sleep(0.001)
    os.killpg(servers.own.pid, signal.SIGKILL)
    stream.join(120)
    assert [finished[place].ids for place in range(24)] == [completion.ids for completion in expected]
    assert engine.lost == 1
    engine.sync(named_weights(tiny[0]), 1)
    assert len(engine.generate(PROMPTS, Sampling(20), [1, 2, 3])) == 3


def test_rlvr_serve_passes_signals_on_and_leaves_neither_processes_nor_files(servers):
    served = psutil.Process(servers.served.pid)
    children, folder = served.children(recursive=True), Path(served.environ()["TMPDIR"])
    assert children
    assert any(folder.iterdir())
    assert "2+2" not in servers.log.read_text()
    servers.served.terminate()
    servers.served.wait(60)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]
    deadline = time.monotonic() + 90
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not folder.exists()


def test_closing_leaves_no_process(tiny, tmp_path):
    server = ServerProcess(ServerOptions(str(tiny[2]), dtype="float32", max_model_len=512), tmp_path / "log")
    with pytest.raises(UserError, match="did not answer within 20 s"):
        server.wait_until_ready(20)
    pattern = str(tiny[2])
    assert not [p for p in psutil.process_iter(["cmdline"]) if pattern in " ".join(p.info["cmdline"] or [])]
