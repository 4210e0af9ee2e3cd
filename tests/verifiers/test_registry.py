from __future__ import annotations

import asyncio
import functools
import math
import pickle
import subprocess
import sys
import uuid
from concurrent.futures import Future

import pytest

import rlvr.verifiers as v
from rlvr.verifiers import Rubric, UserError, Verdict, averify, get_verifier, score, verifier, verify, verify_many


def fresh_name() -> str:
    return f"test/{uuid.uuid4().hex}-v1"


def register(function):
    return verifier(fresh_name())(function)


def test_a_function_gets_the_fields_it_names():
    seen = {}

    def function(completion, answer, *, think="generated", difficulty=3):
        seen.update(completion=completion, answer=answer, think=think, difficulty=difficulty)
        return 0.25

    registered = register(function)
    verdict = verify(registered.name, completion="c", answer="a", difficulty=5, prompt="unused")
    assert verdict == Verdict(0.25, False)
    assert seen == {"completion": "c", "answer": "a", "think": "generated", "difficulty": 5}


def test_kwargs_get_every_field():
    registered = register(lambda completion, **rest: sorted(rest) == ["answer", "prompt"])
    assert verify(registered, completion="", answer=1, prompt="p").passed


def test_the_decorated_function_is_still_called_as_before():
    @verifier(fresh_name())
    def double(completion: str, times: int = 2) -> float:
        """Doc."""
        return len(completion) * times

    assert double("abc") == 6
    assert double("abc", times=3) == 9
    assert double.__name__ == "double"
    assert double.__doc__ == "Doc."
    assert get_verifier(double.name) is double


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad thing"),
        RecursionError("too deep"),
        MemoryError("full"),
        AssertionError(),
        SystemExit(3),
        asyncio.CancelledError("stop"),
        GeneratorExit("over"),
        BaseException("x"),
        pytest.fail.Exception("no"),
    ],
)
def test_an_exception_is_the_graders_failure(error):
    def function(completion):
        raise error

    registered = register(function)
    verdict = verify(registered, completion="x")
    assert (verdict.score, verdict.passed, verdict.status) == (None, None, "error")
    assert registered.name in verdict.detail
    assert type(error).__name__ in verdict.detail
    assert str(error) in verdict.detail


def test_a_type_error_inside_the_function_is_not_taken_for_a_missing_argument():
    def function(completion):
        return len(5)

    assert verify(register(function), completion="x").status == "error"


def test_real_recursion_is_the_graders_failure():
    def function(completion):
        return function(completion)

    assert verify(register(function), completion="x").status == "error"


def test_an_interrupt_comes_through():
    def function(completion):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(register(function), completion="x")


def test_a_message_that_quotes_the_completion_is_cut():
    def function(completion):
        raise ValueError(completion)

    assert len(verify(register(function), completion="x" * 1_000_000).detail) < 1000


@pytest.mark.parametrize("result", [math.nan, math.inf, -math.inf, None, "1", 10**400])
def test_a_senseless_result_is_the_graders_failure(result):
    registered = register(lambda completion: result)
    verdict = verify(registered, completion="x")
    assert (verdict.score, verdict.status) == (None, "error")
    assert registered.name in verdict.detail


def test_a_missing_argument_is_reported_before_the_function_runs():
    called = []

    def function(completion, answer):
        called.append(completion)
        return True

    registered = register(function)
    with pytest.raises(UserError) as error:
        verify(registered, completion="x", anwser="42")
    assert not called
    for word in (registered.name, "'answer'", "'anwser'", "'completion'"):
        assert word in str(error.value)


@pytest.mark.parametrize("name", ["rlvr/nmber-v1", "number-v1", "rlvr/number-v2"])
def test_an_unknown_name_is_answered_with_the_nearest(name):
    with pytest.raises(UserError, match=r"rlvr/number-v1"):
        verify(name, completion="", answer="")


@pytest.mark.parametrize(
    "name", ["", "number", "rlvr/number", "number-v1", "a/b/c-v1", "a b/c-v1", "a/b-v", "a/b-v1\n", "a/b-v1.0"]
)
def test_malformed_names_are_refused(name):
    with pytest.raises(UserError, match="owner/name-vN"):
        verifier(name)


def test_the_decorator_needs_a_name():
    with pytest.raises(UserError, match="owner/name-vN"):

        @verifier
        def function(completion):
            return True


def test_a_taken_name_is_refused_to_another_function_and_kept():
    first = register(lambda completion: True)

    def other(completion):
        return False

    with pytest.raises(UserError, match=first.name):
        verifier(first.name)(other)
    with pytest.raises(UserError, match=first.name):  # two lambdas share a qualified name and nothing else
        verifier(first.name)(lambda completion: False)
    assert get_verifier(first.name) is first


