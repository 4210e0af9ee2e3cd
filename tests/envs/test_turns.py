"""Episodes of several turns: replies, rewards at every turn, ends and cuts, single and side by side."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import rlvr.envs.registry as registry_module
from rlvr.envs import Reply, Task, Tasks, TextEnv, TextVectorEnv, make_vec, register
from rlvr.envs.episode import Written
from rlvr.verifiers import Rubric, UserError, score

SECRET = "SECRET-4711"
TASKS = Tasks.from_list([Task(f"t/{i}", f"Door {i}", SECRET) for i in range(3)])


def knock(task, conversation, completion):
    """Says how often there was a knock; "enter" ends the episode."""
    if completion == "break":
        raise ZeroDivisionError("the door broke")
    if completion == "enter":
        return Reply(None, 0.5)
    knocks = sum(message["role"] == "assistant" for message in conversation) + 1
    return Reply(f"{task.id}: {knocks}", 0.25)


def entered(completion: str) -> float:
    return float(completion == "enter")


RUBRIC = Rubric(score(entered, passes=True))


def make(max_turns=3, rubric=RUBRIC, **arguments) -> TextEnv:
    return TextEnv(TASKS, rubric, turn=knock, max_turns=max_turns, **arguments)


def make_many(num_envs=3, max_turns=3, rubric=RUBRIC) -> TextVectorEnv:
    return TextVectorEnv(num_envs, TASKS, rubric, turn=knock, max_turns=max_turns)


def test_check_env_passes_without_warnings(recwarn):
    check_env(make())
    assert [str(w.message) for w in recwarn if "render modes" not in str(w.message)] == []


def test_an_episode_goes_on_until_a_reply_ends_it():
    env = make(system="Knock.")
    env.reset(options={"task": 1})
    assert env.step("knock") == ("t/1: 1", 0.25, False, False, {"task_id": "t/1"})
    assert env.verdict is None
    assert env.conversation == [
        {"role": "system", "content": "Knock."},
        {"role": "user", "content": "Door 1"},
        {"role": "assistant", "content": "knock"},
        {"role": "user", "content": "t/1: 1"},
    ]
    observation, reward, terminated, truncated, info = env.step("enter")
    # The turn's own reward and the verdict's score.
    assert (observation, reward, terminated, truncated) == ("", 1.5, True, False)
    assert info == {"task_id": "t/1", "status": "ok", "passed": 1.0, "parts/entered": 1.0}
    assert env.verdict.passed
    assert env.conversation[-1] == {"role": "assistant", "content": "enter"}
    with pytest.raises(ResetNeeded):
        env.step("enter")


def test_turns_that_run_out_cut_the_episode_short():
    env = make(max_turns=2)
    env.reset(seed=0)
    assert env.step("knock")[2:4] == (False, False)
    observation, reward, terminated, truncated, info = env.step("knock")
    assert (observation, reward, terminated, truncated) == ("", 0.25, False, True)
    assert type(terminated) is type(truncated) is bool
    assert info["passed"] == 0.0
    with pytest.raises(ResetNeeded):
        env.step("knock")


def test_an_end_in_the_last_turn_is_an_end():
    env = make(max_turns=2)
    env.reset(seed=0)
    env.step("knock")
    assert env.step("enter")[1:4] == (1.5, True, False)


def test_a_writer_that_can_write_no_more_is_cut_short():
    env = make()
    env.reset(seed=0)
    assert env.step(Written("knock", last=True))[2:4] == (False, True)
    env.reset(seed=0)
    assert env.step(Written("enter", last=True))[2:4] == (True, False)


def test_a_reset_begins_the_conversation_anew():
    env = make()
    env.reset(options={"task": 0})
    env.step("knock")
    env.reset(options={"task": 2})
    assert env.conversation == [{"role": "user", "content": "Door 2"}]
    assert env.step("knock")[0] == "t/2: 1"


def test_what_is_shown_of_the_conversation_is_a_copy():
    env = make()
    env.reset(options={"task": 0})
    env.conversation[0]["content"] = "changed"
    assert env.conversation[0]["content"] == "Door 0"


def test_the_rubric_may_ask_for_the_conversation_and_the_turns():
    seen = []

    def brief(completion: str, conversation: list, turns: int) -> float:
        seen.append((completion, [message["content"] for message in conversation], turns))
        return 1 / turns

    env = make(rubric=Rubric(score(brief, passes=True)))
    env.reset(options={"task": 0})
    env.step("knock")
    assert env.step("enter")[1] == 1.0
    assert seen == [("enter", ["Door 0", "knock", "t/0: 1", "enter"], 2)]
    with pytest.raises(UserError, match=r"'(turns|conversation)'"):
        TextEnv(TASKS, Rubric(score(brief)))


def test_a_turn_function_that_breaks_is_no_score_and_no_crash():
    env = make()
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("break")
    assert math.isnan(reward)
    assert (terminated, truncated, info["status"]) == (True, False, "error")
    assert "passed" not in info
    assert "ZeroDivisionError" in env.verdict.detail
    assert "broke" not in repr(info)


@pytest.mark.parametrize("wrong", [None, "a message", ("a", 1.0)])
def test_a_turn_function_must_return_a_reply_and_nothing_is_stepped_if_not(wrong):
    env = TextEnv(TASKS, RUBRIC, turn=lambda *_: wrong, max_turns=2)
    env.reset(seed=0)
    with pytest.raises(UserError, match="return a Reply"):
        env.step("knock")
    assert len(env.conversation) == 1


def test_a_turn_function_that_hangs_is_a_failed_grading_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr("rlvr.envs.episode.PATIENCE", 0.2)
    release = threading.Event()

    def hang(task, conversation, completion):
        if completion == "hang":
            release.wait()
        return Reply(None)

    env = TextVectorEnv(2, TASKS, RUBRIC, turn=hang, max_turns=2)
    env.reset(seed=0)
    _, rewards, terminated, _, _ = env.step(["hang", "enter"])
    release.set()
    assert math.isnan(rewards[0])
    assert rewards[1] == 1.0
    assert terminated.all()
    assert "the turn function did not return within 0.2 s" in env.verdict(0).detail


def test_replies_are_checked():
    for wrong in ({"observation": 5}, {"observation": "a", "reward": "1"}, {"observation": "a", "reward": True}):
        with pytest.raises(UserError):
            Reply(**wrong)
    env = TextEnv(TASKS, RUBRIC, turn=lambda *_: Reply("a", math.nan), max_turns=2)
    env.reset(seed=0)
    assert env.step("x")[4]["status"] == "error"


def test_wrong_settings_are_refused():
    with pytest.raises(UserError, match="max_turns=0"):
        make(max_turns=0)
    with pytest.raises(UserError, match="max_turns=True"):
        make(max_turns=True)
    with pytest.raises(UserError, match="turn function"):
        TextEnv(TASKS, RUBRIC, max_turns=2)
    with pytest.raises(UserError, match="turn is a str"):
        TextEnv(TASKS, RUBRIC, turn="knock", max_turns=2)
    with pytest.raises(UserError, match="'turns'"):
        TextEnv(Tasks.from_list([Task("t", "?", 1, {"turns": 3})]), RUBRIC, turn=knock, max_turns=2)


def test_episodes_of_different_lengths_side_by_side():
    env = make_many()
    env.reset(options={"task": [0, 1, 2]})
    observations, rewards, terminated, truncated, infos = env.step(["enter", "knock", "knock"])
    assert observations == ("", "t/1: 1", "t/2: 1")
    assert rewards.tolist() == [1.5, 0.25, 0.25]
    assert terminated.tolist() == [True, False, False]
    assert infos["_passed"].tolist() == [True, False, False]
    assert infos["_task_id"].tolist() == [True] * 3

    observations, rewards, terminated, truncated, infos = env.step([None, "enter", "knock"])
    assert observations == ("", "", "t/2: 2")
    assert rewards.tolist() == [0.0, 1.5, 0.25]
    assert terminated.tolist() == [True, True, False]
    # What is over has no part in the infos.
    assert infos["_task_id"].tolist() == [False, True, True]
    assert [verdict is None for verdict in env.verdicts] == [False, False, True]

    observations, rewards, terminated, truncated, infos = env.step([None, None, "knock"])
    assert (terminated.tolist(), truncated.tolist()) == ([True, True, False], [False, False, True])
    assert terminated.dtype == truncated.dtype == np.bool_
    assert infos["_passed"].tolist() == [False, False, True]
    assert infos["passed"].dtype == np.float64
    assert [len(conversation) for conversation in env.conversations] == [2, 4, 6]
    with pytest.raises(ResetNeeded):
        env.step([None] * 3)


def test_a_finished_episode_takes_no_completion_and_an_unfinished_one_must_have_one():
    env = make_many()
    env.reset(options={"task": 0})
    env.step(["enter", "knock", "knock"])
    with pytest.raises(ResetNeeded, match="'t/0' is over"):
        env.step(["knock", "knock", "knock"])
    with pytest.raises(UserError, match="NoneType"):
        env.step([None, None, "knock"])
    # Neither stepped anything.
    assert env.step([None, "knock", "knock"])[0] == ("", "t/0: 2", "t/0: 2")


def test_some_can_be_begun_anew_while_others_go_on():
    env = make_many()
    env.reset(options={"task": [0, 1, 2]})
    env.step(["enter", "knock", "knock"])
    env.reset(options={"task": 2, "reset_mask": np.array([True, False, False])})
    observations, _, terminated, _, _ = env.step(["knock", "knock", "enter"])
    assert observations == ("t/2: 1", "t/1: 2", "")
    assert terminated.tolist() == [False, False, True]


def test_the_rubric_grades_all_that_end_at_once():
    calls = []

    class Counting(Rubric):
        def grade_many(self, rows):
            calls.append(len(rows))
            return super().grade_many(rows)

    env = make_many(rubric=Counting(score(entered, passes=True)))
    env.reset(options={"task": 0})
    env.step(["enter", "enter", "knock"])
    env.step([None, None, "knock"])
    env.step([None, None, "enter"])
    assert calls == [2, 1]


def test_the_hidden_answer_is_in_nothing_that_is_returned():
    env, many = make(), make_many(2)
    seen = [env.reset(seed=0), env.step("knock"), env.conversation, env.step("break"), env]
    seen += [many.reset(seed=0), many.step(["knock", "enter"]), many.conversations, many]
    assert SECRET not in repr(seen)


def test_registered_with_a_number_of_turns_that_can_be_changed():
    before = dict(registry_module._registrations)
    try:
        register("me/Door-v0", tasks=list(TASKS), rubric=RUBRIC, turn=knock, max_turns=4)
        assert make_vec("me/Door-v0", 1).max_turns == 4
        env = make_vec("me/Door-v0", 1, max_turns=1)
        env.reset(seed=0)
        assert env.step(["knock"])[3].tolist() == [True]
        with pytest.raises(UserError, match="max_turns=0"):
            make_vec("me/Door-v0", 1, max_turns=0)
        with pytest.raises(UserError, match="turn function"):
            make_vec("rlvr/Arithmetic-v0", 1, max_turns=2)
    finally:
        registry_module._registrations.clear()
        registry_module._registrations.update(before)
        registry_module.gymnasium.registry.pop("me/Door-v0", None)
