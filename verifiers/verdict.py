"""What a verifier says about one completion."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Status = Literal["ok", "unparseable", "timeout", "error"]
"""How grading went: `ok`; `unparseable` or `timeout` (the completion's doing, so the score is 0); `error`
(the grader's doing, so there is no score)."""

_STATUSES = get_args(Status)


@dataclass(frozen=True)
class Verdict:
    """The judgement of one completion.

    A completion is never the reason for a missing score: what cannot be graded because of what the model
    wrote scores 0. `score` and `passed` are None exactly when `status` is "error", that is when the grader
    failed; such a sample belongs in no mean, no gradient and no pass@k.

    Attributes:
        score: the reward, a finite float; None if the grader failed.
        passed: whether the task counts as solved (pass@k counts this, never `score > 0`).
        status: how grading went.
        parts: the score of each part of a rubric, by the part's name.
        detail: an explanation for logs. It may name the reference answer, so no prompt or `info` may hold it.
        answer: canonical text of the answer that was read from the completion, for majority votes.

    Raises:
        ValueError: the values contradict each other, or a score is not finite.
    """

    score: float | None
    passed: bool | None
    status: Status = "ok"
    parts: Mapping[str, float] = field(default_factory=dict, hash=False)
    detail: str = ""
    answer: str | None = None

    def __post_init__(self) -> None:
        if self.status not in _STATUSES:
            raise ValueError(f"status is {self.status!r}, which is none of {', '.join(_STATUSES)}")
        if (self.score is None) != (self.status == "error") or (self.passed is None) != (self.score is None):
            raise ValueError(
                "score and passed are None when status is 'error', and only then; "
                f"got score={self.score!r}, passed={self.passed!r}, status={self.status!r}"
            )
        if self.score is not None:
            if type(self.score) is not float or not math.isfinite(self.score):
                object.__setattr__(self, "score", _finite("score", self.score))
            if type(self.passed) is not bool:
                object.__setattr__(self, "passed", bool(self.passed))
        # Copied, so that whoever made the mapping cannot change the verdict afterwards.
        object.__setattr__(self, "parts", {name: _finite(name, value) for name, value in self.parts.items()})


class CompletionTimeout(Exception):
    """Raised by a verifier that gave up on a completion because of what the model wrote.

    The verdict is then score 0 with status "timeout". A verifier that is merely slow has no such excuse: where
    somebody else ends it, its verdict is an "error".
    """


def failure(detail: str, parts: Mapping[str, float] | None = None) -> Verdict:
    """The verdict of a grader that failed: no score, status "error"."""
    return Verdict(None, None, "error", parts or {}, detail)


def as_verdict(result: Any) -> Verdict:
    """The verdict that a verifier function's return value stands for.

    A bool scores 1.0 or 0.0 and is `passed`; a real number passes from 1.0 on. Scalars of numpy and torch
    count as the Python number they hold; of a Future of any of these, the result is waited for.

    Raises:
        TypeError: the value is none of these.
        ValueError: the number is not finite.
    """
    if isinstance(result, Future):
        result = result.result()
    if isinstance(result, Verdict):
        return result
    if getattr(result, "shape", None) == () and hasattr(result, "item"):
        result = result.item()
    if isinstance(result, bool):
        return Verdict(float(result), result)
    if isinstance(result, numbers.Real):
        value = _finite("the returned number", result)
        return Verdict(value, value >= 1.0)
    raise TypeError(f"returned {type(result).__name__}, not a float, a bool or a Verdict")


def _finite(name: str, value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}, not a finite number")
    return number
