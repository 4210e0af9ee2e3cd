"""What each generated token of a rollout was worth, by its critic. Pure functions on tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .algorithms import Algorithm
from .gae import gae, length_adaptive_lambda
from .token_rewards import subtract_missing_eos, token_rewards
from .trajectory import Batch
from .truncation import has_loss
from .value_loss import explained_variance
from .whitening import whiten


@dataclass(frozen=True)
class Estimates:
    """What a rollout was worth, token by token, frozen while policy and critic move; (N, T) each, 0 off the mask.

    Attributes:
        mask: the generated tokens of the rows that were graded and are in the loss.
        rewards: what each token earned, the cost of its KL included.
        values: the critic's at the start of the batch.
        returns: what the critic is fitted to; of advantages before they were whitened.
        advantages: what the policy is pushed by.
    """

    mask: Tensor
    rewards: Tensor
    values: Tensor
    returns: Tensor
    advantages: Tensor

    def metrics(self) -> dict[str, float]:
        """Means and extremes over the tokens of the mask, by verl's names."""
        metrics: dict[str, float] = {}
        if not bool(self.mask.any()):
            return metrics
        for name in ("values", "returns", "advantages"):
            tokens = getattr(self, name)[self.mask].double()
            metrics[f"critic/{name}/mean"] = float(tokens.mean())
            metrics[f"critic/{name}/min"] = float(tokens.min())
            metrics[f"critic/{name}/max"] = float(tokens.max())
        rows = self.mask.any(dim=1)
        metrics["critic/rewards/mean"] = float(self.rewards.double().sum(dim=1)[rows].mean())
        explained = explained_variance(self.values, self.returns, self.mask)
        return metrics if explained is None else metrics | {"critic/vf_explained_var": explained}


def estimate(
    batch: Batch, values: Tensor, end_values: Tensor, kl: Tensor | None, kl_coef: float, algorithm: Algorithm
) -> Estimates:
    """Rewards a token, advantages and returns of a rollout, from what the critic said of it.

    The actor's lambda and the critic's may differ (VC-PPO, Yuan et al. 2025, section 3.2): advantages are of the
    one, returns A + V of the other.

    Args:
        batch: N trajectories; ungraded ones take no part.
        values: (N, T) of the critic, before each generated token.
        end_values: (N,) of the critic, after the last token; read where a row was cut short, if the algorithm goes
            on from there.
        kl: (N, T) estimate of the KL to the reference at each token; None for no such term.
        kl_coef: its weight.
        algorithm: the discount, the lambdas, what a missing EOS costs, whether advantages are whitened.
    """
    if batch.turn_rewards is None or batch.turn_ends is None or batch.truncated is None or batch.cut_off is None:
        raise ValueError("advantages a token need a batch that knows its turns; make it by Batch.from_trajectories")
    mask = batch.loss_mask & (~batch.rewards.isnan() & has_loss(batch, algorithm.truncated))[:, None]
    scores = subtract_missing_eos(batch.turn_rewards, batch.turn_ends, batch.cut_off, algorithm.missing_eos_penalty)
    rewards = token_rewards(scores, batch.turn_ends, mask, kl, kl_coef)
    values = values.masked_fill(~mask, 0.0)
    bootstrap = torch.where(batch.truncated & algorithm.bootstrap_truncated, end_values, 0.0)

    lam: float | Tensor = algorithm.lam
    if algorithm.length_adaptive_alpha is not None:
        lam = length_adaptive_lambda(mask.sum(dim=1), algorithm.length_adaptive_alpha)
    advantages = gae(rewards, values, mask, bootstrap, algorithm.gamma, lam)
    critic_lam = algorithm.lam if algorithm.critic_lam is None else algorithm.critic_lam
    returns = values + gae(rewards, values, mask, bootstrap, algorithm.gamma, critic_lam)
    return Estimates(mask, rewards, values, returns, whiten(advantages, mask) if algorithm.whiten else advantages)
