import multiprocessing
import os
import runpy
from multiprocessing import forkserver
from pathlib import Path

import pytest

# As the command line does: threads that spin while they wait make a test many times as slow on a busy machine.
# Read when torch loads, so it stands before any import of it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

FORKED_PROGRAM = Path(__file__).with_name("forked_program.py")
LOADED = ["transformers.models.llama.modeling_llama", "peft", "rlvr.cli", "rlvr.trainers.loop", "rlvr.trainers.zero"]


@pytest.fixture(scope="session")
def fork():
    """Starts scripts, or modules by their names, from a process that has loaded the trainers.

    Loading them takes most of the time of a short run. Programs have one thread for their numbers, and append what
    they print to the file `output`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        forkserver.ensure_running()
    started = []

    def start(script, *arguments, output, folder=".", environment=os.environ):
        program = {
            "script": str(script),
            "arguments": [str(argument) for argument in arguments],
            "output": str(Path(output).resolve()),
            "folder": str(Path(folder).resolve()),
            "environment": {**environment, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        }
        process = context.Process(target=runpy.run_path, args=(str(FORKED_PROGRAM), {"PROGRAM": program}))
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()
