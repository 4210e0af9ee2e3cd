"""Registering text environments, and making them through Gymnasium."""

from __future__ import annotations

import json
import sys
from typing import Literal

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from rlvr.envs import Task, Tasks, TextEnv, TextVectorEnv, make_vec, register, registered
from rlvr.envs.registry import REQUIRED
from rlvr.verifiers import Rubric, UserError, score


def exact(completion: str, answer: str) -> float:
    return float(completion == answer)


RUBRIC = Rubric(score(exact))


def sums(name: str, size: int = 5) -> list[Task]:
    return [Task(f"{name}/{i}", f"{i} + 1?", str(i + 1)) for i in range(size)]


def sum_tasks(split: Literal["train", "eval"] = "train", *, size: int = 5, offset: int = 0) -> Tasks:
    return Tasks.from_list(sums(f"{split}{offset}", size))


@pytest.fixture
def registry():
    """Whatever a test registers is gone after it."""
    from rlvr.envs import registry

    gymnasium_before, ours_before = dict(gymnasium.registry), dict(registry._registrations)
    yield
    for table, before in ((gymnasium.registry, gymnasium_before), (registry._registrations, ours_before)):
        table.clear()
        table.update(before)


@pytest.fixture
def sums_id(registry):
    register("me/Sums-v0", tasks=sum_tasks, rubric=RUBRIC, system="Add.", think="none", description="Sums")
    return "me/Sums-v0"


@pytest.fixture
def task_files(tmp_path):
    """The options with which each built-in environment that needs files can be made."""
    math, gsm8k = tmp_path / "math.jsonl", tmp_path / "gsm8k.jsonl"
    math.write_text(json.dumps({"problem": "2 + 3?", "answer": "5"}) + "\n")
    gsm8k.write_text(json.dumps({"question": "2 + 3?", "answer": "2 + 3 = 5\n#### 5"}) + "\n")
    code, humaneval, mbpp = tmp_path / "code.jsonl", tmp_path / "humaneval.jsonl", tmp_path / "mbpp.jsonl"
    check = "def check(candidate):\n    assert candidate(2, 3) == 5\n"
    calls = {"form": "calls", "entry_point": "add", "cases": [{"args": [2, 3], "expected": 5}]}
    code.write_text(json.dumps({"prompt": "Add.", "tests": calls}) + "\n")
    posed = {"task_id": "HumanEval/0", "prompt": "def add(a, b):\n", "entry_point": "add", "test": check}
    humaneval.write_text(json.dumps({**posed, "canonical_solution": "    return a + b\n"}) + "\n")
    named = {"task_id": 1, "text": "Add.", "code": "def add(a, b):\n    return a + b"}
    mbpp.write_text(json.dumps({**named, "test_list": ["assert add(2, 3) == 5"], "test_setup_code": ""}) + "\n")
    return {
        "rlvr/Math-v0": {"path": math},
        "rlvr/GSM8K-v0": {"path": gsm8k},
        "rlvr/Code-v0": {"path": code},
        "rlvr/HumanEval-v0": {"path": humaneval},
        "rlvr/MBPP-v0": {"path": mbpp},
    }


