from __future__ import annotations

import numpy as np
import pytest

from rlvr.verifiers import Rubric, UserError, Verdict, score, verifier, verify
from rlvr.verifiers.foreign import trl
from rlvr.verifiers.registry import as_grader, verify_many

ROWS = [
    {"completion": "4", "prompt": "2+2", "answer": "4", "difficulty": 1, "data_source": "sums"},
    {"completion": "5", "prompt": "2+3", "answer": "6", "difficulty": 2, "data_source": "sums"},
]


def reward(completions, answer, **kwargs):
    """As in TRL's documentation: the rest of the columns comes along."""
    assert sorted(kwargs) == ["data_source", "difficulty", "prompts"]
    return [1.0 if c == a else 0.0 for c, a in zip(completions, answer, strict=True)]


def reward_with_prompts(prompts, completions, completion_ids=None, trainer_state=None, log_metric=None, **kwargs):
    return [float(len(p) + len(c)) for p, c in zip(prompts, completions, strict=True)]


def test_trl_functions_are_taken_as_they_are():
    assert [v.score for v in verify_many(reward, ROWS)] == [1.0, 0.0]
    assert [v.score for v in verify_many(reward_with_prompts, ROWS)] == [4.0, 4.0]
    assert [v.score for v in Rubric(score(reward)).grade_many(ROWS)] == [1.0, 0.0]
    registered = verifier("test/foreign-trl-v1")(reward)
    assert verify(registered, **ROWS[0]).passed


def test_trainer_arguments_that_are_insisted_on():
    def insisting(completions, trainer_state, log_extra, log_metric):
        log_metric("a", 1.0)
        log_extra("b", completions)
        return [1.0 if trainer_state is None else 0.0 for _ in completions]

    assert verify(insisting, completion="x").passed
    with pytest.raises(UserError, match="'completion_ids'"):
        verify(lambda completion_ids, **kwargs: [1.0], completion="x")


def test_none_in_a_list_is_no_score():
    def some(completions):
        return [1.0, None, 0.0]

    one, two, three = verify_many(some, [{"completion": c} for c in "abc"])
    assert (one.score, two.score, three.score) == (1.0, None, 0.0)
    assert two.status == "error"
    assert "gave no score for this sample" in two.detail
    assert "'b'" in two.detail


def test_conversational_functions():
    def talk(completions, prompts):
        return [c[0]["content"] == "4" and p[-1]["content"] == "2+2" for c, p in zip(completions, prompts, strict=True)]

    def annotated(completions: list[list[dict[str, str]]]):
        return [len(c[0]["content"]) for c in completions]

    assert [v.passed for v in verify_many(trl(talk, conversational=True), ROWS)] == [True, False]
    assert verify(annotated, completion="abc").score == 3.0
    assert "conversational=True" in verify(lambda completions: [completions[0][0]["content"]], completion="a").detail
    in_process = verifier("test/foreign-talk-v1", timeout=30)(trl(talk, conversational=True))
    assert [v.passed for v in verify_many(in_process, ROWS)] == [True, False]


def test_conversational_async_functions():
    async def talk(completions):
        return [c[0]["content"] == "x" for c in completions]

    assert verify(trl(talk, conversational=True), completion="x").passed


@pytest.mark.slow
def test_trls_own_reward_functions():
    rewards = pytest.importorskip("trl.rewards")
    thought = verify_many(
        rewards.think_format_reward, [{"completion": "<think>a</think>b"}, {"completion": "<think>a"}]
    )
    assert [v.score for v in thought] == [1.0, 0.0]
    rows = [
        {"completion": r"\boxed{\frac{1}{3}}", "solution": r"\frac{1}{3}"},
        {"completion": r"\boxed{\frac{1}{2}}", "solution": r"\frac{1}{3}"},
        {"completion": r"\boxed{\frac{1}{2}}", "solution": ""},
    ]
    assert [v.score for v in verify_many(rewards.accuracy_reward, rows)] == [1.0, 0.0, None]
    with pytest.raises(UserError, match="'solution'"):
        verify(rewards.accuracy_reward, completion="x")
    with pytest.raises(UserError, match="'completion_ids'"):
        verify(rewards.get_soft_overlong_punishment(10, 5), completion="x")
    ids = {"completion": "x", "completion_ids": [1] * 20}
    assert verify(rewards.get_soft_overlong_punishment(10, 5), **ids).score == -1.0
    registered = verifier("test/trls-accuracy-v1", timeout=60)(rewards.accuracy_reward)
    assert [v.score for v in verify_many(registered, rows)] == [1.0, 0.0, None]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert data_source == "sums"
    assert extra_info == {"difficulty": 1, "data_source": "sums"} or extra_info["difficulty"] == 2
    return float(solution_str == ground_truth)