def test_defining_a_function_again_replaces_it():
    name = fresh_name()

    def define(result):
        @verifier(name)
        def function(completion):
            return result

        return function

    define(False)
    again = define(True)
    assert get_verifier(name) is again
    assert verify(name, completion="").passed


async def async_generator(completion):
    yield True


def generator(completion):
    yield True


@pytest.mark.parametrize("function", [async_generator, generator, functools.partial(generator)])
def test_generators_are_refused(function):
    with pytest.raises(UserError, match="generator"):
        register(function)


def test_positional_only_parameters_are_refused():
    def function(completion, /):
        return True

    with pytest.raises(UserError, match="'completion'"):
        register(function)


def test_what_cannot_grade_is_refused():
    with pytest.raises(UserError, match="42"):
        verify(42, completion="")
    with pytest.raises(UserError, match="bytes"):
        verify("rlvr/number-v1", completion=b"42", answer="42")


def test_a_plain_function_grades_without_being_registered():
    def short(completion):
        return len(completion) < 3

    assert verify(short, completion="ab").passed
    assert not verify(short, completion="abc").passed


def test_registered_verifiers_survive_pickling():
    number = get_verifier("rlvr/number-v1")
    assert pickle.loads(pickle.dumps(number)) is number


def test_an_objects_own_attributes_do_not_rename_the_verifier():
    class Named:
        def __init__(self):
            self.name = "mine"

        def __call__(self, completion):
            return True

    registered = register(Named())
    assert get_verifier(registered.name) is registered
    assert registered.name != "mine"


def test_importing_verifiers_loads_nothing_heavy():
    code = (
        "import sys, rlvr.verifiers; "
        "print([m for m in ('torch', 'transformers', 'datasets', 'docker', 'pandas', 'sympy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_public_names():
    assert set(v.__all__) <= set(dir(v))


def test_an_exit_asked_for_while_a_function_is_waited_for_is_no_failure_of_it():
    code = (
        "import os, signal, sys, threading, rlvr\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "def hang(completion):\n    os.kill(os.getpid(), signal.SIGTERM)\n    threading.Event().wait()\n"
        "rlvr.verify(hang, completion='')\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=50).returncode == 7


def test_a_function_that_may_return_a_future_grades_together():
    def later(completion: str) -> Verdict | Future[Verdict]:
        return Verdict(1.0, True)

    def real(completion) -> Future:
        return Future()

    def now(completion: str) -> Verdict:
        return Verdict(1.0, True)

    real.__annotations__["return"] = Future
    assert register(later).grades_together
    assert register(real).grades_together
    assert not register(now).grades_together
    assert not register(lambda completion: 1.0).grades_together
    assert get_verifier("rlvr/math-v1").grades_together


def test_options_of_a_part_are_checked_when_it_is_made():
    checked = []

    def check(*, least=0, most=9):
        checked.append((least, most))
        if least > most:
            raise UserError(f"least={least} is too much; pass less.")

    @verifier(fresh_name(), check=check)
    def between(completion, least=0, most=9):
        return least <= len(completion) <= most

    assert score(between, name="a", most=3).options == {"most": 3}
    assert checked == [(0, 3)]
    with pytest.raises(UserError, match="least=10"):
        score(between, name="a", least=10)
    score(between, name="a")
    assert len(checked) == 2
    # A rubric hands its options on, where its part has not fixed them itself.
    with pytest.raises(UserError, match="least=10"):
        score(Rubric(score(between, name="a")), name="b", least=10)
    score(Rubric(score(between, name="a", least=1)), name="b", most=4)
    assert checked[-1] == (0, 4)


def test_a_misspelt_keyword_is_refused():
    def check(completion, answer, percent="either", limit=5):
        return True

    with pytest.raises(UserError, match=r"'percnt'.*'percent'"):
        verify(check, completion="x", answer="1", percnt="strict")
    with pytest.raises(UserError, match=r"'percnt'.*'percent'"):
        asyncio.run(averify(check, completion="x", answer="1", percnt="strict"))
    # Other fields of a task are no mistake, nor is one that is like a parameter that is given.
    assert verify(check, completion="x", answer="1", answers=["1"], level=3, answer_type="int", task_id="t").passed
    assert verify(lambda completion, **rest: True, completion="x", percnt=1).passed
    row = {"completion": "x", "answer": "1", "percnt": 1}
    assert verify_many(check, [row])[0].passed


@pytest.mark.parametrize(("value", "words"), [(3, "an int"), ([], "a list"), (None, "is None")])
def test_what_is_no_completion(value, words):
    with pytest.raises(UserError, match=words):
        verify(lambda completion: True, completion=value)
    with pytest.raises(UserError, match=words):
        verify_many(lambda completion: True, [{"completion": value}])
