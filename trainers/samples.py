"""Samples of completions with their verdicts, as text a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .trajectory import Trajectory

_RULE = "─" * 80


def write_samples(path: Path, trajectories: Sequence[Trajectory], count: int) -> None:
    """Write up to `count` trajectories, spread evenly over the rollout so that they show several groups."""
    stride = max(1, len(trajectories) // count)
    chosen = trajectories[::stride][:count]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(_as_text(trajectory) for trajectory in chosen), encoding="utf-8")


def _as_text(trajectory: Trajectory) -> str:
    verdict = trajectory.verdict
    parts = "  ".join(f"{name}={value:g}" for name, value in verdict.parts.items())
    score = "ungraded" if verdict.score is None else f"score {verdict.score:g}"
    outcome = "passed" if verdict.passed else "not passed"
    return "\n".join(
        [
            _RULE,
            f"task {trajectory.task_id}  ·  {trajectory.length} tokens  ·  finish reason {trajectory.finish_reason}",
            "",
            f"PROMPT      {trajectory.prompt}",
            f"COMPLETION  {trajectory.completion}",
            f"VERDICT     {score}, {outcome}, {verdict.status}  {parts}",
            f"            {verdict.detail}",
            "",
        ]
    )
