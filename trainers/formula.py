"""What a run will optimise, in words and with its numbers, as one block to read. No torch in here."""

from __future__ import annotations

from .algorithms import Algorithm
from .critic_settings import CriticSettings
from .settings import TrainSettings


def formula(
    algorithm: Algorithm,
    train: TrainSettings,
    max_tokens: int,
    temperature: float = 1.0,
    critic: CriticSettings | None = None,
) -> str:
    """The objective of a run as a block of lines, one a choice, each with the numbers that the run will use.

    Args:
        algorithm: the row of the table, with the cells that were overridden.
        train: how many rows there are, and how they are split into optimizer steps.
        max_tokens: the most that a completion may have.
        temperature: that of the sampler, at which every log-prob is taken.
        critic: how the critic learns, of an algorithm that has one; its defaults if not given.
    """
    lines = {
        "reward": _reward(algorithm),
        "advantage": _advantage(algorithm, train),
        "ratio": _ratio(algorithm, temperature),
        "surrogate": _surrogate(algorithm),
        "correction": _correction(algorithm),
        "aggregate": _aggregate(algorithm),
        "KL": _kl(algorithm),
        "entropy": _entropy(algorithm),
        "normaliser": _normaliser(algorithm, train, max_tokens),
        "cut off": _truncated(algorithm),
        "sampling": _sampling(algorithm, train),
        "updates": _updates(algorithm, train),
        "optimizer": _optimizer(train),
    }
    if algorithm.needs_critic:
        lines["critic"] = _critic(critic or CriticSettings(), train)
    width = max(len(name) for name in lines)
    return "\n".join(
        [f"objective of {algorithm.name}", *(f"  {name:<{width}}  {text}" for name, text in lines.items())]
    )


def _reward(row: Algorithm) -> str:
    if row.needs_critic:
        penalty = f", less {row.missing_eos_penalty:g} if it has no EOS" if row.missing_eos_penalty else ""
        score = f"the reward of a turn on its last token{penalty}"
        if not row.kl_in_reward:
            return f"r_t = {score}, and 0 elsewhere"
        return f"r_t = -{row.kl_coef:g} * {row.kl_estimator}_t + {score}, with {_ESTIMATORS[row.kl_estimator]}"
    if row.kl_in_reward:
        return f"R_i = r_i - {row.kl_coef:g} * sum_t {row.kl_estimator}_t, with {_ESTIMATORS[row.kl_estimator]}"
    return "R_i = r_i, the sum of the rewards of trajectory i"


def _advantage(row: Algorithm, train: TrainSettings) -> str:
    group, batch = f"the group of {train.group_size}", f"the batch of {_rows(train)}"
    centred, kept = "A_i = R_i - mean R", row.baseline_momentum
    scaled, deviation = f"A_i = (R_i - mean R) / (std R + {row.std_eps:g})", f"std with ddof {row.std_ddof}"
    return {
        "group_mean_std": f"{scaled} over {group}, {deviation}",
        "group_mean": f"{centred} over {group}; no division by the deviation",
        "leave_one_out": f"{centred} of the {train.group_size - 1} others of the group",
        "batch_mean": f"{centred} over {batch}",
        "batch_mean_std": f"{scaled} over {batch}, {deviation}",
        "gae": _gae(row),
        "moving_average": f"A_i = R_i - b, with b <- {kept:g} b + {1 - kept:g} mean R after each batch",
    }[row.advantage]


def _gae(row: Algorithm) -> str:
    alpha = row.length_adaptive_alpha
    lam = f"{row.lam:g}" if alpha is None else f"1 - 1 / ({alpha:g} * |o_i|)"
    critic_lam = row.lam if row.critic_lam is None else row.critic_lam
    same = alpha is None and critic_lam == row.lam
    return "; ".join(
        [
            f"A_t = sum_k ({row.gamma:g} * lambda)^k (r_t+k + {row.gamma:g} * V_t+k+1 - V_t+k) with lambda {lam}",
            "R_t = A_t + V_t" if same else f"R_t = A_t + V_t of lambda {critic_lam:g}",
            "A_t then whitened over the loss tokens" if row.whiten else "A_t not whitened",
            f"after what was cut short V is {'as the critic says' if row.bootstrap_truncated else '0'}",
        ]
    )


def _ratio(row: Algorithm, temperature: float) -> str:
    old = ", pi_old as the sampler says" if row.old_logprobs == "sampler" and row.ratio != "none" else ""
    at = f"log pi at temperature {temperature:g}{old}"
    return {
        "none": f"none; {at}",
        "token": f"rho_t = exp(log pi_t - log pi_old_t), one a token; {at}",
        "sequence": f"rho = exp(mean_t(log pi_t - log pi_old_t)), one a completion, with its gradient; {at}",
    }[row.ratio]


def _surrogate(row: Algorithm) -> str:
    rho = "rho" if row.ratio == "sequence" else "rho_t"
    advantage = "A_t" if row.needs_critic else "A_i"
    clip = f"clip({rho}, {1 - row.clip_low:g}, {1 + row.clip_high:g})"
    return {
        "logprob": f"L_t = -{advantage} * log pi_t",
        "clip": f"L_t = -min({rho} * {advantage}, {clip} * {advantage})",
        "cispo": f"L_t = -stop_gradient({clip}) * {advantage} * log pi_t",
    }[row.surrogate]


