"""Answers written and labelled from the conventions alone, without sight of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlvr

CASES = [
    json.loads(line) for line in Path(__file__).with_name("labelled.jsonl").read_text(encoding="utf-8").splitlines()
]
# A lone backslash at the end of a box escapes its brace, so the box never closes.
NOT_IN_A_BOX = {"wrapper-013"}


def completion_of(case):
    return case["answer"] if case["form"] == "completion" else rf"\boxed{{{case['answer']}}}"


@pytest.mark.parametrize("kind", sorted({case["kind"] for case in CASES}))
def test_labelled_answers(kind):
    cases = [case for case in CASES if case["kind"] == kind and case["id"] not in NOT_IN_A_BOX]
    graded = [case for case in cases if case["gold"].strip()]
    rows = [{"completion": completion_of(case), "answer": case["gold"], "seconds": 2.0} for case in graded]
    verdicts = rlvr.verify_many("rlvr/math-v1", rows)
    wrong = [
        f"{case['id']}: {case['answer'][:80]!r} for {case['gold'][:80]!r} is {verdict.passed}, {verdict.detail[:200]}"
        for case, verdict in zip(graded, verdicts, strict=True)
        if verdict.passed is not case["expected"]
    ]
    assert not wrong, "\n".join(wrong)


def test_an_empty_reference_is_never_matched():
    empty = [case for case in CASES if not case["gold"].strip()]
    assert empty
    for case in empty:
        verdict = rlvr.verify("rlvr/math-v1", completion=completion_of(case), answer=case["gold"])
        assert (verdict.passed, verdict.status) == (None, "error")
