"""Completions that are verified while the caller goes on: `TextVectorEnv.send` and `recv`."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from rlvr import Rubric, Task, Tasks, TextVectorEnv, UserError, gate, metric, score, verifier
from rlvr.envs import Reply
from rlvr.envs.background import AT_ONCE, Background
from rlvr.verifiers import verify

TASKS = Tasks.from_list([Task(f"t/{i}", f"What is {i} + 1?", str(i + 1)) for i in range(10)])


def exact(completion: str, answer: str) -> float:
    if completion == "break":
        raise OSError("no disk")
    return float(completion == answer)


class Gates:
    """Verdicts that come when they are told to."""

    def __init__(self):
        self.events = {}
        self.lock = threading.Lock()
        self.running = self.most = 0

    def __getitem__(self, name):
        with self.lock:
            return self.events.setdefault(name, threading.Event())

    def rubric(self):
        def gated(completion: str, answer: str) -> float:
            with self.lock:
                self.running += 1
                self.most = max(self.most, self.running)
            self[completion].wait(60)
            with self.lock:
                self.running -= 1
            return exact(completion, answer)

        return Rubric(score(gated, passes=True))


def make(num_envs=3, rubric=None, **options):
    env = TextVectorEnv(num_envs, TASKS, rubric or Rubric(score(exact, passes=True)), **options)
    env.reset(options={"task": 4})
    return env


def test_what_was_sent_comes_back_as_a_step_gives_it():
    completions = ["5", "6", "break"]
    sent, stepped = make(), make()
    assert sent.send(completions, [0, 1, 2]) is None
    assert sent.in_flight == 3
    rows, observations, rewards, terminated, truncated, infos = sent.recv(3)
    theirs = stepped.step(completions)
    order = np.argsort(rows)
    assert rows.dtype == np.int64
    assert sorted(rows.tolist()) == [0, 1, 2]
    assert observations == ("", "", "") == theirs[0]
    for mine, other in zip((rewards, terminated, truncated), theirs[1:4], strict=True):
        np.testing.assert_array_equal(mine[order], other)
        assert mine.dtype == other.dtype
    assert infos.keys() == theirs[4].keys()
    for key, values in infos.items():
        np.testing.assert_array_equal(values[order], theirs[4][key])
        assert values.dtype == theirs[4][key].dtype
    assert sent.verdicts == stepped.verdicts
    assert sent.conversations == stepped.conversations
    assert sent.in_flight == 0


def test_a_slow_verdict_holds_up_no_other_and_the_order_is_that_of_completion():
    gates = Gates()
    env = make(3, gates.rubric())
    env.send(["5", "6", "7"], [0, 1, 2])
    assert env.recv(0)[0].tolist() == []
    gates["7"].set()
    assert env.recv()[0].tolist() == [2]
    gates["6"].set()
    rows, _, rewards, *_ = env.recv(1)
    assert (rows.tolist(), rewards.tolist(), env.in_flight) == ([1], [0.0], 1)
    gates["5"].set()
    rows, _, rewards, *_ = env.recv(1)
    assert (rows.tolist(), rewards.tolist(), env.in_flight) == ([0], [1.0], 0)


def test_rows_may_be_sent_while_others_are_in_flight():
    gates = Gates()
    env = make(2, gates.rubric())
    env.send(["5"], [1])
    env.send(["6"], [0])
    gates["6"].set()
    assert env.recv()[0].tolist() == [0]
    gates["5"].set()
    assert env.recv()[0].tolist() == [1]


def test_the_infos_have_an_entry_for_each_row_received():
    gates = Gates()
    env = make(3, gates.rubric())
    env.send(["5", "break", "6"], [0, 1, 2])
    for name in ("break", "5"):
        gates[name].set()
    rows, _, rewards, _, _, infos = env.recv(2)
    order = np.argsort(rows)
    assert rows[order].tolist() == [0, 1]
    assert infos["status"][order].tolist() == ["ok", "error"]
    assert infos["_passed"][order].tolist() == [True, False]
    assert np.isnan(rewards[order]).tolist() == [False, True]
    gates["6"].set()
    env.recv(1)


def test_no_more_than_so_many_are_verified_at_a_time():
    gates, count = Gates(), AT_ONCE + 20
    env = make(count, gates.rubric())
    env.send([str(row) for row in range(count)], range(count))
    for row in range(count):
        gates[str(row)].set()
    assert sorted(env.recv(count)[0].tolist()) == list(range(count))
    assert 1 < gates.most <= AT_ONCE


def test_threads_are_started_where_none_is_free_and_used_again():
    background, started, go_on, threads = Background(2), threading.Semaphore(0), threading.Semaphore(0), set()

    def call():
        threads.add(threading.current_thread())
        started.release()
        go_on.acquire()

    for _ in range(5):
        background.run(call)
    started.acquire()
    started.acquire()
    assert not started.acquire(blocking=False)
    go_on.release(5)
    for _ in range(3):
        started.acquire()
    assert len(threads) == 2
    assert all(thread.daemon for thread in threads)


@pytest.mark.parametrize("kind", ["plain", "async", "pool", "batch"])
def test_all_kinds_of_verifiers_give_the_verdicts_of_a_step(kind):
    if kind == "plain":
        grader = exact
    elif kind == "async":

        async def grader(completion: str, answer: str) -> float:
            await asyncio.sleep(0)
            return exact(completion, answer)

    elif kind == "pool":
        # Not `exact` itself, since the module of a test is found by no other process.
        @verifier("test-send-recv/pool-v1", timeout=20)
        def grader(completion: str, answer: str) -> float:
            return float(completion == answer)
    else:

        def grader(completions: list[str], answer: list[str]) -> list[float]:
            return [exact(*pair) for pair in zip(completions, answer, strict=True)]

    rubric = Rubric(gate("rlvr/think-v1", think="none"), score(grader, name="grader", passes=True))
    sent, stepped = make(4, rubric), make(4, rubric)
    sent.send(["5", "6", "5", "4"], range(4))
    sent.recv(4)
    stepped.step(["5", "6", "5", "4"])
    assert sent.verdicts == stepped.verdicts
    assert [verdict.score for verdict in sent.verdicts] == [1.0, 0.0, 1.0, 0.0], sent.verdicts


def test_a_batch_function_finds_those_of_one_send_in_a_call():
    calls = []

    def batch(completions: list[str], answer: list[str]) -> list[float]:
        calls.append(list(completions))
        return [1.0] * len(completions)

    for rubric in (
        Rubric(score(batch, passes=True)),
        Rubric(score(Rubric(score(batch)), name="inner", passes=True), metric(exact)),
    ):
        env = make(5, rubric)
        assert env.grades_together
        env.send(["a", "b", "c"], [0, 2, 4])
        env.send(["d", "e"], [1, 3])
        env.recv(5)
    assert sorted(calls) == [["a", "b", "c"]] * 2 + [["d", "e"]] * 2
    assert not make().grades_together


def test_a_mistake_of_the_users_comes_through_and_leaves_its_row_as_it_was():
    def picky(completion: str, answer: str) -> float:
        if completion == "?":
            raise UserError("Completions have no question marks; leave them out.")
        return exact(completion, answer)

    env = make(3, Rubric(score(picky, passes=True)))
    env.send(["5", "?", "6"], [0, 1, 2])
    received = []

    def receive_all():
        while env.in_flight:
            received.extend(env.recv(1)[0].tolist())

    with pytest.raises(UserError, match="no question marks"):
        receive_all()
    receive_all()
    assert sorted(received) == [0, 2]
    assert env.verdicts[1] is None
    env.send(["5"], [1])
    assert env.recv()[2].tolist() == [1.0]


def test_an_episode_that_begins_anew_hears_nothing_of_the_old_one():
    gates = Gates()
    env = make(2, gates.rubric())
    env.send(["5", "6"], [0, 1])
    env.reset(options={"task": 5, "reset_mask": np.array([True, False])})
    assert env.in_flight == 1
    env.send(["6"], [0])
    for name in ("5", "6"):
        gates[name].set()
    rows, _, rewards, *_ = env.recv(2)
    # On task 5, "6" is right.
    assert dict(zip(rows.tolist(), rewards.tolist(), strict=True)) == {0: 1.0, 1: 0.0}
    assert env.in_flight == 0


def test_what_went_wrong_with_an_old_episode_is_no_matter_of_the_new_one():
    started, go_on = threading.Event(), threading.Event()

    def picky(completion: str) -> float:
        if completion == "?":
            started.set()
            go_on.wait(60)
            raise UserError("No.")
        return 1.0

    env = make(1, Rubric(score(picky, passes=True)))
    env.send(["?"], [0])
    started.wait(60)
    env.reset(options={"task": 1})
    env.send(["2"], [0])
    go_on.set()
    assert env.recv()[2].tolist() == [1.0]


def test_several_turns():
    def again(task, conversation, completion):
        return Reply("Again?", 0.5) if completion == "no" else Reply(None)

    env = make(2, turn=again, max_turns=3)
    env.send(["no", "5"], [0, 1])
    rows, observations, rewards, terminated, truncated, _ = env.recv(2)
    order = np.argsort(rows)
    assert np.array(observations)[order].tolist() == ["Again?", ""]
    assert rewards[order].tolist() == [0.5, 1.0]
    assert terminated[order].tolist() == [False, True]
    assert truncated.tolist() == [False, False]
    assert env.conversation(0)[-2:] == [
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": "Again?"},
    ]
    env.send(["no"], [0])
    env.recv()
    env.send(["no"], [0])
    assert env.recv()[4].tolist() == [True]
    with pytest.raises(ResetNeeded):
        env.send(["no"], [0])


@pytest.mark.parametrize(
    ("completions", "rows", "words"),
    [
        (["a"], [3], "no row 3"),
        (["a"], [-1], "no row -1"),
        (["a"], [True], "no row True"),
        (["a"], ["0"], "no row '0'"),
        (["a", "b"], [0], "each of the 1 rows"),
        ("a", [0], "each of the 1 rows"),
        (["a", "b"], [1, 1], "twice"),
        (["a", None], [0, 1], "NoneType"),
    ],
)
def test_wrong_rows_and_completions_are_refused_and_nothing_is_sent(completions, rows, words):
    env = make()
    with pytest.raises(UserError, match=words):
        env.send(completions, rows)
    assert env.in_flight == 0


def test_a_row_waits_for_its_reply_before_the_next_completion():
    gates = Gates()
    env = make(2, gates.rubric())
    env.send(["5"], [0])
    with pytest.raises(UserError, match="Row 0 was sent"):
        env.send(["5"], [0])
    with pytest.raises(UserError, match="1 completions are in flight"):
        env.step(["5", "5"])
    with pytest.raises(UserError, match="wait for 2 completions, but 1"):
        env.recv(2)
    gates["5"].set()
    env.recv()
    with pytest.raises(UserError, match="wait for 1 completions, but 0"):
        env.recv()
    assert env.recv(0)[0].tolist() == []


def test_nothing_to_send_is_nothing_in_flight():
    for env in (make(), make(rubric=Rubric(score(lambda completions: [0.0] * len(completions), name="batch")))):
        env.send([], [])
        assert env.in_flight == 0


def test_before_the_first_reset_there_is_nothing_to_send_to():
    env = TextVectorEnv(1, TASKS, Rubric(score(exact, passes=True)))
    with pytest.raises(ResetNeeded):
        env.send(["5"], [0])
    with pytest.raises(UserError, match="no verdict yet"):
        env.verdict(0)


def test_the_hidden_answer_is_in_nothing_that_is_received():
    tasks = Tasks.from_list([Task("t", "?", "SECRET", {"solution": "SECRET"})])
    env = TextVectorEnv(2, tasks, Rubric(score(exact, passes=True)))
    env.reset(seed=0)
    env.send(["x", "break"], [0, 1])
    assert "SECRET" not in repr((env.recv(2), env))


def test_grading_elsewhere_goes_on_meanwhile():
    """The verdicts in flight take no lock that others need."""
    gates = Gates()
    env = make(1, gates.rubric())
    env.send(["5"], [0])
    assert verify(exact, completion="5", answer="5").passed
    gates["5"].set()
    assert env.recv()[2].tolist() == [1.0]
