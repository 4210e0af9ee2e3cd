"""Policy losses and their aggregation. Pure functions on tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Aggregate = Literal["sequence_mean", "token_mean", "fixed_length", "sequence_sum"]

# exp(20) is 5e8, far above any ratio that means something; exp(89) is infinite in float32.
_LARGEST_LOG_RATIO = 20.0


@dataclass(frozen=True)
class Surrogate:
    """The loss a token (B, T), and where the clip took the gradient, or some of it, away (B, T, bool)."""

    loss: Tensor
    clipped_low: Tensor
    clipped_high: Tensor


def importance_ratio(
    logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, level: Literal["token", "sequence"]
) -> Tensor:
    """How much likelier the policy has become to say what was sampled; carries the gradient.

    `token`:     rho_t = exp(log pi_t - log pi_old_t)                              (PPO, Schulman et al. 2017, eq. 6)
    `sequence`:  s = exp(mean over loss tokens of (log pi_t - log pi_old_t))       (GSPO, Zheng et al. 2025, eq. 7)

    The exponent is clamped to 20 either way, so that no ratio overflows.

    Args:
        logprobs: (B, T) of the sampled tokens under the policy.
        old_logprobs: (B, T) under the policy at the start of the batch; no gradient.
        mask: (B, T) bool, the loss tokens.
        level: which of the two.

    Returns:
        (B, T) ratios; those of `sequence` are the same all along a row.
    """
    log_ratio = (logprobs - old_logprobs).masked_fill(~mask, 0.0)
    if level == "sequence":
        log_ratio = (log_ratio.sum(dim=1) / mask.sum(dim=1).clamp(min=1))[:, None].expand_as(log_ratio)
    return torch.exp(log_ratio.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Surrogate:
    """-min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A).

    Source: PPO, Schulman et al. 2017, eq. 7; separate bounds: DAPO, Yu et al. 2025, section 3.1.

    Args:
        ratio: (B, T), see `importance_ratio`.
        advantages: (B, T).
        clip_low: distance of the lower bound from 1.
        clip_high: distance of the upper bound from 1.
    """
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return Surrogate(
        loss=-torch.minimum(ratio * advantages, clipped * advantages),
        clipped_low=(ratio < 1 - clip_low) & (advantages < 0),
        clipped_high=(ratio > 1 + clip_high) & (advantages > 0),
    )


def cispo_surrogate(
    ratio: Tensor, logprobs: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> Surrogate:
    """-sg(clip(ratio, 1 - clip_low, 1 + clip_high)) * A * log pi: the clip caps a weight and takes no gradient away.

    Source: MiniMax-M1 (MiniMax 2025), eq. 4 and 5; sg stops the gradient.

    Args:
        ratio: (B, T), see `importance_ratio`.
        logprobs: (B, T) of the sampled tokens under the policy; carries the gradient.
        advantages: (B, T).
        clip_low: distance of the lower bound from 1; 1 for none.
        clip_high: distance of the upper bound from 1.
    """
    weight = ratio.detach().clamp(1 - clip_low, 1 + clip_high)
    return Surrogate(
        loss=-weight * advantages * logprobs,
        clipped_low=ratio < 1 - clip_low,
        clipped_high=ratio > 1 + clip_high,
    )


def logprob_surrogate(logprobs: Tensor, advantages: Tensor) -> Surrogate:
    """-A * log pi: the policy gradient itself (REINFORCE, Williams 1992).

    Args:
        logprobs: (B, T) of the sampled tokens under the policy; carries the gradient.
        advantages: (B, T).
    """
    nowhere = torch.zeros_like(logprobs, dtype=torch.bool)
    return Surrogate(loss=-advantages * logprobs, clipped_low=nowhere, clipped_high=nowhere)


def token_weights(lengths: Tensor, aggregate: Aggregate, max_length: int) -> Tensor:
    """How much one loss token of each row counts, so that a loss is the plain sum of weight * token loss.

    The denominators are counted here, once, over all N rows of an optimizer step. Whatever the split into
    micro-batches afterwards, the sum of their gradients is the gradient of the whole.

    `sequence_mean`:  1 / (N * |o_i|)        each row counts the same (GRPO)
    `token_mean`:     1 / sum_j |o_j|        each token counts the same (DAPO)
    `fixed_length`:   1 / (N * max_length)   no length in it, so none to game (Dr. GRPO)
    `sequence_sum`:   1 / N                  the log-prob of a row as a whole (REINFORCE)

    Args:
        lengths: (N,) loss tokens of every row; 0 for a row that does not count (it is not in N either).
        aggregate: which of the four.
        max_length: the most tokens that a completion may have: a constant of the run, never the padded width.

    Returns:
        (N,) float32 weights, 0 for rows of no length.
    """
    lengths = lengths.double()
    counted = lengths > 0
    rows = counted.sum().clamp(min=1)
    if aggregate == "sequence_mean":
        weights = 1 / (rows * lengths.clamp(min=1))
    elif aggregate == "token_mean":
        weights = (1 / lengths.sum().clamp(min=1)).expand_as(lengths)
    elif aggregate == "fixed_length":
        weights = (1 / (rows * max_length)).expand_as(lengths)
    else:
        weights = (1 / rows).expand_as(lengths)
    return torch.where(counted, weights, 0.0).float()
