"""Scoring many completions offline, and what there is to say about the verdicts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .rows_file import Row
from .verifiers import Verdict, Verifier

CHUNK = 256
"""How many rows are graded together by a verifier that can do so."""

MOST_FAILURES = 5
"""How many failed gradings are explained."""


@dataclass
class Tally:
    """What is counted while verdicts come in.

    Attributes:
        seconds: of grading.
        slowest: the longest grading, in seconds.
        slowest_at: the line of the file, or lines, that took it.
        failures: line and detail of the first few rows whose grader failed.
        right: rows whose `passed` is what was expected.
        expected: rows that say what is expected.
    """

    seconds: float = 0.0
    slowest: float = 0.0
    slowest_at: str = ""
    statuses: Counter[str] = field(default_factory=Counter)
    passed: int = 0
    total: float = 0.0
    right: int = 0
    expected: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)

    def took(self, seconds: float, rows: Sequence[Row]) -> None:
        """Note how long the grading of these rows took: one, or several that were graded together."""
        self.seconds += seconds
        if seconds >= self.slowest:
            self.slowest = seconds
            first, last = rows[0].line, rows[-1].line
            self.slowest_at = f"line {first}" if len(rows) == 1 else f"lines {first} to {last} together"

    def add(self, verdict: Verdict, row: Row) -> None:
        """Count a verdict."""
        if verdict.status == "error" and len(self.failures) < MOST_FAILURES:
            self.failures.append((row.line, verdict.detail))
        self.statuses[verdict.status] += 1
        self.passed += bool(verdict.passed)
        self.total += verdict.score or 0.0
        if row.expected is not None:
            self.expected += 1
            self.right += verdict.passed is row.expected

    def lines(self) -> dict[str, str]:
        """The summary. Rows whose grader failed have no score, and are in no mean."""
        count = self.statuses.total()
        graded = count - self.statuses["error"]
        shown = {
            "rows": str(count),
            "mean score": f"{self.total / graded:.4f}" if graded else "none",
            "passed": f"{self.passed} of {graded} ({self.passed / graded:.2%})" if graded else "none",
            **{f"status {status}": str(number) for status, number in sorted(self.statuses.items())},
        }
        if self.expected:
            shown["as expected"] = f"{self.right} of {self.expected} ({self.right / self.expected:.2%})"
        if count:
            rate = f"{count / self.seconds:.0f}" if self.seconds else "many"
            shown["seconds"] = f"{self.seconds:.3f}"
            shown["verdicts a second"] = rate
            shown["slowest"] = f"{self.slowest * 1000:.3f} ms, {self.slowest_at}"
        return shown


def graded(grader: Verifier[..., Any], rows: Iterable[Row], options: dict[str, Any], tally: Tally) -> Iterator[Verdict]:
    """The verdicts on the rows, in order, counted in `tally` as they come."""
    for chunk in _chunks(rows, CHUNK if grader.grades_together else 1):
        fields = [{**row.fields, **options} for row in chunk]
        begun = time.perf_counter()
        verdicts = grader.grade_many(fields)
        tally.took(time.perf_counter() - begun, chunk)
        for row, verdict in zip(chunk, verdicts, strict=True):
            tally.add(verdict, row)
            yield verdict


def differ(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts on a completion are worth a look: another score, or passed or not."""
    if one.passed != other.passed or (one.score is None) != (other.score is None):
        return True
    return one.score is not None and other.score is not None and abs(one.score - other.score) > 1e-9


def _chunks(rows: Iterable[Row], size: int) -> Iterator[Sequence[Row]]:
    stream = iter(rows)
    while chunk := list(islice(stream, size)):
        yield chunk
