from __future__ import annotations

import functools
import math
import pickle

import pytest

from rlvr.verifiers import Rubric, UserError, Verdict, gate, get_verifier, metric, score, verify


def fixed(result, calls: list[str] | None = None, name: str = "fixed"):
    """A verifier function that always returns `result`, or raises it, and notes that it ran."""

    def function(completion: str):
        if calls is not None:
            calls.append(name)
        if isinstance(result, BaseException):
            raise result
        return result

    function.__name__ = name
    return function


def good(completion: str) -> bool:
    return True


def bad(completion: str) -> bool:
    return False


def broken(completion: str) -> bool:
    raise RuntimeError("no connection")


def length(completion: str) -> float:
    return len(completion)


def test_the_rubric_of_a_reasoning_task():
    rubric = Rubric(gate("rlvr/think-v1"), score("rlvr/number-v1"), metric(length))
    right = rubric(completion=r"<think>6*7</think>\boxed{42}", answer="42")
    assert right == Verdict(
        1.0,
        True,
        "ok",
        {"think": 1.0, "number": 1.0, "length": 28.0},
        "number: read 42, reference 42",
        "42",
    )
    wrong = rubric(completion=r"<think>6*7</think>\boxed{41}", answer="42")
    assert (wrong.score, wrong.passed, wrong.status, wrong.answer) == (0.0, False, "ok", "41")
    garbled = rubric(completion=r"<think>6*7</think>\boxed{?}", answer="42")
    assert (garbled.score, garbled.passed, garbled.status) == (0.0, False, "unparseable")


def test_verify_takes_a_rubric():
    rubric = Rubric(score("rlvr/number-v1"))
    assert verify(rubric, completion="#### 42", answer="42").passed


def test_scores_are_weighted_and_summed():
    rubric = Rubric(score(fixed(0.5, name="a"), weight=2.0), score(fixed(1.0, name="b"), weight=-0.25, passes=True))
    verdict = rubric(completion="")
    assert verdict.score == 0.75
    assert verdict.parts == {"a": 0.5, "b": 1.0}


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_passed_status_and_answer_are_those_of_the_passing_part(first, second):
    one = Verdict(1.0, first, "ok", answer="1")
    two = Verdict(0.0, second, "unparseable", answer="2")
    verdict = Rubric(score(fixed(one, name="a")), score(fixed(two, name="b"), passes=True))(completion="")
    assert (verdict.passed, verdict.status, verdict.answer) == (second, "unparseable", "2")
    verdict = Rubric(score(fixed(one, name="a"), passes=True), score(fixed(two, name="b")))(completion="")
    assert (verdict.passed, verdict.status, verdict.answer) == (first, "ok", "1")


def test_passed_does_not_follow_from_the_score():
    verdict = Rubric(score(good), score(bad, passes=True))(completion="")
    assert (verdict.score, verdict.passed) == (1.0, False)


@pytest.mark.parametrize(
    "parts",
    [
        lambda: [score(good), score(bad)],
        lambda: [score(good, passes=True), score(bad, passes=True)],
        lambda: [gate(good)],
        lambda: [metric(good)],
        lambda: [],
    ],
)
def test_exactly_one_score_decides(parts):
    with pytest.raises(UserError):
        Rubric(*parts())


def test_parts_run_in_order_and_a_failed_gate_stops_the_rest():
    calls: list[str] = []
    parts = [
        metric(fixed(3.0, calls, "before")),
        gate(fixed(True, calls, "open")),
        score(fixed(1.0, calls, "early"), passes=True),
        gate(fixed(0.5, calls, "shut")),
        score(fixed(1.0, calls, "late")),
        metric(fixed(1.0, calls, "after")),
    ]
    verdict = Rubric(*parts)(completion="")
    assert calls == ["before", "open", "early", "shut"]
    assert (verdict.score, verdict.passed, verdict.status) == (0.0, False, "ok")
    assert verdict.parts == {"before": 3.0, "open": 1.0, "early": 1.0, "shut": 0.5}
    assert "'shut'" in verdict.detail
    assert verdict.answer is None


def test_a_failed_gate_keeps_its_status():
    verdict = Rubric(gate(fixed(Verdict(0.0, False, "timeout"))), score(good))(completion="")
    assert (verdict.score, verdict.status) == (0.0, "timeout")


def test_a_gate_adds_nothing_to_the_score():
    assert Rubric(gate(fixed(5.0)), score(good))(completion="").score == 1.0


