"""Generalised advantage estimation over the tokens that the model generated. Pure functions on tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, bootstrap: Tensor, gamma: float = 1.0, lam: float | Tensor = 0.95
) -> Tensor:
    """A_t = delta_t + gamma * lam * A_t', with delta_t = r_t + gamma * V_t' - V_t, where t' is the next loss token.

    Source: Schulman et al. 2016 (High-dimensional continuous control using GAE), eq. 16. A step is a generated
    token, so what stands between two of them (an observation, padding) is stepped across: the next value and the
    last advantage are carried over it, and it is not discounted. Nothing that is written at such a place, reward
    or value, is read. The advantages of a row are those of the row with these places cut out.

    Args:
        rewards: (N, T) what came after the token at t.
        values: (N, T) V_t, what the critic expects from before the token at t on.
        mask: (N, T) true on the tokens that the model generated.
        bootstrap: (N,) the value of what would have followed the last token: 0 where the episode has ended, the
            critic's estimate where it was only cut off.
        gamma: discount a token.
        lam: weight of the later temporal differences: one number, or (N,) one a row.

    Returns:
        (N, T) float32 advantages, 0 outside the mask and without gradient.
    """
    rewards, values = rewards.detach().double(), values.detach().double()
    decay = gamma * torch.as_tensor(lam, dtype=torch.float64, device=values.device)
    advantages = torch.zeros_like(values)
    last, following = torch.zeros_like(bootstrap, dtype=torch.float64), bootstrap.detach().double()
    for t in reversed(range(values.shape[1])):
        generated = mask[:, t]
        delta = rewards[:, t] + gamma * following - values[:, t]
        last = torch.where(generated, delta + decay * last, last)
        following = torch.where(generated, values[:, t], following)
        advantages[:, t] = torch.where(generated, last, 0.0)
    return advantages.float()


def length_adaptive_lambda(lengths: Tensor, alpha: float) -> Tensor:
    """1 - 1 / (alpha * l): the longer a completion, the further back its end is heard.

    Source: VAPO, Yue et al. 2025, section 4.2 (there alpha is 0.05). Lengths up to 1 / alpha give 0.

    Args:
        lengths: (N,) generated tokens of each row.
        alpha: how soon lambda comes close to 1.

    Returns:
        (N,) float64, in [0, 1).
    """
    return (1 - 1 / (alpha * lengths.double().clamp(min=1))).clamp(min=0.0)