def _correction(row: Algorithm) -> str:
    low, high = row.correction_bounds
    ratio = "w_t = pi_old_t / q_t, q the sampler"
    return {
        "none": "none for what sampler and trainer differ by",
        "token_truncate": f"L_t * clip(w_t, {low:g}, {high:g}), {ratio}",
        "token_mask": f"L_t * w_t where {low:g} <= w_t <= {high:g}, else 0; {ratio}",
        "sequence_mask": f"L_t where {low:g} <= exp(mean_t log w_t) <= {high:g}, else 0; {ratio}",
    }[row.correction]


def _aggregate(row: Algorithm) -> str:
    return {
        "sequence_mean": "loss = 1/N sum_i 1/|o_i| sum_t L_t: every completion counts the same",
        "token_mean": "loss = 1/T sum_i sum_t L_t: every token counts the same",
        "fixed_length": "loss = 1/(N * L_max) sum_i sum_t L_t: a constant, whatever the lengths",
        "sequence_sum": "loss = 1/N sum_i sum_t L_t: the log-prob of a completion as a whole",
    }[row.aggregate]


def _kl(row: Algorithm) -> str:
    if not row.needs_reference:
        return "none, and no reference policy is kept"
    if row.kl_in_reward:
        steered = f", steered to {row.kl_target:g} nats a trajectory" if row.kl_controller == "proportional" else ""
        return f"in the reward, {row.kl_coef:g} * {row.kl_estimator}{steered}; see there"
    remark = "; on average its gradient is nought, so k2 or k3 is what you want" if row.kl_estimator == "k1" else ""
    estimate = f"{row.kl_estimator}_t = {_ESTIMATORS[row.kl_estimator]}"
    return f"in the loss, L_t + {row.kl_coef:g} * {row.kl_estimator}_t, with {estimate}{remark}"


_ESTIMATORS = {
    "k1": "log pi_t - log pi_ref_t",
    "k2": "(log pi_ref_t - log pi_t)^2 / 2",
    "k3": "exp(d) - d - 1, d = log pi_ref_t - log pi_t",
}


def _entropy(row: Algorithm) -> str:
    if not row.entropy_bonus:
        return "no bonus"
    if row.entropy_target is None:
        return f"loss - {row.entropy_coef:g} * mean entropy a token"
    return (
        f"loss - c * mean entropy a token while that is at most {row.entropy_target:g} nats; c moves by "
        f"{row.entropy_coef_delta:g} an optimizer step, from {row.entropy_coef:g} and up to {row.entropy_coef_max:g}"
    )


def _normaliser(row: Algorithm, train: TrainSettings, max_tokens: int) -> str:
    least, more = divmod(_rows(train), train.minibatches)
    sizes = [least, least + 1] if more else [least]
    rows, constants = (" or ".join(map(str, numbers)) for numbers in (sizes, [size * max_tokens for size in sizes]))
    counted = "counted over the whole optimizer step, graded rows alone"
    return {
        "sequence_mean": f"N = {rows} rows, |o_i| = the tokens of row i (1 to {max_tokens}); {counted}",
        "token_mean": f"T = the tokens of {rows} rows (at most {sizes[-1] * max_tokens}); {counted}",
        "fixed_length": f"N * L_max = {rows} rows * {max_tokens} tokens = {constants}; {counted}",
        "sequence_sum": f"N = {rows} rows; {counted}",
    }[row.aggregate]


def _truncated(row: Algorithm) -> str:
    return {
        "as_is": "as any other completion",
        "zero_reward": "a completion that was cut off is worth 0",
        "mask": "a completion that was cut off is in the baseline and the normaliser, but not in the loss",
    }[row.truncated]


def _sampling(row: Algorithm, train: TrainSettings) -> str:
    drawn = f"{train.prompts_per_step} prompts * {train.group_size} completions"
    if not row.dynamic_sampling:
        return drawn
    return f"{drawn}, other prompts for groups without spread, in at most {row.dynamic_sampling_rollouts} rollouts"


def _critic(critic: CriticSettings, train: TrainSettings) -> str:
    clip = "" if critic.clip is None else f", (clip(V_t, V_old_t - {critic.clip:g}, V_old_t + {critic.clip:g}) - R_t)^2"
    loss = "1/T sum 1/2 (V_t - R_t)^2" if not clip else f"1/T sum 1/2 max((V_t - R_t)^2{clip})"
    where = "a backbone of its own" if critic.kind == "separate" else f"the policy's backbone, {critic.coef:g} * loss"
    alone = f", alone for {critic.warmup_steps} of {train.steps} steps" if critic.warmup_steps else ""
    if critic.warmup_steps >= train.steps:
        alone = f", alone for all {train.steps} steps, so that the policy never moves"
    rate = f"weight decay {critic.weight_decay:g}, learning rate {critic.learning_rate:g}"
    return f"on {where}; loss = {loss}, {rate}{alone}"


def _updates(row: Algorithm, train: TrainSettings) -> str:
    early = "" if row.early_stop_kl is None else f", ended where KL(old || new) > 1.5 * {row.early_stop_kl:g}"
    return (
        f"{train.epochs} epoch(s) * {train.minibatches} minibatch(es){early}, {train.micro_batch_size} rows at a time, "
        f"gradient norm at most {train.max_grad_norm:g}"
    )


def _optimizer(train: TrainSettings) -> str:
    betas = ", ".join(f"{beta:g}" for beta in train.adam_betas)
    warm_up = f", reached linearly after {train.warmup_steps} steps" if train.warmup_steps else ""
    return f"AdamW, betas {betas}, weight decay {train.weight_decay:g}, learning rate {train.learning_rate:g}{warm_up}"


def _rows(train: TrainSettings) -> int:
    return train.prompts_per_step * train.group_size
