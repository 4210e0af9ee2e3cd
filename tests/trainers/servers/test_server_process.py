from __future__ import annotations

import subprocess
import sys

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
