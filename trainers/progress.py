"""What a person sees of a run: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from .evaluate import Estimate, Evaluation

# What the bar shows of a step, in this order.
_SHOWN = {
    "reward": ("reward", "{:.2f}"),
    "pass@1": ("pass@1", "{:.2f}"),
    "completions/mean_length": ("length", "{:.1f}"),
    "entropy": ("entropy", "{:.3f}"),
}


class Reporter(Protocol):
    """Is told what happens in a run."""

    def say(self, message: str) -> None:
        """One line."""
        ...

    def work(self, what: str, done: int, total: int) -> None:
        """Progress of something that comes before or between the steps."""
        ...

    def step(self, step: int, steps: int, metrics: Mapping[str, float]) -> None:
        """A step was done: `step` of `steps`."""
        ...


class Silent:
    """Says nothing."""

    def say(self, message: str) -> None:
        """Nothing."""

    def work(self, what: str, done: int, total: int) -> None:
        """Nothing."""

    def step(self, step: int, steps: int, metrics: Mapping[str, float]) -> None:
        """Nothing."""


class ConsoleReporter:
    """A Rich progress bar; where the output is no terminal, a line every tenth of the run.

    Use as a context manager, so that the terminal is left as it was found.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _MetricsColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bars: dict[str, int] = {}

    def __enter__(self) -> ConsoleReporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, message: str) -> None:
        """One line, above the bar."""
        self._progress.console.print(Text(message), highlight=False, soft_wrap=True)

    def work(self, what: str, done: int, total: int) -> None:
        """A bar of its own, gone when the work is done."""
        self._advance(what, done, total, "")
        if done >= total:
            self._progress.remove_task(self._bars.pop(what))  # type: ignore[arg-type]

    def step(self, step: int, steps: int, metrics: Mapping[str, float]) -> None:
        """Move the bar of the run and show the step's numbers."""
        shown = "  ".join(
            f"{label} {form.format(metrics[name])}" for name, (label, form) in _SHOWN.items() if name in metrics
        )
        self._advance("train", step, steps, shown)
        if not self._console.is_terminal and (step == steps or step % max(1, steps // 10) == 0):
            self.say(f"step {step}/{steps}  {shown}")

    def _advance(self, what: str, done: int, total: int, shown: str) -> None:
        if what not in self._bars:
            self._bars[what] = self._progress.add_task(what, total=total, shown="")
        self._progress.update(self._bars[what], completed=done, total=total, shown=shown)  # type: ignore[arg-type]


class _MetricsColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(task.fields.get("shown", ""), style="cyan")


def evaluation_table(title: str, evaluations: Mapping[str, Evaluation]) -> Table:
    """Evaluations of one environment side by side, one a column ("before", "after")."""
    table = Table(title=Text(title), title_justify="left")
    table.add_column("")
    for name in evaluations:
        table.add_column(Text(name), justify="right")
    columns = list(evaluations.values())
    for k in columns[0].pass_at:
        table.add_row(f"pass@{k}", *(_with_interval(column.pass_at[k]) for column in columns))
    table.add_row(f"avg@{columns[0].n}", *(_with_interval(column.avg) for column in columns))
    if all(column.maj is not None for column in columns):
        table.add_row(f"maj@{columns[0].n}", *(_with_interval(column.maj) for column in columns if column.maj))
    table.add_row("mean length", *(f"{column.mean_length:.1f} tokens" for column in columns))
    if all(column.entropy is not None for column in columns):
        table.add_row("entropy", *(f"{column.entropy:.3f} nats" for column in columns))
    table.add_row("cut off", *(f"{column.clipped_ratio:.1%}" for column in columns))
    table.add_row("unparseable", *(f"{column.unparseable_ratio:.1%}" for column in columns))
    if any(column.ungraded for column in columns):
        table.add_row("ungraded samples", *(str(column.ungraded) for column in columns))
    return table


def _with_interval(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "unknown"
    return f"{estimate.value:.3f}  [{estimate.low:.3f}, {estimate.high:.3f}]"