def refusal(*arguments, **options) -> str:
    with pytest.raises(UserError) as caught:
        gymnasium.make(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("id", [registration.id for registration in registered()])
def test_every_registered_environment_passes_check_env(id, task_files, recwarn):
    env = gymnasium.make(id, **task_files.get(id, {}))
    assert isinstance(env.unwrapped, TextEnv)
    check_env(env.unwrapped)
    prompt, _ = env.reset(seed=0)
    env.step("I do not know.")
    assert env.unwrapped.messages(prompt)[-1] == {"role": "user", "content": prompt}
    assert [str(w.message) for w in recwarn] == []


@pytest.mark.parametrize("id", [registration.id for registration in registered()])
def test_every_registered_environment_has_a_vector_form(id, task_files, recwarn):
    env = gymnasium.make_vec(id, num_envs=2, **task_files.get(id, {}))
    assert isinstance(env, TextVectorEnv)
    observations, _ = env.reset(seed=0)
    assert observations in env.observation_space
    assert env.step(["", "I do not know."])[1].tolist() == [0.0, 0.0]
    assert [str(w.message) for w in recwarn] == []


def test_the_built_in_environments_are_registered():
    ids = [registration.id for registration in registered()]
    assert ids == sorted(ids)
    assert {"rlvr/Arithmetic-v0", "rlvr/GSM8K-v0", "rlvr/Math-v0"} <= set(ids)


def test_make_passes_options_to_the_task_function(sums_id):
    env = gymnasium.make(sums_id, split="eval", size=7, offset=2).unwrapped
    assert len(env.tasks) == 7
    assert env.reset(options={"task": 3})[1] == {"task_id": "eval2/3"}
    assert (env.system, env.think, env.rubric) == ("Add.", "none", RUBRIC)


def test_make_overrides_system_think_and_rubric(sums_id):
    env = gymnasium.make(sums_id, system=None, think="prefilled").unwrapped
    assert (env.system, env.think) == (None, "prefilled")
    other = Rubric(score(lambda completion: completion == "yes", name="yes"))
    for rubric in (other, lambda completion: completion == "yes"):
        env = gymnasium.make(sums_id, rubric=rubric)
        env.reset(seed=0)
        assert env.step("yes")[1] == 1.0


@pytest.mark.parametrize("mode", [None, "vector_entry_point", "sync", "async"])
def test_make_vec_in_every_mode(sums_id, mode):
    vector_kwargs = {"shared_memory": False} if mode == "async" else {}
    env = gymnasium.make_vec(
        sums_id, num_envs=3, vectorization_mode=mode, vector_kwargs=vector_kwargs, split="eval", size=4
    )
    try:
        observations, infos = env.reset(seed=1, options={"task": 2})
        assert observations == ("2 + 1?",) * 3
        assert infos["task_id"].tolist() == ["eval0/2"] * 3
        _, rewards, terminations, truncations, infos = env.step(("3", "4", "3"))
        assert rewards.tolist() == [1.0, 0.0, 1.0]
        assert terminations.all()
        assert not truncations.any()
        assert infos["passed"].tolist() == [1.0, 0.0, 1.0]
        assert isinstance(env, TextVectorEnv) == (mode in (None, "vector_entry_point"))
    finally:
        env.close()


def test_async_mode_works_where_processes_are_spawned():
    # The default start method of macOS, Windows and Python 3.14: everything travels to the processes pickled.
    vector_kwargs = {"shared_memory": False, "context": "spawn"}
    env = gymnasium.make_vec("rlvr/Arithmetic-v0", num_envs=2, vectorization_mode="async", vector_kwargs=vector_kwargs)
    try:
        observations, _ = env.reset(seed=0, options={"task": 3})
        assert observations[0] == observations[1] == gymnasium.make("rlvr/Arithmetic-v0").reset(options={"task": 3})[0]
        assert env.step(("", ""))[1].tolist() == [0.0, 0.0]
    finally:
        env.close()


def test_the_spec_makes_the_environment_again(sums_id):
    env = gymnasium.make(sums_id, split="eval", size=3)
    again = gymnasium.make(env.spec)
    assert len(again.unwrapped.tasks) == 3
    assert again.reset(seed=4)[0] == env.reset(seed=4)[0]


def test_tasks_are_not_copied(registry):
    tasks = Tasks.from_list(sums("a"))
    register("me/List-v0", tasks=tasks, rubric=RUBRIC)
    assert gymnasium.make("me/List-v0").unwrapped.tasks is tasks
    assert gymnasium.make_vec("me/List-v0", num_envs=2).tasks is tasks


def test_a_list_is_the_split_train_alone(registry):
    register("me/List-v0", tasks=sums("a"), rubric=RUBRIC)
    assert len(gymnasium.make("me/List-v0", split="train").unwrapped.tasks) == 5
    message = refusal("me/List-v0", split="eval")
    assert "'eval'" in message
    assert "dict of splits" in message


def test_a_dict_has_the_splits_it_has(registry):
    register("me/Dict-v0", tasks={"train": sums("a"), "eval": Tasks.from_list(sums("b"))}, rubric=RUBRIC)
    assert gymnasium.make("me/Dict-v0").unwrapped.tasks[0].id == "a/0"
    assert gymnasium.make("me/Dict-v0", split="eval").unwrapped.tasks[0].id == "b/0"
    assert "did you mean 'eval'" in refusal("me/Dict-v0", split="evl")


def test_a_dict_without_train_asks_for_a_split(registry):
    register("me/Dict-v0", tasks={"test": sums("a")}, rubric=RUBRIC)
    assert "'test'" in refusal("me/Dict-v0")
    assert len(gymnasium.make("me/Dict-v0", split="test").unwrapped.tasks) == 5


def test_a_literal_tells_the_splits_of_a_function(sums_id):
    assert "did you mean 'eval'" in refusal(sums_id, split="evaluate")


def test_unknown_options_are_refused_with_the_nearest(sums_id):
    assert "did you mean 'size'" in refusal(sums_id, sise=3)
    assert "did you mean 'system'" in refusal(sums_id, sistem="x")
    with pytest.raises(UserError, match="did you mean 'size'"):
        gymnasium.make_vec(sums_id, num_envs=2, sise=3)


def test_a_function_may_take_any_option_and_must_get_those_it_requires(registry):
    def anything(split="train", **options):
        return Tasks.from_list([Task("t", str(options), 1)])

    def picky(split="train", *, path):
        return Tasks.from_list([Task("t", path, 1)])

    register("me/Any-v0", tasks=anything, rubric=RUBRIC)
    register("me/Picky-v0", tasks=picky, rubric=RUBRIC)
    assert gymnasium.make("me/Any-v0", color="red").reset()[0] == "{'color': 'red'}"
    assert "needs the option 'path'" in refusal("me/Picky-v0")
    assert gymnasium.make("me/Picky-v0", path="x").reset()[0] == "x"


def test_a_rubric_may_be_a_name_or_a_function(registry):
    register("me/Name-v0", tasks=sums("a"), rubric="rlvr/number-v1")
    register("me/Function-v0", tasks=sums("a"), rubric=exact)
    register("me/Lambda-v0", tasks=sums("a"), rubric=lambda completion, answer: completion == answer)
    for id, completion in (("me/Name-v0", r"\boxed{2.0}"), ("me/Function-v0", "2"), ("me/Lambda-v0", "2")):
        env = gymnasium.make(id, think="none")
        env.reset(options={"task": 1})
        assert env.step(completion)[1] == 1.0
    with pytest.raises(UserError, match="did you mean 'rlvr/number-v1'"):
        register("me/Wrong-v0", tasks=sums("a"), rubric="rlvr/numbr-v1")
    assert "me/Wrong-v0" not in gymnasium.registry


@pytest.mark.parametrize("id", ["Sums-v0", "me/Sums", "me/Su ms-v0", "a/b/Sums-v0", "me/Sums-v", "me/Sums-v0\n", 5])
def test_malformed_ids_are_refused(registry, id):
    with pytest.raises(UserError, match="owner/Name-vN"):
        register(id, tasks=sums("a"), rubric=RUBRIC)


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (lambda: None, "'split'"),
        (lambda split, think="none": None, "'think'"),
        ("sums.jsonl", "cannot be a str"),
        ([], "no tasks"),
        ([1], "is a int"),
    ],
)
def test_what_cannot_be_tasks_is_refused_at_once(registry, tasks, words):
    with pytest.raises(UserError, match=words):
        register("me/Wrong-v0", tasks=tasks, rubric=RUBRIC)
    assert "me/Wrong-v0" not in gymnasium.registry


