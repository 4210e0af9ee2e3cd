import json
import shutil
import warnings
from itertools import count

import pytest
import torch

import rlvr
from rlvr import UserError, Verdict
from rlvr.trainers.advantages import group_advantages
from rlvr.trainers.loop import Trainer
from rlvr.trainers.models import load_model
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig

numbers = count()

TRAINED = [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(5)]
HELD_OUT = [{"prompt": f"{i}+8=", "answer": str(i + 8)} for i in range(3)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(cache, monkeypatch):
    monkeypatch.setenv("RLVR_CACHE", str(cache))


def register(rubric, tasks=None):
    """An environment of the test's own."""
    name = f"test-loop/Sums{next(numbers)}-v0"
    rlvr.register(name, tasks={"train": TRAINED, "eval": HELD_OUT} if tasks is None else tasks, rubric=rubric)
    return name


def finely(completion: str) -> float:
    """So that even an untrained policy's groups have spread."""
    return sum(ord(character) % 16 for character in completion) / 16


def configuration(env, /, **sections):
    settings = {
        "seed": 5,
        "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}},
        "env": {"id": env},
        "sampling": {"max_tokens": 6},
        "train": {"steps": 5, "prompts_per_step": 2, "group_size": 4, "learning_rate": 1e-3, "warmup_steps": 2},
        "eval": {"every": 2, "n": 2, "k": [1, 2]},
        "checkpoint": {"every": 2, "keep_last": 2},
        "log": {"samples_every": 2, "samples": 2},
    }
    for name, section in sections.items():
        settings[name] = {**settings.get(name, {}), **section} if isinstance(section, dict) else section
    return TrainConfig.model_validate(settings)


class Listening(Silent):
    """Keeps what is said, and asks for a stop after some step."""

    def __init__(self, stop_after=None):
        self.said, self.steps, self.stop_after, self.trainer = [], [], stop_after, None

    def say(self, message):
        self.said.append(message)

    def step(self, step, steps, metrics):
        self.steps.append(step)
        if step == self.stop_after:
            self.trainer.stop_requested = True


def run(config, run_dir, resume=False, stop_after=None):
    reporter = Listening(stop_after)
    reporter.trainer = Trainer(config, run_dir, reporter, resume=resume)
    return reporter.trainer.run(), reporter


def metrics_of(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def without_times(rows):
    return [{k: v for k, v in row.items() if not k.startswith("time/") and k != "step_time"} for row in rows]


def optimizer_of(run_dir, step):
    state = torch.load(run_dir / "checkpoints" / f"step-{step:06d}" / "optimizer.pt", weights_only=True)
    moments = [entry[name] for entry in state["state"].values() for name in ("step", "exp_avg", "exp_avg_sq")]
    return torch.cat([moment.flatten() for moment in moments]), state["param_groups"]


def files_in(run_dir):
    return sorted(str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file())


def assert_same_run(mine, theirs):
    assert files_in(mine) == files_in(theirs)
    assert without_times(metrics_of(mine)) == without_times(metrics_of(theirs))
    for name in ("final/model.safetensors", "summary.json"):
        assert (mine / name).read_bytes() == (theirs / name).read_bytes(), name
    for path in (*mine.glob("eval/*"), *mine.glob("samples/*")):
        assert path.read_bytes() == (theirs / path.relative_to(mine)).read_bytes(), path
    (moments, groups), (their_moments, their_groups) = optimizer_of(mine, 5), optimizer_of(theirs, 5)
    assert torch.equal(moments, their_moments)
    assert moments.abs().max() > 0
    assert groups == their_groups


@pytest.fixture(scope="module")
def graded():
    return register(finely)


@pytest.fixture(scope="module")
def whole(graded, cache, tmp_path_factory):
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLVR_CACHE", str(cache))
        results, reporter = run(configuration(graded), folder)
    return folder, results, reporter


def test_a_run_directory_holds_what_it_should(whole, cache):
    folder, results, reporter = whole
    assert {path.split("/")[0] for path in files_in(folder)} == {
        "config.yaml", "metrics.jsonl", "summary.json", "eval", "samples", "checkpoints", "final"
    }  # fmt: skip
    rows = metrics_of(folder)
    assert [row["step"] for row in rows] == reporter.steps == [1, 2, 3, 4, 5]
    assert all({"reward", "loss", "grad_norm", "entropy", "completions/mean_length"} <= set(row) for row in rows)
    evaluated = [row["step"] for row in rows if any(name.startswith("eval/") for name in row)]
    assert evaluated == [2, 4, 5]
    assert sorted(path.name for path in folder.glob("eval/*.jsonl")) == [
        f"step-{step:06d}.jsonl" for step in (0, 2, 4, 5)
    ]
    assert len((folder / "eval" / "step-000000.jsonl").read_text().splitlines()) == len(HELD_OUT) * 2
    assert sorted(path.name for path in folder.glob("samples/*")) == ["step-000002.txt", "step-000004.txt"]
    assert sorted(path.name for path in folder.glob("checkpoints/*")) == ["step-000004", "step-000005"]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["steps"] == 5
    assert summary["after"]["avg"]["value"] == results["after"].avg.value
    assert summary["before"]["mean_length"] == results["before"].mean_length
    assert not (cache / "checkpoints").exists()


def test_the_tokens_of_a_step_are_counted(whole):
    for row in metrics_of(whole[0]):
        assert row["completions/num_tokens"] == pytest.approx(8 * row["completions/mean_length"])


def test_training_moved_the_policy_and_the_final_one_loads(whole, cache):
    folder, _, _ = whole
    loaded = load_model(str(folder / "final"))
    assert loaded.eos_ids == {loaded.tokenizer.eos_token_id}
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("1+1=", add_special_tokens=False)) == "1+1="
    final = loaded.model.state_dict()
    last = load_model(str(folder / "checkpoints" / "step-000005")).model.state_dict()
    assert all(torch.equal(final[name], last[name]) for name in final)
    base = load_model(str(next(path for path in cache.iterdir() if path.name.startswith("tiny-")))).model.state_dict()
    assert not all(torch.equal(final[name], base[name]) for name in final)


def test_the_learning_rate_in_the_metrics_warms_up(whole):
    rates = [row["learning_rate"] for row in metrics_of(whole[0])]
    assert rates == pytest.approx([1e-3 / 3, 2e-3 / 3, 1e-3, 1e-3, 1e-3])


@pytest.mark.parametrize("stop_after", [1, 2, 4])
def test_a_stopped_and_resumed_run_is_the_run_that_was_not_stopped(whole, graded, tmp_path, stop_after):
    results, reporter = run(configuration(graded), tmp_path, stop_after=stop_after)
    assert set(results) == {"before"}
    assert reporter.steps[-1] == stop_after
    assert f"--resume {tmp_path}" in reporter.said[-1]
    assert (tmp_path / "final" / "model.safetensors").exists()

    results, reporter = run(configuration(graded), tmp_path, resume=True)
    assert reporter.steps[0] == stop_after + 1
    assert results == whole[1]
    assert_same_run(tmp_path, whole[0])


class Killed(BaseException):
    """As sudden as a power cut."""


@pytest.mark.parametrize("when", ["metrics", "checkpoint"])
def test_a_killed_run_resumes_from_its_checkpoint_to_the_same_bits(whole, graded, tmp_path, when, monkeypatch):
    """The checkpoint is of step 2; the run wrote metrics, samples and evaluations up to step 4."""
    trainer = Trainer(configuration(graded), tmp_path)
    with monkeypatch.context() as patch:
        if when == "metrics":
            kept = trainer.log.write

            def write(step, metrics):
                kept(step, metrics)
                if step == 4:
                    with trainer.log.path.open("a") as file:
                        file.write('{"step": 5, "rew')
                    raise Killed

            patch.setattr(trainer.log, "write", write)
        else:

            def save_policy(model, tokenizer, folder):
                if folder.name == ".step-000004.partial":
                    folder.mkdir()
                    (folder / "model.safetensors").write_bytes(b"half")
                    raise Killed
                kept_save(model, tokenizer, folder)

            from rlvr.trainers import checkpoint

            kept_save = checkpoint.save_policy
            patch.setattr(checkpoint, "save_policy", save_policy)
        with pytest.raises(Killed):
            trainer.run()
    assert (tmp_path / "eval" / "step-000004.jsonl").exists()

    results, reporter = run(configuration(graded), tmp_path, resume=True)
    assert reporter.steps == [3, 4, 5]
    assert results == whole[1]
    assert_same_run(tmp_path, whole[0])


def test_resuming_what_a_longer_run_left_behind_forgets_it(whole, graded, tmp_path):
    """Evaluations and samples of steps after the checkpoint are of weights that are gone."""
    run_dir = tmp_path / "run"
    shutil.copytree(whole[0], run_dir)
    shutil.rmtree(run_dir / "checkpoints" / "step-000005")
    Trainer(configuration(graded), run_dir, resume=True)
    assert [row["step"] for row in metrics_of(run_dir)] == [1, 2, 3, 4]
    assert sorted(path.name for path in run_dir.glob("eval/*.jsonl"))[-1] == "step-000004.jsonl"
    assert not (run_dir / "final").exists()


def test_a_kl_run_resumes_with_the_reference_it_started_from(graded, tmp_path):
    config = configuration(
        graded, algorithm={"name": "grpo", "kl_coef": 0.1}, eval={"every": 0}, log={"samples_every": 0}
    )
    run(config, tmp_path / "whole")
    run(config, tmp_path / "parts", stop_after=3)
    run(config, tmp_path / "parts", resume=True)
    assert without_times(metrics_of(tmp_path / "whole")) == without_times(metrics_of(tmp_path / "parts"))
    kls = [row["kl"] for row in metrics_of(tmp_path / "whole")]
    assert kls[0] == pytest.approx(0.0, abs=1e-9)
    assert kls[-1] > 1e-6


def test_a_finished_run_resumed_is_as_it_was(whole, graded, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(whole[0], run_dir)
    results, reporter = run(configuration(graded), run_dir, resume=True)
    assert reporter.steps == []
    assert results == whole[1]
    assert_same_run(run_dir, whole[0])


def test_a_run_may_be_resumed_for_more_steps(whole, graded, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(whole[0], run_dir)
    results, _ = run(configuration(graded, train={"steps": 6}), run_dir, resume=True)
    assert [row["step"] for row in metrics_of(run_dir)] == [1, 2, 3, 4, 5, 6]
    assert set(results) == {"before", "after"}


@pytest.mark.parametrize("more", [{"n": 4}, {"tasks": None}])
def test_the_evaluation_before_is_never_made_up_with_trained_weights(graded, tmp_path, more):
    settings = {"eval": {"tasks": 2}, "train": {"steps": 1}}
    run(configuration(graded, **settings), tmp_path)
    before = (tmp_path / "eval" / "step-000000.jsonl").read_bytes()
    settings["eval"] |= more
    with pytest.raises(UserError, match="the policy before training can draw no more of them"):
        Trainer(configuration(graded, **settings), tmp_path, resume=True)
    assert (tmp_path / "eval" / "step-000000.jsonl").read_bytes() == before


def test_a_directory_in_use_is_refused(whole, graded, tmp_path):
    with pytest.raises(UserError, match=f"{whole[0]} already holds a run"):
        Trainer(configuration(graded), whole[0])
    with pytest.raises(UserError, match="no checkpoint to resume from"):
        Trainer(configuration(graded), tmp_path, resume=True)


def test_a_grader_that_always_fails_stops_the_run(tmp_path):
    def broken(completion: str) -> float:
        raise ZeroDivisionError("nothing to divide by")

    trainer = Trainer(configuration(register(broken), eval={"n": 1, "k": [1]}), tmp_path)
    with pytest.raises(UserError, match=r"failed on every completion of step 1, .*nothing to divide by"):
        trainer.run()
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_grader_that_sometimes_fails_is_reported_and_left_out(tmp_path):
    calls = count()

    def shaky(completion: str) -> Verdict | float:
        return Verdict(None, None, "error", detail="the disk is full") if next(calls) % 4 == 0 else finely(completion)

    _, reporter = run(configuration(register(shaky), eval={"n": 1, "k": [1]}), tmp_path)
    warnings_said = [line for line in reporter.said if line.startswith("warning: step 1:")]
    assert len(warnings_said) == 1
    assert "failed on 2 of 8 completions" in warnings_said[0]
    assert "the disk is full" in warnings_said[0]
    rows = metrics_of(tmp_path)
    assert [row["verdicts/error"] for row in rows] == [0.25] * 5
    assert all(row["loss"] is not None and row["grad_norm"] > 0 for row in rows)


def test_what_was_learned_is_kept_when_the_engine_fails(whole, graded, tmp_path, monkeypatch):
    config = configuration(graded, checkpoint={"every": 0})
    trainer = Trainer(config, tmp_path)
    take = trainer.rollouts.take

    def lost(step):
        drawn = take(step)
        if step == 3:
            raise UserError("No server is left.")
        return drawn

    monkeypatch.setattr(trainer.rollouts, "take", lost)
    with pytest.raises(UserError, match="No server is left"):
        trainer.run()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000003"]
    run(config, tmp_path, resume=True)
    assert without_times(metrics_of(tmp_path)) == without_times(metrics_of(whole[0]))


def test_weights_that_are_stale_are_never_generated_with(graded, tmp_path):
    trainer = Trainer(configuration(graded, eval={"every": 0}), tmp_path)
    trainer.train_step()
    trainer.engine.sync([], 0)
    with pytest.raises(AssertionError, match="the weights of step 0 at step 1"):
        trainer.train_step()


def test_evaluation_tasks_that_are_trained_on_are_spoken_of(tmp_path):
    shared = register(finely, {"train": TRAINED, "eval": [*HELD_OUT, TRAINED[0]]})
    with pytest.warns(UserWarning, match="1 of 4 evaluation tasks are also trained on"):
        Trainer(configuration(shared), tmp_path / "shared")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        Trainer(configuration(register(finely)), tmp_path / "apart")


def test_all_tasks_come_once_an_epoch(graded, tmp_path):
    """Ten groups over five tasks, two a step."""
    trainer = Trainer(configuration(graded, eval={"every": 0}), tmp_path)
    seen, kept = [], trainer._rollout

    def rollout():
        trajectories = kept()
        seen.extend(t.prompt for t in trajectories[::4])
        return trajectories

    trainer._rollout = rollout
    for _ in range(5):
        trainer.train_step()
    assert sorted(seen[:5]) == sorted(seen[5:]) == [task["prompt"] for task in TRAINED]


def test_policy_and_reference_are_measured_at_the_temperature_of_the_sampler(graded, tmp_path):
    config = configuration(
        graded, sampling={"max_tokens": 6, "temperature": 0.5}, algorithm={"name": "grpo", "kl_coef": 0.1}
    )
    metrics = Trainer(config, tmp_path).train_step()
    assert metrics["sampling/logprob_diff_max"] < 1e-4
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)])
def test_the_precision_is_that_of_every_pass(graded, tmp_path, precision, dtype):
    trainer = Trainer(configuration(graded, train={"precision": precision, "epochs": 2}), tmp_path)
    seen = {"rollout": set(), "old": set(), "loss": set()}

    def note(module, args, output):
        phase = "rollout" if not started else "loss" if torch.is_grad_enabled() else "old"
        seen[phase].add(output.dtype)

    started, freeze = [], trainer.updater.freeze
    trainer.updater.freeze = lambda *args: started.append(True) or freeze(*args)
    trainer.policy.model.lm_head.register_forward_hook(note)
    trainer.train_step()
    assert seen == {phase: {dtype} for phase in ("rollout", "old", "loss")}
    assert {parameter.dtype for parameter in trainer.policy.parameters()} == {torch.float32}


