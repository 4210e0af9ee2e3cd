import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rlvr import Rubric, gate, metric, score
from rlvr.trainers.alarms import STEP_ALARMS
from rlvr.trainers.monitor import Monitor, MonitorSettings
from rlvr.trainers.monitor_settings import ALARM_NAMES
from rlvr.trainers.part_gains import part_weights

NAN = float("nan")
PASS = "eval/rlvr/Arithmetic-v0/pass@1"
DRIFT = "sampling/logprob_diff"
CLIP_LOW, CLIP_HIGH = "clip_ratio/low_mean", "clip_ratio/high_mean"
LENGTH, CUT_OFF = "completions/mean_length", "completions/clipped_ratio"


def numbers(text):
    return [None if word == "-" else float(word) for word in text.split()]


# Two runs that learned, as they were logged: a tiny model that reasons at ever greater length until nearly all is
# solved, and a pretrained one that learns to be brief. Both lose entropy; neither has anything wrong with it.
GROWING = {
    "reward": numbers(
        "0.453 0.414 0.547 0.508 0.727 0.75 0.828 0.891 0.914 0.949 0.941 0.938 0.934 0.957 0.961 0.965 0.961 "
        "0.984 0.934 0.949 0.965 0.969 0.961 0.996 0.977 0.965 0.973 0.98 0.969 0.973 0.969 0.969 0.953 0.996 "
        "0.98 0.969 0.988 0.984 0.984 0.953"
    ),
    "entropy": numbers(
        "0.179 0.192 0.155 0.154 0.095 0.075 0.051 0.04 0.03 0.021 0.02 0.024 0.021 0.016 0.014 0.014 0.013 "
        "0.011 0.014 0.015 0.012 0.01 0.012 0.007 0.009 0.009 0.009 0.009 0.008 0.008 0.008 0.009 0.008 0.008 "
        "0.009 0.01 0.007 0.01 0.009 0.011"
    ),
    "frac_reward_zero_std": numbers(
        "0 0 0 0 0.094 0.094 0.188 0.438 0.562 0.75 0.562 0.594 0.688 0.75 0.75 0.781 0.75 0.906 0.719 0.844 "
        "0.75 0.844 0.719 0.969 0.844 0.812 0.844 0.844 0.75 0.875 0.844 0.812 0.875 0.969 0.875 0.844 0.906 "
        "0.875 0.875 0.875"
    ),
    LENGTH: numbers(
        "18.762 18.707 20.047 20.27 22.535 23.457 24.926 24.578 25.484 26.641 25.77 25.727 25.781 26.266 26 "
        "25.598 26.848 26.887 26.137 25.578 25.961 26.355 25.801 25.625 26.586 26.16 26.152 25.195 26.621 "
        "26.16 26.027 26.668 26.438 26.406 26.191 26.387 26.105 25.969 26.051 26.016"
    ),
    "grad_norm": numbers(
        "0.582 0.541 0.589 0.614 0.564 0.554 0.407 0.331 0.197 0.347 0.219 0.25 0.341 0.105 0.18 0.125 0.163 "
        "0.111 0.183 0.159 0.182 0.24 0.172 0.027 0.074 0.103 0.092 0.073 0.175 0.165 0.098 0.133 0.093 0.08 "
        "0.173 0.126 0.081 0.11 0.116 0.171"
    ),
    CUT_OFF: [0.0] * 40,
    f"{DRIFT}_mean": [3e-07] * 40,
    f"{DRIFT}_max": [4e-06] * 40,
}
SHRINKING = {
    "reward": numbers(
        "0.203 0.328 0.438 0.328 0.438 0.484 0.578 0.562 0.703 0.75 0.875 0.906 0.891 0.859 0.922 0.984 0.953 "
        "0.984 0.859 1"
    ),
    "entropy": numbers(
        "2.401 1.785 1.782 1.793 1.559 1.452 1.264 1.151 0.973 0.946 0.606 0.572 0.38 0.471 0.289 0.204 0.287 "
        "0.14 0.133 0.199"
    ),
    "frac_reward_zero_std": numbers(
        "0.125 0.25 0.125 0.25 0.125 0.125 0.125 0.25 0.125 0.125 0.25 0.375 0.5 0.5 0.625 0.875 0.75 0.875 0.625 1"
    ),
    LENGTH: numbers(
        "19.188 16.906 16.516 16.859 16.297 15.516 15 13.859 13.594 13.469 11.25 11.469 9.578 10.375 9.438 "
        "8.859 8.859 8.672 8.594 8.875"
    ),
    CUT_OFF: numbers(
        "0.547 0.422 0.484 0.484 0.391 0.375 0.25 0.234 0.219 0.234 0.141 0.109 0.031 0.094 0.031 0 0.016 0 0 0.016"
    ),
    f"{DRIFT}_mean": numbers(
        "0.03 0.028 0.028 0.026 0.026 0.023 0.023 0.022 0.02 0.019 0.012 0.014 0.015 0.019 0.007 0.01 0.01 "
        "0.008 0.002 -"
    ),
    f"{DRIFT}_max": numbers(
        "0.237 0.239 0.337 0.345 0.342 0.232 0.269 0.23 0.243 0.287 0.216 0.234 0.247 0.238 0.231 0.223 0.109 "
        "0.142 0.243 -"
    ),
    "grad_norm": numbers(
        "1.898 1.901 2.968 2.272 3.145 2.86 2.907 2.1 2.805 2.545 2.046 1.574 2.358 1.652 1.974 0.914 1.294 "
        "3.347 2.27 -"
    ),
}


