"""Reads the metrics of a run as they come and speaks up, in words, when one of the known ways to fail shows."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .alarms import STEP_ALARMS, held_out_falling, is_watched, not_finite
from .metric_history import History, finite
from .monitor_settings import MonitorSettings
from .watched_run import Run

__all__ = ["Alarm", "Monitor", "MonitorSettings"]


@dataclass(frozen=True)
class Alarm:
    """Something that is probably wrong with a run.

    Attributes:
        name: which of `ALARM_NAMES`.
        step: when it was raised.
        sentence: what is wrong, the numbers that say so, and what usually helps.
        stops: whether the settings ask for the run to end.
    """

    name: str
    step: int
    sentence: str
    stops: bool


class Monitor:
    """Watches one run.

    An alarm is raised once, and again only when its cause was away for `clear_after` steps or has been there for
    another `repeat_after`. A step that lacks an alarm's metrics says nothing about it.

    Args:
        settings: thresholds, and which alarms end the run.
        epochs: passes over each rollout with a ratio to be clipped; the first moves nothing out of bounds.
        compares_groups: whether advantages are taken within groups, which then need spread.
        part_weights: what `part_weights` says of the rubric; without it all parts are taken to weigh 1.
        critic_warmup: steps at the start in which the critic alone is trained.
    """

    def __init__(
        self,
        settings: MonitorSettings | None = None,
        *,
        epochs: int = 1,
        compares_groups: bool = True,
        part_weights: Mapping[str, float] | None = None,
        critic_warmup: int = 0,
    ) -> None:
        self.settings = settings or MonitorSettings()
        self._run = Run(
            settings=self.settings,
            history=History(self.settings.window, self.settings.lookback),
            epochs=epochs,
            compares_groups=compares_groups,
            part_weights=None if part_weights is None else dict(part_weights),
            critic_warmup=critic_warmup,
        )
        # Of each alarm that has not cleared: when it was last raised, and when its cause was last seen.
        self._raised: dict[str, dict[str, int]] = {}

    def observe(self, step: int, metrics: Mapping[str, float | None]) -> list[Alarm]:
        """Take in the metrics of a step, counted from 1, and return the alarms that they raise."""
        values = _finite(metrics)
        clipped = _clip_fraction(values)
        if clipped is not None:
            values["clip_fraction"] = clipped
        # Nothing but these: durations would make the state of two equal runs differ.
        self._run.history.add({name: value for name, value in values.items() if is_watched(name)})
        self._run.step = step

        alarms = [self._settle(step, "not_finite", not_finite(step, metrics))]
        for name, (needed, check) in STEP_ALARMS.items():
            if any(metric in values for metric in needed):
                alarms.append(self._settle(step, name, check(self._run)))
        return [alarm for alarm in alarms if alarm is not None]

    def observe_evaluation(self, step: int, metrics: Mapping[str, float | None]) -> list[Alarm]:
        """Take in the `eval/<env>/...` metrics after `step` steps (0: before training), once `observe` had those."""
        held_out = {
            name: value
            for name, value in _finite(metrics).items()
            if name.startswith("eval/") and name.endswith("/pass@1")
        }
        if not held_out:
            return []
        alarm = self._settle(step, "held_out_falling", held_out_falling(self._run, step, held_out))
        return [] if alarm is None else [alarm]

    def state_dict(self) -> dict[str, Any]:
        """All that later alarms depend on, as plain data for JSON."""
        return {
            "history": self._run.history.state_dict(),
            "best_held_out": copy.deepcopy(self._run.best_held_out),
            "raised": copy.deepcopy(self._raised),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._run.history.load_state_dict(state["history"])
        self._run.best_held_out = copy.deepcopy(dict(state["best_held_out"]))
        self._raised = copy.deepcopy(dict(state["raised"]))

    def _settle(self, step: int, name: str, sentence: str | None) -> Alarm | None:
        """Whether a cause that is there (a sentence says so) or not is news."""
        known = self._raised.get(name)
        if name in self.settings.ignore:
            return None
        if sentence is None:
            if known is not None and step - known["seen"] >= self.settings.clear_after:
                del self._raised[name]
            return None
        if known is not None and step - known["raised"] < self.settings.repeat_after:
            known["seen"] = step
            return None
        self._raised[name] = {"raised": step, "seen": step}
        return Alarm(name, step, sentence, name in self.settings.stop_on)


def _finite(metrics: Mapping[str, float | None]) -> dict[str, float]:
    return {name: number for name, value in metrics.items() if (number := finite(value)) is not None}


def _clip_fraction(values: Mapping[str, float]) -> float | None:
    """The share of loss tokens outside either bound of the clip."""
    if "clip_ratio/region_mean" in values:
        return values["clip_ratio/region_mean"]
    sides = [values[name] for name in ("clip_ratio/low_mean", "clip_ratio/high_mean") if name in values]
    return sum(sides) if sides else None