def test_a_task_that_comes_again_is_sampled_anew(tmp_path):
    """With weights that hardly move, so that only the seeds can make the difference."""
    env = register(finely, {"train": TRAINED[:1], "eval": HELD_OUT})
    trainer = Trainer(configuration(env, train={"learning_rate": 1e-12}), tmp_path)
    written = []
    for _ in range(2):
        written.append([trajectory.completion for trajectory in trainer._rollout()])
        trainer.step += 1
        trainer.engine.sync([], trainer.step)
    assert len(set(written[0])) == len(written[0])
    assert not set(written[0]) & set(written[1])


@pytest.mark.parametrize("cells", [{"name": "dr_grpo"}, {"name": "grpo", "std_ddof": 0, "std_eps": 0.5}])
def test_the_update_is_that_of_the_configured_algorithm(graded, tmp_path, cells):
    trainer = Trainer(configuration(graded, algorithm=cells), tmp_path)
    given, step = [], trainer.updater.step
    trainer.updater.step = lambda *args: given.append(args) or step(*args)
    trainer.train_step()
    batch, advantages, *_ = given[0]
    row = trainer.config.algorithm
    expected = group_advantages(batch.rewards, batch.groups, row.advantage, row.std_ddof, row.std_eps)
    assert torch.equal(advantages, expected[:, None] * batch.loss_mask)
    assert not torch.equal(expected, group_advantages(batch.rewards, batch.groups, "group_mean_std"))
    assert trainer.updater.algorithm == row
    assert trainer.updater.max_tokens == 6


