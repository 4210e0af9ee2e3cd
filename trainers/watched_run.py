"""What the alarms know of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from .metric_history import History, Since
from .monitor_settings import MonitorSettings


@dataclass
class Run:
    """A run as its monitor sees it.

    Attributes:
        settings: the thresholds.
        history: the metrics so far.
        epochs: passes over each rollout.
        compares_groups: whether advantages are taken within groups.
        part_weights: of the rubric's scores by name; None if unknown.
        critic_warmup: steps in which the critic alone is trained.
        step: the latest.
        best_held_out: by metric, the best evaluation so far: `value`, `step`, and the `reward` of training then.
    """

    settings: MonitorSettings
    history: History
    epochs: int
    compares_groups: bool
    part_weights: dict[str, float] | None
    critic_warmup: int
    step: int = 0
    best_held_out: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def reward_gain(self, since: Since) -> float:
        """By how much the reward rose; 0 where there is none."""
        change = self.history.change("reward", since)
        return 0.0 if change is None else change.gain

    def is_flat(self, since: Since) -> bool:
        """Whether the reward did not rise."""
        return self.reward_gain(since) < self.settings.reward_gain

    def is_solved(self) -> bool:
        """Whether nearly all is solved, which without a pass@1 only the reward can say."""
        passed = self.history.now("pass@1")
        if passed is None:
            passed = self.history.now("reward")
        return passed is not None and passed >= self.settings.solved

    def reward_words(self, since: Since) -> str:
        """How a reward that did not rise went."""
        change = self.history.change("reward", since)
        if change is None:
            return "with no rise of the reward"
        return f"while the reward went from {change.before:.3g} to {change.now:.3g}"
