"""One episode at a time: posing, scoring, and what stays hidden."""

from __future__ import annotations

import copy
import math
import random

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from rlvr.envs import Task, Tasks, TextEnv
from rlvr.verifiers import Rubric, UserError, gate, metric, score

SECRET = "SECRET-4711"


def exact(completion: str, answer: str) -> float:
    return float(completion == answer)


def length(completion: str) -> float:
    return float(len(completion))


RUBRIC = Rubric(score(exact, passes=True), metric(length))
TASKS = Tasks.from_list([Task(f"t/{i}", f"What is {i} + 1?", str(i + 1)) for i in range(10)])


def broken(completion: str) -> float:
    raise ZeroDivisionError("the grader broke")


def test_check_env_passes_without_warnings(recwarn):
    check_env(TextEnv(TASKS, RUBRIC))
    # Without a spec, Gymnasium says that it cannot try other render modes.
    assert [str(w.message) for w in recwarn if "render modes" not in str(w.message)] == []


def test_an_episode_poses_a_task_and_scores_the_completion():
    env = TextEnv(TASKS, RUBRIC)
    prompt, info = env.reset(options={"task": 4})
    assert (prompt, info) == ("What is 4 + 1?", {"task_id": "t/4"})
    assert env.verdict is None
    observation, reward, terminated, truncated, info = env.step("5")
    assert (observation, reward) == ("", 1.0)
    assert terminated is True
    assert truncated is False
    assert info == {"task_id": "t/4", "status": "ok", "passed": 1.0, "parts/exact": 1.0, "parts/length": 1.0}
    assert all(type(value) in (str, float) for value in info.values())
    assert env.verdict.passed is True


def test_a_wrong_completion_does_not_pass():
    env = TextEnv(TASKS, RUBRIC)
    env.reset(options={"task": 4})
    _, reward, _, _, info = env.step("6")
    assert reward == 0.0
    assert info["passed"] == 0.0


def test_the_seed_decides_which_task_is_posed():
    env, other = TextEnv(TASKS, RUBRIC), TextEnv(TASKS, RUBRIC)

    def ids(env, seed):
        first = env.reset(seed=seed)[1]["task_id"]
        return [first, *(env.reset()[1]["task_id"] for _ in range(15))]

    assert ids(env, 3) == ids(other, 3)
    assert ids(env, 3) != ids(other, 4)
    assert len(set(ids(env, 3))) > 5


def test_naming_a_task_draws_nothing():
    env, other = TextEnv(TASKS, RUBRIC), TextEnv(TASKS, RUBRIC)
    env.reset(seed=1)
    other.reset(seed=1)
    env.reset(options={"task": 2})
    assert env.reset()[1] == other.reset()[1]


def test_global_random_states_are_left_alone():
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    env = TextEnv(TASKS, RUBRIC)
    env.reset(seed=0)
    env.step("x")
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_stepping_needs_a_reset_before_and_between():
    env = TextEnv(TASKS, RUBRIC)
    with pytest.raises(ResetNeeded, match="first reset"):
        env.step("5")
    env.reset(options={"task": 4})
    env.step("5")
    with pytest.raises(ResetNeeded, match="'t/4' is over"):
        env.step("5")
    env.reset()
    env.step("5")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": 10}, "from 0 to 9"),
        ({"task": -1}, "from 0 to 9"),
        ({"task": "3"}, "'3'"),
        ({"task": True}, "True"),
        ({"task": 1.0}, "1.0"),
        ({"tsk": 1}, "did you mean 'task'"),
    ],
)
def test_wrong_reset_options_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        TextEnv(TASKS, RUBRIC).reset(options=options)


def test_numpy_integers_name_tasks_too():
    assert TextEnv(TASKS, RUBRIC).reset(options={"task": np.int64(3)})[1] == {"task_id": "t/3"}


def test_a_completion_must_be_text_and_a_refused_one_ends_nothing():
    env = TextEnv(TASKS, RUBRIC)
    env.reset(options={"task": 4})
    with pytest.raises(UserError, match="given a int"):
        env.step(5)
    assert env.step("5")[1] == 1.0


def test_a_failing_grader_gives_nan_and_no_passed():
    env = TextEnv(TASKS, Rubric(score(broken)))
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("5")
    assert math.isnan(reward)
    assert (terminated, truncated) == (True, False)
    assert info["status"] == "error"
    assert "passed" not in info
    assert all(not (isinstance(value, float) and math.isnan(value)) for value in info.values())
    assert env.verdict.score is None
    assert "the grader broke" in env.verdict.detail


def test_a_failed_gate_is_a_zero_and_not_a_nan():
    env = TextEnv(TASKS, Rubric(gate(lambda completion: False, name="form"), score(exact)))
    env.reset(options={"task": 4})
    _, reward, _, _, info = env.step("5")
    assert (reward, info["passed"], info["parts/form"]) == (0.0, 0.0, 0.0)


def test_verifiers_receive_the_fields_of_the_task():
    def seen(completion: str, prompt: str, answer: str, think: str, level: int) -> bool:
        return (completion, prompt, answer, think, level) == ("c", "p", "a", "none", 3)

    env = TextEnv(Tasks.from_list([Task("t", "p", "a", {"level": 3})]), Rubric(score(seen)), think="none")
    env.reset()
    assert env.step("c")[1] == 1.0


def test_wiring_is_checked_when_the_environment_is_built():
    def needs_level(completion: str, level: int) -> float:
        return 1.0

    with pytest.raises(UserError, match=r"needs_level.*'level'"):
        TextEnv(TASKS, Rubric(score(needs_level)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"think": "prefiled"}, "did you mean 'prefilled'"),
        ({"system": 5}, "system prompt is 5"),
        ({"tasks": Tasks([])}, "needs tasks"),
        ({"tasks": [Task("t", "?", 1)]}, "Tasks.from_list"),
        ({"rubric": exact}, "wrap a verifier in Rubric"),
    ],
)
def test_wrong_settings_are_refused(arguments, words):
    with pytest.raises(UserError, match=words):
        TextEnv(**{"tasks": TASKS, "rubric": RUBRIC, **arguments})


def test_messages_put_the_system_prompt_first():
    assert TextEnv(TASKS, RUBRIC).messages("2?") == [{"role": "user", "content": "2?"}]
    assert TextEnv(TASKS, RUBRIC, system="Be brief.").messages("2?") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2?"},
    ]


def walk(value):
    """Every text in a nest of containers, keys included."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(key)
            yield from walk(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from walk(inner)
    else:
        yield repr(value)


@pytest.mark.parametrize("rubric", [RUBRIC, Rubric(score("rlvr/number-v1")), Rubric(score(broken))])
def test_the_hidden_answer_is_nowhere_the_model_could_read_it(rubric):
    task = Task("t", "What is it?", SECRET, {"solution": f"It is {SECRET}."})
    tasks = Tasks.from_list([task])
    env = TextEnv(tasks, rubric, system="Answer.")
    prompt, reset_info = env.reset(seed=0)
    result = tuple(env.step("I do not know."))
    seen = [prompt, reset_info, result, env.messages(prompt), repr(env), str(env), repr(task), repr(tasks)]
    seen += [repr(env.observation_space), env.metadata, repr(env._episode), repr(env._setup)]
    assert SECRET not in "".join(walk(seen))


def test_an_environment_can_be_copied_mid_episode():
    env = TextEnv(TASKS, RUBRIC)
    env.reset(options={"task": 4})
    clone = copy.deepcopy(env)
    env.step("5")
    assert clone.step("5")[1] == 1.0