def as_logged(run):
    """The rows of metrics.jsonl; what a step did not compute is not in its row."""
    rows = []
    for index, reward in enumerate(run["reward"]):
        row = {name: values[index] for name, values in run.items() if values[index] is not None}
        row |= {"pass@1": reward, "rewards/number/mean": reward, "rewards/think/mean": 0.99 + 0.01 * (index % 2)}
        row |= {"groups/solved_none": 0.0, "groups/solved_all": row["frac_reward_zero_std"], "verdicts/error": 0.0}
        if "grad_norm" in row:
            row |= {"loss": 1e-9, CLIP_LOW: 0.0, CLIP_HIGH: 0.0, "learning_rate": 2e-4}
        rows.append(row)
    return rows


def healthy(**series):
    """Twenty rows of a run that goes nowhere in particular, with some metrics replaced."""
    steady = {
        "reward": 0.5,
        "pass@1": 0.5,
        "entropy": 0.4,
        "frac_reward_zero_std": 0.2,
        LENGTH: 100.0,
        CUT_OFF: 0.02,
        CLIP_LOW: 0.01,
        CLIP_HIGH: 0.01,
        "kl": 0.02,
        "learning_rate": 1e-5,
        "loss": 0.0,
        "grad_norm": 1.0,
        f"{DRIFT}_mean": 0.01,
        f"{DRIFT}_max": 0.3,
        "critic/vf_explained_var": 0.4,
        "verdicts/error": 0.0,
    }
    return rows_of({name: [value] * 20 for name, value in steady.items()} | series)


def rows_of(series):
    count = max(len(values) for values in series.values())
    return [{name: values[i] for name, values in series.items() if i < len(values)} for i in range(count)]


def ramp(start, end, steps=20):
    return [start + (end - start) * index / (steps - 1) for index in range(steps)]


def watch(monitor, rows, first_step=1):
    return [alarm for step, row in enumerate(rows, first_step) for alarm in monitor.observe(step, row)]


def raised(alarms):
    return [(alarm.name, alarm.step) for alarm in alarms]


def only(alarms, name):
    """The sentence of the one alarm there is."""
    assert [alarm.name for alarm in alarms] == [name]
    return alarms[0].sentence


def test_every_alarm_has_a_name_that_the_settings_know():
    assert sorted([*STEP_ALARMS, "held_out_falling", "not_finite"]) == sorted(ALARM_NAMES)


