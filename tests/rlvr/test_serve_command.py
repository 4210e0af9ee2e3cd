from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

RLVR = Path(sys.executable).with_name("rlvr")


def serve(*arguments):
    done = subprocess.run(
        [RLVR, "serve", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_it_is_said_what_to_install():
    code, said = serve("model")
    assert code == 2
    assert "Serving a model needs vllm; pip install 'rlvr[vllm]'" in said


def test_a_dtype_that_there_is_not_is_said():
    code, said = serve("model", "--dtype", "float33")
    assert code == 2
    assert said.endswith("--dtype is 'float33'; choose one of auto, float32, bfloat16, float16.")


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such/folder"], "There is no model in '/no/such/folder'"),
        (["./no/such"], "There is no model in './no/such'"),
        (["no/such/folder/"], "There is no model in 'no/such/folder/'"),
        (["no.gguf"], "There is no file 'no.gguf'"),
        (["model", "--host", "203.0.113.7"], "cannot listen at 203.0.113.7:8000"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(arguments, sentence):
    code, said = serve(*arguments)
    assert code == 2
    assert sentence in said


SERVE = """\
import sys
from rlvr import serve_command

serve_command.check_vllm = lambda: None
serve_command.server_command = lambda options: [sys.executable, "-c", sys.argv[1]]
serve_command.serve_command("a/model", port=0)
"""

# What stands for vLLM.
BUSY = """\
import os, tempfile, time

os.makedirs(os.path.join(tempfile.gettempdir(), "some", "files"))
print(os.getpid(), os.environ["VLLM_RPC_BASE_PATH"], tempfile.gettempdir(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_server_s_temporary_files_go_with_it_however_it_ends(number):
    command = [sys.executable, "-c", SERVE, BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            pid, folder, temporary = process.stdout.readline().split()
            # It is that process, with no children but those that vLLM starts, all of which may be ended with it.
            assert int(pid) == process.pid
            assert psutil.Process(process.pid).children() == []
            assert folder == temporary
            assert (Path(folder) / "some" / "files").is_dir()
            process.send_signal(number)
        finally:
            if sys.exc_info()[0]:
                process.kill()
    deadline = time.monotonic() + 60
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(folder).exists()
