"""`rlvr sandbox`: make the image of the containers, and try a program in the sandbox."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from .terminal import console, say, sheet
from .verifiers import UserError

sandbox_app = typer.Typer(help="Run programs that nobody trusts.", no_args_is_help=True)


@sandbox_app.command("build-image")
def build_image_command(
    tag: Annotated[str, typer.Option(help="What to call it.")] = "rlvr-sandbox:host",
    python: Annotated[str | None, typer.Option(help="The interpreter; by default the running one.")] = None,
    extra: Annotated[
        list[Path] | None, typer.Option("--with", help="A program or a directory to put in as well.", metavar="PATH")
    ] = None,
) -> None:
    """Make a Docker image from this machine's Python, for where no registry is near."""
    from .sandbox.docker import asking, daemon
    from .sandbox.images import DEFAULT_IMAGE, IMAGE_VARIABLE, build_image

    with _faults_in_one_sentence():
        client = daemon().client
        with asking("take the image"):
            made = build_image(client, tag, python=python, extra=extra or ())
    say(f"{tag} is {made}")
    say(f"use it instead of {DEFAULT_IMAGE} by setting {IMAGE_VARIABLE}={tag}, or sandbox.image in a configuration")


@sandbox_app.command("run")
def run_command(
    file: Annotated[Path, typer.Argument(help="A Python program; '-' reads it from standard input.", metavar="FILE")],
    stdin: Annotated[Path | None, typer.Option(help="A file that the program reads as its standard input.")] = None,
    backend: Annotated[str, typer.Option(help="docker, namespace or auto.")] = "auto",
    image: Annotated[str | None, typer.Option(help="The image of the container.")] = None,
    cpu: Annotated[float, typer.Option(help="Seconds of processor time.")] = 5.0,
    wall: Annotated[float | None, typer.Option(help="Seconds on the clock; by default 3 x CPU + 2.")] = None,
    memory: Annotated[int, typer.Option(help="Mebibytes of memory.")] = 512,
) -> None:
    """Run a program in the sandbox; show what it wrote, and how it ended. Exits with 0 if it ended well, else 1."""
    from .sandbox import Limits, Program
    from .sandbox import open as open_sandbox

    limits = Limits(cpu_seconds=cpu, wall_seconds=wall, memory_bytes=memory << 20)
    program = Program(_text(file), stdin=b"" if stdin is None else _content(stdin))
    options = {} if image is None else {"image": image}
    with _faults_in_one_sentence(), open_sandbox(backend, pool=1, limits=limits, **options) as box:
        if backend == "auto":
            # On stderr, for the program's output may be read by another.
            typer.echo(f"The sandbox backend 'auto' takes {box.backend!r} here.", err=True)
        result = box.run(program)
    sys.stdout.buffer.write(result.stdout)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(result.stderr)
    sys.stderr.buffer.flush()
    ended: dict[str, str] = {"status": result.status}
    if result.exit_code is not None:
        ended["exit code"] = str(result.exit_code)
    if result.signal is not None:
        ended["signal"] = str(result.signal)
    ended["wall"] = f"{1000 * result.wall_seconds:.1f} ms"
    ended["CPU"] = f"{1000 * result.cpu_seconds:.1f} ms"
    ended["peak memory"] = f"{result.peak_memory_bytes / (1 << 20):.1f} MiB"
    console.print(sheet("", ended))
    if not result.ok:
        raise typer.Exit(1)


@contextmanager
def _faults_in_one_sentence() -> Iterator[None]:
    from .sandbox import SandboxFault

    try:
        yield
    except SandboxFault as fault:
        raise UserError(str(fault)) from fault


def _text(file: Path) -> str:
    content = sys.stdin.buffer.read() if str(file) == "-" else _content(file)
    return content.decode("utf-8", "replace")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"The file {str(file)!r} cannot be read ({error.strerror}); name another one.") from None