@pytest.mark.parametrize(
    ("run", "evaluations"),
    [(GROWING, {0: 0.409, 20: 0.96, 40: 0.971}), (SHRINKING, {0: 0.219, 10: 0.688, 20: 0.969})],
)
def test_runs_that_learned_raise_no_alarm(run, evaluations):
    monitor, alarms = Monitor(), []
    for step, row in enumerate([{}, *as_logged(run)]):
        if step:
            alarms += monitor.observe(step, row)
        if step in evaluations:
            alarms += monitor.observe_evaluation(step, {PASS: evaluations[step]})
    assert alarms == []


@pytest.mark.parametrize("epochs", [1, 4])
def test_a_run_that_goes_nowhere_raises_no_alarm(epochs):
    assert watch(Monitor(epochs=epochs), healthy() * 5) == []


def test_a_fast_fall_of_entropy_with_a_flat_reward():
    alarms = watch(Monitor(), healthy(entropy=[0.8] * 10 + [0.2] * 10))
    sentence = only(alarms, "entropy_collapse")
    # The mean of five is (2 * 0.8 + 3 * 0.2) / 5 = 0.44 at step 13, and 0.32 at step 14; half of it is 0.4.
    assert alarms[0].step == 14
    assert "fell from 0.8 to 0.32 nats a token in the last 14 steps while the reward went from 0.5 to 0.5" in sentence


def test_low_entropy_is_a_collapse_only_where_the_reward_is_flat_and_the_task_unsolved():
    low = {"entropy": [0.04] * 20}
    sentence = only(watch(Monitor(), healthy(**low)), "entropy_collapse")
    assert "0.04 nats a token, under the floor of 0.05, while the reward went from 0.5 to 0.5" in sentence
    assert watch(Monitor(), healthy(**low, reward=ramp(0.3, 0.7), **{"pass@1": ramp(0.3, 0.7)})) == []
    assert watch(Monitor(), healthy(**low, **{"pass@1": [0.95] * 20})) == []
    assert watch(Monitor(), healthy(entropy=[0.06] * 20)) == []


def test_a_slow_fall_of_entropy_above_the_floor_is_none():
    assert watch(Monitor(), healthy(entropy=ramp(0.5, 0.1, 100), reward=[0.5] * 100)) == []


def test_entropy_explosion():
    alarms = watch(Monitor(), healthy(entropy=[0.4] * 10 + [1.0] * 10))
    # (2 * 0.4 + 3 * 1.0) / 5 = 0.76 at step 13, and 0.88 at step 14; twice what it was is 0.8.
    assert "from 0.4 to 0.88 nats" in only(alarms, "entropy_explosion")
    assert alarms[0].step == 14
    # On its way back to where it began.
    assert watch(Monitor(), healthy(entropy=[0.6] * 5 + ramp(0.55, 0.3, 20) + [0.3] * 30 + [0.6] * 20)) == []
    assert watch(Monitor(), healthy(entropy=ramp(0.4, 0.7))) == []
    # Twice as much of next to nothing is nothing.
    assert watch(Monitor(), healthy(entropy=ramp(0.06, 0.15), reward=ramp(0.1, 0.9))) == []


def test_entropy_that_grows_slowly_explodes_in_the_end():
    alarms = watch(Monitor(), healthy(entropy=ramp(0.4, 1.2, 200)))
    assert "since the run began" in only(alarms[:1], "entropy_explosion")


@pytest.mark.parametrize(
    ("none", "everybody", "words"),
    [(0.9, 0.05, "no completion solved the task"), (0.0, 0.97, "every completion solved the task")],
)
def test_groups_without_spread_and_why(none, everybody, words):
    share = none + everybody
    rows = healthy(
        frac_reward_zero_std=[share] * 20,
        **{"groups/solved_none": [none] * 20, "groups/solved_all": [everybody] * 20},
    )
    alarms = watch(Monitor(), rows)
    sentence = only(alarms, "groups_without_spread")
    assert words in sentence
    assert f"{share:.0%} of the groups" in sentence
    assert f"solved by none: {none:.0%}, solved by all: {everybody:.0%}" in sentence
    assert alarms[0].step == 5


