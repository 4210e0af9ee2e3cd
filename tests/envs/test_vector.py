"""Many episodes at a time."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from rlvr.envs import Task, Tasks, TextEnv, TextVectorEnv
from rlvr.verifiers import Rubric, UserError, metric, score


def exact(completion: str, answer: str) -> float:
    if completion == "break the grader":
        raise ZeroDivisionError
    return float(completion == answer)


def length(completion: str) -> float:
    return float(len(completion))


RUBRIC = Rubric(score(exact, passes=True), metric(length))
TASKS = Tasks.from_list([Task(f"t/{i}", f"What is {i} + 1?", str(i + 1)) for i in range(10)])


def make(num_envs=3, **arguments) -> TextVectorEnv:
    return TextVectorEnv(num_envs, TASKS, RUBRIC, **arguments)


def test_a_batch_of_episodes():
    env = make()
    observations, infos = env.reset(options={"task": [4, 5, 4]})
    assert observations == ("What is 4 + 1?", "What is 5 + 1?", "What is 4 + 1?")
    assert observations in env.observation_space
    assert infos["task_id"].tolist() == ["t/4", "t/5", "t/4"]
    assert infos["task_id"].dtype == object
    assert infos["_task_id"].tolist() == [True] * 3
    observations, rewards, terminations, truncations, infos = env.step(["5", "5", "14"])
    assert observations == ("", "", "")
    assert rewards.tolist() == [1.0, 0.0, 0.0]
    assert rewards.dtype == np.float64
    assert (terminations.tolist(), terminations.dtype) == ([True] * 3, np.bool_)
    assert (truncations.tolist(), truncations.dtype) == ([False] * 3, np.bool_)
    assert infos["passed"].tolist() == [1.0, 0.0, 0.0]
    assert infos["parts/length"].tolist() == [1.0, 1.0, 2.0]
    assert infos["parts/length"].dtype == np.float64
    assert infos["status"].tolist() == ["ok"] * 3
    assert [verdict.passed for verdict in env.verdicts] == [True, False, False]


def test_it_gives_what_gymnasium_makes_of_single_environments():
    completions = ("5", "nothing", "break the grader")
    ours, theirs = make(), SyncVectorEnv([lambda: TextEnv(TASKS, RUBRIC)] * 3)
    for env in (ours, theirs):
        env.reset(options={"task": 4})
    our, their = ours.step(completions), theirs.step(completions)
    assert our[0] == their[0]
    for mine, other in zip(our[1:4], their[1:4], strict=True):
        np.testing.assert_array_equal(mine, other)
        assert mine.dtype == other.dtype
    assert our[4].keys() == their[4].keys()
    for key in our[4]:
        np.testing.assert_array_equal(our[4][key], their[4][key])
        assert our[4][key].dtype == their[4][key].dtype


def test_a_failing_grader_is_nan_and_masked_out_of_passed():
    env = make()
    env.reset(options={"task": 4})
    _, rewards, _, _, infos = env.step(["break the grader", "5", "break the grader"])
    assert np.isnan(rewards).tolist() == [True, False, True]
    assert infos["status"].tolist() == ["error", "ok", "error"]
    assert infos["_passed"].tolist() == [False, True, False]


def test_one_task_for_all_makes_a_group():
    env = make(4)
    observations, infos = env.reset(options={"task": np.int64(7)})
    assert set(observations) == {"What is 7 + 1?"}
    assert infos["task_id"].tolist() == ["t/7"] * 4
    assert env.reset(options={"task": np.array([1, 2, 3, 4])})[1]["task_id"].tolist() == ["t/1", "t/2", "t/3", "t/4"]


def test_the_seed_decides_the_tasks():
    first, second = make(8), make(8)
    assert first.reset(seed=5)[0] == second.reset(seed=5)[0]
    assert first.reset()[0] == second.reset()[0]
    assert first.reset(seed=6)[0] != second.reset(seed=5)[0]
    assert len(set(first.reset(seed=5)[0])) > 2


def test_there_is_no_autoreset():
    env = make()
    assert env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    with pytest.raises(ResetNeeded):
        env.step(["a", "b", "c"])
    env.reset(seed=0)
    assert env.verdicts == [None] * 3
    env.step(["a", "b", "c"])
    with pytest.raises(ResetNeeded):
        env.step(["a", "b", "c"])


def test_some_episodes_can_be_begun_anew():
    env = make()
    env.reset(options={"task": 4})
    env.step(["5", "5", "5"])
    options = {"task": [1, 2, 3], "reset_mask": np.array([True, False, True])}
    observations, infos = env.reset(options=options)
    assert observations == ("What is 1 + 1?", "", "What is 3 + 1?")
    assert infos["_task_id"].tolist() == [True, False, True]
    assert infos["task_id"].tolist() == ["t/1", None, "t/3"]
    assert [verdict is None for verdict in env.verdicts] == [True, False, True]
    assert options.keys() == {"task", "reset_mask"}
    with pytest.raises(ResetNeeded, match="'t/4' is over"):
        env.step(["2", "2", "2"])
    assert env.verdicts[0] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": [1, 2]}, "names 2 tasks"),
        ({"task": [1, 2, 10]}, "from 0 to 9"),
        ({"task": "123"}, "'123'"),
        ({"tasks": [1, 2, 3]}, "did you mean 'task'"),
        ({"reset_mask": [True, False]}, "reset_mask"),
        ({"reset_mask": [1, 0, 1]}, "boolean"),
    ],
)
def test_wrong_reset_options_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        make().reset(options=options)


@pytest.mark.parametrize("actions", ["abc", ["a", "b"], ["a", "b", None]])
def test_wrong_completions_are_refused_and_nothing_is_stepped(actions):
    env = make()
    env.reset(options={"task": 4})
    with pytest.raises(UserError):
        env.step(actions)
    assert env.verdicts == [None] * 3
    assert env.step(["5", "5", "5"])[1].tolist() == [1.0] * 3


def test_wrong_settings_are_refused():
    with pytest.raises(UserError, match="num_envs=0"):
        make(0)
    with pytest.raises(UserError, match="think style"):
        make(think="aloud")

    def needs_level(completion: str, level: int) -> float:
        return 1.0

    with pytest.raises(UserError, match="'level'"):
        TextVectorEnv(2, TASKS, Rubric(score(needs_level)))


def test_messages_for_every_observation():
    env = make(2, system="Be brief.")
    assert env.messages(("a", "b")) == [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}] for text in "ab"
    ]


def test_sampled_actions_fit():
    env = make()
    env.action_space.seed(0)
    env.reset(seed=0)
    env.step(env.action_space.sample())


def test_the_hidden_answer_is_in_nothing_that_is_returned():
    tasks = Tasks.from_list([Task("t", "?", "SECRET", {"solution": "SECRET"})])
    env = TextVectorEnv(2, tasks, Rubric(score(exact)))
    seen = [env.reset(seed=0), env.step(["x", "break the grader"]), env.messages(("?", "?")), env]
    assert "SECRET" not in repr(seen)


def test_gymnasium_runs_single_environments_in_processes():
    env = AsyncVectorEnv([lambda: TextEnv(TASKS, RUBRIC)] * 2, shared_memory=False, autoreset_mode="Disabled")
    try:
        observations, infos = env.reset(options={"task": 4})
        assert observations == ("What is 4 + 1?",) * 2
        assert env.step(("5", "6"))[1].tolist() == [1.0, 0.0]
        assert infos["task_id"].tolist() == ["t/4"] * 2
    finally:
        env.close()
