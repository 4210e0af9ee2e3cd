"""Advantages: how much better a trajectory did than others. Pure functions on tensors.

A reward of NaN stands for a verdict that the grader could not give: it is left out of every mean and deviation, and
its own advantage is 0. Rewards that are all equal give exactly 0, which no rounding of the mean can turn into a huge
number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

GroupAdvantage = Literal["group_mean_std", "group_mean", "leave_one_out"]
BatchAdvantage = Literal["batch_mean", "batch_mean_std"]


def group_advantages(
    rewards: Tensor,
    groups: Tensor,
    kind: GroupAdvantage,
    ddof: int = 1,
    eps: float = 1e-4,
) -> Tensor:
    """Measure every reward against those of its group.

    `group_mean`:      A_i = r_i - mean(r)                        (Dr. GRPO, Liu et al. 2025, section 3.2)
    `group_mean_std`:  A_i = (r_i - mean(r)) / (std(r) + eps)     (GRPO, Shao et al. 2024, section 4.1)
    `leave_one_out`:   A_i = r_i - mean of the other rewards      (RLOO, Ahmadian et al. 2024, section 3.3)

    A group with fewer than two graded rewards gets 0.

    Args:
        rewards: (N,) one a trajectory, NaN where ungraded.
        groups: (N,) integers; trajectories of one task in one rollout share theirs.
        kind: which of the formulas.
        ddof: 1 divides the variance by G - 1, 0 by G.
        eps: added to the deviation.

    Returns:
        (N,) float32 advantages.
    """
    advantages = torch.zeros_like(rewards, dtype=torch.float64)
    for group in groups.unique():
        members = (groups == group) & ~rewards.isnan()
        graded = rewards[members].double()
        centred = _centred(graded)
        if kind == "group_mean_std":
            centred = centred / _spread(graded, ddof, eps)
        elif kind == "leave_one_out":
            centred = centred * (len(graded) / max(len(graded) - 1, 1))
        advantages[members] = centred
    return advantages.float()


def has_spread(rewards: Iterable[float]) -> bool:
    """Whether the graded rewards of a group differ, as float32 numbers, which advantages are taken of.

    The reward of an episode is a sum over turns, and equal ones may differ in the last bit of a float.
    """
    graded = [reward for reward in rewards if not math.isnan(reward)]
    return len(torch.tensor(graded, dtype=torch.float32).unique()) > 1


def batch_advantages(rewards: Tensor, kind: BatchAdvantage, ddof: int = 1, eps: float = 1e-4) -> Tensor:
    """Measure every reward against those of the whole batch.

    `batch_mean`:      A_i = r_i - mean(r)                        (REINFORCE with a baseline, Williams 1992)
    `batch_mean_std`:  A_i = (r_i - mean(r)) / (std(r) + eps)     (REINFORCE++, Hu et al. 2025, section 3)

    The mean and the deviation are over trajectories, whatever their lengths.

    Args:
        rewards: (N,) one a trajectory, NaN where ungraded.
        kind: which of the formulas.
        ddof: 1 divides the variance by N - 1, 0 by N.
        eps: added to the deviation.

    Returns:
        (N,) float32 advantages.
    """
    advantages = torch.zeros_like(rewards, dtype=torch.float64)
    graded = rewards[~rewards.isnan()].double()
    centred = _centred(graded)
    advantages[~rewards.isnan()] = centred / _spread(graded, ddof, eps) if kind == "batch_mean_std" else centred
    return advantages.float()


def baseline_advantages(rewards: Tensor, baseline: float) -> Tensor:
    """A_i = r_i - baseline: REINFORCE with a constant, such as a moving average of past rewards (Williams 1992).

    Args:
        rewards: (N,) one a trajectory, NaN where ungraded.
        baseline: what is taken off each.

    Returns:
        (N,) float32 advantages.
    """
    return (rewards.double() - baseline).nan_to_num(nan=0.0).float()


def _centred(graded: Tensor) -> Tensor:
    if len(graded) < 2 or bool((graded == graded[0]).all()):
        return torch.zeros_like(graded)
    return graded - graded.mean()


def _spread(graded: Tensor, ddof: int, eps: float) -> Tensor | float:
    # Of rewards without spread the centred ones are 0, so that any divisor but 0 does.
    if len(graded) < 2 or bool((graded == graded[0]).all()):
        return 1.0
    return graded.std(correction=ddof) + eps