def test_verls_compute_score_is_taken_as_it_is():
    assert [v.score for v in verify_many(compute_score, ROWS)] == [1.0, 0.0]
    registered = verifier("test/foreign-verl-v1")(compute_score)
    assert [v.score for v in Rubric(score(registered, name="x")).grade_many(ROWS)] == [1.0, 0.0]
    as_grader(compute_score).check_fields(["completion", "answer"])
    with pytest.raises(UserError, match="'ground_truth'"):
        as_grader(compute_score).check_fields(["completion", "solution"])


def test_verls_arguments():
    seen = {}

    def note(data_source, solution_str, ground_truth, extra_info=None, method="strict"):
        seen.update(data_source=data_source, ground_truth=ground_truth, extra_info=extra_info, method=method)
        return 1.0

    verify(note, completion="x", answer="a", think="none")
    assert seen == {"data_source": "", "ground_truth": "a", "extra_info": {}, "method": "strict"}
    verify(note, completion="x", answer="a", ground_truth="g", extra_info={"k": 1}, method="loose")
    assert seen == {"data_source": "", "ground_truth": "g", "extra_info": {"k": 1}, "method": "loose"}
    assert score(note, method="loose", answer="a").options == {"method": "loose", "answer": "a"}


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (1, Verdict(1.0, True)),
        (True, Verdict(1.0, True)),
        ({"score": 1.0, "acc": False}, Verdict(1.0, False, parts={"acc": 0.0})),
        ({"score": -1.0, "acc": 1}, Verdict(-1.0, True, parts={"acc": 1.0})),
        ({"score": 1.0, "acc": np.bool_(False)}, Verdict(1.0, False, parts={"acc": 0.0})),
        ({"score": 1.0, "acc": 0.5}, Verdict(1.0, True, parts={"acc": 0.5})),
        ({"score": 1.0, "acc": "no"}, Verdict(1.0, True)),
        ({"score": 0.5, "acc": True, "pred": "42", "n": 3}, Verdict(0.5, True, parts={"acc": 1.0, "n": 3.0})),
    ],
)
def test_what_compute_score_may_return(result, verdict):
    assert verify(lambda solution_str, ground_truth: result, completion="x", answer="y") == verdict


@pytest.mark.parametrize("result", [{"acc": 1.0}, {}, {"score": None}, {"score": float("nan")}, None, "1"])
def test_what_it_may_not(result):
    def compute_score(solution_str, ground_truth):
        return result

    verdict = verify(compute_score, completion="what it wrote", answer="y")
    assert (verdict.score, verdict.status) == (None, "error")
    assert "'compute_score'" in verdict.detail
    assert "what it wrote" in verdict.detail


def test_a_nan_part_is_no_verdict():
    result = {"score": 1.0, "acc": float("nan")}
    assert verify(lambda solution_str, ground_truth: result, completion="x", answer="y").status == "error"


def test_verls_batch_form_and_its_async_form():
    def many(data_sources, solution_strs, ground_truths, extra_infos):
        return [
            {"score": float(s == g), "d": extra["difficulty"]}
            for s, g, extra in zip(solution_strs, ground_truths, extra_infos, strict=True)
        ]

    async def one(data_source, solution_str, ground_truth, extra_info):
        return solution_str == ground_truth

    assert verify_many(many, ROWS) == [Verdict(1.0, True, parts={"d": 1.0}), Verdict(0.0, False, parts={"d": 2.0})]
    assert [v.passed for v in verify_many(one, ROWS)] == [True, False]
