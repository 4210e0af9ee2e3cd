"""Where a run is stopped or cut short, and what the best of it is, inside one process."""

import json
import shutil
from dataclasses import replace
from itertools import count

import pytest
import torch

import rlvr
from rlvr import UserError
from rlvr.trainers import run_dir as run_dirs
from rlvr.trainers.checkpoint import latest_checkpoint
from rlvr.trainers.loop import Trainer
from rlvr.trainers.models import load_model
from rlvr.trainers.progress import Silent
from rlvr.trainers.run_evaluations import RunEvaluations
from rlvr.trainers.settings import TrainConfig

numbers = count()


@pytest.fixture(scope="module", autouse=True)
def _cached(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLVR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def finely(completion: str) -> float:
    return sum(ord(character) % 16 for character in completion) / 128


@pytest.fixture(scope="module")
def fine():
    name = f"test-stopped/Sums{next(numbers)}-v0"
    tasks = {
        split: [{"prompt": f"{i}+{j}=", "answer": "1"} for i in range(4)] for split, j in (("train", 1), ("eval", 8))
    }
    rlvr.register(name, tasks=tasks, rubric=finely)
    return name


def configuration(env, **sections):
    settings = {
        "seed": 5,
        "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
        "env": {"id": env},
        "sampling": {"max_tokens": 6},
        "train": {
            "steps": 4, "prompts_per_step": 2, "group_size": 4, "learning_rate": 1e-3, "generation_batch_size": 4,
        },
        "eval": {"every": 2, "n": 4, "k": [1]},
        "checkpoint": {"every": 2},
        "log": {"samples_every": 2},
    }  # fmt: skip
    for name, section in sections.items():
        settings[name] = {**settings.get(name, {}), **section} if isinstance(section, dict) else section
    return TrainConfig.model_validate(settings)


class Interrupting(Silent):
    """Asks for a stop, as a signal does, when so many samples of the evaluation at a step are there."""

    def __init__(self, step, done):
        self.at, self.trainer, self.said = (f"evaluate at step {step}", done), None, []

    def say(self, message):
        self.said.append(message)

    def work(self, what, done, total):
        if (what, done) == self.at:
            self.trainer.stop_requested = True


def run(config, folder, reporter=None, resume=False):
    trainer = Trainer(config, folder, reporter, resume=resume)
    if reporter is not None:
        reporter.trainer = trainer
    return trainer.run()


def metrics_of(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/") and k != "step_time"} for row in rows]


def rows(folder, step):
    return len((folder / "eval" / f"step-{step:06d}.jsonl").read_text().splitlines())


@pytest.fixture(scope="module")
def whole(fine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(configuration(fine), folder)
    return folder


def assert_same_run(mine, theirs):
    assert metrics_of(mine) == metrics_of(theirs)
    for path in (*theirs.glob("eval/*"), *theirs.glob("samples/*"), theirs / "final" / "model.safetensors"):
        assert path.read_bytes() == (mine / path.relative_to(theirs)).read_bytes(), path
    assert (mine / "summary.json").read_bytes() == (theirs / "summary.json").read_bytes()


@pytest.mark.parametrize(("step", "lines"), [(0, 0), (2, 1), (4, 3)])
def test_a_stop_during_an_evaluation_ends_it_soon_and_loses_nothing(fine, whole, tmp_path, step, lines):
    reporter = Interrupting(step, done=8)
    results = run(configuration(fine), tmp_path, reporter)
    assert "after" not in results
    assert f"stopped after step {step}" in reporter.said[-1]
    assert rows(tmp_path, step) == 8
    assert latest_checkpoint(tmp_path / "checkpoints").name == f"step-{step:06d}"
    assert (len(metrics_of(tmp_path)) if step else 0) == lines
    run(configuration(fine), tmp_path, resume=True)
    assert_same_run(tmp_path, whole)


def test_a_step_whose_evaluation_was_stopped_is_logged_once_however_often_it_is_resumed(fine, whole, tmp_path):
    """Stopped in the evaluation, resumed, and gone without a trace after the line was written."""
    run(configuration(fine), tmp_path, Interrupting(2, done=8))

    class Killed(BaseException):
        pass

    trainer = Trainer(configuration(fine, checkpoint={"every": 3}), tmp_path, resume=True)
    trainer.train_step = lambda: (_ for _ in ()).throw(Killed)
    with pytest.raises(Killed):
        trainer.run()
    assert [row["step"] for row in metrics_of(tmp_path)] == [1, 2]
    run(configuration(fine), tmp_path, resume=True)
    assert_same_run(tmp_path, whole)


def run_until_the_weights_are_refused(trainer, step):
    kept = trainer.engine.sync

    def sync(weights, version):
        if version == step:
            raise UserError("The server cannot take the weights; mend it.")
        kept(weights, version)

    trainer.engine.sync = sync
    with pytest.raises(UserError, match="cannot take the weights"):
        trainer.run()
    trainer.close()


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_step_whose_weights_the_engine_does_not_take_is_not_lost(fine, whole, tmp_path, step):
    trainer = Trainer(configuration(fine, checkpoint={"every": 0}), tmp_path)
    run_until_the_weights_are_refused(trainer, step)
    assert latest_checkpoint(tmp_path / "checkpoints").name == f"step-{step:06d}"
    assert len(metrics_of(tmp_path) if step > 1 else []) == step - 1
    # Stopped once more, before anything else is saved, it still has one line a step.
    again = Trainer(configuration(fine, checkpoint={"every": 0}), tmp_path, resume=True)
    again.stop_requested = True
    again.run()
    run(configuration(fine), tmp_path, resume=True)
    assert_same_run(tmp_path, whole)


def test_the_line_of_such_a_step_has_what_a_probe_of_the_engine_finds(fine, tmp_path, monkeypatch):
    # As of engines that have a copy of the policy.
    monkeypatch.setattr("rlvr.trainers.loop.needs_check", lambda settings: True)
    trainer = Trainer(configuration(fine), tmp_path)
    run_until_the_weights_are_refused(trainer, 2)
    run(configuration(fine), tmp_path, resume=True)
    assert [sum("probe" in name for name in line) for line in metrics_of(tmp_path)] == [2, 2, 2, 2]


def test_a_run_that_was_cut_short_before_its_first_checkpoint_begins_anew(fine, whole, tmp_path):
    trainer = Trainer(configuration(fine), tmp_path)
    step = trainer.train_step

    def second():
        if trainer.step == 1:
            raise KeyboardInterrupt
        return step()

    trainer.train_step = second
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert [row["step"] for row in metrics_of(tmp_path)] == [1]
    run(configuration(fine), tmp_path, resume=True)
    assert_same_run(tmp_path, whole)


def test_a_finished_run_without_checkpoints_is_not_begun_anew(fine, tmp_path):
    config = configuration(fine, checkpoint={"every": 0}, train={"steps": 1})
    run(config, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="no checkpoint to resume from"):
        Trainer(config, tmp_path, resume=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"eval": {"n": 8}}, r"holds 16 of the 32 samples that the section eval asks for \(n 8, 4 tasks\)"),
        ({"seed": 6}, "step-000000.jsonl were drawn with seed = "),
        ({"sampling": {"max_tokens": 5}}, "drawn with sampling.max_tokens = 6, not 5; resume with that as it was"),
        ({"model": {"dtype": "bfloat16"}}, "drawn with model.dtype = 'float32', not 'bfloat16'; resume"),
        ({"model": {"lora": {"r": 4}}}, "step-000004 holds whole weights, not an adapter; resume with model.lora"),
        ({"engine": {"kind": "vllm-server", "servers": ["http://127.0.0.1:9"]}}, "http://127.0.0.1:9"),
    ],
)
def test_a_resumption_that_is_refused_changes_nothing(fine, whole, tmp_path, change, sentence):
    run_dir = tmp_path / "run"
    shutil.copytree(whole, run_dir)
    for leftover in ("checkpoints/.step-000006.partial", "checkpoints/.step-000002.gone", ".final.partial"):
        shutil.copytree(whole / "final", run_dir / leftover)
    before = contents(run_dir)
    with pytest.raises(UserError, match=sentence):
        Trainer(configuration(fine, train={"steps": 6}, **change), run_dir, resume=True)
    assert contents(run_dir) == before
    run_dirs.release(run_dir)
    Trainer(configuration(fine, train={"steps": 6}), run_dir, resume=True).close()
    assert "steps: 6" in (run_dir / "config.yaml").read_text()
    assert not (run_dir / "final").exists()
    assert not [*run_dir.rglob("*.partial"), *run_dir.rglob("*.gone")]


