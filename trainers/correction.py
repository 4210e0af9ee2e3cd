"""Weights for samples that were not drawn from the very policy that is trained. Pure functions on tensors.

A sampler computes in another precision, with other kernels, or with weights that are some steps old, so its
probabilities differ from those of the trainer. What was sampled from q and is learned from as if it were pi_old is
put right by the importance ratio pi_old / q, bounded so that no token or completion carries the whole step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .algorithms import CorrectionKind

# exp(20) is 5e8, far above any ratio that means something; exp(89) is infinite in float32.
_LARGEST_LOG_RATIO = 20.0


def correction_weights(
    old_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor, kind: CorrectionKind, low: float, high: float
) -> Tensor:
    """How much the policy term of each token counts, with rho_t = exp(log pi_old_t - log q_t).

    `token_truncate`: clip(rho_t, low, high), low mostly 0        truncated importance sampling (Yao et al. 2025,
                                                                  "Your Efficient RL Framework Secretly Brings You
                                                                  Off-Policy RL Training")
    `token_mask`:     rho_t where low <= rho_t <= high, else 0    IcePop (Ling Team 2025, "Every Step Evolves")
    `sequence_mask`:  1 where low <= exp(mean_t log rho_t) <= high, else 0, one a row

    A row is judged by the mean of its log-ratios. Their sum grows with the length, so that bounds on it would
    throw long completions away whatever the sampler did.

    Args:
        old_logprobs: (B, T) under the policy at the start of the batch; no gradient.
        sampler_logprobs: (B, T) under the distribution that was sampled.
        mask: (B, T) bool, the loss tokens.
        kind: which of them; `none` gives 1 everywhere.
        low: lower bound of the ratio.
        high: upper bound of the ratio.

    Returns:
        (B, T) weights without a gradient, 1 where the mask is 0.
    """
    log_ratio = (old_logprobs - sampler_logprobs).detach().masked_fill(~mask, 0.0)
    if kind == "none":
        return torch.ones_like(log_ratio)
    if kind == "sequence_mask":
        mean = log_ratio.sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        kept = (mean.exp() >= low) & (mean.exp() <= high)
        return torch.where(mask, kept[:, None], True).to(log_ratio.dtype)
    ratio = log_ratio.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO).exp()
    if kind == "token_truncate":
        weights = ratio.clamp(low, high)
    else:
        weights = torch.where((ratio >= low) & (ratio <= high), ratio, 0.0)
    return weights.masked_fill(~mask, 1.0)