def test_groups_without_spread_at_its_threshold():
    name = "frac_reward_zero_std"
    assert raised(watch(Monitor(), healthy(**{name: [0.9] * 20}))) == [("groups_without_spread", 5)]
    assert watch(Monitor(), healthy(**{name: [0.88] * 20})) == []
    assert watch(Monitor(compares_groups=False), healthy(**{name: [1.0] * 20})) == []
    solved = {name: [0.92] * 20, "groups/solved_none": [0.0] * 20, "groups/solved_all": [0.92] * 20}
    assert watch(Monitor(), healthy(**solved)) == []
    lower = MonitorSettings(zero_std_share=0.6)
    assert raised(watch(Monitor(lower), healthy(**{name: [0.6] * 20}))) == [("groups_without_spread", 5)]


def test_no_token_clipped_matters_with_several_epochs_only():
    still = {CLIP_LOW: [0.0] * 20, CLIP_HIGH: [0.0] * 20}
    assert watch(Monitor(epochs=1), healthy(**still)) == []
    assert "4 epochs" in only(watch(Monitor(epochs=4), healthy(**still)), "clip_fraction_zero")
    assert watch(Monitor(epochs=4), healthy(**still | {CLIP_HIGH: [0.0, 1e-3, 0.0, 0.0, 0.0] * 4})) == []


def test_no_token_is_clipped_while_the_learning_rate_warms_up():
    still = {CLIP_LOW: [0.0] * 20, CLIP_HIGH: [0.0] * 20}
    assert watch(Monitor(epochs=4), healthy(**still, learning_rate=ramp(1e-7, 1e-5))) == []


def test_most_tokens_clipped():
    rows = healthy(**{CLIP_LOW: [0.3] * 20, CLIP_HIGH: [0.31] * 20})
    assert "61% of the tokens were clipped" in only(watch(Monitor(), rows), "clip_fraction_high")
    assert watch(Monitor(), healthy(**{CLIP_LOW: [0.25] * 20, CLIP_HIGH: [0.25] * 20})) == []
    whole = healthy(**{"clip_ratio/region_mean": [0.7] * 20})
    assert "70%" in only(watch(Monitor(), whole), "clip_fraction_high")


def test_kl_above_its_ceiling_whatever_the_reward_does():
    rows = healthy(kl=ramp(0.9, 1.4), reward=ramp(0.1, 0.8), **{"pass@1": ramp(0.1, 0.8)})
    assert "above 1;" in only(watch(Monitor(), rows), "kl_runaway")


def test_kl_that_multiplies_while_the_reward_is_flat():
    kl = [0.01 * 1.25**index for index in range(20)]
    assert " to " in only(watch(Monitor(), healthy(kl=kl)), "kl_runaway")
    assert watch(Monitor(), healthy(kl=kl, reward=ramp(0.1, 0.8), **{"pass@1": ramp(0.1, 0.8)})) == []
    assert watch(Monitor(), healthy(kl=[value / 10 for value in kl])) == []


def test_length_that_runs_away():
    rows = healthy(**{LENGTH: ramp(100, 300)})
    assert "while the reward went from 0.5 to 0.5" in only(watch(Monitor(), rows), "length_runaway")
    longer = {LENGTH: ramp(100, 240), "reward": ramp(0.2, 0.8), "pass@1": ramp(0.2, 0.8)}
    assert watch(Monitor(), healthy(**longer)) == []
    assert "faster" in only(watch(Monitor(), healthy(**longer | {LENGTH: ramp(100, 900)})), "length_runaway")
    assert watch(Monitor(), healthy(**{LENGTH: ramp(2, 6)})) == []


def test_length_that_grows_with_the_reward_over_a_whole_run():
    rising = {"reward": ramp(0.1, 0.9, 200), "pass@1": ramp(0.1, 0.9, 200)}
    assert watch(Monitor(), healthy(**rising, **{LENGTH: ramp(100, 500, 200)})[:-1]) == []


def test_length_that_creeps_up_for_nothing():
    alarms = watch(Monitor(), healthy(**{LENGTH: ramp(100, 260, 200), "reward": [0.5] * 200}))
    assert "since the run began" in only(alarms[:1], "length_runaway")


