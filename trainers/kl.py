"""Estimators of KL(policy || reference) from the log-probs of sampled tokens (Schulman 2020)."""

from __future__ import annotations

import torch
from torch import Tensor


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """exp(d) - d - 1 with d = log pi_ref - log pi: unbiased, never negative, of low variance.

    Source: Schulman, "Approximating KL divergence" (2020); GRPO's eq. 4 (Shao et al. 2024). `expm1` keeps the
    digits that `exp(d) - 1` loses near d = 0.

    Args:
        logprobs: log pi of the sampled tokens, any shape.
        reference: log pi_ref of the same tokens.

    Returns:
        The estimate a token, in nats.
    """
    difference = reference - logprobs
    return torch.expm1(difference) - difference
