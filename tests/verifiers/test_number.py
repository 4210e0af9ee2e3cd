from __future__ import annotations

import json
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.verifiers import UserError, Verdict, verify

DATA = Path(os.environ.get("RLVR_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def grade(completion: str, answer: object, **options: object) -> Verdict:
    return verify("rlvr/number-v1", completion=completion, answer=answer, **options)


@pytest.mark.parametrize(
    ("completion", "answer", "status", "passed"),
    [
        (r"The answer is \boxed{42}.", "42", "ok", True),
        (r"\boxed{43}", "42", "ok", False),
        (r"<think>It is \boxed{41}</think> \boxed{42}", "42", "ok", True),
        (r"<think>It is \boxed{41}</think> \boxed{42}", "41", "ok", False),
        (r"<think>It is \boxed{42}</think> I think so.", "42", "unparseable", False),
        (r"<think>It is \boxed{42}", "42", "unparseable", False),
        (r"<think>a</think> \boxed{42} <think> hm", "42", "unparseable", False),
        (r"\boxed{41}. No: \boxed{42}", "42", "ok", True),
        (r"\boxed{42}. No: \boxed{41}", "42", "ok", False),
        (r"\boxed{42}. No: \boxed{4", "42", "unparseable", False),
        (r"\boxed{42}. No: \boxed{}", "42", "unparseable", False),
        (r"\boxed{} 42", "42", "unparseable", False),
        (r"\boxed{41 or 42}", "42", "unparseable", False),
        (r"\boxed{41, 42}", "42", "unparseable", False),
        # A marker counts where there is no box, and to the end of its line.
        ("6*7 = 42\n#### 42", "42", "ok", True),
        ("#### 41\nI made a slip.\n#### 42\nDone, 43.", "42", "ok", True),
        ("#### $1,234.", "1234", "ok", True),
        ("####42", "42", "ok", True),
        ("####\n42", "42", "unparseable", False),
        ("#### 42 43", "42", "unparseable", False),
        (r"\boxed{41} #### 42", "42", "ok", False),
        ("\\boxed{ #### 42", "42", "unparseable", False),
        ("<think>#### 42</think> done", "42", "unparseable", False),
        # Nothing else does, unless asked.
        ("The answer is 42", "42", "unparseable", False),
        ("42", "42", "unparseable", False),
        ("", "42", "unparseable", False),
        (" \n", "42", "unparseable", False),
        # Exact, not near.
        (r"\boxed{123456789012345679}", "123456789012345678", "ok", False),
        (r"\boxed{9007199254740992}", "9007199254740993", "ok", False),
        (r"\boxed{0.333333333333333333}", "1/3", "ok", False),
        (r"\boxed{\frac{2}{4}}", "0.5", "ok", True),
        (r"\boxed{20001}", "20000", "ok", False),
        (r"\boxed{50\%}", "50", "ok", True),
        (r"\boxed{5000}", r"50\%", "ok", False),
        (r"\boxed{1e-7}", "2e-7", "ok", False),
        (r"\boxed{5\text{ million}}", "5", "unparseable", False),
    ],
)
def test_worked_cases(completion, answer, status, passed):
    verdict = grade(completion, answer)
    assert (verdict.status, verdict.passed, verdict.score) == (status, passed, float(passed))


def test_a_prefilled_completion_is_read_after_its_reasoning():
    assert grade(r"\boxed{41}</think>\boxed{42}", "42", think="prefilled").passed
    assert grade(r"\boxed{42}", "42", think="prefilled").status == "unparseable"
    assert grade(r"\boxed{42}", "42", think="none").passed


@pytest.mark.parametrize(
    ("completion", "fallback", "read"),
    [
        ("42", "whole", "42"),
        ("<think>41</think>\n 42. \n", "whole", "42"),
        ("It is 42", "whole", None),
        ("", "whole", None),
        ("It is 41, no, 42.", "last_number", "42"),
        ("So **42**", "last_number", "42"),
        ("She earns $18 per day!", "last_number", "18"),
        ("It is (42).", "last_number", "42"),
        (r"so \(x=42\).", "last_number", "42"),
        (r"so $x = 42$.", "last_number", "42"),
        (r"so $x = \frac{1}{2}$.", "last_number", "1/2"),
        ("a total of 1,234, then", "last_number", "1234"),
        ("we get -3", "last_number", "-3"),
        ("we get .5", "last_number", "1/2"),
        ("5 apples of x2", "last_number", None),
        ("5 apples and 6kg", "last_number", None),
        ("it is 12,34", "last_number", None),
        ("none at all", "last_number", None),
        ("", "last_number", None),
        ("<think>42</think> so it is", "last_number", None),
        (r"42 \boxed{", "last_number", None),
        ("42 #### x", "last_number", None),
    ],
)
def test_fallbacks(completion, fallback, read):
    verdict = grade(completion, "7", fallback=fallback)
    assert verdict.answer == read
    assert verdict.status == ("unparseable" if read is None else "ok")


def test_other_markers():
    assert grade("Answer: 42\n", "42", marker="Answer:").passed
    assert grade("#### 42", "42", marker="Answer:").status == "unparseable"
    assert grade("#### 42", "42", marker=None).status == "unparseable"


@pytest.mark.parametrize("options", [{"fallback": "last"}, {"fallback": None}, {"marker": ""}, {"think": "thinking"}])
def test_wrong_options_are_the_users_mistake(options):
    with pytest.raises(UserError):
        grade(r"\boxed{42}", "42", **options)


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (42, "42"),
        (-3, "-3"),
        (0.1, "0.1"),
        (1e22, "10000000000000000000000"),
        (1e-7, "0.0000001"),
        (2.0, "2"),
        (Fraction(1, 3), r"\frac{1}{3}"),
        (Decimal("1.10"), "1.1"),
        (Decimal("1E+3"), "1000"),
        (np.int64(42), "42"),
        (np.float64(0.1), "0.1"),
        (np.float32(0.1), "0.1"),
        ("1,234.", "1234"),
        ("$5.00", "5"),
        ("She makes 9 * 2 = $<<9*2=18>>18.\n#### 18", "18"),
        ("#### 3 then\n#### 1,800", "1800"),
    ],
)
def test_references(answer, written):
    verdict = grade(rf"\boxed{{{written}}}", answer)
    assert verdict.passed, verdict.detail
    assert not grade(rf"\boxed{{1{written}}}", answer).passed


