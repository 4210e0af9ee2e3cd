"""Whose folder a run's is: real processes that claim it."""

import subprocess
import sys
from pathlib import Path

import pytest

from rlvr import UserError
from rlvr.trainers.run_dir import claim, release

CLAIM = """
import sys
from pathlib import Path
from rlvr import UserError
from rlvr.trainers.run_dir import claim

try:
    claim(Path(sys.argv[1]), resume=Path(sys.argv[1]).exists())
    print("claimed", flush=True)
except UserError as error:
    print(error, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other():
    """Starts a process that claims a folder and keeps it until it is ended; what it said of it comes with it."""
    started = []

    def start(folder):
        process = subprocess.Popen(
            [sys.executable, "-c", CLAIM, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_folder_that_another_process_writes_in_is_refused_until_that_is_gone(other, tmp_path):
    run = tmp_path / "run"
    process, said = other(run)
    assert said == "claimed"
    leftover = run / "checkpoints" / ".step-000002.partial"
    leftover.mkdir(parents=True)
    with pytest.raises(UserError, match=f"Another process is writing the run in {run}; wait for its end"):
        claim(run, resume=True)
    assert leftover.exists()
    process.kill()
    process.wait()
    claim(run, resume=True)
    release(run)
    # It may still be refused for another reason.
    assert leftover.exists()


def test_a_process_may_claim_what_it_has_and_let_go_of_it(other, tmp_path):
    run = tmp_path / "run"
    claim(run, resume=False)
    claim(Path(f"{run}/../run"), resume=True)
    assert other(run)[1].startswith("Another process is writing")
    release(run)
    release(run)
    assert other(run)[1] == "claimed"


def test_a_folder_that_is_not_there_is_not_made_to_resume_in(tmp_path):
    with pytest.raises(UserError, match=f"no folder {tmp_path}/run to resume a run in"):
        claim(tmp_path / "run", resume=True)
    assert list(tmp_path.iterdir()) == []
