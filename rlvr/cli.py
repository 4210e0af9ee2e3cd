"""The command line: train, eval, envs, verify. A user's mistake is one sentence and exit code 2."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .config import find_recipe, import_extensions, load_config, save_config
from .envs import registered
from .envs.registry import REQUIRED
from .verifiers import UserError, Verdict, verify
from .verifiers.nearest import did_you_mean

if TYPE_CHECKING:
    from .trainers.loop import Trainer

app = typer.Typer(
    help="Train reasoning models with verifiable rewards, and evaluate them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console()

ImportOption = Annotated[
    list[str] | None,
    typer.Option("--import", help="A module or .py file that registers environments or verifiers.", metavar="MODULE"),
]


def main() -> None:
    """Run the command line; what the user can mend is said in one sentence, without a traceback."""
    # Threads that wait for each other would spin for milliseconds by default, and a single busy neighbour on the
    # machine then slows a step many times over. Read when torch loads; no cost on a quiet machine.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        app()
    except UserError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {_plain(error)}", highlight=False, soft_wrap=True)
        sys.exit(2)


@app.command()
def train(
    config: Annotated[str | None, typer.Argument(help="A YAML file, or the name of a recipe.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this directory.")] = None,
) -> None:
    """Train a model as CONFIG says; evaluate it before and after."""
    overrides = list(overrides or [])
    if resume is not None:
        if config is not None and "=" in config:
            overrides.insert(0, config)
            config = None
        config = config or str(resume / "config.yaml")
    if config is None:
        raise UserError("no configuration was named; give a YAML file or the name of a recipe, such as quickstart")
    settings = load_config(config, overrides)
    run_dir = resume or Path(settings.run_dir or f"runs/{find_recipe(config).stem}-{time.strftime('%Y%m%d-%H%M%S')}")
    import_extensions(settings.imports)
    with _extra("train"):
        from .trainers.loop import Trainer
        from .trainers.progress import ConsoleReporter, evaluation_table

    with ConsoleReporter(console) as reporter:
        trainer = Trainer(settings, run_dir, reporter, resume=resume is not None)
        save_config(settings.model_copy(update={"run_dir": str(run_dir)}), run_dir / "config.yaml")
        reporter.say(f"run directory {run_dir}")
        with _stop_gently(trainer):
            results = trainer.run()
    console.print(evaluation_table(settings.eval_env.id, results))
    console.print(f"policy saved in {run_dir / 'final'}", highlight=False, soft_wrap=True)


@app.command()
def eval(
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
    chat_template: Annotated[Path | None, typer.Option(help="A Jinja file, for a tokenizer without one.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file of samples; an unfinished one is continued.")] = None,
    imports: ImportOption = None,
) -> None:
    """Sample n completions of every held-out task: pass@1, pass@k, maj@n, lengths."""
    import_extensions(imports or [])
    ks = _numbers(k)
    options = dict(_key_value(text) for text in option or [])
    with _extra("train"):
        from .trainers.engines import Sampling
        from .trainers.engines.hf import HFEngine
        from .trainers.evaluate import evaluate
        from .trainers.models import load_model
        from .trainers.passk import pass_at_k
        from .trainers.progress import ConsoleReporter, evaluation_table
    for value in ks:
        pass_at_k(n, 0, value)

    loaded = load_model(
        model,
        dtype="bfloat16" if bf16 else "float32",
        chat_template=None if chat_template is None else str(chat_template),
    )
    engine = HFEngine(loaded.model, loaded.eos_ids, loaded.tokenizer.pad_token_id, max_batch=batch_size)
    rows = out or Path("runs") / "eval" / f"{env.replace('/', '_')}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    with ConsoleReporter(console) as reporter:
        evaluation = evaluate(
            engine,
            loaded.tokenizer,
            loaded.eos_ids,
            env,
            rows_path=rows,
            options=options,
            n=n,
            ks=ks,
            tasks=tasks,
            sampling=Sampling(max_tokens, temperature, top_p, top_k),
            seed=seed,
            batch_size=batch_size,
            identity={"model": model, "dtype": "bfloat16" if bf16 else "float32"},
            on_progress=lambda done, total: reporter.work("evaluate", done, total),
        )
    console.print(evaluation_table(f"{env}  ·  {evaluation.tasks} tasks", {model: evaluation}))
    summary = rows.with_suffix(".summary.json")
    summary.write_text(json.dumps(evaluation.metrics(), indent=2) + "\n", encoding="utf-8")
    console.print(f"samples in {rows}, summary in {summary}", highlight=False, soft_wrap=True)


@app.command()
def envs(
    name: Annotated[str | None, typer.Argument(help="Show one environment: its options, rubric and prompt.")] = None,
    imports: ImportOption = None,
) -> None:
    """List the registered environments."""
    import_extensions(imports or [])
    if name is not None:
        _show_env(name)
        return
    table = Table("id", "what it poses", "splits", "options")
    for registration in registered():
        splits = ", ".join(registration.splits) if registration.splits else "as its tasks say"
        table.add_row(registration.id, registration.description, splits, ", ".join(registration.options))
    console.print(table)


@app.command("verify")
def verify_command(
    name: Annotated[str, typer.Argument(help="Name of a verifier, such as rlvr/number-v1.")],
    completion: Annotated[str, typer.Option(help="What the model wrote; '-' reads standard input.")],
    answer: Annotated[str | None, typer.Option(help="The reference answer.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Another argument.", metavar="KEY=VALUE")
    ] = None,
    imports: ImportOption = None,
) -> None:
    """Score one completion and show the verdict."""
    import_extensions(imports or [])
    fields = dict(_key_value(text) for text in option or [])
    if answer is not None:
        fields["answer"] = answer
    verdict = verify(name, completion=sys.stdin.read() if completion == "-" else completion, **fields)
    console.print(_verdict_table(name, verdict))


def _show_env(name: str) -> None:
    known = {registration.id: registration for registration in registered()}
    if name not in known:
        raise UserError(f"no environment is registered as {name!r}; {did_you_mean(name, known)}")
    registration = known[name]
    table = Table(show_header=False, title=name, title_justify="left")
    table.add_row("poses", registration.description)
    table.add_row("think", registration.think)
    table.add_row("system", _plain(registration.system or "none"))
    for option, default in registration.options.items():
        table.add_row(f"option {option}", "must be given" if default is REQUIRED else _plain(repr(default)))
    table.add_row("rubric", _plain(registration.rubric.tree()))
    console.print(table)


def _verdict_table(name: str, verdict: Verdict) -> Table:
    table = Table(show_header=False, title=name, title_justify="left")
    table.add_row("score", "none: the grader failed" if verdict.score is None else f"{verdict.score:g}")
    table.add_row("passed", {True: "yes", False: "no", None: "unknown"}[verdict.passed])
    table.add_row("status", verdict.status)
    for part, value in verdict.parts.items():
        table.add_row(f"part {part}", f"{value:g}")
    if verdict.answer is not None:
        table.add_row("answer read", _plain(verdict.answer))
    table.add_row("detail", _plain(verdict.detail))
    return table


@contextmanager
def _stop_gently(trainer: Trainer) -> Iterator[None]:
    """The first Ctrl-C lets the step end and saves a checkpoint; the second stops at once."""

    def request(signum: int, frame: Any) -> None:
        if trainer.stop_requested:
            raise KeyboardInterrupt
        trainer.stop_requested = True
        trainer.reporter.say("stopping after this step; Ctrl-C again stops at once")

    previous = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rlvr"):
            raise
        raise UserError(f"this needs the package {error.name!r}; install it with: pip install 'rlvr[{name}]'") from None


def _key_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"{text!r} is no option; write key=value")
    return key, yaml.safe_load(value)


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UserError(f"-k {text!r} is no list of numbers; write it as in -k 1,4,8") from None


def _plain(text: object) -> str:
    """Text that Rich prints as it is: what a model or a file wrote is no markup."""
    return escape(str(text))