def test_gradients_are_not_divided_by_what_accelerate_finds_in_the_environment(graded, tmp_path, monkeypatch):
    config, norms = configuration(graded), []
    for steps in ("1", "4"):
        monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", steps)
        norms.append(Trainer(config, tmp_path / steps).train_step()["grad_norm"])
    assert norms[0] == norms[1] > 0


@pytest.mark.parametrize(("dtype", "warns"), [("bfloat16", True), ("float32", False)])
def test_weights_too_coarse_to_move_are_spoken_of(graded, tmp_path, dtype, warns):
    config = configuration(graded)
    model = config.model.model_copy(update={"dtype": dtype})
    reporter = Listening()
    Trainer(config.model_copy(update={"model": model}), tmp_path, reporter)
    assert [line.startswith("warning: weights in bfloat16") for line in reporter.said] == [True] * warns


def test_the_random_states_are_left_alone(graded, tmp_path):
    state = torch.random.get_rng_state()
    run(configuration(graded, train={"steps": 1}), tmp_path)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.slow
def test_a_short_run_learns(tmp_path):
    """A base model that solves about a third of what it never saw solves most of it afterwards."""
    problems = {"level": 1, "operators": "+", "max_operand": 4, "terms": 3, "template": "{expression}="}
    config = configuration(
        "rlvr/Arithmetic-v0",
        seed=0,
        model={"name": "tiny", "warm_start": {**problems, "steps": 160, "batch_size": 16}},
        env={"id": "rlvr/Arithmetic-v0", "options": {**problems, "system": None}},
        sampling={"max_tokens": 40},
        train={"steps": 12, "prompts_per_step": 8, "group_size": 8, "learning_rate": 3e-4, "micro_batch_size": 64},
        eval={"every": 0, "n": 8, "k": [1, 8], "tasks": 32},
        checkpoint={"every": 0},
    )
    results, _ = run(config, tmp_path)
    before, after = results["before"].pass_at[1], results["after"].pass_at[1]
    assert 0.1 < before.value < 0.6
    assert after.value > before.value + 0.2
    assert after.low > before.high
    rewards = [row["reward"] for row in metrics_of(tmp_path)]
    assert sum(rewards[-4:]) / 4 > sum(rewards[:4]) / 4 + 0.1
