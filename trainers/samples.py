"""Samples of completions with their verdicts, as text a person can read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .trajectory import Trajectory

_RULE = "─" * 80
# What a model wrote may hold codes that act on the terminal, or halves of characters that no file can hold.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def write_samples(path: Path, trajectories: Sequence[Trajectory], count: int) -> None:
    """Write up to `count` trajectories, spread evenly over the rollout so that they show several groups."""
    stride = max(1, len(trajectories) // count)
    chosen = trajectories[::stride][:count]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(_as_text(trajectory) for trajectory in chosen)
    path.write_text(_UNPRINTABLE.sub(_escaped, text), encoding="utf-8")


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _as_text(trajectory: Trajectory) -> str:
    verdict = trajectory.verdict
    parts = "  ".join(f"{name}={value:g}" for name, value in verdict.parts.items())
    score = "ungraded" if verdict.score is None else f"score {verdict.score:g}"
    outcome = {True: "passed", False: "not passed", None: "unknown whether passed"}[verdict.passed]
    of_turns, earned = "", []
    if trajectory.turns > 1:
        of_turns = f"  ·  {trajectory.turns} turns"
        earned = [f"REWARDS     {', '.join(f'{reward:g}' for reward in trajectory.rewards)}, turn by turn"]
    size = f"{trajectory.length} tokens{of_turns}"
    return "\n".join(
        [
            _RULE,
            f"task {trajectory.task_id}  ·  {size}  ·  finish reason {trajectory.finish_reason}",
            "",
            f"PROMPT      {trajectory.prompt}",
            f"{'EPISODE   ' if earned else 'COMPLETION'}  {trajectory.transcript}",
            *earned,
            f"VERDICT     {score}, {outcome}, {verdict.status}  {parts}",
            f"            {verdict.detail}",
            "",
        ]
    )