@pytest.mark.parametrize(("kept", "said"), [(None, "0 of the 4"), (slice(1, 4), "3 of the 4"), (slice(4), "")])
def test_a_log_that_lacks_steps_is_said_at_the_resumption(fine, whole, tmp_path, kept, said):
    run_dir = tmp_path / "run"
    shutil.copytree(whole, run_dir)
    log = run_dir / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.unlink() if kept is None else log.write_text("".join(lines[kept]))
    reporter = Interrupting(0, done=0)
    Trainer(configuration(fine, train={"steps": 6}), run_dir, reporter, resume=True).close()
    warnings = [message for message in reporter.said if "metrics.jsonl" in message]
    assert len(warnings) == (said != "")
    assert all(message.startswith("warning: ") and f"holds {said} steps before" in message for message in warnings)


@pytest.mark.parametrize("resume", [False, True])
def test_what_a_killed_run_left_half_written_is_gone_at_the_next_start(fine, tmp_path, resume):
    checkpoints = tmp_path / "checkpoints"
    partial = checkpoints / ".step-000002.partial"
    partial.mkdir(parents=True)
    (partial / "model.safetensors").write_bytes(b"half")
    (tmp_path / "config.yaml").write_text("")
    Trainer(configuration(fine), tmp_path, resume=resume)
    assert list(checkpoints.iterdir()) == []