@pytest.mark.parametrize(
    "parts",
    [
        [gate(broken), score(good)],
        [score(good, passes=True), score(broken)],
        [score(broken)],
        [score(broken), gate(bad)],
        [score(good), gate(fixed(math.nan, name="broken"))],
    ],
)
def test_a_failed_gate_or_score_grader_voids_the_verdict(parts):
    verdict = Rubric(*parts)(completion="")
    assert (verdict.score, verdict.passed, verdict.status) == (None, None, "error")
    assert "broken" in verdict.detail
    assert "broken" not in verdict.parts


def test_a_failed_metric_is_named_and_left_out():
    verdict = Rubric(metric(broken), score(good), metric(length))(completion="abc")
    assert (verdict.score, verdict.passed, verdict.status) == (1.0, True, "ok")
    assert verdict.parts == {"good": 1.0, "length": 3.0}
    assert "broken" in verdict.detail
    assert "no connection" in verdict.detail


def test_a_sum_that_overflows_is_a_failed_grading():
    verdict = Rubric(score(fixed(1e308, name="a"), weight=10.0))(completion="")
    assert (verdict.score, verdict.status) == (None, "error")


def test_names():
    rubric = Rubric(
        gate("rlvr/think-v1"),
        score(get_verifier("rlvr/number-v1")),
        metric(length),
        metric(lambda completion: 0.0, name="zero"),
        metric("rlvr/number-v1", name="loose", fallback="last_number"),
    )
    assert [part.name for part in rubric.parts] == ["think", "number", "length", "zero", "loose"]


@pytest.mark.parametrize("what", [lambda completion: 0.0, functools.partial(length)])
def test_what_has_no_name_needs_one(what):
    with pytest.raises(UserError, match="name="):
        metric(what)
    assert metric(what, name="x").name == "x"


@pytest.mark.parametrize("name", ["", "a/b", 3])
def test_bad_names(name):
    with pytest.raises(UserError, match="name="):
        metric(length, name=name)


def test_two_parts_of_one_name():
    with pytest.raises(UserError, match=r"'number'.*name="):
        Rubric(score("rlvr/number-v1"), metric("rlvr/number-v1", fallback="whole"))


def test_a_part_has_to_be_wrapped():
    with pytest.raises(UserError, match=r"rlvr/number-v1.*score"):
        Rubric("rlvr/number-v1")


@pytest.mark.parametrize("weight", [math.nan, math.inf, "1", None])
def test_a_weight_is_a_finite_number(weight):
    with pytest.raises(UserError, match="'good'"):
        score(good, weight=weight)


def test_an_unknown_option_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match=r"'fallbak'.*'fallback'"):
        score("rlvr/number-v1", fallbak="whole")
    with pytest.raises(UserError, match="'weight'"):
        gate("rlvr/think-v1", weight=2.0)
    with pytest.raises(UserError, match=r"rlvr/number-v1"):
        score("rlvr/numbr-v1")
    assert metric(lambda **fields: 0.0, name="any", anything=1).options == {"anything": 1}


def test_options_come_before_fields():
    rubric = Rubric(score("rlvr/number-v1", think="prefilled", answer="7"), metric("rlvr/think-v1"))
    verdict = rubric(completion=r"x</think>\boxed{7}", answer="8", think="none")
    assert verdict.parts == {"number": 1.0, "think": 0.0}


def test_a_missing_field_is_reported_before_anything_runs():
    calls: list[str] = []
    rubric = Rubric(gate(fixed(False, calls)), score("rlvr/number-v1"))
    with pytest.raises(UserError, match=r"rlvr/number-v1.*'answer'"):
        rubric(completion="x")
    assert not calls


def test_fields_are_checked_without_grading():
    rubric = Rubric(gate("rlvr/think-v1"), score("rlvr/number-v1"))
    rubric.check_fields({"completion", "answer", "prompt"})
    with pytest.raises(UserError, match="'answer'"):
        rubric.check_fields(["completion", "prompt"])
    Rubric(score("rlvr/number-v1", answer="42")).check_fields(["completion"])
    with pytest.raises(UserError, match="'answer'"):
        Rubric(score(rubric)).check_fields(["completion"])
    Rubric(score(rubric, answer="42")).check_fields(["completion"])


def test_a_verdicts_own_parts_are_kept_under_the_parts_name():
    verdict = Rubric(score(fixed(Verdict(0.5, False, parts={"unit": 1.0, "style": 0.0}), name="code")))(completion="")
    assert verdict.parts == {"code": 0.5, "code/unit": 1.0, "code/style": 0.0}


# Rubrics in rubrics.