def test_cut_offs_that_rise_and_that_stay_high():
    assert "are cut off" in only(watch(Monitor(), healthy(**{CUT_OFF: ramp(0.0, 0.3)})), "cut_off_rising")
    assert "60%" in only(watch(Monitor(), healthy(**{CUT_OFF: [0.6] * 20})), "cut_off_rising")
    assert watch(Monitor(), healthy(**{CUT_OFF: ramp(0.8, 0.4)})) == []
    assert watch(Monitor(), healthy(**{CUT_OFF: ramp(0.3, 0.36)})) == []
    slowly = watch(Monitor(), healthy(**{CUT_OFF: ramp(0.0, 0.2, 100)}))
    assert "since the run began" in only(slowly[:1], "cut_off_rising")


def evaluated(evaluations, rewards, monitor=None):
    monitor, alarms = monitor or Monitor(), []
    for step, reward in enumerate([None, *rewards]):
        if step:
            alarms += monitor.observe(step, {"reward": reward, "pass@1": reward})
        if step in evaluations:
            alarms += monitor.observe_evaluation(step, {PASS: evaluations[step], "eval/x/pass@8": 0.1})
    return alarms


def test_the_reward_rises_while_held_out_pass_at_1_falls():
    alarms = evaluated({0: 0.4, 10: 0.55, 20: 0.45}, ramp(0.4, 0.9))
    sentence = only(alarms, "held_out_falling")
    assert alarms[0].step == 20
    assert f"{PASS} fell from 0.550 at step 10 to 0.450 at step 20 while the reward rose from " in sentence


def test_a_fall_since_before_training_is_one_too():
    alarms = evaluated({0: 0.6, 20: 0.5}, ramp(0.4, 0.9))
    assert "from 0.600 at step 0 to 0.500 at step 20" in only(alarms, "held_out_falling")


@pytest.mark.parametrize(
    ("evaluations", "rewards"),
    [
        ({0: 0.4, 10: 0.55, 20: 0.52}, ramp(0.4, 0.9)),  # within the noise
        ({0: 0.4, 10: 0.55, 20: 0.45}, [0.5] * 20),  # what is trained on fares no better
        ({0: 0.4, 10: 0.55, 20: 0.65}, ramp(0.4, 0.9)),
        ({0: 0.6, 4: 0.4}, ramp(0.4, 0.9)),  # too few steps to tell whether the reward rose
        ({0: 0.6, 20: NAN}, ramp(0.4, 0.9)),
    ],
)
def test_held_out_pass_at_1_that_does_not_part_from_the_reward(evaluations, rewards):
    assert evaluated(evaluations, rewards) == []


def test_held_out_environments_are_watched_apart():
    monitor = Monitor()
    for step, value in enumerate(ramp(0.1, 0.9), 1):
        monitor.observe(step, {"reward": value})
        if step in (10, 20):
            other = {10: 0.2, 20: 0.7}[step]
            alarms = monitor.observe_evaluation(step, {"eval/a/pass@1": 0.9 - step / 100, "eval/b/pass@1": other})
    assert "eval/a/pass@1 fell from 0.800" in only(alarms, "held_out_falling")


FORM, SOLVES = "rewards/form/mean", "rewards/number/mean"


def test_one_part_carries_all_the_gain():
    rows = healthy(**{FORM: ramp(0.1, 0.9), SOLVES: [0.5] * 20, "reward": ramp(0.6, 1.4)})
    sentence = only(watch(Monitor(), rows), "one_part_gains")
    assert "The part 'form' of the rubric carries 100% of the gain" in sentence
    assert "number 0.5 to 0.5, pass@1 0.5 to 0.5" in sentence


