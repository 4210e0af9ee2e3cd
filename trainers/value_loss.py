"""The critic's loss and how well it predicts. Pure functions on tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ValueLoss:
    """The loss a token, and where the clip took the gradient away (bool); both of the shape of the values."""

    loss: Tensor
    clipped: Tensor


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None) -> ValueLoss:
    """0.5 * max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2); 0.5 * (V - R)^2 without a clip.

    Source: Schulman et al.'s implementation of PPO (OpenAI baselines, ppo2), as in TRL's PPO and in verl.

    Args:
        values: V of the critic as it is; carries the gradient.
        old_values: V of the critic at the start of the batch; no gradient.
        returns: R, what the values are fitted to; no gradient.
        clip: c, how far a value may move from the old one; None for as far as it likes.
    """
    old_values, returns = old_values.detach(), returns.detach()
    unclipped = (values - returns).square()
    if clip is None:
        return ValueLoss(0.5 * unclipped, torch.zeros_like(unclipped, dtype=torch.bool))
    clipped = (old_values + (values - old_values).clamp(-clip, clip) - returns).square()
    return ValueLoss(0.5 * torch.maximum(unclipped, clipped), clipped > unclipped)


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float | None:
    """1 - Var(R - V) / Var(R) over the places of the mask: 1 is perfect, 0 is no better than the mean of R.

    Returns:
        The share, or None where the returns do not vary, so that there is nothing to explain.
    """
    target = returns[mask].double()
    if len(target) < 2 or bool((target == target[0]).all()):
        return None
    return float(1 - (target - values[mask].double()).var() / target.var())
