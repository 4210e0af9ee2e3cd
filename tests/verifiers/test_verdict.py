from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from rlvr.verifiers import Verdict
from rlvr.verifiers.verdict import as_verdict


@pytest.mark.parametrize(
    ("score", "passed", "status"),
    [
        (None, None, "ok"),  # a missing score needs a failed grader
        (0.0, False, "error"),  # a failed grader has no score, least of all a silent 0
        (None, False, "error"),
        (1.0, None, "ok"),
        (math.nan, False, "ok"),
        (math.inf, True, "ok"),
        (1.0, True, "fine"),
    ],
)
def test_contradictory_verdicts_are_refused(score, passed, status):
    with pytest.raises(ValueError, match=r".+"):
        Verdict(score, passed, status)


def test_parts_are_finite_and_belong_to_the_verdict_alone():
    with pytest.raises(ValueError, match="length"):
        Verdict(1.0, True, parts={"length": math.nan})
    parts = {"length": 3}
    verdict = Verdict(1, True, parts=parts)
    parts["length"] = 4
    assert verdict.parts == {"length": 3.0}
    assert isinstance(verdict.parts["length"], float)
    assert isinstance(verdict.score, float)


def test_a_verdict_is_a_value():
    verdict = Verdict(0.5, False, "ok", {"a": 0.5}, "why", "1/2")
    assert pickle.loads(pickle.dumps(verdict)) == verdict
    assert len({verdict, Verdict(0.5, False, "ok", {"a": 0.5}, "why", "1/2")}) == 1


@pytest.mark.parametrize(
    ("result", "score", "passed"),
    [
        (True, 1.0, True),
        (False, 0.0, False),
        (1.0, 1.0, True),
        (0.999, 0.999, False),
        (-2, -2.0, False),
        (1, 1.0, True),
        (np.bool_(True), 1.0, True),
        (np.float32(0.5), 0.5, False),
        (np.int64(2), 2.0, True),
        (np.array(1.0), 1.0, True),
    ],
)
def test_what_a_function_may_return(result, score, passed):
    assert as_verdict(result) == Verdict(score, passed)


@pytest.mark.parametrize("result", [None, "1.0", [1.0], 1j, np.array([1.0]), object()])
def test_what_a_function_may_not_return(result):
    with pytest.raises(TypeError, match=type(result).__name__):
        as_verdict(result)
