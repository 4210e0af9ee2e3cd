"""Policy losses and their aggregation. Pure functions on tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Aggregate = Literal["sequence_mean", "token_mean", "fixed_length", "sequence_sum"]


@dataclass(frozen=True)
class Surrogate:
    """The loss a token (B, T), and where the clip took the gradient away (B, T, bool)."""

    loss: Tensor
    clipped_low: Tensor
    clipped_high: Tensor


def clipped_surrogate(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> Surrogate:
    """-min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A), with ratio = exp(log pi - log pi_old).

    Source: PPO, Schulman et al. 2017, eq. 7; separate bounds: DAPO, Yu et al. 2025, section 3.1.

    Args:
        logprobs: (B, T) of the sampled tokens under the policy; carries the gradient.
        old_logprobs: (B, T) under the policy at the start of the batch; no gradient.
        advantages: (B,), the same for every token of a row.
        clip_low: distance of the lower bound from 1.
        clip_high: distance of the upper bound from 1.
    """
    ratio = torch.exp(logprobs - old_logprobs)
    advantage = advantages[:, None]
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return Surrogate(
        loss=-torch.minimum(ratio * advantage, clipped * advantage),
        clipped_low=(ratio < 1 - clip_low) & (advantage < 0),
        clipped_high=(ratio > 1 + clip_high) & (advantage > 0),
    )


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
