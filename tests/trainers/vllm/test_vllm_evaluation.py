"""`rlvr eval` with vLLM: greedy samples are those that the model itself writes, whatever the engine had before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("vllm")

from rlvr.trainers.engines.server_process import ServerOptions, ServerProcess
from rlvr.trainers.models import save_policy
from rlvr.trainers.tiny import build_tiny

pytestmark = pytest.mark.slow

ARGUMENTS = [
    *("rlvr/Arithmetic-v0", "-o", "level=1", "-o", "template='{expression}='", "-o", "system=null"),
    *("--tasks", "6", "-n", "1", "--max-tokens", "12", "--temperature", "0"),
]


def samples(folder, out, *arguments):
    """The completions that an evaluation of the model in `folder` writes, and what it says."""
    command = [Path(sys.executable).with_name("rlvr"), "eval", *ARGUMENTS, "--model", folder, "--out", out, *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["completion"] for line in out.read_text().splitlines()], done.stdout


@pytest.fixture(scope="module")
def expected(tiny, tmp_path_factory):
    found, _ = samples(tiny[2], tmp_path_factory.mktemp("hf") / "hf.jsonl")
    assert len(set(found)) > 1
    return found


def test_vllm_in_the_same_process(tiny, expected, tmp_path):
    options = ["--engine-option", "max_model_len=64", "--engine-option", "max_logprob_diff=0.001"]
    found, said = samples(tiny[2], tmp_path / "rows.jsonl", "--engine", "vllm", *options)
    assert found == expected
    assert "log-probs" in said
    about = json.loads((tmp_path / "rows.about.json").read_text())
    assert (about["engine"], about["dtype"]) == ("vllm", "float32")
    assert {path.name for path in tmp_path.iterdir()} == {"rows.jsonl", "rows.about.json", "rows.summary.json"}


def test_a_server_of_its_own_ends_with_it(tiny, expected, tmp_path):
    options = ["--engine-option", "max_model_len=64", "--engine-option", "max_logprob_diff=0.001"]
    found, said = samples(tiny[2], tmp_path / "rows.jsonl", "--engine", "vllm-server", *options)
    assert found == expected
    assert "starting a vLLM server" in said
    assert [path.name for path in (tmp_path / "rows.engine").iterdir()] == ["vllm-server.log"]
    folder = str(tmp_path)
    assert not [p for p in psutil.process_iter(["cmdline"]) if folder in " ".join(p.info["cmdline"] or [])]


def test_a_server_with_another_model_is_given_this_one(tiny, expected, tmp_path):
    other, tokenizer = build_tiny(1)
    save_policy(other, tokenizer, tmp_path / "other")
    options = ServerOptions(str(tmp_path / "other"), dtype="float32", max_model_len=64)
    server = ServerProcess(options, tmp_path / "server.log")
    try:
        server.wait_until_ready(900)
        named = ["--engine-option", f"servers=[{server.url}]", "--engine-option", "max_logprob_diff=0.001"]
        found, _ = samples(tiny[2], tmp_path / "rows.jsonl", "--engine", "vllm-server", *named)
        assert found == expected
        assert not (tmp_path / "rows.engine").exists()
    finally:
        server.close()


@pytest.mark.parametrize(("kind", "number"), [("vllm", signal.SIGINT), ("vllm-server", signal.SIGTERM)])
def test_a_signal_ends_an_evaluation_with_its_engine(tiny, tmp_path, kind, number):
    out, said = tmp_path / "rows.jsonl", tmp_path / "output.txt"
    command = [Path(sys.executable).with_name("rlvr"), "eval", *ARGUMENTS, "--model", tiny[2], "--out", out]
    command += ["--engine", kind, "--engine-option", "max_model_len=64", "-n", "4000", "--temperature", "1"]
    with said.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    while not out.exists():
        assert process.poll() is None, said.read_text()
        time.sleep(0.001)
    # As a terminal does, to the whole group.
    os.killpg(process.pid, number)
    assert process.wait(120) == 128 + number, said.read_text()
    printed = said.read_text()
    assert "Traceback" not in printed
    kept = out.read_text().splitlines()
    assert all(json.loads(line)["status"] != "error" for line in kept)
    assert f"stopped with {len(kept)} samples of 6 tasks graded" in printed
    left = {"vllm-server.log"} if kind == "vllm-server" else set()
    assert {path.name for path in tmp_path.glob("rows.engine/*")} == left
    folder = str(tmp_path)
    assert not [p for p in psutil.process_iter(["cmdline"]) if folder in " ".join(p.info["cmdline"] or [])]
