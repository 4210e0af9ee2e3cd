"""The calculator, on honest and on hostile text, and the environment around it."""

from __future__ import annotations

import contextlib

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.calculation import CalculationError, calculate, written
from rlvr.envs.calculator import calculator_tasks, calls, demonstrated
from rlvr.envs.expressions import Operation, evaluate, render


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("12*34", "408"),
        (" 2 + 3 * 4 ", "14"),
        ("(2 + 3) * 4", "20"),
        ("10 - 4 - 3", "3"),
        ("-2**2", "-4"),
        ("2**-2", "0.25"),
        ("2^3^2", "512"),
        ("8 / 4 / 2", "1"),
        ("7/2", "3.5"),
        ("-1/3", "-0.3333333333"),
        ("2/3", "0.6666666667"),
        ("0.1 + 0.2", "0.3"),
        (".5 * 4", "2"),
        ("3 × 4 − 2", "10"),
        ("--3", "3"),
        ("1/3 - 1/3", "0"),
        ("-1 / 10**30", "0"),
    ],
)
def test_values_by_hand(expression, result):
    assert written(calculate(expression)) == result


@pytest.mark.parametrize(
    "expression",
    [
        *["", "()", "1 2", "2(3)", "3 +", "* 3", "1..2", "(1", "1)", "1,000", "x", "1e9", "0x10", "1_000", "٣ + ١"],
        *["1/0", "0**-1", "2**0.5", "9**9**9", "2**1000", "9" * 150, "(" * 200, "-" * 100 + "1", "1+" * 200 + "1"],
        *["__import__('os').system('true')", "().__class__", "1 if 1 else 2", "1\x00", "lambda: 0"],
    ],
)
def test_what_has_no_value(expression):
    with pytest.raises(CalculationError) as caught:
        calculate(expression)
    # Nothing of the expression comes back in the message.
    assert set(str(caught.value)) <= set("abcdefghijklmnopqrstuvwxyz 0123456789")


operations = st.recursive(
    st.integers(0, 999),
    lambda inner: st.builds(Operation, st.sampled_from("+-*"), inner, inner),
    max_leaves=12,
)


@given(operations)
def test_it_agrees_with_our_own_expressions(expression):
    assert calculate(render(expression)) == evaluate(expression)


@given(st.text(alphabet="0123456789+-*/^(). ", max_size=60))
def test_any_text_has_a_value_or_none(text):
    with contextlib.suppress(CalculationError):
        assert len(written(calculate(text))) < 300


def test_calls_are_found():
    assert calls("no call") == []
    assert calls("<calc>1+1</calc>") == ["1+1"]
    assert calls("a <calc>1</calc> b <calc>2</calc>") == ["1", "2"]
    assert calls("<calc>1") == calls("1</calc>") == calls("</calc>1<calc>") == []
    assert calls("<calc> oh <calc>2</calc>") == ["2"]
    assert len(calls("<calc>1</calc>" * 9)) == 4
    assert calls("<calc>" * 200_000) == []
    assert calls("<calc>" * 200_000 + "1</calc>") == ["1"]


def opened(**options):
    env = gymnasium.make("rlvr/Calculator-v0", **options).unwrapped
    env.reset(options={"task": 0})
    return env, env.tasks[0]


def test_a_call_comes_back_as_the_next_message_and_an_answer_ends():
    env, task = opened()
    assert env.step("Let me see: <calc>12*34</calc>")[:4] == ("408", 0.0, False, False)
    assert env.step("<calc>1/0</calc><calc>2*3</calc>")[0] == "Error: division by zero.\n6"
    observation, reward, terminated, truncated, info = env.step(rf"\boxed{{{task.answer}}}")
    assert (observation, reward, terminated, truncated, info["passed"]) == ("", 1.0, True, False, 1.0)


def test_a_wrong_answer_or_none_ends_too():
    env, task = opened()
    assert env.step(rf"\boxed{{{task.answer + 1}}}")[1:4] == (0.0, True, False)
    env, _ = opened()
    assert env.step("I do not know.")[1:4] == (0.0, True, False)


def test_calling_until_the_turns_run_out():
    env, _ = opened(max_turns=2)
    assert env.step("<calc>1+1</calc>")[2:4] == (False, False)
    observation, reward, terminated, truncated, info = env.step("<calc>1+1</calc>")
    assert (observation, reward, terminated, truncated, info["status"]) == ("", 0.0, False, True, "unparseable")


def test_the_answer_is_in_nothing_but_the_models_own_calls():
    env, task = opened()
    seen = [env.reset(options={"task": 0}), env.step("<calc>1+1</calc>"), env.step(r"\boxed{7}"), env.verdict.parts]
    assert str(task.answer) not in repr(seen)


def test_problems_are_those_of_arithmetic_with_splits_apart():
    train, held_out = calculator_tasks(max_operand=30, terms=2), calculator_tasks("eval", max_operand=30, terms=2)
    assert not {train[i].prompt for i in range(2000)} & {task.prompt for task in held_out}
    with pytest.raises(Exception, match="'operatr'"):
        gymnasium.make("rlvr/Calculator-v0", operatr="+")


def test_demonstrations_are_episodes_that_the_environment_plays_alike():
    rng = np.random.default_rng(0)
    asked, told = demonstrated(1, rng, "{expression}=", False, "*", 30, 2)
    env = gymnasium.make(
        "rlvr/Calculator-v0", template="{expression}=", system=None, operators="*", max_operand=30, terms=2
    ).unwrapped
    index = next(i for i in range(10_000) if env.tasks[i].prompt == asked[0][0]["content"])
    env.reset(options={"task": index})
    for messages, completion in (asked, told):
        assert env.conversation == messages
        env.step(completion)
    assert env.verdict.passed
    ((messages, completion),) = demonstrated(1, rng, "{expression}=", True, "*", 30, 2)
    assert len(messages) == 1
    assert calls(completion) == []
