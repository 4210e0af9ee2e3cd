from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
import torch

from rlvr import UserError
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.server import FollowingServerEngine, ServerEngine
from rlvr.trainers.engines.server_client import ServerLoad
from rlvr.trainers.engines.server_weights import FolderWeights
from rlvr.trainers.seeding import derive

EOS = 1
PROMPTS = [[5, 6], [7], [5, 6, 8]]


def weights(shift):
    return [("shift", torch.tensor(shift)), ("other", torch.ones(3))]


@pytest.fixture
def engine(tmp_path):
    """Makes engines, and closes them with the test."""
    made = []

    def make(*servers, version=0, **options):
        said = options.pop("said", [])
        made.append(
            ServerEngine(
                [server.url for server in servers],
                {EOS},
                100,
                lambda connected: FolderWeights(tmp_path / "weights", connected[0].facts.dtype, 60),
                say=said.append,
                probe_every=0.05,
                **options,
            )
        )
        made[-1].sync(weights(version), version)
        return made[-1]

    yield make
    for each in made:
        each.close()


class Stream(threading.Thread):
    """Completions that are generated while the test does something else."""

    def __init__(self, engine, prompts, sampling, seeds):
        super().__init__(daemon=True)
        self.engine, self.arguments = engine, (prompts, sampling, seeds)
        self.completions = []
        self.error = None
        self.start()

    def run(self):
        try:
            self.completions = list(self.engine.stream(*self.arguments))
        except BaseException as error:
            self.error = error

    def result(self):
        self.join(60)
        if self.error is not None:
            raise self.error
        places = [place for place, _ in self.completions]
        assert sorted(places) == list(range(len(self.arguments[0]))), "dropped or duplicated"
        return [completion for _, completion in sorted(self.completions, key=lambda pair: pair[0])]


def test_a_request_is_token_ids_in_and_out_with_a_seed_of_its_own(rule_server, engine):
    server = rule_server()
    completions = engine(server).generate(PROMPTS, Sampling(30, 0.7, 0.9, 5), [3, 4, 5])
    asked = {request["seed"]: request for request in server.asked}
    assert [asked[seed]["prompt"] for seed in (3, 4, 5)] == PROMPTS
    assert all((r["max_tokens"], r["temperature"], r["top_p"], r["top_k"]) == (30, 0.7, 0.9, 5) for r in server.asked)
    assert all(r["stop_token_ids"] == [EOS] and r["ignore_eos"] and r["return_token_ids"] for r in server.asked)
    for completion in completions:
        assert (completion.finish_reason == "stop") == (completion.ids[-1] == EOS)
        assert completion.logprobs == [-1.0] * len(completion.ids)
        assert completion.versions == [0] * len(completion.ids)
        assert completion.entropies is None


def test_a_completion_depends_on_its_seed_alone(rule_server, engine):
    one, other = rule_server(), rule_server()
    together = engine(one, other).generate(PROMPTS * 4, Sampling(20), range(12))
    alone = engine(one).generate([PROMPTS[1]], Sampling(20), [7])
    assert together[7] == alone[0]


def test_completions_are_handed_on_as_they_are_finished(rule_server, engine):
    quick, slow = rule_server(), rule_server()
    slow.hold_at = 2
    stream = engine(quick, slow, routing="round_robin").stream([[5]] * 4, Sampling(20), range(4))
    first = [next(stream)[0] for _ in range(2)]
    slow.wait_for(lambda: slow.running == 2)
    slow.release()
    assert sorted([*first, *(place for place, _ in stream)]) == [0, 1, 2, 3]
    assert {request["seed"] for request in quick.asked} == set(first)


