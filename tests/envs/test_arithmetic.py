from __future__ import annotations

import random
import re

import gymnasium
import numpy as np
import pytest

import rlvr
from rlvr.envs.arithmetic import LEVELS, SYSTEM, Shape, arithmetic_tasks, draw, shape_of, split_of
from rlvr.envs.expressions import Operation, render


def expressions(level: int, split: str, count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [draw(LEVELS[level], split, rng) for _ in range(count)]


def operands_and_operators(prompt: str) -> tuple[list[str], list[str]]:
    return sorted(re.findall(r"\d+", prompt)), sorted(re.findall(r"[-+*]", prompt))


@pytest.mark.parametrize("level", LEVELS)
def test_the_answer_is_the_value_of_the_expression_in_the_prompt(level):
    for split in ("train", "eval"):
        tasks = arithmetic_tasks(split, level, template="{expression}")
        for task in tasks[: min(len(tasks), 100)]:
            # The text is our own, so Python may read it; the code under test never does.
            assert task.answer == eval(task.prompt)


def test_levels_draw_what_they_promise():
    for level, shape in LEVELS.items():
        for expression in expressions(level, "train", 100):
            numbers, operators = operands_and_operators(render(expression))
            assert shape.terms[0] <= len(numbers) <= shape.terms[1]
            assert all(int(number) <= shape.max_operand for number in numbers)
            assert set(operators) <= set(shape.operators)
    assert any("(" in render(expression) for expression in expressions(5, "train", 50))
    assert not any("(" in render(expression) for expression in expressions(4, "train", 50))


def test_train_and_eval_never_share_a_problem_across_levels_seeds_templates_and_sizes():
    seen = {"train": set(), "eval": set()}
    options = [
        {"level": 1, "seed": 0},
        {"level": 2, "seed": 5, "template": "{expression}="},
        {"level": 3, "seed": 0, "max_operand": 12},
        {"level": 2, "seed": 1, "operators": "+"},
        {"level": 4, "seed": 3},
        {"level": 5, "seed": 2, "max_operand": 9, "terms": 2},
    ]
    for option in options:
        for split, problems in seen.items():
            tasks = arithmetic_tasks(split=split, **option)
            for index in range(min(len(tasks), 300)):
                numbers, operators = operands_and_operators(tasks[index].prompt)
                problems.add((tuple(numbers), tuple(operators)))
    assert seen["train"]
    assert seen["eval"]
    assert not seen["train"] & seen["eval"]


def test_swapped_operands_are_in_the_same_split():
    for a in range(30):
        for b in range(30):
            for name in "+-*":
                assert split_of(Operation(name, a, b)) == split_of(Operation(name, b, a))


def test_about_one_problem_in_five_is_held_out():
    rng = np.random.default_rng(0)
    pairs = [Operation("+", int(a), int(b)) for a, b in rng.integers(0, 10_000, size=(2_000, 2))]
    assert 0.17 < np.mean([split_of(pair) == "eval" for pair in pairs]) < 0.23


def test_which_problems_are_held_out_is_pinned():
    # Moving the split would let models trained before see what they are evaluated on now.
    held_out = [pair for pair in range(30) if split_of(Operation("+", pair, 7)) == "eval"]
    assert held_out == [0, 10, 16, 23, 28, 29]


@pytest.mark.parametrize(
    ("level", "size", "first"),
    [
        (1, 8, ["1 + 9", "5 + 9", "0 + 9"]),
        (2, 123, ["18 - 20", "11 + 17", "15 + 17"]),
        (3, 256, ["82 - 98", "39 + 99", "75 - 92"]),
        (4, 256, ["11 + 2", "19 - 7 + 4", "15 * 8 + 9"]),
        (5, 256, ["37 + 99", "62 - 24 * 49", "48 * 78 - 78"]),
    ],
)
def test_the_eval_splits_are_pinned(level, size, first):
    # Numbers that were published before would not be comparable with those of other problems.
    tasks = arithmetic_tasks("eval", level, template="{expression}")
    assert len(tasks) == size
    assert [task.prompt for task in tasks[:3]] == first
    assert tasks[0].id == f"level{level}/eval/0/0"


def test_small_eval_splits_hold_each_problem_once():
    for level in (1, 2):
        tasks = arithmetic_tasks("eval", level)
        problems = [(operands_and_operators(task.prompt), task.answer) for task in tasks]
        assert len(problems) == len({str(problem) for problem in problems})
        assert len({task.id for task in tasks}) == len(tasks)
    smallest = [task.prompt for task in arithmetic_tasks("eval", 1)]
    assert sorted(smallest) == sorted(task.prompt for task in arithmetic_tasks("eval", 1, seed=9))
    assert smallest != [task.prompt for task in arithmetic_tasks("eval", 1, seed=9)]


def test_a_level_1_eval_split_is_not_lopsided():
    assert 7 <= len(arithmetic_tasks("eval", 1)) <= 15


def test_items_depend_on_seed_split_and_index_only():
    tasks = arithmetic_tasks(level=3, seed=4)
    assert tasks[123_456_789] == arithmetic_tasks(level=3, seed=4)[123_456_789]
    assert [t.prompt for t in tasks[:20]] != [t.prompt for t in arithmetic_tasks(level=3, seed=5)[:20]]
    prompts = {t.prompt for t in tasks[:200]}
    assert len(prompts) > 150


def test_the_global_random_state_is_untouched():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the legacy state is what must not change
    before = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    list(arithmetic_tasks("eval", 2))
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


@pytest.mark.parametrize(
    "options",
    [
        {"split": "test"},
        {"level": 0},
        {"level": "2"},
        {"level": True},
        {"size": 0},
        {"size": 2.5},
        {"seed": -1},
        {"template": "What?"},
        {"template": "{expression} {expression}"},
        {"operators": "/"},
        {"operators": ""},
        {"operators": "++"},
        {"operators": 3},
        {"max_operand": 0},
        {"max_operand": 10**10},
        {"terms": 1},
        {"terms": [3, 2]},
        {"terms": 9},
        {"fallback": "guess"},
        {"split": "eval", "size": 1_000},
        {"split": "eval", "max_operand": 1},
    ],
)
def test_wrong_options_are_user_errors_of_one_line(options):
    with pytest.raises(rlvr.UserError) as caught:
        arithmetic_tasks(**options)
    assert "\n" not in str(caught.value)


def test_overrides_replace_parts_of_a_level():
    assert shape_of(3, operators=["*"], terms=3) == Shape("*", 99, (3, 3))
    assert shape_of(5, max_operand=4, terms=(2, 3)) == Shape("+-*", 4, (2, 3), parentheses=True)


def test_templates_are_not_format_strings():
    task = arithmetic_tasks(template="{0} \\boxed{} {expression}")[0]
    assert task.prompt.startswith("{0} \\boxed{} ")


def test_the_environment_scores_a_right_and_a_wrong_answer():
    env = gymnasium.make("rlvr/Arithmetic-v0", level=2, split="eval")
    tasks = arithmetic_tasks("eval", 2)
    env.reset(seed=0, options={"task": 3})
    _, reward, terminated, truncated, info = env.step(f"<think>easy</think> \\boxed{{{tasks[3].answer}}}")
    assert (reward, terminated, truncated, info["passed"]) == (1.0, True, False, 1.0)
    assert info["parts/think"] == 1.0
    observation, _ = env.reset(options={"task": 3})
    assert env.unwrapped.messages(observation)[0] == {"role": "system", "content": SYSTEM}
    _, reward, _, _, info = env.step(f"\\boxed{{{tasks[3].answer + 1}}}")
    assert (reward, info["passed"], info["parts/think"]) == (0.0, 0.0, 0.0)


def test_fallback_reaches_the_verifier():
    for fallback, expected in (("none", 0.0), ("last_number", 1.0)):
        env = gymnasium.make("rlvr/Arithmetic-v0", think="none", fallback=fallback)
        env.reset(options={"task": 0})
        answer = arithmetic_tasks()[0].answer
        assert env.step(f"It is {answer}.")[1] == expected
