"""From the rewards of a batch to the advantage of every token, as the row of an algorithm has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .advantages import baseline_advantages, batch_advantages, group_advantages
from .algorithms import Algorithm
from .kl import kl_estimate
from .kl_controller import KLController
from .trajectory import Batch

if TYPE_CHECKING:
    from .update import Frozen


class BanditCredit:
    """One advantage a trajectory: the whole of it is one action, worth the sum of its rewards.

    Args:
        algorithm: which advantage, and whether a KL is taken off the rewards.

    Attributes:
        baseline: the moving average of past rewards; None before the first batch, and where no row asks for it.
        kl: the weight of the KL in the rewards.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.baseline: float | None = None
        self.kl = KLController(algorithm)

    def __call__(self, batch: Batch, frozen: Frozen | None) -> tuple[Tensor, dict[str, float]]:
        """Advantages (N, T), constant along the loss tokens of a row and 0 elsewhere, and what there is to log.

        Args:
            batch: N trajectories.
            frozen: log-probs of policy and reference at the start of the batch, if a KL is taken off the rewards.
        """
        rewards, metrics = batch.rewards, {}
        if self.algorithm.kl_in_reward:
            assert frozen is not None
            metrics["kl_coef"] = self.kl.coef
            rewards, metrics["kl"] = self._penalised(batch, frozen)
        return along_rows(self._advantages(rewards, batch.groups), batch.loss_mask), metrics

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"baseline": self.baseline, "kl": self.kl.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        # A critic has none, and its run may be gone on with by whatever asks it no more.
        self.baseline = state.get("baseline")
        self.kl.load_state_dict(state["kl"])

    def _penalised(self, batch: Batch, frozen: Frozen) -> tuple[Tensor, float]:
        """R_i = r_i - kl_coef * sum over loss tokens of the KL estimate, and the mean of that a token."""
        assert frozen.old_logprobs is not None
        assert frozen.reference_logprobs is not None
        kl = kl_estimate(frozen.old_logprobs, frozen.reference_logprobs, self.algorithm.kl_estimator)
        mask = batch.loss_mask & ~batch.rewards.isnan()[:, None]
        kl = kl.double().masked_fill(~mask, 0.0)
        rewards = batch.rewards.double() - self.kl.coef * kl.sum(dim=1)
        episodes = int(mask.any(dim=1).sum())
        self.kl.observe(float(kl.sum()) / max(episodes, 1), episodes)
        return rewards.float(), float(kl.sum() / mask.sum().clamp(min=1))

    def _advantages(self, rewards: Tensor, groups: Tensor) -> Tensor:
        row = self.algorithm
        if row.advantage == "moving_average":
            return self._from_moving_average(rewards)
        if row.advantage == "batch_mean" or row.advantage == "batch_mean_std":
            return batch_advantages(rewards, row.advantage, row.std_ddof, row.std_eps)
        assert row.advantage != "gae"
        return group_advantages(rewards, groups, row.advantage, row.std_ddof, row.std_eps)

    def _from_moving_average(self, rewards: Tensor) -> Tensor:
        """The baseline is of earlier batches alone, so that no reward is measured against itself; but for the first."""
        mean = float(rewards.double().nanmean())
        if math.isnan(mean):
            return baseline_advantages(rewards, 0.0)
        baseline = mean if self.baseline is None else self.baseline
        kept = self.algorithm.baseline_momentum
        self.baseline = kept * baseline + (1 - kept) * mean
        return baseline_advantages(rewards, baseline)


def along_rows(advantages: Tensor, loss_mask: Tensor) -> Tensor:
    """An advantage a row, (N,), for each of its loss tokens, (N, T), and 0 elsewhere."""
    return advantages[:, None] * loss_mask.to(advantages.dtype)
