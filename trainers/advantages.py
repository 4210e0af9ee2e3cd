"""Advantages: how much better a trajectory did than its group. Pure functions on tensors."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def group_advantages(
    rewards: Tensor,
    groups: Tensor,
    kind: Literal["group_mean_std", "group_mean"],
    ddof: int = 1,
    eps: float = 1e-4,
) -> Tensor:
    """Centre every reward on its group's mean and, for `group_mean_std`, divide by the group's spread.

    `group_mean`:      A_i = r_i - mean(r)                        (Dr. GRPO, Liu et al. 2025, section 3.2)
    `group_mean_std`:  A_i = (r_i - mean(r)) / (std(r) + eps)     (GRPO, Shao et al. 2024, section 4.1)

    A reward of NaN stands for a verdict that the grader could not give: it is left out of the mean and the
    deviation, and its own advantage is 0. A group whose graded rewards are all equal (or that has fewer than
    two) gets exactly 0, which no rounding of the mean can turn into a huge number.

    Args:
        rewards: (N,) one a trajectory, NaN where ungraded.
        groups: (N,) integers; trajectories of one task in one rollout share theirs.
        kind: which of the two formulas.
        ddof: 1 divides the variance by G - 1, 0 by G.
        eps: added to the deviation.

    Returns:
        (N,) float32 advantages.
    """
    advantages = torch.zeros_like(rewards, dtype=torch.float64)
    for group in groups.unique():
        members = (groups == group) & ~rewards.isnan()
        graded = rewards[members].double()
        if len(graded) < 2 or bool((graded == graded[0]).all()):
            continue
        centred = graded - graded.mean()
        scale = graded.std(correction=ddof) + eps if kind == "group_mean_std" else 1.0
        advantages[members] = centred / scale
    return advantages.float()
