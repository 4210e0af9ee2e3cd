"""The latest and the first values of every watched metric, and what has changed between them. Plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

Since = Literal["lately", "start"]


@dataclass(frozen=True)
class Change:
    """A mean over a window then, a mean over a window now, and words for the time between."""

    before: float
    now: float
    when: str

    @property
    def gain(self) -> float:
        """By how much it rose; negative if it fell."""
        return self.now - self.before


class History:
    """Values of metrics, step by step; a step at which a metric is missing or no number adds nothing to it.

    Args:
        window: how many values are averaged.
        lookback: how many of the latest values are kept.
    """

    def __init__(self, window: int, lookback: int) -> None:
        self.window = window
        self.lookback = lookback
        self._first: dict[str, list[float]] = {}
        self._latest: dict[str, list[float]] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """The values of one step, all finite."""
        for name, value in values.items():
            first = self._first.setdefault(name, [])
            if len(first) < self.window:
                first.append(value)
            self._latest[name] = [*self._latest.get(name, ()), value][-self.lookback :]

    def names(self, prefix: str) -> list[str]:
        """The metrics seen so far whose names begin so, in alphabetical order."""
        return sorted(name for name in self._latest if name.startswith(prefix))

    def recent(self, name: str) -> list[float]:
        """The last `window` values; none while there are fewer."""
        latest = self._latest.get(name, [])
        return latest[-self.window :] if len(latest) >= self.window else []

    def now(self, name: str) -> float | None:
        """The mean of the last `window` values."""
        recent = self.recent(name)
        return fmean(recent) if recent else None

    def start(self, name: str) -> float | None:
        """The mean of the first values, at most `window` of them."""
        first = self._first.get(name)
        return fmean(first) if first else None

    def change(self, name: str, since: Since) -> Change | None:
        """From the first to the last window of what is kept, or of the whole run; None before there are two."""
        latest = self._latest.get(name, [])
        if len(latest) < 2 * self.window:
            return None
        now = fmean(latest[-self.window :])
        if since == "start":
            return Change(fmean(self._first[name]), now, "since the run began")
        return Change(fmean(latest[: self.window]), now, f"in the last {len(latest)} steps")

    def state_dict(self) -> dict[str, Any]:
        """All of it as plain data for JSON, which keeps every bit of a float."""
        return {
            "first": {name: list(values) for name, values in self._first.items()},
            "latest": {name: list(values) for name, values in self._latest.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave; values beyond another window or lookback are dropped."""
        self._first = {name: list(values)[: self.window] for name, values in state["first"].items()}
        self._latest = {name: list(values)[-self.lookback :] for name, values in state["latest"].items()}


def finite(value: object) -> float | None:
    """A metric's value as a plain float, if it is a number and a finite one."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
