"""What a critic is good for: PPO beside GRPO on a quiz of several turns, each of which is worth something.

    python benchmarks/ppo_curve.py --plot docs/img/ppo_curve.svg

In every turn the environment says a letter, and the policy is to answer with the digit that goes with it; nobody tells
it which. It starts from guessing: a tiny model, warm-started on quizzes that were answered at random. A right answer is
worth 1 / turns. GRPO sees what a whole quiz was worth and pushes all its answers alike; the critic of PPO learns what
is still to come from each turn on, so an answer is measured by itself.

Both sides have the same model, learning rate, rollouts, epochs and minibatches; the steps in which the critic alone
learns count as PPO's.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rlvr
from rlvr.envs import Reply

ENV = "bench/Quiz-v0"
LETTERS, DIGITS = "abcdefgh", "0123456789"
RIGHT = dict(zip(LETTERS, "31729408", strict=True))
TURNS = 8
ALGORITHMS = ("ppo", "grpo")
COLORS = {"ppo": "#c0392b", "grpo": "#2c6fbb"}

Curve = dict[str, list[float | None]]


def main() -> None:
    arguments = parse()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with (
        tempfile.TemporaryDirectory(prefix="ppo-curve-") as folder,
        ProcessPoolExecutor(arguments.workers, mp_context=multiprocessing.get_context("spawn")) as workers,
    ):
        base = guessing_policy(Path(folder) / "base")
        runs = {
            name: [
                workers.submit(trained, name, seed, base, arguments.steps, Path(folder) / f"{name}-{seed}")
                for seed in range(1, arguments.seeds + 1)
            ]
            for name in ALGORITHMS
        }
        curves = {name: [run.result() for run in of] for name, of in runs.items()}
    console.print(table(curves))
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(curves), encoding="utf-8")
    if arguments.plot:
        Path(arguments.plot).write_text(plot(curves), encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", help="the curves as JSON")
    parser.add_argument("--plot", help="the curves as SVG")
    return parser.parse_args()


# The environment.


def register() -> None:
    rng = np.random.default_rng(0)
    quizzes = ["".join(rng.choice(list(LETTERS), TURNS)) for _ in range(600)]
    tasks = [
        {"id": letters, "prompt": letters[0], "answer": RIGHT[letters[-1]], "letters": letters} for letters in quizzes
    ]
    rlvr.register(
        ENV,
        tasks={"train": tasks[:500], "eval": tasks[500:]},
        # The verdict is on the last answer; the others earn theirs by the replies.
        rubric=rlvr.Rubric(rlvr.score("rlvr/exact-v1", weight=1 / TURNS, passes=True)),
        think="none",
        turn=reply,
        max_turns=TURNS,
    )


def reply(task: rlvr.Task, conversation: Sequence[dict[str, str]], completion: str) -> Reply:
    """The next letter, and what the answer to the last one was worth."""
    answered = sum(message["role"] == "assistant" for message in conversation)
    letters = task.info["letters"]
    if answered + 1 == TURNS:
        return Reply(None)
    return Reply(letters[answered + 1], (completion.strip() == RIGHT[letters[answered]]) / TURNS)


def guessing_policy(folder: Path) -> str:
    """A tiny model that knows how a quiz is played and nothing about the answers."""
    from rlvr.trainers.models import save_policy
    from rlvr.trainers.tiny import build_tiny
    from rlvr.trainers.warmstart import Demonstration, warm_start

    rng = np.random.default_rng(1)
    shown: list[Demonstration] = []
    while len(shown) < 120 * 64:
        said: list[dict[str, str]] = []
        for _ in range(TURNS):
            said = [*said, {"role": "user", "content": str(rng.choice(list(LETTERS)))}]
            answer = str(rng.choice(list(DIGITS)))
            shown.append(Demonstration(said, answer))
            said = [*said, {"role": "assistant", "content": answer}]
    rng.shuffle(shown)  # type: ignore[arg-type]
    model, tokenizer = build_tiny(0)
    warm_start(model, tokenizer, shown, steps=120, batch_size=64, lr=1e-3)
    save_policy(model, tokenizer, folder)
    return str(folder)


# The runs.


def trained(name: str, seed: int, base: str, steps: int, folder: Path) -> Curve:
    from rlvr import TrainConfig, Trainer

    # Quizzes that are held out begin with the same letters.
    warnings.filterwarnings("ignore", message=".* evaluation tasks are also trained on")
    register()
    Trainer(TrainConfig.model_validate(configuration(name, seed, base, steps)), folder).run()
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {
        "reward": [row["reward"] for row in rows],
        "explained": [row.get("critic/vf_explained_var") for row in rows],
    }


def configuration(name: str, seed: int, base: str, steps: int) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "seed": seed,
        "model": {"name": base},
        "env": {"id": ENV},
        "sampling": {"max_tokens": 4},
        "algorithm": {"name": name},
        "train": {
            "steps": steps,
            "prompts_per_step": 8,
            "group_size": 8,
            "epochs": 2,
            "minibatches": 2,
            "micro_batch_size": 64,
            "learning_rate": 3e-4,
        },
        "eval": {"n": 1, "k": [1], "tasks": 1},
        "checkpoint": {"every": 0},
        "log": {"samples_every": 0},
    }
    if name == "ppo":
        # Rewards come a turn at a time, so the critic need not be heard from far; it learns from what really came.
        settings["algorithm"] |= {"lam": 0.6, "critic_lam": 1.0}
        # A model this small takes a learning rate that would ruin a large one.
        settings["critic"] = {"learning_rate": 1e-3, "warmup_steps": 2, "clip": None}
    return settings


# What came of it.


def table(curves: dict[str, list[Curve]]) -> Table:
    what = f"Reward of the training batches, mean (lowest, highest) of {len(curves['ppo'])} seeds"
    shown = Table(title=what, title_justify="left")
    for column in ("step", *ALGORITHMS, "explained variance of PPO's critic"):
        shown.add_column(column, justify="right")
    steps = len(curves["ppo"][0]["reward"])
    for step in sorted({1, *range(4, steps + 1, 4), steps}):
        rewards = (spread([curve["reward"][step - 1] for curve in curves[name]]) for name in ALGORITHMS)
        shown.add_row(str(step), *rewards, spread([curve["explained"][step - 1] for curve in curves["ppo"]]))
    return shown


def spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.2f} ({min(known):.2f}, {max(known):.2f})" if known else "-"


def plot(curves: dict[str, list[Curve]]) -> str:
    """Two panels: the rewards of both, and the explained variance; lines are means, bands the seeds."""
    panels = [
        panel(60, "reward", [("ppo", "reward"), ("grpo", "reward")], curves),
        panel(380, "explained variance of the critic", [("ppo", "explained")], curves),
    ]
    style = "font-family='sans-serif' font-size='12'"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 680 270' {style}>",
            "<rect width='680' height='270' fill='white'/>",
            *panels,
            "</svg>\n",
        ]
    )


def panel(left: int, title: str, lines: list[tuple[str, str]], curves: dict[str, list[Curve]]) -> str:
    steps = len(curves["ppo"][0]["reward"])
    width, top, height = 260, 30, 200

    def at(step: float, value: float) -> str:
        return f"{left + width * (step - 1) / max(1, steps - 1):.1f},{top + height * (1 - value):.1f}"

    drawn = [f"<text x='{left}' y='20'>{title}</text>"]
    for value in (0, 0.25, 0.5, 0.75, 1):
        y = top + height * (1 - value)
        drawn.append(f"<line x1='{left}' y1='{y}' x2='{left + width}' y2='{y}' stroke='#ddd'/>")
        drawn.append(f"<text x='{left - 6}' y='{y + 4}' text-anchor='end'>{value:g}</text>")
    for step in (1, steps // 2, steps):
        drawn.append(f"<text x='{at(step, 0).split(',')[0]}' y='250' text-anchor='middle'>{step}</text>")
    for place, (name, what) in enumerate(lines):
        color = COLORS[name]
        every = [[max(0.0, value or 0.0) for value in curve[what]] for curve in curves[name]]
        by_step = list(enumerate(zip(*every, strict=True), start=1))
        band = [at(step, min(values)) for step, values in by_step]
        band += [at(step, max(values)) for step, values in reversed(by_step)]
        line = [at(step, statistics.mean(values)) for step, values in by_step]
        drawn.append(f"<polygon points='{' '.join(band)}' fill='{color}' opacity='0.2'/>")
        drawn.append(f"<polyline points='{' '.join(line)}' fill='none' stroke='{color}' stroke-width='2'/>")
        where = f"x='{left + 10}' y='{top + 20 + 18 * place}'"
        drawn.append(f"<text {where} fill='{color}'>{name.upper()}</text>")
    return "\n".join(drawn)


if __name__ == "__main__":
    main()
