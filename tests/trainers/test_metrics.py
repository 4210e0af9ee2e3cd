import json
import math
import shutil
from dataclasses import replace

import pytest
from accelerate import Accelerator

from rlvr import Verdict
from rlvr.trainers.metrics import MetricsLog, rollout_metrics
from rlvr.trainers.trajectory import Trajectory

NAN = float("nan")


def trajectory(group, reward, length, passed=None, status="ok", parts=None, cut_off=False, entropies=(0.5,)):
    failed = math.isnan(reward)
    return Trajectory(
        task_id=str(group),
        group=group,
        prompt="",
        completion="",
        ids=[7] * (2 + length),
        loss_mask=[0, 0] + [1] * length,
        sampler_logprobs=[0.0] * (2 + length),
        entropies=None if entropies is None else [0.0, 0.0, *entropies, *[0.0] * (length - len(entropies))],
        rewards=[reward],
        verdict=Verdict(
            None if failed else reward,
            None if failed else (reward >= 1 if passed is None else passed),
            "error" if failed else status,
            parts or {},
        ),
        finish_reason="length" if cut_off else "stop",
    )


@pytest.fixture
def metrics():
    return rollout_metrics(
        [
            trajectory(0, 1.0, 4, parts={"number": 1.0, "think": 1.0}),
            trajectory(0, 0.5, 2, passed=True, parts={"number": 1.0, "think": 0.0}, entropies=(0.5, 1.5)),
            trajectory(0, 0.0, 8, status="unparseable", parts={"number": 0.0}, cut_off=True),
            trajectory(1, 0.0, 10, status="timeout", cut_off=True),
            trajectory(1, 0.0, 6),
            trajectory(1, NAN, 30, parts={"number": 0.125}),
            trajectory(2, 1.0, 3),
            trajectory(2, 1.0, 1),
            trajectory(3, NAN, 16),
            trajectory(3, NAN, 20),
        ]
    )


def test_every_metric_by_hand(metrics):
    assert metrics == pytest.approx(
        {
            # of the seven that were graded
            "reward": 3.5 / 7,
            "pass@1": 4 / 7,
            "completions/mean_length_solved": (4 + 2 + 3 + 1) / 4,
            "completions/mean_length_unsolved": (8 + 10 + 6) / 3,
            "rewards/number/mean": 2 / 3,
            "rewards/think/mean": 1 / 2,
            # of all ten
            "completions/mean_length": 100 / 10,
            "completions/min_length": 1,
            "completions/max_length": 30,
            "completions/mean_terminated_length": 82 / 8,
            "completions/clipped_ratio": 0.2,
            "verdicts/unparseable": 0.1,
            "verdicts/timeout": 0.1,
            "verdicts/error": 0.3,
            "entropy": 6.5 / 100,
            # of the three groups in which any was graded: deviations 0.5, 0 and 0
            "reward_std": 0.5 / 3,
            "frac_reward_zero_std": 2 / 3,
            "groups/solved_none": 1 / 3,
            "groups/solved_some": 1 / 3,
            "groups/solved_all": 1 / 3,
        }
    )


def test_all_are_plain_floats_for_json(metrics):
    assert {type(value) for value in metrics.values()} == {float}


def test_solved_is_what_the_verdict_says_and_not_the_reward():
    metrics = rollout_metrics([trajectory(0, 0.9, 1, passed=False), trajectory(0, 0.1, 3, passed=True)])
    assert metrics["groups/solved_some"] == 1.0
    assert (metrics["completions/mean_length_solved"], metrics["completions/mean_length_unsolved"]) == (3, 1)


def test_equal_rewards_that_binary_cannot_hold_have_no_spread():
    metrics = rollout_metrics([trajectory(0, 0.95, 1) for _ in range(7)])
    assert (metrics["reward_std"], metrics["frac_reward_zero_std"]) == (0.0, 1.0)


def test_what_rounding_alone_sets_apart_is_no_spread():
    metrics = rollout_metrics([trajectory(0, 0.1 + 0.2 + 0.3, 1), trajectory(0, 0.3 + 0.2 + 0.1, 1)])
    assert metrics["frac_reward_zero_std"] == 1.0