def nested(*, holds: bool) -> Rubric:
    """Scores 0.5 * 0.4 plus whether it holds, and passes if it holds."""
    return Rubric(score(fixed(0.4, name="style"), weight=0.5), score(fixed(holds, name="sound"), passes=True))


def test_a_nested_rubric_as_a_score_gives_its_total():
    outer = Rubric(score(nested(holds=True), name="inner", weight=10.0))
    verdict = outer(completion="")
    assert verdict.score == pytest.approx(12.0)
    assert verdict.passed
    assert verdict.parts == {"inner": 1.2, "inner/style": 0.4, "inner/sound": 1.0}


def test_a_nested_rubric_as_a_gate_holds_when_it_passes():
    outer = Rubric(gate(nested(holds=True), name="inner"), score(good))
    assert outer(completion="").score == 1.0  # its total is no part of the reward
    outer = Rubric(gate(nested(holds=False), name="inner"), score(good))
    verdict = outer(completion="")
    assert (verdict.score, verdict.passed) == (0.0, False)
    assert verdict.parts == {"inner": 0.2, "inner/style": 0.4, "inner/sound": 0.0}


def test_a_gate_inside_a_nested_score_stops_only_that():
    inner = Rubric(gate(bad), score(fixed(1.0, name="a")))
    verdict = Rubric(score(inner, name="inner"), score(good, weight=0.3, passes=True))(completion="")
    assert verdict.score == 0.3
    assert verdict.passed
    assert verdict.parts == {"inner": 0.0, "inner/bad": 0.0, "good": 1.0}


def test_a_nested_passing_part_decides():
    verdict = Rubric(score("rlvr/number-v1", passes=True), score(good))(completion=r"\boxed{x}", answer="1")
    inner = Rubric(score("rlvr/number-v1"))
    outer = Rubric(score(good), score(inner, passes=True))(completion=r"\boxed{x}", answer="1")
    assert (outer.score, outer.passed, outer.status) == (verdict.score, verdict.passed, verdict.status)
    assert Rubric(score(inner))(completion=r"\boxed{2}", answer="1").answer == "2"


@pytest.mark.parametrize("kind", [gate, score])
def test_a_failed_grader_inside_voids_the_outer_verdict(kind):
    inner = Rubric(score(broken))
    verdict = Rubric(kind(inner, name="inner"), score(good, passes=True))(completion="")
    assert (verdict.score, verdict.passed, verdict.status) == (None, None, "error")
    assert "inner: broken: " in verdict.detail


def test_a_failed_grader_inside_a_metric_does_not():
    verdict = Rubric(metric(Rubric(score(broken)), name="inner"), score(good))(completion="")
    assert (verdict.score, verdict.parts) == (1.0, {"good": 1.0})
    assert "inner: broken: " in verdict.detail


def test_options_of_a_nested_rubric_reach_its_parts_but_not_over_their_own():
    inner = Rubric(score("rlvr/number-v1", fallback="whole"), metric("rlvr/think-v1", think="none"))
    outer = Rubric(score(inner, name="inner", answer="42", think="prefilled"))
    verdict = outer(completion="</think>42", answer="7", think="generated")
    assert verdict.parts == {"inner": 1.0, "inner/number": 1.0, "inner/think": 0.0}
    with pytest.raises(UserError, match="'fallback'"):  # every part has fixed it, so it could change nothing
        score(inner, name="inner", fallback="none")
    with pytest.raises(UserError, match="'answer'"):
        score(inner, name="inner", anser="42")


def test_nesting_two_deep():
    rubric = Rubric(score(Rubric(score(Rubric(score(good)), name="b")), name="a"))
    assert rubric(completion="").parts == {"a": 1.0, "a/b": 1.0, "a/b/good": 1.0}


def test_the_tree():
    inner = Rubric(gate("rlvr/think-v1"), score("rlvr/number-v1", weight=0.5, fallback="whole"))
    rubric = Rubric(gate(inner, name="form"), score(good), metric(length))
    assert repr(rubric) == rubric.tree()
    assert rubric.tree().splitlines() == [
        "Rubric",
        "├─ gate form  Rubric",
        "│  ├─ gate think  rlvr/think-v1",
        "│  └─ score number  rlvr/number-v1  weight=0.5  passes  fallback='whole'",
        "├─ score good  good  weight=1  passes",
        "└─ metric length  length",
    ]


def test_a_rubric_survives_pickling():
    rubric = Rubric(gate("rlvr/think-v1"), score("rlvr/number-v1", fallback="whole"))
    copy = pickle.loads(pickle.dumps(rubric))
    assert copy(completion="<think>x</think>42", answer="42").passed
    assert copy.tree() == rubric.tree()