@pytest.mark.parametrize(
    "series",
    [
        # The part that solves the task rises alone, as it should.
        {FORM: [0.5] * 20, SOLVES: ramp(0.1, 0.9), "reward": ramp(0.6, 1.4), "pass@1": ramp(0.1, 0.9)},
        # All is solved, so whatever else may be learned too.
        {FORM: ramp(0.1, 0.9), SOLVES: [0.95] * 20, "reward": ramp(1.05, 1.85), "pass@1": [0.95] * 20},
        # Both rise.
        {FORM: ramp(0.1, 0.5), SOLVES: ramp(0.1, 0.5), "reward": ramp(0.2, 1.0), "pass@1": ramp(0.1, 0.5)},
        # A part that is only recorded: the reward does not rise.
        {FORM: ramp(0.1, 0.9), SOLVES: [0.5] * 20},
        # Parts of the part that solves the task, and no other.
        {"rewards/code/mean": ramp(0.1, 0.9), "rewards/code/hidden/mean": [0.5] * 20, "reward": ramp(0.1, 0.9)},
    ],
)
def test_gains_that_are_as_they_should_be(series):
    assert watch(Monitor(), healthy(**series)) == []


def test_parts_count_by_their_weight():
    series = {FORM: ramp(0.1, 0.9), SOLVES: ramp(0.5, 0.6), "pass@1": ramp(0.5, 0.6), "reward": ramp(0.5, 0.8)}
    heavy = Monitor(MonitorSettings(part_share=0.85), part_weights={"form": 1.0, "number": 1.0})
    assert raised(watch(heavy, healthy(**series)))[0][0] == "one_part_gains"
    light = Monitor(MonitorSettings(part_share=0.85), part_weights={"form": 0.1, "number": 1.0})
    assert watch(light, healthy(**series)) == []
    not_in_the_reward = Monitor(part_weights={"number": 1.0})
    assert watch(not_in_the_reward, healthy(**series)) == []


def test_the_weights_of_a_rubric():
    def inner(completion: str) -> float:
        return 0.0

    rubric = Rubric(
        gate(inner, name="gate"),
        score(inner, passes=True, name="number"),
        score(Rubric(score(inner, weight=0.5, name="short"), metric(inner, name="seen")), weight=0.2, name="style"),
        metric(inner, name="think"),
    )
    assert part_weights(rubric) == pytest.approx({"number": 1.0, "style/short": 0.1})


def test_without_a_pass_at_1_a_part_that_had_room_and_did_not_rise_tells():
    steps = [{"reward": r + 0.4, FORM: r, SOLVES: 0.4} for r in ramp(0.1, 0.9)]
    assert [alarm.name for alarm in watch(Monitor(), steps)] == ["one_part_gains"]
    steps = [{"reward": r + 1.0, FORM: 1.0, SOLVES: r} for r in ramp(0.1, 0.9)]
    assert watch(Monitor(), steps) == []


def test_a_critic_that_predicts_worse_than_the_mean():
    name = "critic/vf_explained_var"
    alarms = watch(Monitor(), healthy(**{name: [-0.5] * 20}))
    assert "explains -0.5 of the variance" in only(alarms, "critic_worse_than_mean")
    assert alarms[0].step == 15  # ten steps to learn, and a window
    assert raised(watch(Monitor(critic_warmup=13), healthy(**{name: [-0.5] * 20}))) == [(alarms[0].name, 18)]
    assert watch(Monitor(), healthy(**{name: ramp(-2.0, 0.5, 14) + [0.5] * 6})) == []
    assert watch(Monitor(), healthy(**{name: [-0.5, -0.5, -0.5, 0.01] * 5})) == []


def test_sampler_and_trainer_drift_apart():
    mean, worst = f"{DRIFT}_mean", f"{DRIFT}_max"
    assert "0.2 nats a token" in only(watch(Monitor(), healthy(**{mean: [0.2] * 20})), "sampler_drift")
    assert "at the worst token" in only(watch(Monitor(), healthy(**{worst: [3.0] * 20})), "sampler_drift")
    slowly = {mean: [0.005] * 12 + [0.04] * 8}
    assert "0.005 before" in only(watch(Monitor(), healthy(**slowly)), "sampler_drift")
    assert watch(Monitor(), healthy(**{mean: [0.0001] * 12 + [0.02] * 8})) == []
    ahead = {"sampling/staleness/mean": [1.5] * 20, mean: [0.2] * 20, "sampling/probe_logprob_diff_mean": [0.01] * 20}
    assert watch(Monitor(), healthy(**ahead)) == []
    ahead["sampling/probe_logprob_diff_mean"] = [0.1] * 20
    assert "0.1 nats a token" in only(watch(Monitor(), healthy(**ahead)), "sampler_drift")
    only_one_name = [{worst: 3.0} for _ in range(5)]
    assert raised(watch(Monitor(), only_one_name)) == [("sampler_drift", 5)]


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf, None])
@pytest.mark.parametrize("name", ["loss", "grad_norm", "critic/vf_loss"])
def test_what_is_not_finite_is_spoken_of_at_once(name, value):
    monitor = Monitor()
    assert monitor.observe(1, healthy()[0]) == []
    alarms = monitor.observe(2, healthy()[0] | {name: value})
    assert f"At step 2, {name} is {value}," in only(alarms, "not_finite")


