from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers import UserError, verify
from rlvr.verifiers.repetition import repeated_share


def grade(completion, **options):
    return verify("rlvr/repetition-v1", completion=completion, **options)


@pytest.mark.parametrize(
    ("completion", "n", "share"),
    [
        ("a b c d", 3, 0.0),
        # a b c, b c a, c a b, a b c: three of four are distinct.
        ("a b c a b c", 3, 0.25),
        ("A b C a B c", 3, 0.25),
        ("a a a a a", 3, 2 / 3),
        ("a a a a a", 1, 0.8),
        ("a b", 3, 0.0),
        ("", 3, 0.0),
        ("", 1, 0.0),
        # The largest share of several n.
        ("a b a c a d", [1, 2], 1 - 4 / 6),
        # Characters in scripts without spaces: 好好好好 has two bigrams over.
        ("好好好好", 2, 2 / 3),
        ("今天天气", 1, 0.25),
        ("今天 天气", 1, 0.25),
        # A mixed text: 4 words, x 的 x 的.
        ("x的x的", 1, 0.5),
    ],
)
def test_shares_by_hand(completion, n, share):
    verdict = grade(completion, n=n)
    assert verdict.score == pytest.approx(-share)
    assert verdict.passed is (share <= 0.5)


def test_the_penalty_is_scaled():
    assert grade("a a a a a", max_penalty=-0.3).score == pytest.approx(-0.2)
    assert grade("a a a a a", max_penalty=0).score == 0


def test_no_repetition_scores_a_plain_zero():
    assert str(grade("a b c").score) == "0.0"


def test_the_limit_decides_what_passes():
    assert not grade("a b c a b c", limit=0.2).passed
    assert grade("a b c a b c", limit=0.25).passed


def test_a_run_without_spaces_is_repetition_too():
    assert grade("ha" * 500).score < -0.9
    assert grade("a" * 100).score == 0


def test_a_part_alone():
    completion = "<think>a a a a a a a</think>one two three four"
    assert grade(completion, part="answer").score == 0
    assert grade(completion, part="reasoning").score == pytest.approx(-0.8)


def test_megabytes():
    assert grade("round and " * 300_000).score < -0.99
    assert grade("天" * 2_000_000, n=1000).score < -0.99
    assert grade("a" * 3_000_000).score < -0.99


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n": 0}, "n=0"),
        ({"n": 2.0}, "n=2.0"),
        ({"n": []}, r"n=\[\]"),
        ({"n": "3"}, "n='3'"),
        ({"max_penalty": 1}, "max_penalty=1"),
        ({"max_penalty": float("nan")}, "max_penalty=nan"),
        ({"limit": 1.5}, "limit=1.5"),
        ({"part": "anwser"}, "'answer'"),
        ({"think": "generate"}, "'generated'"),
    ],
)
def test_mistakes(options, named):
    with pytest.raises(UserError, match=named):
        grade("a b c", **options)


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 9))
def test_the_share_is_that_of_counting_tuples(words, n):
    grams = [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
    expected = 1 - len(set(grams)) / len(grams) if grams else 0.0
    ids = {word: index for index, word in enumerate(dict.fromkeys(words))}
    assert repeated_share(np.array([ids[word] for word in words], dtype=np.int64), n) == pytest.approx(expected)