@pytest.mark.parametrize(("routing", "expected"), [("round_robin", 6), ("least_busy", 10)])
def test_requests_are_spread_over_the_servers(rule_server, engine, routing, expected):
    """The one that holds on to its two first requests gets no more by `least_busy` once it is the busier."""
    quick, slow = rule_server(max_num_seqs=64), rule_server(max_num_seqs=64)
    made = engine(quick, slow, routing=routing)
    slow.hold_at = 0
    first = Stream(made, [[5]] * 4, Sampling(20), range(4))
    slow.wait_for(lambda: slow.running == 2)
    quick.wait_for(lambda: quick.running == 0 and len(quick.asked) == 2)
    for seed in range(4, 12):
        later = Stream(made, [[5]], Sampling(20), [seed])
        if routing == "least_busy":
            later.result()
    (slow if routing == "round_robin" else quick).wait_for(lambda: len(quick.asked) == expected)
    slow.release()
    first.result()
    assert len(quick.asked) == expected


def test_no_server_gets_more_than_it_generates_at_a_time(rule_server, engine):
    server = rule_server(max_num_seqs=3)
    server.hold_at = 0
    stream = Stream(engine(server), [[5]] * 8, Sampling(20), range(8))
    server.wait_for(lambda: server.running == 3)
    assert len(server.asked) == 3
    server.release()
    assert len(stream.result()) == 8


def test_new_weights_change_what_is_drawn_and_are_read_back(rule_server, engine, tmp_path):
    one, other = rule_server(), rule_server()
    made = engine(one, other)
    before = made.generate(PROMPTS, Sampling(20), [1, 2, 3])
    made.sync(weights(4), 1)
    after = made.generate(PROMPTS, Sampling(20), [1, 2, 3])
    assert made.version == 1
    assert one.version == other.version
    assert one.version.endswith("/1")
    assert (one.shift, other.shift) == (4, 4)
    assert [a.logprobs[0] for a in after] == [-5.0] * 3
    assert [a.versions[0] for a in after] == [1] * 3
    assert [b.ids for b in before] != [a.ids for a in after]
    assert one.calls.count("/reset_prefix_cache") == 2
    assert [path.name for path in (tmp_path / "weights").iterdir()] == ["version-000001"]
    made.close()
    assert not (tmp_path / "weights").exists()


def test_a_server_that_does_not_own_up_to_its_weights_ends_the_run(rule_server, engine):
    server = rule_server()
    made = engine(server)
    server.lies_about_version = True
    with pytest.raises(UserError, match="says that its weights are 'other' after it was given"):
        made.sync(weights(1), 1)


def test_completions_of_a_server_that_was_restarted_unnoticed_are_an_error(rule_server, engine):
    server = rule_server()
    made = engine(server)
    server.kill()
    server.start()
    with pytest.raises(UserError, match="generated with weights labelled 'default' instead of"):
        made.generate([[5]], Sampling(5), [1])
    # Nor are those learnt from that were read while the others were still under way.
    with pytest.raises(UserError, match="generated with weights labelled 'default' instead of"):
        made.sync(weights(1), 1)


def test_weights_that_come_while_it_generates_are_stamped_token_by_token(rule_server, engine):
    server = rule_server()
    made = engine(server)
    server.hold_at = 3
    stream = Stream(made, [[5]] * 6, Sampling(40), range(6))
    server.wait_for(lambda: server.running == 6)
    made.sync(weights(2), 1)
    server.wait_for(lambda: server.running > 0)
    server.release()
    for seed, completion in enumerate(stream.result()):
        kept = completion.versions.count(0)
        assert completion.versions == [0] * kept + [1] * (len(completion.ids) - kept)
        assert completion.logprobs == [-1.0] * kept + [-3.0] * (len(completion.ids) - kept)
        segments = [request for request in server.asked if request["prompt"][1 : 1 + kept] == completion.ids[:kept]]
        if kept and kept < len(completion.ids):
            last = next(r for r in server.asked if r["prompt"] == [5, *completion.ids[:kept]])
            assert last["seed"] == derive(seed, "from", kept)
            assert last["max_tokens"] == 40 - kept
            assert segments
    assert {version for completion in stream.result() for version in completion.versions} == {0, 1}


