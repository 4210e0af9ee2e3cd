"""SIGINT and SIGTERM to a run that uses the pool of verifiers and a sandbox: how it ends, and that nothing is left."""

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
import yaml

import rlvr.sandbox
from rlvr import UserError
from rlvr.sandbox import SandboxFault
from rlvr.trainers.models import save_policy
from rlvr.trainers.tiny import build_tiny

RLVR = Path(sys.executable).with_name("rlvr")

EXTENSION = """
from pathlib import Path

import rlvr
import rlvr.sandbox
from rlvr.verifiers.pool import shared_pool

box = rlvr.sandbox.open("namespace", pool=1)

def finely(completion: str) -> float:
    assert box.run(rlvr.sandbox.Program("print(1)")).stdout == b"1\\n"
    assert shared_pool().run(len, completion, timeout=20) == len(completion)
    return sum(ord(character) % 16 for character in completion) / 128

tasks = {split: [{"prompt": f"{i}+{j}=", "answer": "1"} for i in range(4)] for split, j in (("train", 1), ("eval", 8))}
rlvr.register("me/Ran-v0", tasks=tasks, rubric=finely)
Path("imported").touch()
"""

CONFIG = {
    "imports": ["mine.py"],
    "model": {"name": "tiny", "warm_start": {"steps": 40, "batch_size": 8}},
    "env": {"id": "me/Ran-v0"},
    "sampling": {"max_tokens": 6},
    "train": {"steps": 400, "prompts_per_step": 2, "group_size": 4, "generation_batch_size": 4},
    "eval": {"every": 3, "n": 8, "k": [1]},
    "checkpoint": {"every": 0},
}


def lines(run: Path) -> int:
    file = run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def rows(run: Path, step: int) -> int:
    file = run / "eval" / f"step-{step:06d}.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def samples(folder: Path) -> list[bytes]:
    """The lines of the file that `rlvr eval` writes."""
    file = folder / "samples.jsonl"
    return file.read_bytes().splitlines(keepends=True) if file.exists() else []


MOMENTS = {
    "loading": lambda run: (run / "config.yaml").exists(),
    "warm start": lambda run: any((run.parent / "cache").glob(".partial-*")),
    "evaluation before": lambda run: rows(run, 0) > 0,
    "first step": lambda run: rows(run, 0) == 32,
    "a step": lambda run: lines(run) == 2,
    "evaluation between": lambda run: rows(run, 3) > 0,
    "extension": lambda run: (run.parent / "imported").exists(),
    "samples": lambda run: len(samples(run.parent)) > 0,
}


@pytest.fixture(autouse=True)
def _a_sandbox() -> None:
    try:
        rlvr.sandbox.open("namespace", pool=1).close()
    except (UserError, SandboxFault) as error:
        pytest.skip(str(error))


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    return begin(folder, "train", *arguments)


def begin(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    (folder / "mine.py").write_text(EXTENSION)
    for name in ("temporary", "cache"):
        (folder / name).mkdir(exist_ok=True)
    places = {"RLVR_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "temporary")}
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            [str(RLVR), *arguments],
            cwd=folder,
            env={**os.environ, **places, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def stop(folder: Path, process: subprocess.Popen[bytes], moment: str, number: int, times: int = 1) -> str:
    """Signal the whole group, as a terminal does, when the moment has come; returns what was printed."""
    while not MOMENTS[moment](folder / "run"):
        assert process.poll() is None, (folder / "output.txt").read_text()
        time.sleep(0.001)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for left in reversed(range(times)):
        if process.poll() is None:
            os.killpg(process.pid, number)
        if left:
            wait_for(folder, "stopping after this step")
    assert process.wait(timeout=120) == 128 + number, (folder / "output.txt").read_text()
    assert psutil.wait_procs(family, timeout=20)[1] == []
    assert list((folder / "temporary").iterdir()) == []
    assert not any(path.name.endswith(".partial") for path in folder.rglob(".*"))
    assert not any((folder / "cache").glob(".partial-*"))
    return (folder / "output.txt").read_text()


def wait_for(folder: Path, words: str) -> None:
    while words not in (folder / "output.txt").read_text():
        time.sleep(0.001)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("loading", signal.SIGTERM),
        ("warm start", signal.SIGTERM),
        ("warm start", signal.SIGINT),
        ("evaluation before", signal.SIGTERM),
        ("first step", signal.SIGINT),
        ("a step", signal.SIGTERM),
        ("evaluation between", signal.SIGINT),
    ],
)
def test_a_signal_ends_a_run_in_good_order(tmp_path, moment, number):
    run = tmp_path / "run"
    said = stop(tmp_path, start(tmp_path, "config.yaml", f"run_dir={run}"), moment, number)
    assert f"--resume {run}" in said or moment == "loading"
    assert "Traceback" not in said
    if moment in ("loading", "warm start"):
        assert "stopped at once" in said
        return
    # What was done is kept, and nothing of it was graded less well because of the signal.
    (checkpoint,) = (run / "checkpoints").iterdir()
    step = json.loads((checkpoint / "state.json").read_text())["step"]
    assert f"stopped after step {step}" in said
    assert (run / "final" / "model.safetensors").exists()
    expected = {"evaluation before": 0, "evaluation between": 3}.get(moment)
    assert expected is None or step == expected
    assert expected is None or 0 < rows(run, step) < 32
    # The line of a step comes after its evaluation, which the signal ended.
    assert lines(run) == step - (step > 0 and step % 3 == 0)
    assert '"verdicts/error": 0.0' in (run / "metrics.jsonl").read_text() if lines(run) else True
    resumed = start(tmp_path, "--resume", str(run), f"train.steps={step + 1}")
    assert resumed.wait(timeout=120) == 0, (tmp_path / "output.txt").read_text()
    assert [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()] == [
        *range(1, step + 2)
    ]
    assert rows(run, step) in (0, 32)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_run_at_once(tmp_path, number):
    run = tmp_path / "run"
    said = stop(tmp_path, start(tmp_path, "config.yaml", f"run_dir={run}"), "first step", number, times=2)
    assert "stopped at once" in said or "stopped after step" in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    save_policy(*build_tiny(0), folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_evaluation_and_what_was_graded_is_kept(tmp_path, policy, number):
    command = ["eval", "me/Ran-v0", "--import", "mine.py", "--model", str(policy), "--out", "samples.jsonl"]
    command += ["--max-tokens", "6", "--batch-size", "4"]
    said = stop(tmp_path, begin(tmp_path, *command, "-n", "4000"), "samples", number)
    assert "Traceback" not in said
    kept = samples(tmp_path)
    assert all(line.endswith(b"\n") and json.loads(line)["status"] == "ok" for line in kept)
    assert f"stopped with {len(kept)} samples of 4 tasks graded; go on with" in said
    assert said.rstrip().endswith("--out samples.jsonl")
    more = len(kept) // 4 + 1
    assert begin(tmp_path, *command, "-n", str(more)).wait(timeout=120) == 0, (tmp_path / "output.txt").read_text()
    assert samples(tmp_path)[: len(kept)] == kept
    places = [(row["task"], row["sample"]) for row in map(json.loads, samples(tmp_path))]
    assert sorted(places) == [(task, sample) for task in range(4) for sample in range(more)]


@pytest.mark.slow
def test_a_signal_before_anything_is_graded_ends_an_evaluation(tmp_path, policy):
    command = ["eval", "me/Ran-v0", "--import", "mine.py", "--model", str(policy), "--out", "samples.jsonl"]
    said = stop(tmp_path, begin(tmp_path, *command), "extension", signal.SIGINT)
    assert said == "stopped before anything was graded\n"
