from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr import UserError
from rlvr.trainers.passk import interval, majority, pass_at_k


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_subsets_that_hold_a_pass(case):
    n, c, k = case
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(subset) for subset in subsets) / len(subsets))


def test_pass_at_k_at_its_ends():
    assert pass_at_k(8, 0, 8) == 0.0
    assert pass_at_k(8, 1, 8) == 1.0
    assert pass_at_k(1000, 1, 1) == pytest.approx(0.001)


def test_more_than_was_drawn_is_refused():
    with pytest.raises(UserError, match=r"pass@16 cannot be estimated from n=8"):
        pass_at_k(8, 3, 16)
    with pytest.raises(UserError, match="pass@0 means nothing"):
        pass_at_k(8, 3, 0)
    with pytest.raises(UserError):
        pass_at_k(8, 9, 1)


def test_majority_by_hand():
    assert majority(["4", "4", "5"], [True, True, False]) == 1.0
    assert majority(["4", "5", "5"], [True, False, False]) == 0.0
    assert majority(["4", "5"], [True, False]) == 0.5
    assert majority([None, None, "4"], [False, False, True]) == 1.0
    assert majority([None, None], [False, False]) == 0.0


def test_interval_by_hand():
    # Eight of ten tasks solved: the variance between tasks is 0.16 * 10 / 9 / 10, so p(1 - p) / se^2 = 9 trials.
    low, high = interval([1.0] * 8 + [0.0] * 2)
    z2 = 1.96**2
    centre = (0.8 + z2 / 18) / (1 + z2 / 9)
    half = 1.96 / (1 + z2 / 9) * (0.16 / 9 + z2 / (4 * 81)) ** 0.5
    assert (low, high) == (pytest.approx(centre - half), pytest.approx(centre + half))


def test_interval_does_not_vanish_at_the_ends():
    low, high = interval([1.0] * 20)
    assert high == 1.0
    assert low == pytest.approx(20 / (20 + 1.96**2))
    assert interval([]) == (0.0, 1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_interval_holds_the_mean(values):
    low, high = interval(values)
    assert 0 <= low <= sum(values) / len(values) + 1e-9
    assert high <= 1
    assert high >= sum(values) / len(values) - 1e-9
