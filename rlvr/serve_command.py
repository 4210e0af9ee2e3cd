"""`rlvr serve`: a vLLM server that a run can generate on and give its weights to."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from .extras import needs_extra
from .terminal import say
from .trainers.engines.server_process import ServerOptions, check_vllm, server_command, server_environment
from .trainers.engines.server_temporary_folder import in_server_folder, make_server_folder, remove_with_this
from .trainers.warmstart import cache_root
from .verifiers import UserError

_DTYPES = ("auto", "float32", "bfloat16", "float16")
_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve_command(
    model: Annotated[
        str, typer.Argument(help="A folder, a .gguf file, a package that carries one, or a name on the hub.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16 or float16; auto: that of the model's folder.")
    ] = "auto",
    gpu_memory_utilization: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Share of the device's memory that it takes.")
    ] = 0.9,
    max_model_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens of prompt and completion together; the model's if not given.")
    ] = None,
    tensor_parallel_size: Annotated[int, typer.Option(min=1, help="Devices that one copy is spread over.")] = 1,
    enforce_eager: Annotated[
        bool | None, typer.Option(help="Without CUDA graphs; by default where there is no GPU.")
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(help="After --: passed on to vLLM.", metavar="-- FLAGS")] = None,
) -> None:
    """Start a vLLM server with all that training needs; name its address in engine.servers."""
    if dtype not in _DTYPES:
        raise UserError(f"--dtype is {dtype!r}; choose one of {', '.join(_DTYPES)}.")
    check_vllm()
    _check_port(host, port)
    if host not in _LOCAL:
        say(f"warning: whoever can reach {host}:{port} can give this server other weights and run code in it")
    options = ServerOptions(
        model=_folder_for_vllm(model),
        host=host,
        port=port,
        dtype=dtype,
        gpu_memory_utilization=gpu_memory_utilization,
        max_model_len=max_model_len,
        tensor_parallel_size=tensor_parallel_size,
        enforce_eager=enforce_eager,
    )
    command = server_command(options, *(more or []))
    # Or else what torch's compiler makes would be among the temporary files.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_root() / "torchinductor"))
    folder = make_server_folder()
    remove_with_this(folder)
    sys.stdout.flush()
    # It takes the place of this process, so that signals are its own, and so is the exit code.
    os.execve(command[0], command, {**server_environment(), **in_server_folder(folder)})


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"The server cannot listen at {host}:{port} ({error.strerror}); choose another --port or --host."
            ) from None


def _folder_for_vllm(model: str) -> str:
    """The model as vLLM reads it: quantised ones, which could not be trained, are expanded into a folder once."""
    source = _gguf_of(model)
    if source is None:
        if _names_a_path(model) and not (Path(model) / "config.json").is_file():
            raise UserError(f"There is no model in {model!r}, which has no config.json; name its folder.")
        return model
    state = source.stat()
    name = hashlib.sha256(f"{source.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:16]
    folder = cache_root() / "served" / name
    if not (folder / "config.json").is_file():
        with needs_extra("train"):
            from .trainers.models import load_model, save_policy

        say(f"expanding {model} into {folder}")
        partial = folder.with_name(f".{name}.{os.getpid()}")
        loaded = load_model(model, dtype="bfloat16", device="cpu")
        save_policy(loaded.model, loaded.tokenizer, partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    return str(folder)


def _names_a_path(model: str) -> bool:
    """Whether it can only be a folder: names on the hub have one slash at most, and no dot before it."""
    path = Path(model)
    return path.exists() or path.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1


def _gguf_of(model: str) -> Path | None:
    """The .gguf file that a model is, or that a package of its name carries."""
    path = Path(model)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UserError(f"There is no file {model!r}; name an existing .gguf file.")
        return path
    if path.exists():
        return None
    try:
        files = metadata.distribution(model).files or []
    except (metadata.PackageNotFoundError, ValueError):
        return None
    return next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)
