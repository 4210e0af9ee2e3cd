"""The known ways in which a run fails, each as a question to its metrics.

Each function returns the sentence of its alarm, or None if all is well or there are too few steps to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .metric_history import Change, Since, finite
from .part_gains import one_part_gains_by
from .watched_run import Run

# From the shortest time to the longest: what happened lately is closer to its cause.
_TIMES: tuple[Since, Since] = ("lately", "start")

# Completions of a few tokens double in length by chance.
_FEWEST_TOKENS = 5.0

_SUMS = ("loss", "policy_loss", "grad_norm", "critic/vf_loss", "critic/grad_norm")


def entropy_collapse(run: Run) -> str | None:
    """Exploration is given up before the task is learnt."""
    settings, lately = run.settings, run.history.change("entropy", "lately")
    if lately is None or not run.is_flat("lately") or run.is_solved():
        return None
    if lately.now <= settings.entropy_floor:
        what = f"The entropy is {lately.now:.3g} nats a token, under the floor of {settings.entropy_floor:g},"
    elif lately.now <= (1 - settings.entropy_fall) * lately.before:
        what = f"The entropy fell from {lately.before:.3g} to {lately.now:.3g} nats a token {lately.when}"
    else:
        return None
    return (
        f"{what} {run.reward_words('lately')}, so the policy repeats itself before it has learnt; a higher "
        "algorithm.clip_high (0.28), an entropy bonus (algorithm.entropy_coef) or a lower train.learning_rate usually "
        "helps."
    )


def entropy_explosion(run: Run) -> str | None:
    """The policy dissolves into noise."""
    history, settings = run.history, run.settings
    start = history.start("entropy") or 0.0
    for since in _TIMES:
        change = history.change("entropy", since)
        if (
            change is not None
            and change.now >= settings.entropy_growth * change.before
            and change.gain >= settings.entropy_rise
            # Else it is only coming back from where it fell to.
            and change.now > start
        ):
            return (
                f"The entropy rose from {change.before:.3g} to {change.now:.3g} nats a token {change.when}, so the "
                "policy is dissolving into noise; a lower train.learning_rate, a smaller algorithm.entropy_coef or a "
                "KL term (algorithm.kl_coef) usually helps, from a checkpoint before the rise."
            )
    return None


def groups_without_spread(run: Run) -> str | None:
    """Groups whose rewards are all equal have no advantage, so they teach nothing."""
    history, settings = run.history, run.settings
    share = history.now("frac_reward_zero_std")
    nobody, everybody = history.now("groups/solved_none"), history.now("groups/solved_all")
    too_easy = nobody is not None and everybody is not None and nobody < everybody
    limit = settings.all_solved_share if too_easy else settings.zero_std_share
    # Means of shares such as 0.9 come out a bit below.
    if not run.compares_groups or share is None or share < limit - 1e-9:
        return None
    what = f"{share:.0%} of the groups had equal rewards over the last {history.window} steps and taught nothing"
    if nobody is None or everybody is None:
        return (
            f"{what}; tasks of another difficulty, a larger train.group_size or algorithm.dynamic_sampling usually "
            "helps."
        )
    numbers = f"solved by none: {nobody:.0%}, solved by all: {everybody:.0%}"
    if not too_easy:
        return (
            f"{what}, mostly because no completion solved the task ({numbers}); easier tasks, a larger "
            "train.group_size, a warm start or partial credit usually helps."
        )
    return (
        f"{what}, mostly because every completion solved the task ({numbers}); harder tasks or "
        "algorithm.dynamic_sampling usually helps, and if held-out pass@1 is where it should be, the run is done."
    )


def clip_fraction_zero(run: Run) -> str | None:
    """Several passes over a rollout that nowhere reach the clip move the policy too little to be worth them."""
    recent, rates = run.history.recent("clip_fraction"), run.history.recent("learning_rate")
    warming_up = bool(rates) and rates[0] < rates[-1]
    if run.epochs < 2 or run.step <= run.critic_warmup or not recent or warming_up:
        return None
    if max(recent) > run.settings.clip_floor:
        return None
    return (
        f"No token was clipped over the last {len(recent)} steps of {run.epochs} epochs each, so the policy hardly "
        "moves within a step; a higher train.learning_rate, or train.epochs=1 to save the time, usually helps."
    )


def clip_fraction_high(run: Run) -> str | None:
    """The clip takes most of the gradient away."""
    share = run.history.now("clip_fraction")
    if share is None or share <= run.settings.clip_ceiling:
        return None
    return (
        f"{share:.0%} of the tokens were clipped over the last {run.history.window} steps (more than "
        f"{run.settings.clip_ceiling:.0%}), so most of the gradient is thrown away; a lower train.learning_rate, "
        "fewer train.epochs or minibatches, or algorithm.early_stop_kl usually helps."
    )


def kl_runaway(run: Run) -> str | None:
    """The policy leaves the reference behind."""
    settings, now = run.settings, run.history.now("kl")
    change = run.history.change("kl", "lately")
    if now is not None and now >= settings.kl_ceiling:
        what = f"The KL to the reference is {now:.3g} nats a token, above {settings.kl_ceiling:g}"
    elif (
        change is not None
        and change.now >= settings.kl_growth * change.before
        and change.gain >= settings.kl_rise
        and run.is_flat("lately")
    ):
        what = (
            f"The KL to the reference rose from {change.before:.3g} to {change.now:.3g} nats a token {change.when} "
            f"{run.reward_words('lately')}"
        )
    else:
        return None
    return f"{what}; a higher algorithm.kl_coef, a lower train.learning_rate or fewer train.epochs usually helps."


def length_runaway(run: Run) -> str | None:
    """Completions grow without being worth more."""
    growth = run.settings.length_growth
    for since in _TIMES:
        change = run.history.change("completions/mean_length", since)
        if change is None or change.gain < _FEWEST_TOKENS:
            continue
        flat = run.is_flat(since) and change.now >= growth * change.before
        # Over a whole run a reward that rises may well take much longer completions.
        too_fast = since == "lately" and change.now >= 2 * growth * change.before
        if flat or too_fast:
            words = run.reward_words(since) if run.is_flat(since) else "faster than a rise of the reward explains"
            return (
                f"The mean length of completions grew from {change.before:.4g} to {change.now:.4g} tokens "
                f"{change.when} {words}; an aggregation without length bias (algorithm.name=dr_grpo), an overlong "
                "punishment or a look at the samples for filler usually helps."
            )
    return None


def cut_off_rising(run: Run) -> str | None:
    """More and more completions end at the limit, where nothing can be graded."""
    settings = run.settings
    for since in _TIMES:
        change = run.history.change("completions/clipped_ratio", since)
        if change is None:
            continue
        risen = change.gain >= settings.cut_off_rise - 1e-9
        high = change.now >= settings.cut_off_ceiling and change.gain > -settings.reward_gain
        if risen or high:
            return (
                f"{change.now:.0%} of the completions are cut off at the limit, {change.before:.0%} before "
                f"({change.when}); a higher sampling.max_tokens, an overlong punishment, or a check that the model's "
                "EOS is the one that ends completions usually helps."
            )
    return None


def one_part_gains(run: Run) -> str | None:
    """The reward rises by a part of the rubric that does not solve the task."""
    for since in _TIMES:
        sentence = one_part_gains_by(run.history, run.settings, run.part_weights, since)
        if sentence is not None:
            return sentence
    return None


def critic_worse_than_mean(run: Run) -> str | None:
    """A negative explained variance: the mean return would predict better than the critic."""
    recent = run.history.recent("critic/vf_explained_var")
    judged_from = max(run.critic_warmup, run.settings.critic_grace) + run.history.window
    if not recent or run.step < judged_from or max(recent) >= 0:
        return None
    return (
        f"The critic explains {sum(recent) / len(recent):.3g} of the variance of the returns, below 0 on each of the "
        f"last {len(recent)} steps, so the mean would predict them better; a higher critic.learning_rate, more "
        "critic.warmup_steps, or an algorithm without a critic (algorithm.name=rloo) usually helps."
    )


def sampler_drift(run: Run) -> str | None:
    """Sampler and trainer compute different probabilities for the same tokens."""
    history, settings = run.history, run.settings
    # Where rollouts are ahead of the updates, they differ in earnest; the probe's completions are not.
    ahead = history.now("sampling/staleness/mean")
    name = "sampling/probe_logprob_diff" if ahead else "sampling/logprob_diff"
    mean, worst = history.now(f"{name}_mean"), history.now(f"{name}_max")
    change = history.change(f"{name}_mean", "lately")
    if mean is not None and mean >= settings.drift_mean:
        what = f"differ by {mean:.3g} nats a token on average, at least {settings.drift_mean:g}"
    elif worst is not None and worst >= settings.drift_max:
        what = f"differ by {worst:.3g} nats at the worst token of a step, at least {settings.drift_max:g}"
    elif change is not None and _grew(change, settings.drift_growth, settings.drift_mean / 2):
        what = f"differ by {change.now:.3g} nats a token, {change.before:.3g} before ({change.when})"
    else:
        return None
    return (
        f"The log-probs of sampler and trainer {what}, so the samples are not the policy's; fresh weights and an empty "
        "prefix cache in the engine, the same temperature and precision on both sides, or an importance correction "
        "usually helps."
    )


def grader_failures(run: Run) -> str | None:
    """Too many completions could not be graded, and are left out."""
    share = run.history.now("verdicts/error")
    if share is None or share <= run.settings.grader_failures:
        return None
    return (
        f"The grader failed on {share:.0%} of the completions over the last {run.history.window} steps (more than "
        f"{run.settings.grader_failures:.0%}), which are left out of the update; the verdicts' details in the samples "
        "say why, and more time or workers for the verifier usually helps."
    )


def not_finite(step: int, metrics: Mapping[str, float | None]) -> str | None:
    """A loss or the norm of a gradient is NaN or infinite at this step."""
    broken = [name for name in _SUMS if name in metrics and finite(metrics[name]) is None]
    if not broken:
        return None
    numbers = " and ".join(f"{name} is {metrics[name]}" for name in broken)
    return (
        f"At step {step}, {numbers}, so the weights may be ruined; a lower train.learning_rate or "
        "train.precision=fp32, from a checkpoint before this step, usually helps."
    )


def held_out_falling(run: Run, step: int, held_out: Mapping[str, float]) -> str | None:
    """The reward rises on what is trained on, and pass@1 falls on what is not. Remembers the best evaluation."""
    reward, sentence = run.history.now("reward"), None
    for name, value in held_out.items():
        best = run.best_held_out.get(name)
        if best is None or best["value"] is None or value >= best["value"]:
            run.best_held_out[name] = {"value": value, "step": step, "reward": reward}
            continue
        # Before the first steps there is no reward to compare with, so theirs is taken.
        reward_then = run.history.start("reward") if best["reward"] is None else best["reward"]
        if reward is None or reward_then is None or reward - reward_then < run.settings.reward_gain:
            continue
        if best["value"] - value >= run.settings.held_out_fall - 1e-9:
            sentence = sentence or (
                f"{name} fell from {best['value']:.3f} at step {best['step']:g} to {value:.3f} at step {step} while "
                f"the reward rose from {reward_then:.3g} to {reward:.3g}, so the policy learns the training tasks or a "
                "hole in the grader; the checkpoint of the best evaluation, more tasks, a KL term (algorithm.kl_coef) "
                "or a look at the rewarded samples usually helps."
            )
    return sentence


def _grew(change: Change, factor: float, at_least: float) -> bool:
    return change.now >= at_least and change.now >= factor * change.before


def is_watched(metric: str) -> bool:
    """Whether any of the alarms asks for it."""
    return metric in _WATCHED or metric.startswith("rewards/")


# Each with the metrics of which one must be there for the step to say anything about it.
STEP_ALARMS: dict[str, tuple[tuple[str, ...], Callable[[Run], str | None]]] = {
    "entropy_collapse": (("entropy",), entropy_collapse),
    "entropy_explosion": (("entropy",), entropy_explosion),
    "groups_without_spread": (("frac_reward_zero_std",), groups_without_spread),
    "clip_fraction_zero": (("clip_fraction",), clip_fraction_zero),
    "clip_fraction_high": (("clip_fraction",), clip_fraction_high),
    "kl_runaway": (("kl",), kl_runaway),
    "length_runaway": (("completions/mean_length",), length_runaway),
    "cut_off_rising": (("completions/clipped_ratio",), cut_off_rising),
    "one_part_gains": (("reward",), one_part_gains),
    "critic_worse_than_mean": (("critic/vf_explained_var",), critic_worse_than_mean),
    "sampler_drift": (
        ("sampling/logprob_diff_mean", "sampling/logprob_diff_max"),
        sampler_drift,
    ),
    "grader_failures": (("verdicts/error",), grader_failures),
}

_WATCHED = {
    *(metric for needed, _ in STEP_ALARMS.values() for metric in needed),
    *("pass@1", "groups/solved_none", "groups/solved_all", "learning_rate"),
    *("sampling/staleness/mean", "sampling/probe_logprob_diff_mean", "sampling/probe_logprob_diff_max"),
}
