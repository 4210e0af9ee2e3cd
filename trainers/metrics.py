"""What tells whether a run is healthy: numbers of a rollout, and the log that keeps them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from accelerate import Accelerator

from .advantages import has_spread
from .trajectory import Trajectory
from .truncation import TruncationRule, worth


def rollout_metrics(trajectories: Sequence[Trajectory], truncated: TruncationRule = "as_is") -> dict[str, float]:
    """Rewards, lengths, turns, entropy and verdicts of a rollout, by their published names.

    Rewards are those that the policy is paid. Ungraded trajectories count in `verdicts/error` and in the lengths, and
    in nothing else. A mean of nothing is left out.

    Args:
        trajectories: of whole groups.
        truncated: what completions that were cut off are worth.
    """
    graded = [t for t in trajectories if not math.isnan(t.reward)]
    lengths = [t.length for t in trajectories]
    metrics = {
        "reward": _mean(worth(t, truncated) for t in graded),
        "pass@1": _mean(bool(t.verdict.passed) for t in graded),
        "completions/mean_length": _mean(lengths),
        "completions/min_length": float(min(lengths)),
        "completions/max_length": float(max(lengths)),
        "completions/mean_terminated_length": _mean(t.length for t in trajectories if t.finish_reason == "stop"),
        "completions/mean_length_solved": _mean(t.length for t in graded if t.verdict.passed),
        "completions/mean_length_unsolved": _mean(t.length for t in graded if not t.verdict.passed),
        "completions/clipped_ratio": _mean(t.finish_reason == "length" for t in trajectories),
        "entropy": _entropy(trajectories),
        "num_turns/mean": _turns(trajectories),
        **{
            f"verdicts/{status}": _mean(t.verdict.status == status for t in trajectories)
            for status in ("unparseable", "timeout", "error")
        },
        **_group_metrics(graded, truncated),
        **_part_metrics(graded),
    }
    return {name: value for name, value in metrics.items() if value is not None}


def _group_metrics(graded: Iterable[Trajectory], truncated: TruncationRule) -> dict[str, float | None]:
    groups: dict[int, list[Trajectory]] = defaultdict(list)
    for trajectory in graded:
        groups[trajectory.group].append(trajectory)
    paid = [[worth(t, truncated) for t in group] for group in groups.values()]
    deviations = [stdev(rewards) if len(rewards) > 1 else 0.0 for rewards in paid]
    solved = [fmean(bool(t.verdict.passed) for t in group) for group in groups.values()]
    return {
        "reward_std": _mean(deviations),
        "frac_reward_zero_std": _mean(not has_spread(rewards) for rewards in paid),
        "groups/solved_none": _mean(share == 0 for share in solved),
        "groups/solved_some": _mean(0 < share < 1 for share in solved),
        "groups/solved_all": _mean(share == 1 for share in solved),
    }


def _part_metrics(graded: Iterable[Trajectory]) -> dict[str, float | None]:
    parts: dict[str, list[float]] = defaultdict(list)
    for trajectory in graded:
        for name, value in trajectory.verdict.parts.items():
            parts[name].append(value)
    return {f"rewards/{name}/mean": _mean(values) for name, values in parts.items()}


def _turns(trajectories: Sequence[Trajectory]) -> float | None:
    """Mean over episodes; left out where every one has a single turn, as in most environments all have."""
    turns = [t.turns for t in trajectories]
    return _mean(turns) if max(turns) > 1 else None


def _entropy(trajectories: Sequence[Trajectory]) -> float | None:
    """Mean over all generated tokens, in nats."""
    if any(t.entropies is None for t in trajectories):
        return None
    tokens = sum(t.length for t in trajectories)
    return math.fsum(math.fsum(t.entropies or ()) for t in trajectories) / tokens if tokens else None


def _mean(values: Iterable[float]) -> float | None:
    collected = list(values)
    return float(fmean(collected)) if collected else None


class MetricsLog:
    """metrics.jsonl, one line a step, and the trackers of accelerate beside it.

    Args:
        path: the file; opened for appending.
        accelerator: holds the trackers, if any were started.
    """

    def __init__(self, path: Path, accelerator: Accelerator) -> None:
        self.path = path
        self._accelerator = accelerator

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Append the line of a step and hand the numbers to the trackers."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **_finite(metrics)}) + "\n")
        self._accelerator.log(metrics, step=step)

    def forget_after(self, step: int) -> int:
        """Drop the lines of steps after `step`, which a resumed run will write again; how many lines are left."""
        if not self.path.exists():
            return 0
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line for line in lines if (row := _parse(line)) is not None and row["step"] <= step]
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        partial.replace(self.path)
        return len(kept)


def _finite(metrics: dict[str, float]) -> dict[str, float | None]:
    # JSON has no NaN; a number that is none is written as null, so that it shows.
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def _parse(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:  # the last line of a run that was killed while writing it
        return None
    return row if isinstance(row, dict) and "step" in row else None
