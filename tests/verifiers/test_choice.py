from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers import UserError, verify

CITIES = ["London", "Paris", "Rome", "All of the above"]


def grade(completion, answer="B", **options):
    return verify("rlvr/choice-v1", completion=completion, answer=answer, **options)


@pytest.mark.parametrize(
    "completion",
    [
        r"\boxed{B}",
        r"$\boxed{B}$",
        r"\boxed{\text{(B)}}",
        r"\boxed{\textbf{B}}",
        r"\boxed{\text{B) Paris}}",
        r"\boxed{b}",
        "The answer is (B).",
        "The answer is B",
        "the answer is (B) Paris.",
        "I think the answer is B because Paris is the capital.",
        "Answer: B",
        "**Answer: B**",
        "Final answer: B",
        "Answer: B) Paris",
        "The correct option is B: Paris",
        "Therefore, option B is correct.",
        "(B) is the correct answer.",
        "So the answer is **B**.",
        "<answer>B</answer>",
        "#### B",
        "B) Paris",
        "b) Paris",
        "**B) Paris**",
        "**B**",
        "Option B",
        "(b)",
        "B.",
        "Ｂ",
        "<think>A? C?</think>B",
        "London is in England.\n\nB",
        "The answer is A. No wait, the answer is B.",
        r"\boxed{A}. I mistook it. \boxed{B}",
    ],
)
def test_the_letter(completion):
    for options in ({}, {"choices": CITIES}):
        verdict = grade(completion, **options)
        assert (verdict.passed, verdict.score, verdict.answer) == (True, 1.0, "B"), options
        other = grade(completion, "C", **options)
        assert (other.passed, other.score, other.status) == (False, 0.0, "ok")


@pytest.mark.parametrize(
    "completion",
    [
        "A or B",
        "The answer is A or B",
        "The answer is B or maybe C",
        "It is either B or C",
        "The answer is not B",
        "not B",
        "B and C",
        "Both B and C",
        "A, B",
        "B, C",
        "B. C.",
        "B/C",
        "(B) or (C)",
        "B) Paris or C) Rome",
        r"\boxed{A}\boxed{B}",
        r"\boxed{B or C}",
        r"\boxed{B, C}",
        r"\boxed{BC}",
        "vitamin B",
        "The answer is vitamin B",
        "B number",
        "Boy",
        "B is wrong",
        "B is not correct.",
        "Options: A) x\nB) y",
        "A) London\nB) Paris",
        "<think>B</think>I do not know.",
        "<think>The answer is B",
        "",
        "B" * 100_000,
    ],
)
def test_no_choice(completion):
    for options in ({}, {"choices": CITIES}):
        verdict = grade(completion, **options)
        assert (verdict.passed, verdict.score, verdict.status) == (False, 0.0, "unparseable"), options


@pytest.mark.parametrize("completion", ["a number", "The answer is a number", "A number", "A good one", "a. Hm, a few"])
def test_an_article_is_no_letter(completion):
    assert not grade(completion, "A").passed


@pytest.mark.parametrize(
    "completion", ["Paris", "paris.", "The answer is Paris.", r"\boxed{\text{Paris}}", "**Paris**"]
)
def test_the_text_of_an_option(completion):
    assert grade(completion, choices=CITIES).answer == "B"
    assert grade(completion).status == "unparseable"
    assert not grade(completion, "C", choices=CITIES).passed


def test_a_letter_with_the_text_of_another_option():
    assert grade("B) London", choices=CITIES).status == "unparseable"
    assert grade("B) Paris, the capital of France", choices=CITIES).passed


def test_all_of_the_above_is_an_option_only_where_it_is_one():
    assert grade("All of the above", "D", choices=CITIES).passed
    assert not grade("All of the above", "B", choices=CITIES).passed
    assert grade("All of the above", "D").status == "unparseable"


def test_options_with_one_text_need_the_letter():
    assert grade("Paris", choices=["Paris", "paris"]).status == "unparseable"
    assert grade("B) Paris", choices=["Paris", "paris"]).passed


def test_options_that_look_like_letters_or_numbers():
    numbers = ["2", "3", "4"]
    assert grade("3", "3", choices=numbers).answer == "B"
    assert grade("B", "3", choices=numbers).passed
    assert grade("3", 1, choices=numbers).passed
    vitamins = ["vitamin A", "vitamin B", "vitamin C"]
    assert grade("vitamin B", choices=vitamins).answer == "B"
    assert grade("The answer is vitamin C", "B", choices=vitamins).answer == "C"


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ("B", {}),
        (" b ", {}),
        ("(B)", {}),
        (1, {}),
        ("1", {}),
        (np.int64(1), {}),
        (2, {"first": 1}),
        ("Paris", {"choices": CITIES}),
        (" paris. ", {"choices": CITIES}),
    ],
)
def test_references(answer, options):
    assert grade("B", answer, **options).passed


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ("", {}),
        ("K", {}),
        ("Paris", {}),
        (None, {}),
        (True, {}),
        (10, {}),
        (-1, {}),
        ("E", {"choices": CITIES}),
        (4, {"choices": CITIES}),
        ("Oslo", {"choices": CITIES}),
        (0, {"first": 1}),
    ],
)
def test_a_reference_that_is_no_option_is_the_graders_failure(answer, options):
    assert grade("B", answer, **options).status == "error"


@pytest.mark.parametrize("choices", [[], "ABC", list("abcdefghijk"), 3])
def test_mistakes(choices):
    with pytest.raises(UserError, match="choices="):
        grade("B", choices=choices)


def test_a_copy_of_the_prompt_does_not_count():
    prompt = "Which city is the capital of France? Reply with the answer is B or the like."
    assert grade(f"{prompt}\nI do not know", prompt=prompt).status == "unparseable"


@given(st.text(alphabet="ABCab ()[].:,\\boxed{}text*or$\n", max_size=60))
def test_any_text_is_graded_and_one_option_at_most_is_right(text):
    verdicts = [grade(text, letter, choices=CITIES) for letter in "ABCD"]
    assert sum(verdict.passed for verdict in verdicts) <= 1
