from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers import UserError, verify


def grade(completion, answer, **options):
    return verify("rlvr/exact-v1", completion=completion, answer=answer, **options)


@pytest.mark.parametrize(
    ("completion", "answer", "passed"),
    [
        ("Paris", "Paris", True),
        ("  Paris\n", "Paris", True),
        ("New \n York", "New York", True),
        ("NewYork", "New York", False),
        ("paris", "Paris", False),
        ("Paris!", "Paris", False),
        (r"\boxed{Paris}", "Paris", True),
        (r"It is \boxed{\text{Paris}}.", "Paris", True),
        (r"\boxed{Rome}. I was wrong, it is \boxed{Paris}", "Paris", True),
        (r"\boxed{Paris}. I was wrong, it is \boxed{Rome}", "Paris", False),
        (r"\boxed{Paris}\boxed{Rome}", "Paris", False),
        (r"<think>\boxed{Rome}</think>Paris", "Paris", True),
        ("The answer is Paris.", "Paris", True),
        ("**Paris**", "Paris", True),
        ("<answer>Paris</answer>", "Paris", True),
        ("Paris", ["Rome", "Paris"], True),
        ("Oslo", ["Rome", "Paris"], False),
        ("42", 42, True),
        # Compatibility forms are one letter, but a superscript changes the value.
        ("１０", "10", True),
        ("ﬁne", "fine", True),
        ("a\u00a0b", "a b", True),
        ("cafe\u0301", "caf\u00e9", True),
        ("10²", "102", False),
        ("10²", "10²", True),
        ("1½", "11/2", False),
        ("H₂O", "H2O", False),
    ],
)
def test_worked_cases(completion, answer, passed):
    verdict = grade(completion, answer)
    assert (verdict.passed, verdict.score, verdict.status) == (passed, float(passed), "ok")


@pytest.mark.parametrize(
    ("completion", "answer", "options", "passed"),
    [
        ("PARIS", "Paris", {"ignore_case": True}, True),
        ("STRASSE", "straße", {"ignore_case": True}, True),
        ("New York", "NewYork", {"ignore_whitespace": True}, True),
        ("Hello, world!", "Hello world", {"ignore_punctuation": True}, True),
        ("well-known", "well known", {"ignore_punctuation": True}, True),
        ("-5", "5", {"ignore_punctuation": True}, False),
        ("3.14", "314", {"ignore_punctuation": True}, False),
        ("1/2", "12", {"ignore_punctuation": True}, False),
        ("50%", "50", {"ignore_punctuation": True}, False),
        ("It is 5.", "It is 5", {"ignore_punctuation": True}, True),
    ],
)
def test_options(completion, answer, options, passed):
    assert grade(completion, answer, **options).passed is passed
    assert not grade(completion, answer).passed


def test_where_the_answer_stands():
    assert grade(r"\boxed{Paris}", "Paris", part="boxed").passed
    assert grade("Paris", "Paris", part="boxed").status == "unparseable"
    assert grade("The answer is Paris.", "Paris", part="boxed").status == "unparseable"
    assert not grade(r"\boxed{Paris}", "Paris", part="whole").passed
    assert grade(r"\boxed{Paris}", r"\boxed{Paris}", part="whole").passed


@pytest.mark.parametrize("completion", ["", " \n", "<think>Paris", r"\boxed{}", r"\boxed{Paris"])
def test_no_answer_is_unparseable(completion):
    verdict = grade(completion, "Paris")
    assert (verdict.status, verdict.score) == ("unparseable", 0.0)


def test_an_empty_reference_never_matches():
    for answer in ("", " ", [], ["", " "]):
        assert grade("", answer).status == "error"
        assert grade(r"\boxed{\text{ }}", answer).status == "error"


def test_the_answer_that_was_read_is_reported():
    assert grade("PARIS", "Paris", ignore_case=True).answer == "paris"


def test_megabytes():
    assert not grade("a\u0316\u0301" * 1_000_000, "a").passed
    assert not grade("a" + "\u0316\u0301" * 1_000_000, "a", part="whole").passed


def test_mistakes():
    with pytest.raises(UserError, match="'boxed'"):
        grade("a", "a", part="boxd")


@given(st.text())
def test_every_text_equals_itself(text):
    verdict = grade(f"<think>x</think>{text}", text, part="whole")
    # A text with think tags of its own, or of nothing but space, is not an answer.
    assert verdict.passed or "think>" in text or (verdict.score in (None, 0.0) and not text.strip())


@given(st.text(), st.booleans(), st.booleans(), st.booleans())
def test_any_text_is_graded(text, case, whitespace, punctuation):
    options = {"ignore_case": case, "ignore_whitespace": whitespace, "ignore_punctuation": punctuation}
    assert grade(text, "reference", **options).score in (0.0, 1.0)
