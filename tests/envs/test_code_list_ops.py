from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.list_functions import ListFunction, draw_function, probes, single_functions
from rlvr.envs.list_ops import LEVELS, list_ops_tasks, split_of
from rlvr.envs.procedural import item_rng
from rlvr.verifiers import UserError, verify_many


def function_of(source: str) -> Any:
    space: dict[str, Any] = {}
    exec(source, space)  # the package's own source
    return space["f"]


@pytest.mark.parametrize("function", single_functions(), ids=lambda function: f"{function.steps[0]}")
def test_every_operation_is_its_own_source(function: ListFunction) -> None:
    written = function_of(function.source())
    for probe in probes():
        assert written(list(probe)) == function(list(probe))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_chains_are_their_own_source(seed: int, length: int) -> None:
    function = draw_function(LEVELS[5].operations, length, item_rng(seed, "train", "x", 0))
    written = function_of(function.source())
    for probe in probes():
        assert written(list(probe)) == function(list(probe))


def test_one_function_written_in_two_ways_is_in_one_split() -> None:
    one = ListFunction((("sort_down", 0),))
    other = ListFunction((("sort", 0), ("reverse", 0)))
    assert one.behaviour == other.behaviour
    assert split_of(one) == split_of(other)
    assert other.steps != one.steps
    assert ListFunction((("reverse", 0), ("sort", 0))).is_reducible
    assert not other.is_reducible
    assert ListFunction((("above", 6), ("below", 4))).is_dull


@pytest.mark.parametrize("level", LEVELS)
def test_splits_share_no_function(level: int) -> None:
    made = {
        split: [list_ops_tasks(split, level, seed=seed)[at] for seed in (0, 1) for at in range(60)]
        for split in ("train", "eval")
    }
    behaviours = {
        split: {str([function_of(task.answer)(list(probe)) for probe in probes()]) for task in tasks}
        for split, tasks in made.items()
    }
    assert behaviours["train"].isdisjoint(behaviours["eval"])


def test_a_task_is_a_function_of_its_seed_and_index() -> None:
    tasks = list_ops_tasks(level=3, seed=7)
    again = list_ops_tasks(level=3, seed=7)
    assert [tasks[at].prompt for at in (5, 3)] == [again[at].prompt for at in (5, 3)]
    assert list_ops_tasks(level=3, seed=8)[5].prompt != tasks[5].prompt
    assert len(tasks) == 1_000_000_000
    assert len(list_ops_tasks("eval", 3)) == 256


def test_the_examples_are_visible_and_the_hidden_calls_are_others() -> None:
    task = list_ops_tasks(level=4, examples=3, hidden=5)[0]
    cases = task.info["tests"]["cases"]
    shown = [case for case in cases if case.get("visible")]
    hidden = [case for case in cases if not case.get("visible")]
    assert (len(shown), len(hidden)) == (3, 5)
    for case in shown:
        assert f"f({case['args'][0]}) == {case['expected']}" in task.prompt
    for case in hidden:
        assert case["args"] not in [other["args"] for other in shown]
        assert str(case["args"][0]) not in task.prompt


@pytest.mark.parametrize("level", LEVELS)
def test_reference_solutions_pass_and_hard_coded_examples_fail(level: int) -> None:
    tasks = [list_ops_tasks("eval", level)[at] for at in range(20)]
    rows, coded = [], []
    for task in tasks:
        table = {str(case["args"][0]): case["expected"] for case in task.info["tests"]["cases"] if case.get("visible")}
        tests = {"tests": task.info["tests"]}
        rows.append({"completion": f"```python\n{task.answer}\n```", **tests})
        coded.append({"completion": f"```python\ndef f(xs):\n    return {table}.get(str(xs), xs)\n```", **tests})
    assert all(verdict.passed for verdict in verify_many("rlvr/code-v1", rows))
    for verdict in verify_many("rlvr/code-v1", coded):
        assert verdict.score == 0.0
        assert verdict.parts["visible"] == 1.0
        assert verdict.parts["hidden"] < 1.0


def test_an_episode() -> None:
    env: Any = gymnasium.make("rlvr/ListOps-v0", split="eval", level=1, system=None).unwrapped
    prompt, _ = env.reset(seed=3)
    assert prompt.count("f([") == 4
    _, reward, *_ = env.step("no code")
    assert reward == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "test"}, "no split 'test'"),
        ({"level": 6}, "no level 6"),
        ({"level": True}, "no level True"),
        ({"size": 0}, "size=0"),
        ({"seed": -1}, "seed=-1"),
        ({"examples": 0}, "examples=0"),
        ({"hidden": 1000}, "hidden=1000"),
        ({"template": "x"}, "exactly once"),
        ({"backend": "no"}, "no sandbox backend"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        list_ops_tasks(**options)
