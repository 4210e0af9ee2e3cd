from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.verifiers.code_compare import Comparison, tolerance_of

EXACT, TOLERANT, PYTHONIC = Comparison(), Comparison(1e-6, 1e-6), Comparison(pythonic=True, from_json=False)


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        (3, 3, True),
        (3.0, 3, False),
        (3, 3.0, False),
        (True, 1, False),
        (1, True, False),
        (None, None, True),
        (None, False, False),
        ("3", 3, False),
        ("a", "a", True),
        ((1, 2), [1, 2], True),
        ([(1,)], [[1]], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([True], [1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": True}, {"a": 1}, False),
        ({1: 2}, {True: 2}, False),
        ({7: 2, -2.5: 3, True: 4, None: 5}, {"7": 2, "-2.5": 3, "true": 4, "null": 5}, True),
        ({1: {2: 3}}, {"1": {"2": 3}}, True),
        ({"1": 2}, {1: 2}, False),
        ({1: 2}, {"1.0": 2}, False),
        ({1: 2, "1": 2}, {"1": 2, "2": 2}, False),
        ({10**5000: 1}, {"1": 1}, False),
        ({math.nan: 1}, {"NaN": 1}, False),
        ({(1, 2): 1}, {"(1, 2)": 1}, False),
        ({1, 2}, {2, 1}, True),
        ({1}, {True}, False),
        ({1}, [1], False),
        (frozenset({1}), {1}, True),
        (b"a", "a", False),
        (0.1 + 0.2, 0.3, False),
        (math.nan, math.nan, False),
        (math.inf, math.inf, False),
        ([math.nan], [math.nan], False),
        ({math.nan}, {math.nan}, False),
        (99999999, 100000000, False),
    ],
)
def test_types_are_exact(actual: Any, expected: Any, same: bool) -> None:
    assert EXACT.same(actual, expected) is same


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        (0.1 + 0.2, 0.3, True),
        (1e9 + 900.0, 1e9, True),
        (1e9 + 1100.0, 1e9, False),
        (3, 3.0, True),
        (3.0, 3, False),
        (99999999, 100000000, False),
        (True, 1.0, False),
        (10**400, 1.0, False),
        (math.inf, 1.0, False),
        ([[0.3, {"a": 0.1 + 0.2}]], [[0.3, {"a": 0.3}]], True),
        ({0.1 + 0.2}, {0.3}, True),
    ],
)
def test_a_tolerance_is_for_floats_alone(actual: Any, expected: Any, same: bool) -> None:
    assert TOLERANT.same(actual, expected) is same


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [(3.0, 3, True), (1, True, True), ((1,), [1], False), ({1.0: 2}, {1: 2}, True), ({1: 2}, {"1": 2}, False)],
)
def test_an_assertion_compares_as_python_does(actual: Any, expected: Any, same: bool) -> None:
    assert PYTHONIC.same(actual, expected) is same


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        (b"3", "3\n", True),
        (b"1 2 \n\n", "1 2", True),
        (b"1\r\n2\r\n", "1\n2\n", True),
        (b"12", "1 2", False),
        (b"1", "1 2 3", False),
        (b"1 2 3 4", "1 2 3", False),
        (b"99999999", "100000000", False),
        (b"3.0", "3", False),
        (b"Yes", "YES", False),
        (b"", "", True),
        (b"\xff", "a", False),
        ("é".encode(), "é", True),
        (b"1\xa02", "1 2", False),
    ],
)
def test_outputs_have_the_same_tokens(printed: bytes, expected: str, same: bool) -> None:
    assert EXACT.same_output(printed, expected) is same


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        (b"0.3333333", "0.33333333", True),
        (b"0.34", "0.33333333", False),
        (b"nan", "0.5", False),
        (b"1e999", "0.5", False),
        (b"99999999", "100000000", False),
        (b"5e-1", "0.5", True),
    ],
)
def test_a_tolerance_is_for_numbers_written_with_a_point(printed: bytes, expected: str, same: bool) -> None:
    assert TOLERANT.same_output(printed, expected) is same


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=10,
)


@given(PLAIN)
def test_every_value_is_itself(value: Any) -> None:
    assert EXACT.same(value, value)
    assert TOLERANT.same(value, value)
    assert not EXACT.same([value], value)


def test_a_deep_value_is_no_trouble() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert EXACT.same(deep, deep)
    assert not EXACT.same(deep, 1)


def test_tolerances() -> None:
    assert tolerance_of(None) == (0.0, 0.0)
    assert tolerance_of(0.5) == (0.5, 0.5)
    assert tolerance_of({"absolute": 2}) == (2.0, 0.0)
    for wrong in (-1, 1.5, math.nan, True, "1", {}, {"abs": 1}, {"relative": 2}):
        assert tolerance_of(wrong) is None