@pytest.mark.parametrize(
    "answer",
    [
        *("", "  ", "x+1", "1, 2", "12,34", "1/0", "####", "18 ####", "9" * 100_000, "nan"),
        *(None, True, float("nan"), float("inf"), 1j, [1], b"1", 10**100_000, Fraction(1, 10**100_000)),
        *(Decimal("NaN"), Decimal("Infinity"), Decimal("1E+1000000000")),
    ],
    ids=range(22),
)
@pytest.mark.parametrize("completion", [r"\boxed{42}", "", "<think>"])
def test_an_unreadable_reference_is_the_graders_failure_whatever_the_completion(answer, completion):
    verdict = grade(completion, answer)
    assert (verdict.score, verdict.passed, verdict.status) == (None, None, "error")
    assert len(verdict.detail) < 1000


def test_the_detail_names_both_sides():
    verdict = grade(r"\boxed{0.5}", "3/4")
    assert "1/2" in verdict.detail
    assert "3/4" in verdict.detail
    assert "'x+1'" in grade(r"\boxed{0.5}", "x+1").detail
    assert "'x+1'" in grade(r"\boxed{x+1}", "3/4").detail


def test_equal_answers_have_one_canonical_text():
    forms = ["0.5", r"\frac{1}{2}", "2/4", "+.50", r"$\dfrac{5}{10}$", "5e-1", "0.5 cups"]
    assert {grade(rf"\boxed{{{form}}}", "7").answer for form in forms} == {"1/2"}


@pytest.mark.parametrize(
    "completion",
    [
        r"\boxed{" * 300_000,
        r"\boxed{" + "9" * 1_000_000 + "}",
        r"\boxed{" + "{" * 500_000 + "42" + "}" * 500_000 + "}",
        r"\boxed{1e999999999}",
        r"\boxed{9**9**9**9}",
        r"\boxed{__import__('os')._exit(0)}",
        r"\boxed{" + r"\frac{" * 100_000 + "}" * 100_000 + "}",
        "#### " + "4" * 1_000_000,
        "####" * 500_000,
        "answer 42 " * 200_000,
        "\ud800 \x00 \\boxed{\ud800}",
        "<think>" * 300_000 + r"\boxed{42}",
    ],
    ids=range(12),
)
@pytest.mark.parametrize("fallback", ["none", "whole"])
def test_hostile_completions_are_unparseable(completion, fallback):
    verdict = grade(completion, "42", fallback=fallback)
    assert (verdict.score, verdict.passed, verdict.status) == (0.0, False, "unparseable")
    assert len(verdict.detail) < 1000
    verdict.detail.encode()