def test_a_loss_that_was_not_computed_is_not_broken():
    rows = [{key: value for key, value in row.items() if key not in ("loss", "grad_norm")} for row in healthy()]
    assert watch(Monitor(), rows) == []


def test_grader_failures():
    name = "verdicts/error"
    alarms = watch(Monitor(), healthy(**{name: [0.25] * 20}))
    assert "failed on 25% of the completions" in only(alarms, "grader_failures")
    assert alarms[0].step == 5
    assert watch(Monitor(), healthy(**{name: [0.0, 0.0, 0.25, 0.0, 0.0] * 4})) == []


def test_an_alarm_that_goes_on_is_raised_again_after_a_while():
    rows = healthy(**{CUT_OFF: [0.6] * 130})
    assert raised(watch(Monitor(), rows)) == [("cut_off_rising", step) for step in (10, 60, 110)]
    sooner = MonitorSettings(repeat_after=20)
    assert [alarm.step for alarm in watch(Monitor(sooner), rows)] == [10, 30, 50, 70, 90, 110, 130]


def test_an_alarm_that_comes_and_goes_is_raised_once():
    """A window of one, so that the cause is there at every other step."""
    settings = MonitorSettings(window=1, lookback=2)
    rows = [{"verdicts/error": 0.2 * (step % 2)} for step in range(1, 40)]
    assert raised(watch(Monitor(settings), rows)) == [("grader_failures", 1)]


@pytest.mark.parametrize(("quiet", "steps"), [(4, [1]), (5, [1, 7])])
def test_an_alarm_that_has_cleared_is_raised_anew(quiet, steps):
    settings = MonitorSettings(window=1, lookback=2, clear_after=5)
    rows = [{"verdicts/error": share} for share in [0.2, *[0.0] * quiet, 0.2]]
    assert [alarm.step for alarm in watch(Monitor(settings), rows)] == steps


def test_steps_without_a_metric_neither_raise_nor_clear_its_alarm():
    settings = MonitorSettings(window=1, lookback=2)
    rows = [{"verdicts/error": 0.2}, *[{"reward": 0.5}] * 60, {"verdicts/error": 0.2}]
    assert raised(watch(Monitor(settings), rows[:12] + rows[-1:])) == [("grader_failures", 1)]
    assert raised(watch(Monitor(settings), rows)) == [("grader_failures", 1), ("grader_failures", 62)]


def test_what_the_settings_ignore_is_never_raised():
    rows = healthy(entropy=[0.04] * 20)
    assert watch(Monitor(MonitorSettings(ignore=["entropy_collapse"])), rows) == []


def test_an_alarm_says_whether_it_ends_the_run():
    rows = healthy(entropy=[0.04] * 20, **{CUT_OFF: [0.6] * 20})
    alarms = watch(Monitor(MonitorSettings(stop_on=["cut_off_rising"])), rows)
    assert {alarm.name: alarm.stops for alarm in alarms} == {"entropy_collapse": False, "cut_off_rising": True}


