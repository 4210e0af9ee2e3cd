"""pass@k, avg@n and maj@n of one task's samples, and intervals over tasks. Plain Python, no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

from ..verifiers import UserError


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k samples passes, unbiased from n samples of which c passed.

    1 - C(n - c, k) / C(n, k)  (Chen et al. 2021, "Evaluating large language models trained on code", eq. 1).

    Raises:
        UserError: if k > n, for which no unbiased estimate exists, or if the counts make no sense.
    """
    if k < 1:
        raise UserError(f"pass@{k} means nothing; choose k from 1 to n={n}.")
    if k > n:
        raise UserError(f"pass@{k} cannot be estimated from n={n} samples a task; draw at least {k}.")
    if not 0 <= c <= n:
        raise UserError(f"{c} of {n} samples cannot have passed; give 0 <= c <= n.")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def majority(answers: Sequence[Hashable | None], passed: Sequence[bool]) -> float:
    """maj@n: whether the most frequent answer passes; a tie counts by the share of the tied that pass.

    Self-consistency, Wang et al. 2022. Samples without an answer (None) do not vote; with no vote at all the
    result is 0.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    passing = {answer for answer, good in zip(answers, passed, strict=True) if good}
    most = max(votes.values())
    tied = [answer for answer, count in votes.items() if count == most]
    return sum(answer in passing for answer in tied) / len(tied)


def interval(values: Sequence[float], z: float = 1.96) -> tuple[float, float]:
    """A 95 % interval for the mean over tasks of values in [0, 1], one value a task.

    Samples of one task are not independent, so the task is the unit: the spread between tasks gives the standard
    error (Miller 2024, "Adding error bars to evals", section 2.2), from that the effective number of trials
    p(1 - p) / se^2, and Wilson's (1927) score interval for it, which stays in [0, 1] and does not shrink to
    nothing at 0 or 1.
    """
    count = len(values)
    if count == 0:
        return (0.0, 1.0)
    mean = math.fsum(values) / count
    trials = float(count)
    if count > 1:
        variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count
        if variance > 0:
            trials = max(mean * (1 - mean) / variance, 1.0)
    centre = (mean + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(mean * (1 - mean) / trials + z * z / (4 * trials * trials))
    return (max(0.0, centre - half), min(1.0, centre + half))