def test_the_last_number_of_megabytes():
    assert grade("a 1 " * 500_000 + "42", "42", fallback="last_number").passed
    assert not grade("4" * 2_000_000, "42", fallback="last_number").passed
    assert not grade("a" * 2_000_000 + " " * 2_000_000, "42", fallback="last_number").passed


def _grouped(value: int, separator: str) -> str:
    return f"{value:,}".replace(",", separator)


@st.composite
def fractions_and_forms(draw: st.DrawFn) -> tuple[Fraction, str]:
    """A rational and one of the ways in which people write it."""
    tens = draw(st.integers(0, 12))
    value = draw(
        st.one_of(
            st.integers(-(10**30), 10**30).map(Fraction),
            st.builds(Fraction, st.integers(-(10**15), 10**15), st.integers(1, 10**9)),
            st.integers(-(10**20), 10**20).map(lambda n: Fraction(n, 10**tens)),
        )
    )
    sign = "-" if value < 0 else draw(st.sampled_from(["", "+"]))
    above, below = abs(value).numerator, abs(value).denominator
    scale = draw(st.integers(1, 50))
    forms = [
        f"{above * scale}/{below * scale}",
        rf"\frac{{{above}}}{{{below}}}",
        rf"\dfrac{{{above * scale}}}{{{below * scale}}}",
        rf"\tfrac{{ {above} }}{{ {below} }}",
    ]
    if 10**tens % below == 0:
        digits = above * 10**tens // below
        whole, part = divmod(digits, 10**tens)
        tail = f".{part:0{tens}d}" if tens else ""
        forms += [_grouped(whole, mark) + tail for mark in ("", ",", "{,}", r"\,", "\u202f", "\u2009", "\u00a0")]
        forms += [f"{digits}e-{tens}", rf"{digits} \times 10^{{-{tens}}}"]
    body = draw(st.sampled_from(forms))
    minus = draw(st.sampled_from(["-", "−", "- "])) if sign == "-" else sign
    text = minus + draw(st.sampled_from(["", "$", r"\$"])) + body
    text += draw(st.sampled_from(["", " dollars", r"\text{ cm}", r"\%", "%"]))
    left, right = draw(st.sampled_from([("", ""), ("$", "$"), (r"\(", r"\)"), (" ", "."), ("$", ".$")]))
    return value, left + text + right


@settings(deadline=None)  # the machine may be busy
@given(fractions_and_forms(), fractions_and_forms())
def test_a_number_verifies_in_any_form_and_no_other_does(one, other):
    value, form = one
    for answer in (value, str(value)):
        verdict = grade(rf"\boxed{{{form}}}", answer)
        assert verdict.passed, (form, verdict.detail)
        assert verdict.answer == str(value)
    # As a reference too.
    assert grade(rf"#### {value}", form).passed
    assert grade(rf"\boxed{{{other[1]}}}", value).passed is (other[0] == value)


@settings(deadline=None)  # the machine may be busy
@given(fractions_and_forms(), st.sampled_from([1, -1]), st.integers(0, 40))
def test_the_slightest_difference_fails(one, sign, places):
    value, form = one
    assert not grade(rf"\boxed{{{form}}}", value + Fraction(sign, 10**places)).passed
    if value:
        assert not grade(rf"\boxed{{{form}}}", -value).passed
        assert not grade(rf"\boxed{{{form}}}", value * 100).passed


@settings(deadline=None)  # the machine may be busy
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_reference_means_its_shortest_decimal(value):
    assert grade(rf"\boxed{{{value!r}}}", value).passed


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=60), st.sampled_from(["none", "whole", "last_number"]))
def test_no_completion_makes_the_grader_fail(text, fallback):
    for completion in (text, rf"\boxed{{{text}}}", f"#### {text}", f"<think>a</think>{text}"):
        assert grade(completion, "42", fallback=fallback).status in ("ok", "unparseable")


@pytest.mark.parametrize("file", ["gsm8k_test.jsonl", "gsm8k_train.jsonl"])
def test_every_gsm8k_reference_verifies_its_own_solution(file):
    path = DATA / file
    if not path.exists():
        pytest.skip(f"{file} is not in {DATA}")
    lines = path.read_text(encoding="utf-8").splitlines()
    for line in lines:
        reference = json.loads(line)["answer"]
        verdict = grade(reference, reference)
        assert verdict.passed, (reference, verdict)
        result = reference.rpartition("####")[2].strip()
        assert grade(rf"<think>x</think>\boxed{{{result}}}", reference).passed
        assert not grade(rf"\boxed{{{result}1}}", reference).passed
    assert len(lines) > 1000