def test_a_mean_of_nothing_is_left_out():
    metrics = rollout_metrics([trajectory(0, NAN, 3, cut_off=True, entropies=None)] * 2)
    assert metrics == {
        "completions/mean_length": 3.0,
        "completions/min_length": 3.0,
        "completions/max_length": 3.0,
        "completions/clipped_ratio": 1.0,
        "verdicts/unparseable": 0.0,
        "verdicts/timeout": 0.0,
        "verdicts/error": 1.0,
    }


def test_turns_are_counted_where_there_are_several():
    def of_turns(count):
        return replace(trajectory(0, 1.0, 4), rewards=[0.0] * (count - 1) + [1.0], turn_ends=[5] * count)

    assert rollout_metrics([of_turns(1), of_turns(3), of_turns(4)])["num_turns/mean"] == pytest.approx(8 / 3)
    assert "num_turns/mean" not in rollout_metrics([of_turns(1), of_turns(1)])


def test_a_group_of_one_that_was_graded_has_no_spread():
    metrics = rollout_metrics([trajectory(0, 1.0, 1), trajectory(0, NAN, 1)])
    assert (metrics["reward_std"], metrics["groups/solved_all"]) == (0.0, 1.0)


@pytest.fixture
def log(tmp_path):
    return MetricsLog(tmp_path / "metrics.jsonl", Accelerator(cpu=True))


def steps(log):
    return [json.loads(line)["step"] for line in log.path.read_text().splitlines()]


def test_a_line_a_step_and_no_nan_in_it(log):
    log.write(1, {"reward": 0.5, "loss": NAN, "kl": math.inf})
    log.write(2, {"reward": 0.25})
    assert log.path.read_text() == (
        '{"step": 1, "reward": 0.5, "loss": null, "kl": null}\n{"step": 2, "reward": 0.25}\n'
    )


def test_later_steps_are_forgotten(log):
    for step in range(1, 6):
        log.write(step, {"reward": step / 10})
    kept = log.path.read_text().splitlines()[:3]
    log.forget_after(3)
    assert log.path.read_text().splitlines() == kept
    log.write(4, {"reward": 0.0})
    assert steps(log) == [1, 2, 3, 4]


def test_a_line_that_was_damaged_on_the_disk_is_dropped(log):
    for step in range(1, 4):
        log.write(step, {"reward": 0.5})
    log.path.write_bytes(log.path.read_bytes().replace(b'"step": 2', b'"ste\xf0": 2'))
    assert log.forget_after(3) == 2
    assert steps(log) == [1, 3]


@pytest.mark.parametrize(
    "tail", ['{"step": 3, "rew', '{"step"', "3", "[3]", "\x00\x00\x00", '{"step": 3, "reward": 0.5}']
)
def test_a_last_line_that_was_cut_off_does_not_spoil_the_next(log, tail):
    log.write(1, {"reward": 0.5})
    log.write(2, {"reward": 0.5})
    with log.path.open("a") as file:
        file.write(tail)
    log.forget_after(2)
    log.write(3, {"reward": 0.25})
    assert steps(log) == [1, 2, 3]


def test_a_log_that_is_not_there_has_nothing_to_forget(log):
    log.forget_after(0)
    assert not log.path.exists()


def test_the_trackers_are_given_the_same_numbers(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=tmp_path)
    accelerator.init_trackers("p")
    log = MetricsLog(tmp_path / "metrics.jsonl", accelerator)
    log.write(1, {"reward": 0.5})
    log.write(2, {"reward": 0.75})
    accelerator.end_training()
    events = EventAccumulator(str(tmp_path / "p")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("reward")] == [(1, 0.5), (2, 0.75)]
    shutil.rmtree(tmp_path / "p")


def test_rewards_are_those_that_the_policy_is_paid():
    rows = [trajectory(0, 1.0, 3, cut_off=True), trajectory(0, 0.0, 3, cut_off=True), trajectory(1, 1.0, 2)]
    raw, paid = rollout_metrics(rows), rollout_metrics(rows, "zero_reward")
    assert (raw["reward"], raw["frac_reward_zero_std"]) == (pytest.approx(2 / 3), 0.5)
    assert (paid["reward"], paid["frac_reward_zero_std"], paid["reward_std"]) == (pytest.approx(1 / 3), 1.0, 0.0)