def test_a_request_that_reached_the_server_after_the_pause_does_not_block_the_weights(rule_server, engine):
    """It waits in the server's queue, unaborted by the pause."""
    server = rule_server()
    made = engine(server)
    server.late = True
    stream = Stream(made, [[5]], Sampling(10), [1])
    server.wait_for(lambda: server.running == 1)
    syncing = threading.Thread(target=made.sync, args=(weights(1), 1), daemon=True)
    syncing.start()
    server.wait_for(lambda: "/abort_requests" in server.calls)
    server.late = False
    syncing.join(60)
    assert stream.result()[0].versions[0] == 1


def test_a_killed_server_s_requests_are_made_again_with_their_seeds(rule_server, engine):
    one, other = rule_server(), rule_server()
    said = []
    made = engine(one, other, said=said)
    expected = made.generate([[5]] * 10, Sampling(20), range(10))
    other.hold_at = 2
    stream = Stream(made, [[5]] * 10, Sampling(20), range(10))
    other.wait_for(lambda: other.running == 5)
    other.kill()
    assert stream.result() == expected
    assert made.lost == 1
    assert made.retries == 5
    assert len([sentence for sentence in said if "is lost" in sentence]) == 1
    assert made.generate([[5]] * 3, Sampling(20), range(3)) == expected[:3]


def test_a_server_that_is_back_gets_the_latest_weights_first(rule_server, engine):
    back = threading.Event()

    class Heard(list):
        def append(self, sentence):
            super().append(sentence)
            if "is back" in sentence:
                back.set()

    one, other, said = rule_server(), rule_server(), Heard()
    made = engine(one, other, said=said)
    other.kill()
    made.generate([[5]] * 6, Sampling(20), range(6))
    assert made.lost == 1
    made.sync(weights(3), 1)
    other.start()
    assert back.wait(60)
    assert (other.shift, other.version) == (3, one.version)
    asked = len(other.asked)
    assert {c.logprobs[0] for c in made.generate([[5]] * 6, Sampling(20), range(6))} == {-4.0}
    assert len(other.asked) > asked
    assert any("is back, with the weights of version 1" in sentence for sentence in said)


def test_with_all_servers_lost_the_run_says_what_to_do(rule_server, engine):
    one, other = rule_server(), rule_server()
    made = engine(one, other)
    one.kill()
    other.kill()
    with pytest.raises(
        UserError, match=r"No server is left .* do not answer\); start them again, and go on with --resume"
    ):
        made.generate([[5]] * 6, Sampling(20), range(6))
    with pytest.raises(UserError, match="No server is left"):
        made.sync(weights(1), 1)


def test_a_request_that_never_returns_is_made_again_elsewhere(rule_server, engine):
    one, other = rule_server(), rule_server()
    said = []
    made = engine(one, other, said=said, request_timeout=0.2)
    expected = made.generate([[5]] * 4, Sampling(20), range(4))
    other.hung = True
    assert made.generate([[5]] * 4, Sampling(20), range(4)) == expected
    assert made.lost == 0
    assert sum("took more than 0.2 s" in sentence for sentence in said) == made.retries == 2


def looks(server):
    return server.calls.count("/metrics")


def test_a_request_is_not_lost_while_it_may_be_in_the_queue(rule_server, engine):
    """Six looks are three times as long as a request may take."""
    server = rule_server()
    said = []
    made = engine(server, said=said, request_timeout=0.2)
    expected = made.generate([[5]], Sampling(20), [1])
    server.waiting, server.hung = 2, True
    stream = Stream(made, [[5]], Sampling(20), [1])
    server.wait_for(lambda: looks(server) >= 6)
    server.release()
    stream.join(20)
    assert stream.completions == [(0, expected[0])]
    assert len(server.asked) == 2
    assert made.retries == 0
    assert not said


