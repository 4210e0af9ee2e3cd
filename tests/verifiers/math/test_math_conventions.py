"""What each option of the conventions changes, and what it leaves alone."""

from __future__ import annotations

import pytest

import rlvr
from rlvr.sandbox.errors import UserError
from rlvr.verifiers.math.conventions import Conventions
from rlvr.verifiers.math.verdict import math


def graded(answer: str, reference: str, **options: str) -> bool | None:
    return math(rf"\boxed{{{answer}}}", reference, **options).passed


@pytest.mark.parametrize(
    ("percent", "figure", "fraction"),
    [("either", True, True), ("figure", True, False), ("fraction", False, True), ("strict", False, False)],
)
def test_percent(percent: str, figure: bool, fraction: bool) -> None:
    for reference, answer in ((r"35\%", "35"), ("35", r"35\%"), (r"35\%", "35.0"), ("35", r"35\text{ percent}")):
        assert graded(answer, reference, percent=percent) is figure, (reference, answer)
    for reference, answer in ((r"35\%", "0.35"), ("0.35", r"35\%"), (r"\frac{7}{20}", r"35\%"), (r"35\%", "7/20")):
        assert graded(answer, reference, percent=percent) is fraction, (reference, answer)
    assert graded("35 percent", r"35\%", percent=percent) is True
    for answer in ("3500", r"3.5\%", "0.0035", r"0.35\%"):
        assert graded(answer, r"35\%", percent=percent) is False
    assert graded("3500", "35", percent=percent) is False


@pytest.mark.parametrize(
    ("units", "without", "another"), [("lenient", True, False), ("strict", False, False), ("ignore", True, True)]
)
def test_units(units: str, without: bool, another: bool) -> None:
    assert graded("8", r"8\text{ km}", units=units) is without
    assert graded(r"8\text{ km}", "8", units=units) is without
    assert graded("8 kg", r"8\text{ km}", units=units) is another
    assert graded(r"8\text{ kilometres}", r"8\text{ km}", units=units) is True
    assert graded("8", "8", units=units) is True
    assert graded("9 km", r"8\text{ km}", units=units) is False
    assert graded("8 million", "8", units=units) is False


@pytest.mark.parametrize(("rounding", "exact_answers"), [("precision", True), ("exact", False)])
def test_rounding(rounding: str, exact_answers: bool) -> None:
    assert graded(r"\frac{5}{7}", "0.714", rounding=rounding) is exact_answers
    assert graded(r"\sqrt{2}", "1.41", rounding=rounding) is exact_answers
    assert graded("0.7140", "0.714", rounding=rounding) is True
    for answer in ("0.71", "0.7143", "0.7139", r"\frac{5}{8}", r"\sqrt{3}"):
        assert graded(answer, "0.714", rounding=rounding) is False
    for answer in ("0.714", "0.7142857"):
        assert graded(answer, r"\frac{5}{7}", rounding=rounding) is False


@pytest.mark.parametrize(("order", "swapped"), [("any", True), ("given", False)])
def test_order(order: str, swapped: bool) -> None:
    assert graded("6, 1, 4", "1, 4, 6", order=order) is swapped
    assert graded("1, 4, 6", "1, 4, 6", order=order) is True
    assert graded("1, 4, 7", "1, 4, 6", order=order) is False
    assert graded(r"\{6, 1, 4\}", r"\{1, 4, 6\}", order=order) is True
    assert graded("(6, 1, 4)", "(1, 4, 6)", order=order) is False
    assert graded("y=3, x=2", "x=2, y=3", order=order) is True


@pytest.mark.parametrize(("case", "other_case"), [("ignore", True), ("exact", False)])
def test_case(case: str, other_case: bool) -> None:
    assert graded("helena", r"\text{Helena}", case=case) is other_case
    assert graded("Helena", r"\text{Helena}", case=case) is True
    assert graded("Hermia", r"\text{Helena}", case=case) is False
    assert graded("X", "x", case=case) is False


@pytest.mark.parametrize(
    ("option", "value"),
    [("percent", "fractions"), ("units", "strickt"), ("rounding", "none"), ("order", "given "), ("case", "EXACT")],
)
def test_an_unknown_value_is_named(option: str, value: str) -> None:
    with pytest.raises(UserError, match=rf"There is no {option} '{value}' of rlvr/math-v1; "):
        Conventions(**{option: value})
    with pytest.raises(UserError, match=option):
        rlvr.verify("rlvr/math-v1", completion=r"\boxed{5}", answer="5", **{option: value})


@pytest.mark.parametrize("option", [{"percent": "x"}, {"units": 5}, {"seconds": -1}])
def test_a_rubric_refuses_an_impossible_option_when_it_is_made(option: dict[str, object]) -> None:
    with pytest.raises(rlvr.UserError, match=next(iter(option))):
        rlvr.score("rlvr/math-v1", **option)
