"""The verdict as a whole: references, statuses, details, options, canonical answers, limits."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import rlvr
from rlvr.sandbox.errors import UserError
from rlvr.verifiers.math.verdict import check_reference, math, reference_text
from rlvr.verifiers.pool import shared_pool
from rlvr.verifiers.verdict import Verdict


def boxed(answer: str, reference: object, **options: object) -> Verdict:
    return rlvr.verify("rlvr/math-v1", completion=rf"\boxed{{{answer}}}", answer=reference, **options)


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (42, "42"),
        (-3, "-3"),
        (0.5, "0.5"),
        (Fraction(3, 4), "3/4"),
        (Decimal("2.50"), "2.50"),
        (np.int64(7), "7"),
        (np.float64(0.25), "0.25"),
        ("  42\n", "42"),
        ("He has 3 * 4 = 12 eggs.\n#### 12", "12"),
        ("#### 1\nNo.\n#### 1,200", "1,200"),
    ],
)
def test_a_reference_is_text_or_a_number(reference: object, text: str) -> None:
    assert reference_text(reference) == text
    check_reference(reference)
    assert boxed(text, reference).passed is True
    assert boxed(text + "1", reference).passed is False


@pytest.mark.parametrize("reference", [True, None, [1, 2], 1 + 2j, b"5", {"answer": 5}])
def test_other_references_are_the_grader_s_failure(reference: object) -> None:
    with pytest.raises(UserError, match="give it as text or as a number"):
        check_reference(reference)
    assert boxed("5", reference).status == "error"


@pytest.mark.parametrize("reference", ["", "   ", "####", "((", "?!", "5)("])
def test_a_reference_that_says_nothing_is_refused_beforehand_and_never_matched(reference: object) -> None:
    with pytest.raises(UserError):
        check_reference(reference)
    verdict = boxed("5", reference)
    assert (verdict.score, verdict.passed, verdict.status) == (None, None, "error")
    assert "reference answer" in verdict.detail


def test_a_right_answer() -> None:
    verdict = boxed(r"\frac{10}{4}", "2.5")
    assert (verdict.score, verdict.passed, verdict.status) == (1.0, True, "ok")
    assert verdict.answer == "5/2"
    assert "equal" in verdict.detail
    assert "'2.5'" in verdict.detail


def test_a_wrong_answer_is_no_failure_of_the_grader() -> None:
    verdict = boxed("3", "2.5")
    assert (verdict.score, verdict.passed, verdict.status) == (0.0, False, "ok")
    assert "not equal" in verdict.detail


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "no idea",
        "2 + 3 = 5, as 5 is known",
        r"\boxed{}",
        r"\boxed{5} and then \boxed{",
        "<think>the answer is \\boxed{5}",
        r"\boxed{5",
        r"\boxed{" + "(" * 3000 + "5" + ")" * 3000 + "}",
        r"\boxed{" + "5" * 9000 + "}",
    ],
)
def test_what_cannot_be_read_scores_zero(completion: str) -> None:
    verdict = rlvr.verify("rlvr/math-v1", completion=completion, answer="5", think="generated")
    assert (verdict.score, verdict.passed, verdict.status) == (0.0, False, "unparseable")
    assert verdict.detail


@pytest.mark.parametrize(
    ("completion", "passed"),
    [
        (r"<think>\boxed{4}</think>\boxed{5}", True),
        (r"<think>\boxed{5}</think>\boxed{4}", False),
        (r"<think>\boxed{5}</think>no", False),
        (r"First \boxed{4}. Wait, that is wrong; it is \boxed{5}.", True),
        (r"\boxed{5}. Or rather \boxed{4}.", False),
        (r"\boxed{4} or \boxed{5}", False),
        (r"\boxed{4}, \boxed{5}", False),
        (r"\boxed{5}, that is, \boxed{5.0}", True),
        (r"\fbox{5}", True),
        (r"$\boxed{\text{The answer is }5}$", True),
        ("#### 5", True),
        ("The answer is 5.", True),
        ("Answer: 5", True),
        ("<answer>5</answer>", True),
        ("So it is **5**.", True),
        ("The answer is 5. No, the answer is 4.", False),
        (r"The answer is 5. \boxed{4}", False),
        ("I counted 5.", False),
    ],
)
def test_the_answer_that_is_committed_to(completion: str, passed: bool) -> None:
    assert rlvr.verify("rlvr/math-v1", completion=completion, answer="5").passed is passed


def test_boxes_side_by_side_are_one_list() -> None:
    completion = r"The roots are \boxed{2} and \boxed{-7}."
    assert rlvr.verify("rlvr/math-v1", completion=completion, answer="-7, 2").passed is True
    assert rlvr.verify("rlvr/math-v1", completion=completion, answer="2").passed is False
    assert rlvr.verify("rlvr/math-v1", completion=completion, answer="-7, 3").passed is False


def test_an_answer_copied_from_the_prompt_is_none() -> None:
    prompt = r"What is 2 + 3? Write it as \boxed{5}."
    assert rlvr.verify("rlvr/math-v1", completion=prompt, answer="5", prompt=prompt).passed is False
    assert rlvr.verify("rlvr/math-v1", completion=prompt + r" \boxed{5}", answer="5", prompt=prompt).passed is True


@pytest.mark.parametrize(
    ("fallback", "whole", "sentence"), [("none", False, False), ("whole", True, False), ("last_number", True, True)]
)
def test_fallbacks(fallback: str, whole: bool, sentence: bool) -> None:
    for completion, passed in ((" 5 ", whole), ("There are 2 and 3, so 5", sentence), ("five", whole and not sentence)):
        found = rlvr.verify("rlvr/math-v1", completion=completion, answer="5", fallback=fallback)
        assert found.passed is passed, completion


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UserError, match="fallback"):
        boxed("5", "5", fallback="last")
    with pytest.raises(UserError, match="think"):
        boxed("5", "5", think="thinking")


@pytest.mark.parametrize(
    "alike",
    [
        ("1/2", r"\frac{1}{2}", "0.5", ".50", r"\dfrac12", r"\frac{2}{4}", "½"),
        ("1000", "1,000", r"1\,000", "1e3"),
        ("B", "(B)", r"\text{B}", "b", r"\textbf{(B)}\ 7"),
        ("(1, 2)", r"\left(1,2\right)", "(1,2)"),
        ("x + 1", "x+1"),
    ],
)
def test_one_answer_has_one_canonical_text(alike: tuple[str, ...]) -> None:
    assert len({boxed(answer, "5").answer for answer in alike}) == 1


def test_other_answers_have_other_canonical_texts() -> None:
    answers = ("1/2", "2", "-2", "x", "x+1", "(1,2)", "(2,1)", r"\{1,2\}", "B", r"\text{yes}", "2 cm", "3 cm")
    assert len({boxed(answer, "5").answer for answer in answers}) == len(answers)


def test_what_takes_forever_is_stopped() -> None:
    verdict = boxed(r"\int_0^1 x^{x^{x}}\,dx", "5", seconds=0.3)
    assert (verdict.score, verdict.passed) == (0.0, False)
    assert verdict.status in ("ok", "timeout")


def test_calculus_goes_to_a_worker() -> None:
    assert boxed(r"\int_0^3 x^2\,dx", "9", seconds=60.0).passed is True
    assert boxed(r"\int_0^3 x^2\,dx", "10", seconds=60.0).passed is False
    assert boxed("9", r"\int_0^3 x^2\,dx", seconds=60.0).passed is True


def test_the_function_itself() -> None:
    verdict = math(r"\boxed{6}", "6")
    assert isinstance(verdict, Verdict)
    assert verdict.passed is True


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        (r"\lim_{x\to 0^+}\frac{|x|}{x}", "1"),
        (r"\lim_{x\to 0^{-}}\frac{|x|}{x}", "-1"),
        (r"\lim_{x \to \infty}\frac{2x+1}{x}", "2"),
    ],
)
def test_limits_from_either_side(text: str, reference: str) -> None:
    assert boxed(text, reference).passed is True
    assert boxed(text, "7").passed is False


@pytest.mark.parametrize(
    ("reference", "right", "wrong"),
    [
        ("2,3,3", ["3,2,3"], ["2,3", "2,2,3", "2,3,3,3"]),
        ("1,2", ["1,2,2", "2 and 1"], ["1", "1,2,3"]),
        ("(1,2)", ["1,2", "x=1, y=2"], ["1 and 2", "2,1", "x=1 or x=2"]),
        ("[1,2]", ["[1, 2]", r"1\le x\le 2"], ["1,2", "(1,2)"]),
        ("5", ["5."], ["!5", "5?"]),
        ("Yes", ["yes", "Yes!"], ["Yes?"]),
    ],
)
def test_what_lists_points_and_marks_say(reference: str, right: list[str], wrong: list[str]) -> None:
    assert [text for text in right if not boxed(text, reference).passed] == []
    assert [text for text in wrong if boxed(text, reference).passed] == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "5", True, None])
def test_a_limit_is_a_number_of_seconds(seconds: object) -> None:
    with pytest.raises(UserError, match="seconds"):
        rlvr.verify("rlvr/math-v1", completion=r"\boxed{5}", answer="5", seconds=seconds)


def test_a_worker_killed_from_outside_is_not_the_completion_s_doing() -> None:
    rlvr.verify("rlvr/math-v1", completion=r"\boxed{\int_0^1 x\,dx}", answer="1/2")
    hopeless = r"\boxed{\sum_{k=1}^{10^9}\sin k^2}"
    graded: list[rlvr.Verdict] = []
    thread = threading.Thread(
        target=lambda: graded.append(rlvr.verify("rlvr/math-v1", completion=hopeless, answer="5", seconds=30))
    )
    thread.start()
    while thread.is_alive():
        for process in busy_workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        thread.join(0.05)
    assert (graded[0].score, graded[0].status) == (None, "error")
    right = rlvr.verify("rlvr/math-v1", completion=r"\boxed{\int_0^1 x\,dx}", answer="1/2")
    assert right.passed is True


def busy_workers() -> list[int]:
    """The pool's workers that take processor time, and not the server that forks them."""
    busy = []
    for process in shared_pool().process_ids():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            if fields[0] == "R" and int(fields[11]) > 20:
                busy.append(process)
    return busy