@pytest.mark.parametrize(("waiting", "works"), [(0, True), (2, False)])
def test_a_request_is_lost_where_nothing_waits_and_where_the_queue_does_not_move(rule_server, engine, waiting, works):
    one, other = rule_server(), rule_server()
    said = []
    made = engine(one, other, said=said, request_timeout=0.2)
    other.waiting, other.works, other.hung = waiting, works, True
    assert len(made.generate([[5]] * 4, Sampling(20), range(4))) == 4
    assert looks(other) > 0
    assert sum("took more than 0.2 s" in sentence for sentence in said) == made.retries == 2


def test_the_time_of_a_request_is_counted_from_when_the_queue_is_empty(rule_server, engine):
    one, other = rule_server(), rule_server()
    made = engine(one, other, request_timeout=0.2)
    other.waiting, other.hung = 1, True
    stream = Stream(made, [[5]] * 2, Sampling(20), range(2))
    other.wait_for(lambda: looks(other) >= 6)
    assert made.retries == 0
    other.waiting = 0
    stream.join(20)
    assert sorted(place for place, _ in stream.completions) == [0, 1]
    assert made.retries == 1


def test_what_a_server_has_to_do_is_read_over_all_its_engines(rule_server, engine):
    server = rule_server()
    made = engine(server)
    client = made._pool.servers[0].client
    assert made._loop.run(client.load()) is None
    server.waiting = 3
    # 1 + 120 generated and 5 + 6 read
    assert made._loop.run(client.load()) == ServerLoad(waiting=3, tokens=132)


def test_a_request_that_no_server_answers_ends_the_run(rule_server, engine):
    server = rule_server()
    made = engine(server, request_timeout=0.1)
    server.hung = True
    with pytest.raises(UserError, match=r"failed 3 times .* raise engine.request_timeout"):
        made.generate([[5]], Sampling(20), [1])


def test_a_server_that_answers_but_is_unwell_is_lost(rule_server, engine):
    one, other = rule_server(), rule_server()
    made = engine(one, other)
    other.status, other.unwell = 500, True
    assert len(made.generate([[5]] * 6, Sampling(20), range(6))) == 6
    assert made.lost == 1


def test_a_lost_server_does_not_stop_new_weights(rule_server, engine):
    one, other = rule_server(), rule_server()
    made = engine(one, other)
    other.kill()
    made.sync(weights(1), 1)
    assert (made.version, made.lost, one.shift) == (1, 1, 1)


def test_a_server_that_cannot_take_the_weights_ends_the_run(rule_server, engine, tmp_path, monkeypatch):
    server = rule_server()
    made = engine(server)
    monkeypatch.setattr(
        FolderWeights, "prepare", lambda self, weights, version: setattr(self, "_prepared", Path("/no"))
    )
    with pytest.raises(UserError, match=r"could not take the weights \(.*no such folder"):
        made.sync(weights(1), 1)


def test_ids_beyond_the_tokenizer_are_refused(rule_server, engine):
    server = rule_server()
    made = engine(server)
    made._vocabulary = 20
    with pytest.raises(UserError, match=r"sampled the token id .* but the tokenizer has 20 tokens"):
        made.generate([[5]] * 5, Sampling(20), range(5))


def test_what_does_not_fit_is_said(rule_server, engine):
    with pytest.raises(UserError, match="do not fit in the 200 positions of the servers"):
        engine(rule_server()).generate([[5] * 150], Sampling(60), [1])


@pytest.mark.parametrize(
    ("facts", "flag"),
    [
        ({"logprobs_mode": "raw_logprobs"}, "--logprobs-mode processed_logprobs"),
        ({"chunked": True}, "--no-enable-chunked-prefill"),
        ({"extension": ""}, "--worker-extension-cls rlvr.trainers.engines.server_worker.CheckingWorker"),
    ],
)
def test_a_server_that_is_not_fit_to_train_with_is_said_at_the_start(rule_server, engine, facts, flag):
    with pytest.raises(UserError, match=f"is not fit to train with: .*; start it by `rlvr serve`, or with {flag}"):
        engine(rule_server(**facts))


