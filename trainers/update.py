"""The updates of one step: from a batch and its advantages to moved weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from .algorithms import Algorithm
from .correction import correction_weights
from .credit import along_rows
from .entropy import EntropyBonus, EntropyLogprobs
from .gradients import NotFinite, clip_gradients
from .kl import k3, kl_estimate
from .logprobs import TokenLogprobs
from .lora import ReferenceOfAdapter
from .losses import (
    Surrogate,
    cispo_surrogate,
    clipped_surrogate,
    importance_ratio,
    logprob_surrogate,
    token_weights,
)
from .micro_batches import Cut, shared_micro_batches
from .parts import moved
from .ranks import Ranks
from .seeding import derive
from .settings import TrainSettings
from .sharding import keep_step
from .trajectory import Batch
from .truncation import has_loss

# KL(old policy || policy), a token.
_APPROXIMATE_KL = "policy/approxkl_avg"


@dataclass(frozen=True)
class Frozen:
    """What stays fixed while the policy moves, (N, T) each; None where the formula does without.

    Before the policy has moved, its own log-probs, detached, are the old ones, whatever stands here: then the
    ratio is exactly 1, whichever rows went through the model together.
    """

    old_logprobs: Tensor | None
    reference_logprobs: Tensor | None


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

    def add_drift(self, mask: Tensor, drift: Tensor, **values: Tensor) -> None:
        """Add by how many nats sampler and trainer differ at each token, and other values as `add` does."""
        self.add(mask, **values, **{"sampling/logprob_diff_mean": drift})
        self.largest_drift = max(self.largest_drift, float(drift[mask].max()))

    def merge(self, other: Tally) -> None:
        """Add what another one holds."""
        self.tokens += other.tokens
        for name, total in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + total
        self.largest_drift = max(self.largest_drift, other.largest_drift)
        self.losses += other.losses
        self.grad_norms += other.grad_norms

    @classmethod
    def of_ranks(cls, parts: Sequence[Tally]) -> Tally:
        """Of an optimizer step, whose loss is the sum of what its processes had of it."""
        whole = cls()
        for part in parts:
            whole.merge(part)
        whole.losses = [sum(whole.losses)]
        return whole

    def metrics(self) -> dict[str, float]:
        """Means over tokens, and over optimizer steps for the loss and the norm of its gradient."""
        means = {name: total / max(self.tokens, 1) for name, total in self.sums.items()}
        if self.sums:
            means["sampling/logprob_diff_max"] = self.largest_drift
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
        ranks: the processes that share the work; each computes its part of the micro-batches.
        tells_entropy: whether `entropy` is among the metrics, for an engine that cannot tell those of its draws.

    Attributes:
        failure: why the last step was cut short, if a gradient was not finite.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        policy: TokenLogprobs,
        reference: TokenLogprobs | ReferenceOfAdapter | None,
        optimizer: torch.optim.Optimizer,
        algorithm: Algorithm,
        settings: TrainSettings,
        max_tokens: int,
        seed: int,
        ranks: Ranks | None = None,
        tells_entropy: bool = False,
    ) -> None:
        if algorithm.needs_reference and reference is None:
            raise ValueError(f"{algorithm.name} with kl_coef {algorithm.kl_coef} needs a reference policy")
        if algorithm.entropy_bonus and not isinstance(policy, EntropyLogprobs):
            raise ValueError("an entropy bonus needs EntropyLogprobs, whose entropies carry the gradient")
        self.accelerator = accelerator
        self.policy = policy
        self.reference = reference
        self.optimizer = optimizer
        self.algorithm = algorithm
        self.settings = settings
        self.max_tokens = max_tokens
        self.seed = seed
        self.ranks = ranks or Ranks()
        self.failure: NotFinite | None = None
        self.entropy = EntropyBonus(algorithm)
        self._tells_entropy = tells_entropy
        self._with_entropies = {"entropies": True} if tells_entropy or algorithm.entropy_bonus else {}

    def step(self, batch: Batch, advantages: Tensor, step: int, frozen: Frozen | None = None) -> dict[str, float]:
        """All epochs and minibatches over one batch; returns metrics by their published names.

        A gradient that is not finite moves nothing and ends the step; see `failure`.

        Args:
            batch: N trajectories.
            advantages: (N, T), or (N,) for one a row; 0 where there is nothing to say.
            step: number of the step, for the learning rate and the order of minibatches.
            frozen: what `freeze` gave, if it was asked already.
        """
        learning_rate = self.learning_rate_at(step)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        tally = Tally()
        if frozen is None:
            frozen = self.freeze(batch, advantages)
        self.failure = None
        try:
            self._pass_over(batch, advantages, frozen, step, tally)
        except NotFinite as failure:
            self.failure = failure
        if not tally.tokens:
            self._watch(batch, tally)
        metrics = {"learning_rate": learning_rate, **tally.metrics()}
        if self.algorithm.kl_in_loss:
            metrics["kl_coef"] = self.algorithm.kl_coef
        if self.algorithm.entropy_bonus:
            metrics["entropy_coef"] = self.entropy.coef
        return metrics

    def _pass_over(self, batch: Batch, advantages: Tensor, frozen: Frozen, step: int, tally: Tally) -> None:
        """The optimizer steps."""
        # Until the policy has moved, it is the old one.
        now = replace(frozen, old_logprobs=None)
        for rows in self._minibatches(len(batch), step):
            self.optimizer.zero_grad(set_to_none=True)
            seen = Tally()
            pushed = self.push(batch, advantages, now, rows, seen)
            tally.merge(seen)
            if self.goes_too_far(seen):
                break
            if not pushed:
                continue  # no row has a gradient: momentum alone is no reason to move
            parameters = moved(self.policy.parameters())
            self.ranks.sum_gradients(parameters)
            norm = clip_gradients(parameters, self.settings.max_grad_norm)
            tally.grad_norms.append(norm)
            if not math.isfinite(norm):
                raise NotFinite(
                    f"The gradient of step {step + 1} has norm {norm}, which would ruin the weights; lower "
                    "train.learning_rate, or go on from a checkpoint with train.precision=fp32."
                )
            self.optimizer.step()
            now = frozen

    @torch.no_grad()
    def _watch(self, batch: Batch, tally: Tally) -> None:
        """How far sampler and trainer are apart in a step without any gradient, from one micro-batch of its rows."""
        rows = (~batch.rewards.isnan() & (batch.lengths > 0)).nonzero().flatten()[: self.settings.micro_batch_size]
        mine = Tally()
        for index in self._micro_batches(self.policy, batch, rows):
            if len(index) == 0:
                keep_step(self.policy, self.accelerator.device)
                continue
            micro = Cut(batch, index).batch.to(self.accelerator.device)
            with self.accelerator.autocast():
                said = self.policy(micro.input_ids, micro.attention_mask, micro.loss_mask, **self._with_entropies)
            drift = (said.logprobs - micro.sampler_logprobs).abs()
            mine.add_drift(micro.loss_mask, drift, **({"entropy": said.entropies} if self._tells_entropy else {}))
        for part in self.ranks.gather(mine):
            tally.merge(part)

    def learning_rate_at(self, step: int) -> float:
        """The policy's in a step, counted from 0."""
        return self.settings.learning_rate_at(step)

    def push(self, batch: Batch, advantages: Tensor, frozen: Frozen, rows: Tensor, tally: Tally) -> bool:
        """All that a minibatch adds to `.grad`; says whether it is anything. See `accumulate`."""
        return self.accumulate(batch, advantages, frozen, rows, tally)

    def goes_too_far(self, tally: Tally) -> bool:
        """Whether on a minibatch the policy is 1.5 times as far from the old one as it may be, so that epochs end.

        Measured before the minibatch moves the policy, as in Schulman's Spinning Up.
        """
        limit = self.algorithm.early_stop_kl
        return limit is not None and tally.sums.get(_APPROXIMATE_KL, 0.0) > 1.5 * limit * tally.tokens

    def freeze(self, batch: Batch, advantages: Tensor | None = None) -> Frozen:
        """Log-probs of the policy at the start of the batch, and of the reference, where they are needed.

        Without advantages, which may themselves depend on them, they are of every graded row.
        """
        rows = torch.arange(len(batch))
        if advantages is None:
            rows = rows[~batch.rewards.isnan() & (batch.lengths > 0)]
        else:
            rows = self._contributing(batch, advantages, rows)
        one_pass = self.settings.epochs == 1 and self.settings.minibatches == 1
        return Frozen(
            None if one_pass and not self.algorithm.kl_in_reward else self._logprobs(self.policy, batch, rows),
            self._logprobs(self.reference, batch, rows) if self.reference is not None else None,
        )

    def accumulate(
        self, batch: Batch, advantages: Tensor, frozen: Frozen, rows: Tensor, tally: Tally | None = None
    ) -> bool:
        """Add to `.grad` the gradient of one optimizer step's loss over `rows`, micro-batch by micro-batch.

        The denominators count every graded row in `rows`, whether or not it has a gradient, before the first
        backward pass; so neither the micro-batch size nor the rows that are skipped change the result.

        Of several processes each adds the gradient of its own micro-batches; `Ranks.sum_gradients` makes it the whole.

        Returns:
            Whether any row has a gradient.
        """
        tally = tally if tally is not None else Tally()
        if advantages.dim() == 1:
            advantages = along_rows(advantages, batch.loss_mask)
        lengths = torch.where(~batch.rewards.isnan(), batch.lengths, 0)[rows]
        weights = torch.zeros(len(batch))
        weights[rows] = token_weights(lengths, self.algorithm.aggregate, self.max_tokens)
        bonus = self.entropy.applied / max(int(lengths.sum()), 1)

        contributing = self._contributing(batch, advantages, rows)
        loss, mine = 0.0, Tally()
        for index in self._micro_batches(self.policy, batch, contributing):
            if len(index) == 0:
                keep_step(self.policy, self.accelerator.device)
                continue
            part = self._loss(Cut(batch, index), advantages, frozen, weights, bonus, mine)
            self.accelerator.backward(part)
            loss += float(part.detach())
        if len(contributing) == 0:
            return False
        mine.losses.append(loss)
        seen = Tally.of_ranks(self.ranks.gather(mine))
        if self.algorithm.entropy_bonus:
            self.entropy.observe(seen.sums["entropy"] / seen.tokens)
        if not self._tells_entropy:
            seen.sums.pop("entropy", None)
        tally.merge(seen)
        return True

    def _loss(
        self, cut: Cut, advantages: Tensor, frozen: Frozen, weights: Tensor, bonus: float, tally: Tally
    ) -> Tensor:
        device = self.accelerator.device
        micro = cut.batch.to(device)
        mask = micro.loss_mask
        with self.accelerator.autocast():
            said = self.policy(micro.input_ids, micro.attention_mask, mask, **self._with_entropies)
        logprobs = said.logprobs
        old = logprobs.detach() if frozen.old_logprobs is None else cut.of(frozen.old_logprobs).to(device)
        drift = (old - micro.sampler_logprobs).abs()
        correction = correction_weights(
            old, micro.sampler_logprobs, mask, self.algorithm.correction, *self.algorithm.correction_bounds
        )
        before = micro.sampler_logprobs if self.algorithm.old_logprobs == "sampler" else old

        surrogate = self._surrogate(logprobs, before, cut.of(advantages).to(device), mask)
        token_loss = correction * surrogate.loss
        values = {
            "clip_ratio/low_mean": surrogate.clipped_low,
            "clip_ratio/high_mean": surrogate.clipped_high,
            "clip_ratio/region_mean": surrogate.clipped_low | surrogate.clipped_high,
        }
        if self.algorithm.correction != "none":
            values["sampling/importance_sampling_ratio/mean"] = correction
            values["sampling/corrected_to_zero"] = correction == 0
        if self.algorithm.early_stop_kl is not None:
            values[_APPROXIMATE_KL] = k3(old, logprobs)
        if self.algorithm.kl_in_loss:
            assert frozen.reference_logprobs is not None
            kl = kl_estimate(logprobs, cut.of(frozen.reference_logprobs).to(device), self.algorithm.kl_estimator)
            token_loss = token_loss + self.algorithm.kl_coef * kl
            values["kl"] = kl
        token_loss = weights[cut.rows].to(device)[:, None] * token_loss
        if self.algorithm.entropy_bonus:
            token_loss = token_loss - bonus * said.entropies
        if self._with_entropies:
            values["entropy"] = said.entropies
        tally.add_drift(mask, drift, **values)
        return token_loss.masked_fill(~mask, 0.0).sum()

    def _surrogate(self, logprobs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor) -> Surrogate:
        row = self.algorithm
        if row.ratio == "none":
            return logprob_surrogate(logprobs, advantages)
        ratio = importance_ratio(logprobs, old, mask, row.ratio)
        if row.surrogate == "cispo":
            return cispo_surrogate(ratio, logprobs, advantages, row.clip_low, row.clip_high)
        return clipped_surrogate(ratio, advantages, row.clip_low, row.clip_high)

    def _contributing(self, batch: Batch, advantages: Tensor, rows: Tensor) -> Tensor:
        """Those of `rows` that can change the gradient: graded, and pushed by an advantage, the KL or the entropy."""
        if advantages.dim() == 1:
            advantages = along_rows(advantages, batch.loss_mask)
        pushed = ((advantages != 0) & batch.loss_mask).any(dim=1)
        if self.algorithm.kl_in_loss or self.algorithm.entropy_bonus:
            pushed = torch.ones_like(pushed)
        counted = ~batch.rewards.isnan() & (batch.lengths > 0) & has_loss(batch, self.algorithm.truncated)
        return rows[(counted & pushed)[rows]]

    @torch.no_grad()
    def _logprobs(self, model: TokenLogprobs | ReferenceOfAdapter, batch: Batch, rows: Tensor) -> Tensor:
        result = torch.zeros(batch.input_ids.shape)
        for index in self._micro_batches(model, batch, rows):
            if len(index) == 0:
                keep_step(model, self.accelerator.device)
                continue
            cut = Cut(batch, index)
            micro = cut.batch.to(self.accelerator.device)
            with self.accelerator.autocast():
                logprobs = model(micro.input_ids, micro.attention_mask, micro.loss_mask).logprobs
            cut.put(logprobs.cpu().to(result.dtype), result)
        # Each place is written by one process and 0 in the others, so that the sum is exact.
        return self.ranks.sum(result)

    def _micro_batches(self, model: TokenLogprobs | ReferenceOfAdapter, batch: Batch, rows: Tensor) -> list[Tensor]:
        return shared_micro_batches(self.ranks, batch, rows, self.settings.micro_batch_size, model.shares_prompts)

    def _minibatches(self, count: int, step: int) -> Iterator[Tensor]:
        """Those of all epochs, each epoch in an order of its own."""
        for epoch in range(self.settings.epochs):
            generator = np.random.default_rng(derive(self.seed, "minibatches", step, epoch))
            order = torch.from_numpy(generator.permutation(count))
            yield from order.tensor_split(self.settings.minibatches)
