"""The command line: train, eval, envs, serve, verify, doctor, sandbox. A mistake is one sentence and exit code 2."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .arguments import ImportOption
from .config import find_recipe, import_extensions, load_config
from .doctor import doctor
from .envs import registered
from .envs.registry import REQUIRED
from .eval_command import eval_command
from .extras import needs_extra
from .loading import is_loaded
from .processes import another_says, is_main_process, let_it_speak
from .sandbox.nearest import did_you_mean
from .sandbox_command import sandbox_app
from .serve_command import serve_command
from .stopping import StopSignals
from .terminal import console, plain, say, sheet
from .trainers.warmstart import cache_root
from .verifiers import UserError
from .verify_command import verify_command
from .writing import writing

if TYPE_CHECKING:
    from .trainers.settings import TrainConfig

app = typer.Typer(
    help="Train reasoning models with verifiable rewards, and evaluate them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def main() -> None:
    """Run the command line; what the user can mend is said in one sentence, without a traceback."""
    is_loaded()
    # Threads that wait for each other would spin for milliseconds by default, and a single busy neighbour on the
    # machine then slows a step many times over. Read when torch loads; no cost on a quiet machine.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        app()
    except UserError as error:
        if another_says(error):
            let_it_speak()
            sys.exit(2)
        _refuse(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _refuse(f"The path {str(error.filename)!r} cannot be used ({error.strerror}); name another one.")


@app.command()
def train(
    config: Annotated[str | None, typer.Argument(help="A YAML file, or the name of a recipe.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this directory.")] = None,
) -> None:
    """Train a model as CONFIG says; evaluate it before and after."""
    console.quiet = not is_main_process()
    overrides = list(overrides or [])
    if resume is not None:
        if config is not None and "=" in config:
            overrides.insert(0, config)
            config = None
        config = config or _config_of_run(resume)
    if config is None:
        raise UserError("No configuration was named; give a YAML file or the name of a recipe, such as quickstart.")
    settings = load_config(config, overrides)
    if resume is not None:
        _refuse_another_folder(resume, settings.run_dir, overrides)
    run_dir = resume or Path(settings.run_dir or f"runs/{find_recipe(config).stem}-{time.strftime('%Y%m%d-%H%M%S')}")
    with StopSignals() as signals:
        _run(settings, run_dir, resume is not None, signals)
    if signals.stopped:
        begun = (run_dir / "config.yaml").exists()
        say("stopped at once" + (f"; go on with: rlvr train --resume {run_dir}" if begun else ""))
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)


def _run(settings: TrainConfig, run_dir: Path, resume: bool, signals: StopSignals) -> None:
    import_extensions(settings.imports)
    # Read when torch's compiler loads, which otherwise leaves a folder among the temporary files.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_root() / "torchinductor"))
    with needs_extra("train"):
        from .trainers.loop import Trainer
        from .trainers.progress import ConsoleReporter, evaluation_table

    with (
        writing(run_dir),
        ConsoleReporter(console) as reporter,
        closing(Trainer(settings, run_dir, reporter, resume=resume)) as trainer,
    ):
        reporter.say(f"run directory {run_dir}")
        signals.watch(trainer)
        results = trainer.run()
    if results:
        console.print(evaluation_table(settings.eval_env.id, results))
    say(f"policy saved in {run_dir / 'final'}")


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
        cells = (registration.id, registration.description, splits, ", ".join(registration.options))
        table.add_row(*map(plain, cells))
    console.print(table)


app.command("eval")(eval_command)
app.command("serve")(serve_command)
app.command("verify")(verify_command)
app.command()(doctor)
app.add_typer(sandbox_app, name="sandbox")


def _show_env(name: str) -> None:
    known = {registration.id: registration for registration in registered()}
    if name not in known:
        raise UserError(f"No environment is registered as {name!r}; {did_you_mean(name, known)}")
    registration = known[name]
    options = {
        f"option {option}": "must be given" if default is REQUIRED else repr(default)
        for option, default in registration.options.items()
    }
    shown = {
        "poses": registration.description,
        "think": registration.think,
        "max_turns": str(registration.max_turns),
        "system": registration.system or "none",
        **options,
        "rubric": registration.rubric.tree(),
    }
    console.print(sheet(name, shown))


def _config_of_run(run_dir: Path) -> str:
    config = run_dir / "config.yaml"
    if not config.is_file():
        raise UserError(f"There is no run to resume in {str(run_dir)!r}, which has no config.yaml; name its directory.")
    return str(config)


def _refuse_another_folder(resume: Path, run_dir: str | None, overrides: Sequence[str]) -> None:
    """That of a file does not count: a run that was moved has it still."""
    given = any(override.startswith("run_dir=") for override in overrides)
    if given and Path(run_dir or resume).resolve() != resume.resolve():
        raise UserError(
            f"run_dir={run_dir} names another folder than --resume {resume}, where the run goes on; leave it out, or "
            "copy the run and resume the copy."
        )


def _refuse(message: str) -> NoReturn:
    sentence = Text.assemble(("error: ", "bold red"), plain(message))
    Console(stderr=True).print(sentence, highlight=False, soft_wrap=True)
    sys.exit(2)