def test_a_server_of_the_users_on_a_gpu_needs_neither_of_the_flags_for_cpus(rule_server, engine):
    server = rule_server(device="cuda", chunked=True, extension="")
    engine(server).sync(weights(2), 1)
    assert server.shift == 2


def test_weights_that_a_server_did_not_take_over_are_an_error(rule_server, engine):
    server = rule_server()
    made = engine(server)
    server.stale = ["model.embed_tokens.weight"]
    with pytest.raises(UserError, match=r"did not take over 1 of the weights it was given \(model.embed_tokens.weight"):
        made.sync(weights(1), 1)


def test_a_server_that_is_not_there_is_said_at_the_start(rule_server, engine):
    server = rule_server()
    server.kill()
    with pytest.raises(UserError, match=r"No vLLM server answers at http://127.0.0.1:\d+ .*rlvr serve MODEL"):
        engine(server)


def test_prompts_that_are_added_to_a_stream_join_it(rule_server, engine):
    server = rule_server()
    prompts, seeds, seen = [[5]], [1], []
    for place, completion in engine(server).stream(prompts, Sampling(20), seeds):
        seen.append(place)
        if len(prompts) < 4:
            seeds.append(seeds[-1] + 1)
            prompts.append([*prompts[-1], *completion.ids])
    assert seen == [0, 1, 2, 3]
    assert [request["prompt"] for request in server.asked] == prompts


def test_a_stream_that_is_left_gives_up_its_requests(rule_server, engine):
    server = rule_server()
    made = engine(server)
    server.hold_at = 5
    next(stream := made.stream([[5]] * 30, Sampling(20), range(30)))  # some end before the fifth token
    stream.close()
    server.release()
    assert Counter(len(c.ids) > 0 for c in made.generate([[5]] * 64, Sampling(20), range(64))) == {True: 64}


def test_the_engines_of_other_processes_follow_the_first(rule_server, engine):
    one, other = rule_server(), rule_server()
    lead = engine(one, other, run="a")
    follower = FollowingServerEngine(
        [one.url, other.url], {EOS}, 100, lambda servers: FolderWeights(Path("/nowhere"), "float32", 1), run="a"
    )
    gathered = iter(weights(3))
    lead.sync(weights(3), 1)
    follower.sync(gathered, 1)
    assert next(gathered, None) is None
    assert follower.version == 1
    assert follower.generate([[5]] * 6, Sampling(20), range(6)) == lead.generate([[5]] * 6, Sampling(20), range(6))
    follower.close()


def test_an_engine_that_follows_asks_nothing_of_a_server_that_the_first_process_left_out(rule_server, engine):
    one, other = rule_server(), rule_server()
    lead, said = engine(one, run="a"), []
    follower = FollowingServerEngine(
        [one.url, other.url],
        {EOS},
        100,
        lambda servers: FolderWeights(Path("/nowhere"), "float32", 1),
        run="a",
        say=said.append,
        probe_every=0.05,
    )
    lead.sync(weights(3), 1)
    follower.sync(weights(3), 1)
    assert follower.generate([[5]] * 6, Sampling(20), range(6)) == lead.generate([[5]] * 6, Sampling(20), range(6))
    assert not other.asked
    assert said == [f"warning: the server {other.url} is lost (it has the weights 'default' instead of 'a/1')"]
    follower.close()


def test_threads_share_the_engine(rule_server, engine):
    made = engine(rule_server(), rule_server())
    streams = [Stream(made, [[5]] * 8, Sampling(20), range(first, first + 8)) for first in range(0, 64, 8)]
    together = [completion for stream in streams for completion in stream.result()]
    assert together == made.generate([[5]] * 64, Sampling(20), range(64))
