"""Estimators of KL(policy || reference) from the log-probs of sampled tokens (Schulman 2020)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

KLEstimator = Literal["k1", "k2", "k3"]

# exp(20) is 5e8, far above any ratio that means something; exp(89) is infinite in float32.
_LARGEST_EXPONENT = 20.0


def kl_estimate(logprobs: Tensor, reference: Tensor, estimator: KLEstimator) -> Tensor:
    """The estimate of that name, a token: see `k1`, `k2` and `k3`."""
    return {"k1": k1, "k2": k2, "k3": k3}[estimator](logprobs, reference)


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """-d with d = log pi_ref - log pi: unbiased, of either sign, of high variance.

    The one for rewards: its sum over a completion is the log-ratio of the whole. In a loss its gradient is nought
    on average. Source: Schulman, "Approximating KL divergence" (2020).

    Args:
        logprobs: log pi of the sampled tokens, any shape.
        reference: log pi_ref of the same tokens.

    Returns:
        The estimate a token, in nats.
    """
    return logprobs - reference


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """d^2 / 2 with d = log pi_ref - log pi: biased, never negative; in a loss, its gradient is that of the KL.

    Source: Schulman, "Approximating KL divergence" (2020).

    Args:
        logprobs: log pi of the sampled tokens, any shape.
        reference: log pi_ref of the same tokens.

    Returns:
        The estimate a token, in nats.
    """
    return (reference - logprobs).square() / 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """exp(d) - d - 1 with d = log pi_ref - log pi: unbiased, never negative, of low variance.

    d is clamped to 20 from above, where the exponential would overflow. From below nothing overflows, and there
    the policy has drifted to what the reference would not say, so the pull back is kept however far it is.

    Source: Schulman, "Approximating KL divergence" (2020); GRPO's eq. 4 (Shao et al. 2024). `expm1` keeps the
    digits that `exp(d) - 1` loses near d = 0.

    Args:
        logprobs: log pi of the sampled tokens, any shape.
        reference: log pi_ref of the same tokens.

    Returns:
        The estimate a token, in nats.
    """
    difference = (reference - logprobs).clamp(max=_LARGEST_EXPONENT)
    return torch.expm1(difference) - difference