@pytest.mark.parametrize("key", ["stop_on", "ignore"])
def test_an_alarm_that_does_not_exist_is_refused_with_the_nearest(key):
    with pytest.raises(ValidationError, match=r"no alarm 'entropy_colapse'; did you mean 'entropy_collapse'"):
        MonitorSettings.model_validate({key: ["not_finite", "entropy_colapse"]})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"window": 5, "lookback": 9}, "monitor.lookback is 9"),
        ({"stop_on": ["not_finite"], "ignore": ["not_finite"]}, "'not_finite' is in monitor.stop_on and"),
        ({"entropy_flor": 0.1}, "entropy_flor"),
        ({"clip_ceiling": NAN}, "clip_ceiling"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(ValidationError, match=words):
        MonitorSettings.model_validate(settings)


def troubled():
    """Rows and evaluations that raise many an alarm, some of them twice."""
    series = healthy(
        entropy=[0.8] * 10 + [0.03] * 40 + ramp(0.1, 2.0, 30),
        reward=[0.5] * 40 + ramp(0.5, 0.9, 40),
        kl=ramp(0.0, 3.0, 80),
        **{CUT_OFF: [0.0] * 20 + [0.4] * 20 + [0.0] * 40, "verdicts/error": ([0.0] * 8 + [0.5] * 8) * 5},
        **{FORM: ramp(0.0, 1.0, 80), SOLVES: [0.1] * 80, f"{DRIFT}_mean": [0.01] * 30 + [NAN] * 20 + [0.3] * 30},
    )
    return [(step, row | {"time/rollout": step * 0.1}) for step, row in enumerate(series, 1)]


def observe_all(monitor, rows):
    alarms = []
    for step, row in rows:
        alarms += monitor.observe(step, row)
        if step % 10 == 0:
            alarms += monitor.observe_evaluation(step, {PASS: 0.5 + 0.3 * math.sin(step / 10)})
    return alarms


@pytest.mark.parametrize("at", [0, 1, 7, 12, 33, 40, 61, 79])
def test_a_monitor_restored_from_its_state_raises_the_same_alarms(at):
    rows = troubled()
    whole, first, second = Monitor(epochs=2), Monitor(epochs=2), Monitor(epochs=2)
    expected = observe_all(whole, rows)
    before = observe_all(first, rows[:at])
    state = json.dumps(first.state_dict(), allow_nan=False)
    second.load_state_dict(json.loads(state))
    assert before + observe_all(second, rows[at:]) == expected
    assert second.state_dict() == whole.state_dict()
    assert len({alarm.name for alarm in expected}) >= 8


def test_a_state_is_a_copy():
    monitor = Monitor()
    rows = troubled()
    observe_all(monitor, rows[:40])
    state = monitor.state_dict()
    kept = json.dumps(state)
    observe_all(monitor, rows[40:])
    assert json.dumps(state) == kept
    other = Monitor()
    other.load_state_dict(state)
    observe_all(other, rows[40:])
    assert json.dumps(state) == kept


def test_the_state_of_equal_runs_is_equal_however_long_they_took():
    states = []
    for pace in (1.0, 2.0):
        monitor = Monitor()
        monitor.observe(1, healthy()[0] | {"time/rollout": pace, "step_time": pace})
        states.append(monitor.state_dict())
    assert states[0] == states[1]


def test_the_state_stays_small():
    monitor = Monitor()
    watch(monitor, healthy()[:1] * 500)
    longest = max(len(values) for values in monitor.state_dict()["history"]["latest"].values())
    assert longest == MonitorSettings().lookback


def test_numbers_of_numpy_become_plain_ones():
    monitor = Monitor()
    watch(monitor, [{"reward": np.float32(0.5), "entropy": np.float64(0.25), "kl": np.int64(0)}] * 3)
    json.dumps(monitor.state_dict())


metric_names = st.sampled_from([*healthy()[0], FORM, SOLVES, PASS, "groups/solved_none", "groups/solved_all", "other"])
metric_values = st.one_of(st.none(), st.floats(), st.text(max_size=2), st.integers())


@given(st.lists(st.dictionaries(metric_names, metric_values), max_size=30))
def test_whatever_is_missing_or_no_number_breaks_nothing(rows):
    monitor = Monitor(MonitorSettings(window=1, lookback=3), epochs=2)
    for step, row in enumerate(rows, 1):
        alarms = monitor.observe(step, row) + monitor.observe_evaluation(step, row)
        assert all(alarm.sentence.endswith(".") for alarm in alarms)
    json.dumps(monitor.state_dict(), allow_nan=False)
