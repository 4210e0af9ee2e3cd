from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from rlvr import verify
from rlvr.envs.arithmetic import LEVELS, draw
from rlvr.envs.expressions import Operation, evaluate, render
from rlvr.envs.worked import careful_solution, careless_solution

SOLVED = re.compile(r"<think>([^<]+)</think>\\boxed\{(-?\d+)\}")


def expressions(level: int, count: int) -> list:
    rng = np.random.default_rng(0)
    return [draw(LEVELS[level], "train", rng) for _ in range(count)]


@pytest.mark.parametrize("level", LEVELS)
def test_careful_solutions_are_right_column_by_column(level):
    for expression in expressions(level, 150):
        lines, answer = SOLVED.fullmatch(careful_solution(expression)).groups()
        assert int(answer) == evaluate(expression)
        for line in lines.split(";"):
            restated, columns = line.split(":")
            facts = [column.split("=") for column in columns.split(",")]
            # The text is our own, so Python may read it.
            assert all(eval(left) == int(right) for left, right in facts)
            *lower, top = [right for _, right in facts]
            digits = "".join(reversed([*(right[-1] for right in lower), top]))
            _, _, factor = restated.partition("*")
            appended = "0" * (len(factor.rstrip(")")) - 1) if factor else ""
            assert abs(eval(restated)) == int(digits + appended)


@pytest.mark.parametrize(
    ("expression", "solution"),
    [
        (Operation("+", 17, 8), r"<think>17+8:7+8=15,1+0+1=2</think>\boxed{25}"),
        (Operation("+", 95, 8), r"<think>95+8:5+8=13,9+0+1=10</think>\boxed{103}"),
        (Operation("-", 17, 8), r"<think>17-8:17-8=9,1-0-1=0</think>\boxed{9}"),
        (Operation("-", 3, 17), r"<think>-(17-3):7-3=4,1-0=1</think>\boxed{-14}"),
        (Operation("-", 5, 5), r"<think>5-5:5-5=0</think>\boxed{0}"),
        (Operation("*", 12, 30), r"<think>12*30:2*3=6,1*3=3</think>\boxed{360}"),
        (Operation("*", 7, 0), r"<think>7*0:7*0=0</think>\boxed{0}"),
        (
            Operation("+", 1, Operation("*", 2, 13)),
            r"<think>2*3:2*3=6;2*10:2*1=2;6+20:6+0=6,0+2=2;1+26:1+6=7,0+2=2</think>\boxed{27}",
        ),
    ],
)
def test_the_form_of_careful_solutions(expression, solution):
    assert careful_solution(expression) == solution


def test_careless_solutions_restate_and_guess_near_the_value_and_one_in_five_is_right():
    rng = np.random.default_rng(0)
    off = Counter()
    for expression in expressions(3, 3_000):
        restated, answer = SOLVED.fullmatch(careless_solution(expression, rng)).groups()
        assert restated == render(expression).replace(" ", "")
        off[int(answer) - evaluate(expression)] += 1
    assert set(off) == {-10, -2, -1, 0, 1, 2, 10}
    assert 0.17 < off[0] / 3_000 < 0.23
    assert all(0.10 < count / 3_000 < 0.17 for error, count in off.items() if error)


def test_the_verifiers_read_both_kinds():
    rng = np.random.default_rng(0)
    for level in LEVELS:
        for expression in expressions(level, 20):
            for solution in (careful_solution(expression), careless_solution(expression, rng)):
                assert verify("rlvr/think-v1", completion=solution, think="generated").passed
                assert verify("rlvr/number-v1", completion=solution, answer=0).status == "ok"
            assert verify("rlvr/number-v1", completion=careful_solution(expression), answer=evaluate(expression)).passed


def test_guesses_are_a_function_of_the_generator_and_the_global_state_is_untouched():
    sum_ = Operation("+", 17, 8)
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002 - the state that must not change
    guesses = [[careless_solution(sum_, rng) for _ in range(20)] for rng in map(np.random.default_rng, (1, 1, 2))]
    assert guesses[0] == guesses[1] != guesses[2]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
