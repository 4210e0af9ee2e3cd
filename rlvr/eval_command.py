"""`rlvr eval`: samples of every held-out task, graded, and what they say about a model."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import ImportOption, key_values
from .config import engine_settings, import_extensions
from .envs import TextVectorEnv, make_vec
from .extras import needs_extra
from .stopping import StopSignals
from .terminal import console, say
from .trainers.engine_settings import EngineSettings
from .trainers.engines.base import Sampling
from .trainers.passk import pass_at_k
from .verifiers import UserError
from .writing import writing

if TYPE_CHECKING:
    from .trainers.evaluate import Evaluation


def eval_command(
    env: Annotated[str, typer.Argument(help="Id of an environment, such as rlvr/Arithmetic-v0.")],
    model: Annotated[str, typer.Option(help="A folder, a .gguf file, a package that carries one, or a hub name.")],
    n: Annotated[int, typer.Option("-n", min=1, help="Samples a task.")] = 8,
    k: Annotated[str, typer.Option("-k", help="Which pass@k, separated by commas.")] = "1",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="Option of the environment.", metavar="KEY=VALUE"),
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="The first so many tasks; all if not given.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The most tokens that a completion may have.")] = 256,
    temperature: Annotated[float, typer.Option(min=0, help="Of the samples; 0 is greedy.")] = 1.0,
    top_p: Annotated[float, typer.Option(min=0, max=1)] = 1.0,
    top_k: Annotated[int, typer.Option(min=0)] = 0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Completions generated at a time.")] = 256,
    bf16: Annotated[bool, typer.Option("--bf16", help="Generate in bfloat16.")] = False,
    engine: Annotated[str, typer.Option(help="What generates: hf, vllm or vllm-server.")] = "hf",
    engine_option: Annotated[
        list[str] | None,
        typer.Option(help="Setting of the engine, as in a recipe's section engine.", metavar="KEY=VALUE"),
    ] = None,
    chat_template: Annotated[Path | None, typer.Option(help="A Jinja file, for a tokenizer without one.")] = None,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="The file of samples; an unfinished one is continued.")
    ] = None,
    imports: ImportOption = None,
) -> None:
    """Sample n completions of every held-out task: pass@1, pass@k, maj@n, lengths."""
    rows = out or Path("runs") / "eval" / f"{env.replace('/', '_')}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    with StopSignals() as signals:
        import_extensions(imports or [])
        ks = _numbers(k)
        for value in ks:
            pass_at_k(n, 0, value)
        settings = engine_settings(engine, key_values(engine_option or []))
        options = {"split": "eval", **key_values(option or [])}
        # A mistake in these is told before a model is loaded, which may take minutes.
        posed = make_vec(env, 1, **options)
        evaluation = _evaluate(
            settings,
            model,
            "bfloat16" if bf16 else "float32",
            chat_template,
            posed,
            rows,
            signals,
            env=env,
            options=options,
            n=n,
            ks=ks,
            tasks=tasks,
            sampling=Sampling(max_tokens, temperature, top_p, top_k),
            seed=seed,
            batch_size=batch_size,
        )
        _show(env, model, evaluation, rows)
    if signals.stopped:
        _say_what_is_kept(rows)
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)


def _evaluate(
    settings: EngineSettings,
    model: str,
    dtype: str,
    chat_template: Path | None,
    posed: TextVectorEnv,
    rows: Path,
    signals: StopSignals,
    **asked: Any,
) -> Evaluation:
    with needs_extra("train"):
        from .trainers.evaluate import evaluate
        from .trainers.evaluation_engine import evaluation_engine
        from .trainers.models import fingerprint, load_model
        from .trainers.progress import ConsoleReporter

    signals.check()
    loaded = load_model(
        model,
        dtype=dtype,
        # There it only gives its weights, and the device is left to the engine; NCCL takes them from a device.
        device="cpu" if settings.kind == "vllm" else None,
        chat_template=None if chat_template is None else str(chat_template),
    )
    with (
        writing(rows),
        ConsoleReporter(console) as reporter,
        evaluation_engine(
            settings,
            loaded,
            posed,
            rows.with_suffix(".engine"),
            reporter.say,
            dtype=dtype,
            batch_size=asked["batch_size"],
            temperature=asked["sampling"].temperature,
            go_on=f"go on with --out {rows}",
        ) as engine,
    ):

        def on_progress(done: int, total: int) -> None:
            signals.check()
            reporter.work("evaluate", done, total)

        # What `hf` wrote has always been without its name.
        kind = {} if settings.kind == "hf" else {"engine": settings.kind}
        return evaluate(
            engine,
            loaded.tokenizer,
            loaded.eos_ids,
            rows_path=rows,
            identity={"model": model, "weights": fingerprint(loaded.model), "dtype": engine.dtype or dtype, **kind},
            on_progress=on_progress,
            **asked,
        )


def _show(env: str, model: str, evaluation: Evaluation, rows: Path) -> None:
    from .trainers.progress import evaluation_table

    console.print(evaluation_table(f"{env}  ·  {evaluation.tasks} tasks", {model: evaluation}))
    summary = rows.with_suffix(".summary.json")
    summary.write_text(json.dumps(evaluation.metrics(), indent=2) + "\n", encoding="utf-8")
    say(f"samples in {rows}, summary in {summary}")


def _say_what_is_kept(rows: Path) -> None:
    samples, tasks = _graded(rows)
    if samples:
        say(f"stopped with {samples} samples of {tasks} tasks graded; go on with the same command and --out {rows}")
    else:
        say("stopped before anything was graded")


def _graded(rows: Path) -> tuple[int, int]:
    """How many samples of how many tasks are in a file; none in one that holds other things, and was to be refused."""
    try:
        kept = [json.loads(line)["task"] for line in rows.read_text(encoding="utf-8").splitlines()]
        return len(kept), len(set(kept))
    except (OSError, ValueError, TypeError, KeyError):
        return 0, 0


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UserError(f"-k {text!r} is no list of numbers; write it as in -k 1,4,8.") from None
