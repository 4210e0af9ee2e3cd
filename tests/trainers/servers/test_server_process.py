from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rlvr import UserError
from rlvr.trainers.engines import server_process
from rlvr.trainers.engines.server_process import ServerOptions, ServerProcess, server_command, server_environment


def flags(monkeypatch, on_cpu, **options):
    monkeypatch.setattr(server_process, "runs_on_cpu", lambda: on_cpu)
    return server_command(ServerOptions("a/model", **options), "--max-num-seqs", "7")


@pytest.mark.parametrize("on_cpu", [True, False])
def test_a_server_reports_what_it_draws_from_and_is_nobody_elses(monkeypatch, on_cpu):
    command = " ".join(flags(monkeypatch, on_cpu, port=8123, max_model_len=512))
    assert "--logprobs-mode processed_logprobs" in command
    assert "--generation-config vllm" in command
    assert "--host 127.0.0.1 --port 8123" in command
    assert "--max-model-len 512" in command
    assert command.endswith("--max-num-seqs 7")
    assert "--enable-log-requests" not in command
    assert server_environment()["VLLM_SERVER_DEV_MODE"] == "1"


def test_on_a_cpu_there_are_no_graphs_and_no_prompts_in_parts(monkeypatch):
    command = flags(monkeypatch, on_cpu=True)
    assert command[:5] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "a/model"]
    assert {"--enforce-eager", "--no-enable-chunked-prefill"} <= set(command)
    assert "--gpu-memory-utilization" not in command
    assert "--enforce-eager" not in flags(monkeypatch, on_cpu=True, enforce_eager=False)


def test_on_a_gpu_weights_may_come_over_nccl(monkeypatch):
    command = flags(monkeypatch, on_cpu=False, gpu_memory_utilization=0.5)
    assert command[:5] == [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", "a/model"]
    assert command[command.index("--gpu-memory-utilization") + 1] == "0.5"
    assert command[command.index("--weight-transfer-config") + 1] == '{"backend": "nccl"}'
    assert "--enforce-eager" not in command


@pytest.mark.parametrize(
    ("config", "asked", "given"),
    [
        ({"dtype": "float32"}, "auto", "float32"),
        ({"torch_dtype": "bfloat16"}, "auto", "bfloat16"),
        ({"dtype": "float32"}, "bfloat16", "bfloat16"),
        ({"text_config": {"dtype": "float32"}}, "auto", "float32"),
        # What vLLM makes of these is its own affair.
        ({}, "auto", "auto"),
        ({"dtype": "float8_e4m3fn"}, "auto", "auto"),
        ({"dtype": "float32", "quantization_config": {"quant_method": "gptq"}}, "auto", "auto"),
        ([], "auto", "auto"),
        (None, "auto", "auto"),
    ],
)
def test_auto_is_the_precision_of_the_folder(monkeypatch, tmp_path, config, asked, given):
    """vLLM's own "auto" makes 16 bits of 32."""
    monkeypatch.setattr(server_process, "runs_on_cpu", lambda: True)
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    command = server_command(ServerOptions(str(tmp_path), dtype=asked))
    assert command[command.index("--dtype") + 1] == given


@pytest.fixture
def program(monkeypatch):
    """Runs a Python program in the place of vLLM."""

    def instead(source):
        monkeypatch.setattr(server_process, "check_vllm", lambda: None)
        monkeypatch.setattr(server_process, "server_command", lambda options: [sys.executable, "-c", source])

    return instead


def test_a_server_that_ends_at_once_is_said_with_its_last_error(program, tmp_path):
    program("print('start'); print('ValueError: no such model'); raise SystemExit(3)")
    server = ServerProcess(ServerOptions("x"), tmp_path / "logs" / "server.log")
    with pytest.raises(
        UserError, match=r"exit code 3 before it answered \(ValueError: no such model\); see .*server.log"
    ):
        server.wait_until_ready(30)


def test_closing_ends_all_processes_of_a_server(program, tmp_path):
    child = "import time; time.sleep(600)"
    program(
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    server = ServerProcess(ServerOptions("x"), tmp_path / "server.log")
    while not (written := (tmp_path / "server.log").read_text().split()):
        pass
    server.close()
    state = subprocess.run(["ps", "-o", "stat=", "-p", written[0]], capture_output=True, text=True, check=False).stdout
    assert state.strip()[:1] in ("", "Z")
    server.close()


def test_a_server_ends_with_the_trainer_however_that_ends(tmp_path):
    """The trainer is killed, so that nothing of it can close the server."""
    trainer = (
        "import sys\n"
        "from pathlib import Path\n"
        "from rlvr.trainers.engines import server_process as s\n"
        "s.check_vllm = lambda: None\n"
        "s.server_command = lambda options: [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        f"server = s.ServerProcess(s.ServerOptions('x'), Path({str(tmp_path / 'log')!r}))\n"
        "print(server.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", trainer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        pid = process.stdout.readline().strip().decode()
        process.kill()
    alive = ["ps", "-o", "stat=", "-p", pid]
    while subprocess.run(alive, capture_output=True, text=True, check=False).stdout.strip()[:1] not in ("", "Z"):
        pass


BUSY = """\
import os, tempfile, time
assert tempfile.gettempdir() == os.environ["VLLM_RPC_BASE_PATH"]
os.makedirs(os.path.join(tempfile.gettempdir(), "some", "files"))
print(tempfile.gettempdir(), flush=True)
time.sleep(600)
"""


def temporary_folder(log):
    """What the program `BUSY` wrote down, once it has."""
    while not (log.exists() and (written := log.read_text()).endswith("\n")):
        pass
    return Path(written.strip())


def test_closing_removes_a_server_s_temporary_files(program, tmp_path):
    program(BUSY)
    server = ServerProcess(ServerOptions("x"), tmp_path / "log")
    folder = temporary_folder(tmp_path / "log")
    assert folder.parent == Path(tempfile.gettempdir())
    assert folder.stat().st_mode & 0o077 == 0
    server.close()
    assert not folder.exists()


def test_a_server_s_temporary_files_go_when_the_trainer_is_killed(tmp_path):
    log = tmp_path / "log"
    trainer = (
        "import sys\n"
        "from pathlib import Path\n"
        "from rlvr.trainers.engines import server_process as s\n"
        "s.check_vllm = lambda: None\n"
        f"s.server_command = lambda options: [sys.executable, '-c', {BUSY!r}]\n"
        f"server = s.ServerProcess(s.ServerOptions('x'), Path({str(log)!r}))\n"
        "print('started', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", trainer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"started\n"
        folder = temporary_folder(log)
        assert (folder / "some").exists()
        process.kill()
    while folder.exists():
        pass


def test_a_server_s_sockets_have_short_names_where_temporary_files_are_far_down(program, tmp_path, monkeypatch):
    """The path of a Unix socket has 107 bytes at most, and vLLM's sockets have names of 36."""
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    program(BUSY)
    server = ServerProcess(ServerOptions("x"), tmp_path / "log")
    folder = temporary_folder(tmp_path / "log")
    server.close()
    assert len(os.fsencode(folder)) + 1 + 36 <= 107
    assert not folder.exists()