def test_a_checkpoint_that_was_moved_aside_is_resumed_from_and_put_back(fine, whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "step-000004").rename(checkpoints / ".step-000004.old")
    trainer = Trainer(configuration(fine, train={"steps": 6}), tmp_path, resume=True)
    trainer.close()
    assert trainer.step == 4
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-000002", "step-000004"]


@pytest.mark.parametrize("name", ["step-000002", ".step-000002.old"])
def test_a_folder_with_checkpoints_alone_holds_a_run(fine, whole, tmp_path, name):
    place = tmp_path / "checkpoints" / name
    place.mkdir(parents=True)
    with pytest.raises(UserError, match="already holds a run"):
        Trainer(configuration(fine), tmp_path)
    assert place.exists()


def scored(monkeypatch, scores):
    """Has the evaluations of a run come out as given, by step."""
    kept = RunEvaluations.at

    def evaluate_at(self, step, engine):
        found = kept(self, step, engine)
        return replace(found, avg=replace(found.avg, value=scores[step]))

    monkeypatch.setattr(RunEvaluations, "at", evaluate_at)


def test_the_best_policy_is_kept_and_named_in_the_summary(fine, tmp_path, monkeypatch):
    scored(monkeypatch, {0: 0.9, 1: 0.2, 2: 0.7, 3: 0.4, 4: float("nan"), 5: 0.7, 6: 0.1})
    config = configuration(
        fine, train={"steps": 6}, eval={"every": 1}, checkpoint={"every": 3, "keep_last": 1, "keep_best": 1}
    )
    run(config, tmp_path)
    # Step 2 is no multiple of 3: it was saved because it was the best, and stayed though later ones came.
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000002", "step-000006"]
    best = json.loads((tmp_path / "summary.json").read_text())["best"]
    assert best == {"step": 2, "pass@1": 0.7, "checkpoint": "checkpoints/step-000002"}
    weights = load_model(str(tmp_path / best["checkpoint"])).model.state_dict()
    final = load_model(str(tmp_path / "final")).model.state_dict()
    last = load_model(str(tmp_path / "checkpoints" / "step-000006")).model.state_dict()
    assert all(torch.equal(final[name], last[name]) for name in final)
    assert not all(torch.equal(final[name], weights[name]) for name in final)


def test_the_best_of_a_resumed_run_is_that_of_the_whole(fine, tmp_path, monkeypatch):
    scored(monkeypatch, {0: 0.0, 1: 0.6, 2: 0.5, 3: 0.4, 4: 0.3})
    config = configuration(fine, eval={"every": 1}, checkpoint={"every": 0, "keep_last": 1, "keep_best": 2})

    class Stopping(Silent):
        def step(self, step, steps, metrics):
            self.trainer.stop_requested = step == 3

    run(config, tmp_path, Stopping())
    run(config, tmp_path, resume=True)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-000001", "step-000002", "step-000003"
    ]  # fmt: skip
    assert json.loads((tmp_path / "summary.json").read_text())["best"]["step"] == 1


def test_without_keep_best_the_summary_names_none(whole):
    assert "best" not in json.loads((whole / "summary.json").read_text())
