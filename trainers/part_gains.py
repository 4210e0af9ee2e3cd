"""Whether the reward of a run rises by one part of its rubric alone, and not by what solves the task."""

from __future__ import annotations

from collections.abc import Mapping

from ..verifiers import Rubric
from .metric_history import Change, History, Since
from .monitor_settings import MonitorSettings

_PREFIX, _SUFFIX = "rewards/", "/mean"

# Of what a part gained, the share that pass@1 gained with it if it is the part that solves the task.
_ALONG = 0.25

# A part that scores this much (of 1) already cannot be blamed for not rising.
_FULL = 0.95


def part_weights(rubric: Rubric) -> dict[str, float]:
    """The weight in the reward of every score of a rubric, by its key in `Verdict.parts`.

    A rubric within it is taken apart; gates and metrics add nothing.
    """
    weights: dict[str, float] = {}
    for part in rubric.parts:
        if part.kind != "score":
            continue
        if isinstance(part.grader, Rubric):
            inner = part_weights(part.grader)
            weights |= {f"{part.name}/{name}": part.weight * weight for name, weight in inner.items()}
        else:
            weights[part.name] = part.weight
    return weights


def one_part_gains_by(
    history: History, settings: MonitorSettings, weights: Mapping[str, float] | None, since: Since
) -> str | None:
    """The sentence of the alarm, or None.

    Args:
        history: the means `rewards/<part>/mean`, `reward` and `pass@1`.
        settings: the thresholds.
        weights: see `part_weights`; None weighs all 1, but for parts of parts.
        since: over which time.
    """
    changes = part_changes(history, weights, since)
    if len(changes) < 2:
        return None
    gains = {name: max(0.0, (weights or {}).get(name, 1.0) * change.gain) for name, change in changes.items()}
    total, top = sum(gains.values()), max(gains, key=lambda name: gains[name])
    reward, passed = history.change("reward", since), history.change("pass@1", since)
    gained = total if reward is None else min(total, reward.gain)
    if gained < settings.part_gain - 1e-9 or gains[top] < settings.part_share * total:
        return None
    others = {name: change for name, change in changes.items() if name != top}
    if passed is None and all(change.now >= _FULL for change in others.values()):
        return None
    if passed is not None and (passed.now >= settings.solved or passed.gain >= _ALONG * abs(changes[top].gain)):
        return None
    numbers = "; ".join(f"{name} {change.before:.3g} to {change.now:.3g}" for name, change in others.items())
    what = f", pass@1 {passed.before:.3g} to {passed.now:.3g}" if passed is not None else ""
    change = changes[top]
    return (
        f"The part {top!r} of the rubric carries {gains[top] / total:.0%} of the gain in reward: it went from "
        f"{change.before:.3g} to {change.now:.3g} {change.when} ({numbers}{what}), so the policy may be learning to "
        "please it instead of solving the task; a smaller weight for it, a gate in its place or a look at the samples "
        "usually helps."
    )


def part_changes(history: History, weights: Mapping[str, float] | None, since: Since) -> dict[str, Change]:
    """How each part of the reward changed."""
    named = {name[len(_PREFIX) : -len(_SUFFIX)]: name for name in history.names(_PREFIX) if name.endswith(_SUFFIX)}
    counted = [
        part
        for part in named
        if (part in weights if weights is not None else not any(part.startswith(f"{other}/") for other in named))
    ]
    changes = {part: history.change(named[part], since) for part in counted}
    return {part: change for part, change in changes.items() if change is not None}
