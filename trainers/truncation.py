"""What becomes of completions that were cut off before the model ended them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch

from .trajectory import Batch, Trajectory

TruncationRule = Literal["as_is", "zero_reward", "mask"]


def worth(trajectory: Trajectory, rule: TruncationRule) -> float:
    """What a trajectory is paid, as `worth_of_truncated` has it; NaN where the grader failed."""
    worthless = rule == "zero_reward" and trajectory.finish_reason == "length"
    return 0.0 if worthless and not math.isnan(trajectory.reward) else trajectory.reward


def worth_of_truncated(batch: Batch, rule: TruncationRule) -> Batch:
    """The batch with the rewards that count: under `zero_reward`, 0 for what was cut off, in its baseline too.

    One whose grader failed stays ungraded. Source: Liu et al. 2025 (Understanding R1-Zero-like training).
    """
    if rule != "zero_reward" or batch.cut_off is None:
        return batch
    worthless = batch.cut_off & ~batch.rewards.isnan()
    turns = batch.turn_rewards
    return replace(
        batch,
        rewards=batch.rewards.masked_fill(worthless, 0.0),
        turn_rewards=None if turns is None else turns.masked_fill(worthless[:, None], 0.0),
    )


def has_loss(batch: Batch, rule: TruncationRule) -> torch.Tensor:
    """Which rows are in the loss, (N,) bool: under `mask`, those that were not cut off.

    The others are still in their group's baseline and in every denominator, so that a token counts the same however
    many were cut off. Source: overlong filtering, DAPO (Yu et al. 2025), section 3.4.
    """
    if rule != "mask" or batch.cut_off is None:
        return torch.ones(len(batch), dtype=torch.bool)
    return ~batch.cut_off
