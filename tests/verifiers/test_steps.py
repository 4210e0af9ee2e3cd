from __future__ import annotations

import pytest

from rlvr.verifiers import Rubric, UserError, Verdict, score, verify
from rlvr.verifiers.registry import get_verifier
from rlvr.verifiers.steps import split_steps


def grade(completion, step_verifier, **fields):
    return verify("rlvr/steps-v1", completion=completion, step_verifier=step_verifier, **fields)


def length_of(completion: str) -> float:
    return len(completion) / 10


def has_no_error(completion: str) -> bool:
    return "wrong" not in completion


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("one\n\ntwo\n \t\n\nthree", ["one", "two", "three"]),
        ("one\ntwo", ["one\ntwo"]),
        ("\n\n", []),
        ("", []),
        ("Step 1: a\nb\n\nc\nStep 2: d", ["Step 1: a\nb\n\nc", "Step 2: d"]),
        ("Let us see.\n\n**Step 1.** a\n## Step 2\nb", ["Let us see.\n\n**Step 1.** a", "## Step 2\nb"]),
        ("In step 3 of the plan\n\nwe go on", ["In step 3 of the plan", "we go on"]),
    ],
)
def test_splitting(text, steps):
    assert split_steps(text) == steps


def test_splitting_at_a_separator():
    assert split_steps("a; b ;;c", ";") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("combine", "expected"),
    [("mean", 0.2), ("min", 0.1), ("product", 0.1 * 0.2 * 0.3), ("last", 0.3), ("until_failure", 0.0)],
)
def test_combining(combine, expected):
    verdict = grade("<think>a\n\nbb\n\nccc</think>rest", length_of, combine=combine)
    assert verdict.score == pytest.approx(expected)
    assert dict(verdict.parts) == pytest.approx({"step/1": 0.1, "step/2": 0.2, "step/3": 0.3})
    assert verdict.passed is False


def test_the_first_failure():
    completion = "<think>good\n\nfine\n\nwrong\n\nwrong again</think>"
    verdict = grade(completion, has_no_error, combine="until_failure")
    assert verdict.score == 0.5
    assert "step 3 of 4" in verdict.detail
    assert grade("<think>good\n\nfine</think>", has_no_error, combine="until_failure").score == 1.0
    assert grade("<think>good\n\nfine</think>", has_no_error).passed


def test_what_a_step_verifier_is_told():
    seen = []

    def check(completion: str, previous: str, step: int, prompt: str, answer: str, think: str, bonus: float) -> float:
        seen.append((completion, previous, step, prompt, answer, think))
        return bonus

    verdict = grade("<think>a\n\nb</think>c", check, prompt="p", answer="x", options={"bonus": 0.25}, combine="mean")
    assert verdict.score == 0.25
    assert seen == [("a", "", 1, "p", "x", "none"), ("b", "a", 2, "p", "x", "none")]


def test_a_name_and_a_rubric():
    assert grade("<think>\\boxed{1}\n\n\\boxed{2}</think>", "rlvr/number-v1", answer="2", combine="mean").score == 0.5
    rubric = Rubric(score(has_no_error), score(length_of, weight=2.0, passes=True))
    assert grade("<think>a\n\nbb</think>", rubric, combine="min").score == pytest.approx(1.2)


def test_no_step_and_too_many():
    for completion in ("<think>\n\n</think>x", "<think>" + "a\n\n" * 5 + "</think>"):
        verdict = grade(completion, length_of, max_steps=4)
        assert (verdict.score, verdict.passed, verdict.status) == (0.0, False, "unparseable")
    assert grade("<think>" + "a\n\n" * 4 + "</think>", length_of, max_steps=4).status == "ok"
    assert grade("a\n\n" * 500_000, length_of).status == "unparseable"


def test_other_parts():
    completion = "<think>a</think>bb\n\nccc"
    assert grade(completion, length_of, part="answer", combine="mean").score == pytest.approx(0.25)
    # Without a tag nothing is marked off, so everything is reasoning.
    assert grade("bb\n\nccc", length_of, combine="mean").score == pytest.approx(0.25)


def test_a_step_that_cannot_be_graded():
    def check(completion: str) -> float:
        if completion == "b":
            raise ValueError("no idea")
        return 1.0

    verdict = grade("<think>a\n\nb\n\nc</think>", check)
    assert (verdict.score, verdict.status) == (None, "error")
    assert "step 2" in verdict.detail
    assert "no idea" in verdict.detail


def test_all_steps_of_all_completions_are_graded_together():
    calls = []

    def check(completions: list[str]) -> list[float]:
        calls.append(list(completions))
        return [float(len(text)) for text in completions]

    texts = ["a\n\nbb", "", "ccc", "a\n\n" * 9]
    rows = [{"completion": text, "step_verifier": check, "combine": "mean", "max_steps": 8} for text in texts]
    verdicts = get_verifier("rlvr/steps-v1").grade_many(rows)
    assert calls == [["a", "bb", "ccc"]]
    assert [verdict.score for verdict in verdicts] == [1.5, 0.0, 3.0, 0.0]
    assert [verdict.status for verdict in verdicts] == ["ok", "unparseable", "ok", "unparseable"]


def test_in_a_rubric_of_many():
    rubric = Rubric(score("rlvr/steps-v1", step_verifier=has_no_error, combine="until_failure"))
    rows = [{"completion": "a\n\nwrong", "think": "none"}, {"completion": "a", "think": "none"}]
    verdicts = rubric.grade_many(rows)
    assert [verdict.score for verdict in verdicts] == [0.5, 1.0]
    assert verdicts[0].parts["steps/step/2"] == 0.0


def test_called_by_itself():
    verdicts = get_verifier("rlvr/steps-v1")(["a\n\nbb", "ccc"], length_of, combine="mean")
    assert [verdict.score for verdict in verdicts] == pytest.approx([0.15, 0.3])
    assert all(isinstance(verdict, Verdict) for verdict in verdicts)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"combine": "maen"}, "'mean'"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"separator": ""}, "separator=''"),
        ({"options": 5}, "options=5"),
        ({"options": {1: 2}}, "options="),
        ({"part": "thoughts"}, "no part"),
        ({"step_verifier": "rlvr/numbr-v1"}, "rlvr/number-v1"),
        ({"step_verifier": 3}, "no grader"),
        ({"step_verifier": lambda completion, missing: 1.0}, "missing"),
    ],
)
def test_mistakes(fields, named):
    with pytest.raises(UserError, match=named):
        verify("rlvr/steps-v1", **{"completion": "a", "step_verifier": length_of, **fields})


def test_a_mistake_in_one_row_is_told_before_any_step_is_graded():
    graded = []
    graders = [lambda completion: graded.append(completion), length_of]
    with pytest.raises(UserError, match="options=5"):
        get_verifier("rlvr/steps-v1")(["a", "b"], graders, options=[None, 5])
    assert not graded