def test_a_task_function_must_return_tasks(registry):
    register("me/Wrong-v0", tasks=lambda split="train": sums("a"), rubric=RUBRIC)
    assert "returned a list" in refusal("me/Wrong-v0")


def test_registered_describes_what_there_is(sums_id):
    [entry] = [registration for registration in registered() if registration.id == sums_id]
    assert entry.description == "Sums"
    assert entry.splits == ("train", "eval")
    assert dict(entry.options) == {"size": 5, "offset": 0}
    assert entry.rubric is RUBRIC
    assert (entry.system, entry.think) == ("Add.", "none")


def test_an_annotation_that_cannot_be_evaluated_leaves_the_splits_unknown(registry):
    def unreadable(split: OnlyForTypeCheckers = "train") -> Tasks:  # noqa: F821
        return Tasks.from_list(sums(split))

    register("me/Unreadable-v0", tasks=unreadable, rubric=RUBRIC)
    assert gymnasium.make("me/Unreadable-v0", split="any").unwrapped.tasks[0].id == "any/0"


def test_registered_knows_required_options_and_unknown_splits(registry):
    register("me/Picky-v0", tasks=lambda split, path: None, rubric=RUBRIC)
    [entry] = [registration for registration in registered() if registration.id == "me/Picky-v0"]
    assert entry.splits is None
    assert entry.options["path"] is REQUIRED


def test_make_vec_builds_and_explains(sums_id):
    env = make_vec(sums_id, 2, split="eval", size=3)
    assert isinstance(env, TextVectorEnv)
    assert (env.num_envs, len(env.tasks), env.spec.id) == (2, 3, sums_id)
    for id, words in [
        ("me/Sumss-v0", "did you mean 'me/Sums-v0'"),
        ("me/Sums", "did you mean 'me/Sums-v0'"),
        ("CartPole-v1", "not a text environment"),
        ("no_such_module:me/Sums-v0", "no_such_module"),
    ]:
        with pytest.raises(UserError, match=words):
            make_vec(id, 2)


def test_make_vec_imports_the_module_that_registers(registry, tmp_path, monkeypatch):
    (tmp_path / "my_text_envs.py").write_text(
        "from rlvr.envs import Task, register\n"
        "register('me/Own-v0', tasks=[Task('t', '?', 1)], rubric=lambda completion: 1.0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert make_vec("my_text_envs:me/Own-v0", 2).reset(seed=0)[0] == ("?", "?")
    finally:
        sys.modules.pop("my_text_envs", None)
