"""The hand-labelled cases that lie beside the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlvr

CASES = Path(__file__).resolve().parents[3].parent / "shared" / "cases" / "math.jsonl"
pytestmark = pytest.mark.skipif(
    not CASES.exists(), reason="the shared cases lie beside the repository and are not here"
)

LEAST_SHARE = 0.99
MISSES = {
    "congruence-007": "disputed: 4n+1 for 4k+1; the letter of a variable is part of the answer",
}
"""Every case that is judged otherwise than labelled, and why."""
REFUSED = {
    "extract-095": "the reference is empty, which is the data set's mistake and not the completion's",
    "extract-096": "the reference is empty, which is the data set's mistake and not the completion's",
}
"""Cases, labelled false, whose reference cannot be graded against: status "error", no score."""


def judged(case: dict[str, Any]) -> bool | None:
    completion = case["answer"] if case["form"] == "completion" else rf"\boxed{{{case['answer']}}}"
    return rlvr.verify("rlvr/math-v1", completion=completion, answer=case["gold"]).passed


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def verdicts(cases: list[dict[str, Any]]) -> dict[str, bool | None]:
    return {case["id"]: judged(case) for case in cases}


@pytest.mark.slow
def test_every_miss_is_explained(cases: list[dict[str, Any]], verdicts: dict[str, bool | None]) -> None:
    refused = {id_ for id_, passed in verdicts.items() if passed is None}
    assert refused == REFUSED.keys()
    missed = {case["id"] for case in cases if verdicts[case["id"]] not in (case["expected"], None)}
    assert missed == MISSES.keys()


@pytest.mark.slow
def test_the_undisputed_cases_are_right(cases: list[dict[str, Any]], verdicts: dict[str, bool | None]) -> None:
    undisputed = [case for case in cases if not case.get("debatable")]
    right = sum(bool(verdicts[case["id"]]) is case["expected"] for case in undisputed)
    assert len(undisputed) > 400
    assert right / len(undisputed) >= LEAST_SHARE


@pytest.mark.slow
def test_no_hack_is_accepted(cases: list[dict[str, Any]], verdicts: dict[str, bool | None]) -> None:
    hacks = [case for case in cases if case["kind"] in ("hack", "safety") and not case["expected"]]
    assert len(hacks) > 80
    assert [case["id"] for case in hacks if verdicts[case["id"]] is True] == []


@pytest.mark.slow
def test_every_reference_is_met_by_itself(cases: list[dict[str, Any]]) -> None:
    references = sorted({case["gold"] for case in cases if case["gold"].strip()})
    assert len(references) > 150
    missed = [gold for gold in references if not judged({"gold": gold, "answer": gold, "form": "answer"})]
    assert missed == []
