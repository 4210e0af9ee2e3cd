"""The updates of one step: from a batch and its advantages to moved weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from ..verifiers import UserError
from .algorithms import Algorithm
from .kl import k3
from .logprobs import TokenLogprobs
from .losses import clipped_surrogate, token_weights
from .micro_batches import micro_batches
from .seeding import derive
from .settings import TrainSettings
from .trajectory import Batch


@dataclass(frozen=True)
class Frozen:
    """What stays fixed while the policy moves, (N, T) each; None where the formula does without.

    With one optimizer step a batch the old log-probs are the policy's own, detached, so they are not computed
    a second time and the ratio is exactly 1.
    """

    old_logprobs: Tensor | None
    reference_logprobs: Tensor | None

    def rows(self, index: Tensor, width: int) -> Frozen:
        """The rows at `index`, cut to `width` tokens."""
        old, reference = self.old_logprobs, self.reference_logprobs
        return Frozen(
            None if old is None else old[index, :width],
            None if reference is None else reference[index, :width],
        )


@dataclass
class Tally:
    """Sums over the loss tokens and optimizer steps of one training step."""

    tokens: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    largest_drift: float = 0.0
    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)

    def add(self, mask: Tensor, **values: Tensor) -> None:
        """Add a value a token, (B, T) each, over the loss tokens."""
        self.tokens += int(mask.sum())
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value.detach()[mask].double().sum())

    def metrics(self) -> dict[str, float]:
        """Means over tokens, and over optimizer steps for the loss and the norm of its gradient."""
        means = {name: total / max(self.tokens, 1) for name, total in self.sums.items()}
        if self.sums:
            means["sampling/sampling_logp_difference/max"] = self.largest_drift
        if self.losses:
            means["loss"] = sum(self.losses) / len(self.losses)
        if self.grad_norms:
            means["grad_norm"] = sum(self.grad_norms) / len(self.grad_norms)
        return means


class Updater:
    """Turns batches into optimizer steps.

    Args:
        accelerator: devices, mixed precision, gradient clipping.
        policy: what is trained.
        reference: what the KL is measured to; None if the algorithm has no such term.
        optimizer: moves the policy.
        algorithm: the formula.
        settings: epochs, minibatches, sizes, learning rate.
        max_tokens: the most that a completion may have, the constant of `fixed_length`.
        seed: of the order of minibatches.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        policy: TokenLogprobs,
        reference: TokenLogprobs | None,
        optimizer: torch.optim.Optimizer,
        algorithm: Algorithm,
        settings: TrainSettings,
        max_tokens: int,
        seed: int,
    ) -> None:
        if algorithm.needs_reference and reference is None:
            raise ValueError(f"{algorithm.name} with kl_coef {algorithm.kl_coef} needs a reference policy")
        self.accelerator = accelerator
        self.policy = policy
        self.reference = reference
        self.optimizer = optimizer
        self.algorithm = algorithm
        self.settings = settings
        self.max_tokens = max_tokens
        self.seed = seed

    def step(self, batch: Batch, advantages: Tensor, step: int) -> dict[str, float]:
        """All epochs and minibatches over one batch; returns metrics by their published names.

        Args:
            batch: N trajectories.
            advantages: (N,), 0 for a row that has nothing to say.
            step: number of the step, for the learning rate and the order of minibatches.
        """
        learning_rate = self.settings.learning_rate_at(step)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        tally = Tally()
        frozen = self.freeze(batch, advantages)
        for epoch in range(self.settings.epochs):
            for rows in self._minibatches(len(batch), step, epoch):
                self.optimizer.zero_grad(set_to_none=True)
                if not self.accumulate(batch, advantages, frozen, rows, tally):
                    continue  # no row has a gradient: momentum alone is no reason to move
                norm = float(self.accelerator.clip_grad_norm_(self.policy.parameters(), self.settings.max_grad_norm))
                if not math.isfinite(norm):
                    raise UserError(
                        f"The gradient of step {step + 1} has norm {norm}, which would ruin the weights; lower "
                        "train.learning_rate, or go on from a checkpoint with train.precision=fp32."
                    )
                tally.grad_norms.append(norm)
                self.optimizer.step()
        return {"learning_rate": learning_rate, **tally.metrics()}

    def freeze(self, batch: Batch, advantages: Tensor) -> Frozen:
        """Log-probs of the policy at the start of the batch, and of the reference, where they are needed."""
        rows = self._contributing(batch, advantages, torch.arange(len(batch)))
        one_pass = self.settings.epochs == 1 and self.settings.minibatches == 1
        return Frozen(
            None if one_pass else self._logprobs(self.policy, batch, rows),
            self._logprobs(self.reference, batch, rows) if self.reference is not None else None,
        )

    def accumulate(
        self, batch: Batch, advantages: Tensor, frozen: Frozen, rows: Tensor, tally: Tally | None = None
    ) -> bool:
        """Add to `.grad` the gradient of one optimizer step's loss over `rows`, micro-batch by micro-batch.

        The denominators count every graded row in `rows`, whether or not it has a gradient, before the first
        backward pass; so neither the micro-batch size nor the rows left out change the result.

        Returns:
            Whether any row has a gradient.
        """
        tally = tally if tally is not None else Tally()
        graded = ~batch.rewards.isnan()
        weights = torch.zeros(len(batch))
        lengths = torch.where(graded, batch.lengths, 0)[rows]
        weights[rows] = token_weights(lengths, self.algorithm.aggregate, self.max_tokens)

        contributing = self._contributing(batch, advantages, rows)
        loss = 0.0
        for index in self._micro_batches(self.policy, batch, contributing):
            part = self._loss(batch, advantages, frozen, weights, index, tally)
            self.accelerator.backward(part)
            loss += float(part.detach())
        if len(contributing) > 0:
            tally.losses.append(loss)
        return len(contributing) > 0

    def _loss(
        self, batch: Batch, advantages: Tensor, frozen: Frozen, weights: Tensor, index: Tensor, tally: Tally
    ) -> Tensor:
        device = self.accelerator.device
        micro = batch.rows(index).to(device)
        width = micro.input_ids.shape[1]
        fixed = frozen.rows(index, width)
        mask = micro.loss_mask
        with self.accelerator.autocast():
            logprobs = self.policy(micro.input_ids, micro.attention_mask, mask).logprobs
        old = logprobs.detach() if fixed.old_logprobs is None else fixed.old_logprobs.to(device)

        surrogate = clipped_surrogate(
            logprobs, old, advantages[index].to(device), self.algorithm.clip_low, self.algorithm.clip_high
        )
        token_loss = surrogate.loss
        drift = (old - micro.sampler_logprobs).abs()
        values = {
            "clip_ratio/low_mean": surrogate.clipped_low,
            "clip_ratio/high_mean": surrogate.clipped_high,
            "sampling/sampling_logp_difference/mean": drift,
        }
        if fixed.reference_logprobs is not None:
            kl = k3(logprobs, fixed.reference_logprobs.to(device))
            token_loss = token_loss + self.algorithm.kl_coef * kl
            values["kl"] = kl
        tally.add(mask, **values)
        tally.largest_drift = max(tally.largest_drift, float(drift[mask].max()))
        return (weights[index].to(device)[:, None] * token_loss).masked_fill(~mask, 0.0).sum()

    def _contributing(self, batch: Batch, advantages: Tensor, rows: Tensor) -> Tensor:
        """Those of `rows` that can change the gradient: graded, and pushed by an advantage or by the KL."""
        graded = ~batch.rewards.isnan()
        pushed = (advantages != 0) | (self.reference is not None)
        return rows[(graded & pushed & (batch.lengths > 0))[rows]]

    @torch.no_grad()
    def _logprobs(self, model: TokenLogprobs, batch: Batch, rows: Tensor) -> Tensor:
        result = torch.zeros(batch.input_ids.shape)
        for index in self._micro_batches(model, batch, rows):
            micro = batch.rows(index).to(self.accelerator.device)
            with self.accelerator.autocast():
                logprobs = model(micro.input_ids, micro.attention_mask, micro.loss_mask).logprobs
            result[index, : logprobs.shape[1]] = logprobs.cpu()
        return result

    def _micro_batches(self, model: TokenLogprobs, batch: Batch, rows: Tensor) -> list[Tensor]:
        return micro_batches(batch, rows, self.settings.micro_batch_size, model.shares_prompts)

    def _minibatches(self, count: int, step: int, epoch: int) -> Iterator[Tensor]:
        generator = np.random.default_rng(derive(self.seed, "minibatches", step, epoch))
        order = torch.from_numpy(generator.permutation(count))
        yield from order.tensor_split(self.settings.minibatches)
