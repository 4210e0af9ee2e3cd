"""Two processes against one: torchrun with gloo, on real runs."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import connection
from pathlib import Path

import pytest
from safetensors.torch import load_file

SCRIPTS = Path(__file__).parent / "ranks"
FSDP2 = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
ZERO3 = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
needs_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="DeepSpeed is not installed; pip install 'rlvr[deepspeed]'"
)
SHARDED = [pytest.param(FSDP2, id="fsdp2"), pytest.param(ZERO3, id="zero3", marks=needs_deepspeed)]
WEIGHTS = ["model.safetensors", "critic/model.safetensors", "critic/value_head.safetensors"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """With a cache of the tests' own, and nothing of a launcher's."""
    others = ("ACCELERATE", "FSDP", "RANK", "WORLD_SIZE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {**clean, "RLVR_CACHE": str(tmp_path_factory.mktemp("cache")), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def torchrun(environment):
    """Starts two processes as users do."""

    def start(*arguments, **variables):
        command = [sys.executable, *TORCHRUN, *map(str, arguments)]
        given = {**environment, **variables}
        return subprocess.run(command, env=given, capture_output=True, text=True, timeout=900, check=False)

    return start


@pytest.fixture(scope="module")
def begin(fork, environment):
    """Starts one process, or several as torchrun does, of a script, which write into a folder."""

    def start(processes, output, *arguments, **variables):
        group = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), **variables}
        group |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        started = []
        for rank in range(processes):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), **group} if processes > 1 else variables
            started.append(fork(*arguments, output=output / f"{rank}.txt", environment={**environment, **own}))
        return started

    return start


@pytest.fixture(scope="module")
def launch(begin, tmp_path_factory):
    """As `begin`; until all have ended."""

    def start(processes, *arguments, **variables):
        output = tmp_path_factory.mktemp("output")
        started = begin(processes, output, *arguments, **variables)
        waiting = {process.sentinel: process for process in started}
        while waiting and not any(process.exitcode for process in started):
            ended = connection.wait(waiting, timeout=900)
            assert ended, "no process has ended in a quarter of an hour"
            for sentinel in ended:
                waiting.pop(sentinel).join()
        for process in waiting.values():
            # One that waits for another that failed.
            process.kill()
            process.join()
        said = "".join(path.read_text() for path in sorted(output.iterdir()))
        assert [process.exitcode for process in started] == [0] * processes, said

    return start


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def metrics_of(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/") and k != "step_time"} for row in rows]


def weights_of(folder):
    return {
        f"{file}/{name}": tensor
        for file in WEIGHTS
        if (folder / "final" / file).exists()
        for name, tensor in load_file(folder / "final" / file).items()
    }


def assert_same_run(mine, theirs, parameters=1e-6, numbers=1e-5):
    own, other = weights_of(mine), weights_of(theirs)
    assert own.keys() == other.keys()
    for name in own:
        assert (own[name] - other[name]).abs().max() <= parameters, name
    for row, expected in zip(metrics_of(mine), metrics_of(theirs), strict=True):
        assert row == pytest.approx(expected, rel=numbers, abs=numbers)
    for path in theirs.glob("eval/*.jsonl"):
        said = [
            [json.loads(line)["completion"] for line in p.read_text().splitlines()]
            for p in (path, mine / "eval" / path.name)
        ]
        assert said[0] == said[1]


@pytest.fixture(scope="module")
def alone(launch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    launch(1, SCRIPTS / "runs.py", folder)
    return folder


@pytest.fixture(scope="module")
def together(launch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    launch(2, SCRIPTS / "runs.py", folder)
    return folder


def test_the_gradient_of_every_algorithm_is_that_of_one_process(launch, tmp_path):
    launch(2, SCRIPTS / "gradients.py", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found) >= 34
    for case in found:
        assert case["processes"] == 2
        assert case["norm"] > 1e-2, case
        assert case["difference"] < 1e-6, case
        assert case["told"] < 1e-6, case


@pytest.mark.parametrize("name", ["grpo", "grpo_kl", "dapo", "ppo", "ppo_shared", "early_stop", "lora"])
def test_two_processes_give_the_parameters_of_one(alone, together, name):
    assert len(metrics_of(together / name)) == 3
    assert_same_run(together / name, alone / name)
    names = [
        sorted(str(p.relative_to(f / name)) for p in (f / name).rglob("*") if p.is_file()) for f in (alone, together)
    ]
    assert names[0] == names[1]


def test_every_row_of_an_evaluation_is_there_once(alone, together):
    rows = [(folder / "grpo" / "eval" / "step-000000.jsonl").read_text().splitlines() for folder in (alone, together)]
    keys = [[(json.loads(row)["task"], json.loads(row)["sample"]) for row in part] for part in rows]
    assert keys[0] == keys[1] == [(task, sample) for sample in range(2) for task in range(3)]


def test_two_processes_resume_to_the_same_bits(launch, together, tmp_path):
    launch(2, SCRIPTS / "runs.py", tmp_path, "grpo_kl:2", "ppo:2", "grpo_kl", "ppo")
    for name in ("grpo_kl", "ppo"):
        assert_same_run(tmp_path / name, together / name, parameters=0, numbers=0)


def test_what_two_processes_began_one_goes_on_with(launch, alone, tmp_path):
    launch(2, SCRIPTS / "runs.py", tmp_path, "ppo_shared:2")
    launch(1, SCRIPTS / "runs.py", tmp_path, "ppo_shared")
    assert_same_run(tmp_path / "ppo_shared", alone / "ppo_shared")


@pytest.mark.parametrize("variables", SHARDED)
def test_each_process_holds_its_part_and_the_whole_where_it_is_needed(launch, tmp_path, variables):
    launch(2, SCRIPTS / "shards.py", tmp_path, **variables)
    for rank in ("0", "1"):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        shares = [found.pop(name) for name in ("share", "share after a pass", "share after generating")]
        assert all(0.48 < share < 0.52 for share in shares)
        assert len(found) == (4 if rank == "0" else 3)
        assert all(difference < 1e-5 for difference in found.values()), found


@pytest.mark.parametrize("variables", SHARDED)
def test_sharded_models_give_the_parameters_of_one_process(launch, alone, tmp_path, variables):
    names = ["grpo_small", "dapo_small", "ppo_small", "shared_small", "lora"]
    launch(2, SCRIPTS / "runs.py", tmp_path, *names, **variables)
    for name in names:
        assert_same_run(tmp_path / name, alone / name)


@pytest.mark.parametrize("variables", SHARDED)
def test_sharded_runs_are_resumed_and_can_be_gone_on_with_by_one_process(launch, alone, tmp_path, variables):
    started = ["ppo_small:2", "shared_small:2", "lora:2", "ppo_small", "lora"]
    launch(2, SCRIPTS / "runs.py", tmp_path, *started, **variables)
    launch(1, SCRIPTS / "runs.py", tmp_path, "shared_small")
    for name in ("ppo_small", "shared_small", "lora"):
        assert_same_run(tmp_path / name, alone / name)


def test_a_signal_to_one_process_stops_both_after_one_step_with_its_code(begin, tmp_path):
    run = tmp_path / "run"
    settings = ["train.steps=4000", "checkpoint.every=0", "model.warm_start.steps=1", "eval.tasks=1", "eval.every=0"]
    started = begin(2, tmp_path, "rlvr", "train", "quickstart", f"run_dir={run}", *settings)

    def said():
        return "".join((tmp_path / f"{rank}.txt").read_text() for rank in range(2))

    while not (run / "metrics.jsonl").exists():
        assert all(process.exitcode is None for process in started), said()
        time.sleep(0.01)
    os.kill(started[1].pid, signal.SIGTERM)
    for process in started:
        process.join(120)
    assert [process.exitcode for process in started] == [143, 143], said()
    (checkpoint,) = (run / "checkpoints").iterdir()
    assert said().count(f"stopped after step {int(checkpoint.name[5:])};") == 1


@pytest.mark.parametrize("variables", [pytest.param({}, id="whole"), *SHARDED])
def test_no_thread_of_a_group_is_left_when_the_interpreter_ends(torchrun, tmp_path, variables):
    done = torchrun(SCRIPTS / "threads_at_the_end.py", tmp_path, "ppo_small:1", "shared_small:1", **variables)
    assert done.returncode == 0, done.stderr
    for rank in ("0", "1"):
        before, after = json.loads((tmp_path / f"{rank}.json").read_text())
        assert before > 0
        assert after == 0


@pytest.mark.parametrize(
    ("settings", "variables", "sentence"),
    [
        (["train.prompts_per_step=1"], {}, "set it to 2 or more, or start fewer processes."),
        ([], {"ACCELERATE_USE_DEEPSPEED": "true"}, "This run was started with DeepSpeed's zero_stage: 2"),
        (["train.steps=none"], {}, "train.steps"),
    ],
)
def test_a_mistake_is_said_once(torchrun, tmp_path, settings, variables, sentence):
    arguments = ["quickstart", f"run_dir={tmp_path / 'run'}", "model.warm_start.steps=1", *settings]
    done = torchrun("-m", "rlvr", "train", *arguments, **variables)
    assert done.returncode != 0
    said = " ".join((done.stderr + done.stdout).split())
    assert said.count(sentence) == 1
    assert said.count("error: ") == 1
    # The launcher has one of its own for a process that ended with an error.
    assert said.count("Traceback (most") == said.count("raise ChildFailedError(")
