from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers import UserError, verify


@pytest.mark.parametrize(
    ("completion", "options", "passed"),
    [
        ("abc", {"maximum": 3}, True),
        ("abcd", {"maximum": 3}, False),
        ("", {"maximum": 0}, True),
        ("ab", {"minimum": 3}, False),
        ("abc", {"minimum": 3}, True),
        ("abc", {"minimum": 3, "maximum": 3}, True),
        ("汉字é", {"minimum": 3, "maximum": 3}, True),
        ("one two\n three", {"maximum": 3, "unit": "words"}, True),
        ("one two\n three", {"maximum": 2, "unit": "words"}, False),
        ("whatever", {"maximum": 10, "unit": "tokens", "completion_tokens": 10}, True),
        ("whatever", {"maximum": 10, "unit": "tokens", "completion_tokens": 11}, False),
        ("whatever", {"maximum": 10, "unit": "tokens", "completion_tokens": 10.0}, True),
        # The unit that was asked for is measured, though tokens are known.
        ("abc", {"maximum": 3, "completion_tokens": 99}, True),
    ],
)
def test_between_limits(completion, options, passed):
    verdict = verify("rlvr/length-v1", completion=completion, **options)
    assert (verdict.score, verdict.passed, verdict.status) == (float(passed), passed, "ok")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "no limit"),
        ({"minimum": 5, "maximum": 4}, "minimum=5"),
        ({"minimum": -1}, "minimum=-1"),
        ({"maximum": 2.5}, "maximum=2.5"),
        ({"maximum": True}, "maximum=True"),
        ({"maximum": float("nan")}, "maximum=nan"),
        ({"maximum": "4"}, "maximum='4'"),
        ({"maximum": 4, "unit": "token"}, "'tokens'"),
        ({"maximum": 4, "unit": "tokens"}, "completion_tokens"),
        ({"maximum": 4, "unit": "tokens", "completion_tokens": -1}, "completion_tokens=-1"),
    ],
)
def test_mistakes(options, named):
    with pytest.raises(UserError, match=named):
        verify("rlvr/length-v1", completion="abc", **options)


@pytest.mark.parametrize(
    ("size", "score"),
    # L_max 100, L_cache 20: free up to 80, then (80 - size) / 20.
    [(0, 0.0), (79, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (99, -0.95), (100, -1.0), (101, -1.0), (10_000, -1.0)],
)
def test_soft_overlong_punishment(size, score):
    verdict = verify("rlvr/overlong-v1", completion="x", maximum=100, cache=20, completion_tokens=size)
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is (size <= 80)


def test_overlong_counts_tokens_unless_told_otherwise():
    with pytest.raises(UserError, match="completion_tokens"):
        verify("rlvr/overlong-v1", completion="x", maximum=100, cache=20)
    assert verify("rlvr/overlong-v1", completion="x" * 90, maximum=100, cache=20, unit="characters").score == -0.5


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"maximum": 100, "cache": 101}, "cache=101"),
        ({"maximum": 100, "cache": 0}, "cache=0"),
        ({"maximum": 0, "cache": 1}, "maximum=0"),
    ],
)
def test_overlong_mistakes(options, named):
    with pytest.raises(UserError, match=named):
        verify("rlvr/overlong-v1", completion="", completion_tokens=1, **options)


@given(st.integers(1, 1000), st.data())
def test_the_punishment_never_grows_kinder_with_length(maximum, data):
    cache = data.draw(st.integers(1, maximum))
    shorter, longer = sorted(data.draw(st.tuples(st.integers(0, 2000), st.integers(0, 2000))))

    def score(size):
        return verify("rlvr/overlong-v1", completion="", maximum=maximum, cache=cache, completion_tokens=size).score

    assert -1 <= score(longer) <= score(shorter) <= 0
