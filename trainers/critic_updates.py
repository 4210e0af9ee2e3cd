"""Asking the critic, and fitting it to what came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator
from torch import Tensor

from .critic import Critic
from .critic_settings import CriticSettings
from .estimates import Estimates
from .gradients import NotFinite, clip_gradients
from .micro_batches import Cut, shared_micro_batches
from .parts import moved
from .ranks import Ranks
from .sharding import keep_step
from .trajectory import Batch
from .value_loss import clipped_value_loss


@dataclass
class CriticTally:
    """Sums over the tokens and optimizer steps of one training step."""

    tokens: int = 0
    clipped: int = 0
    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)

    def add_of_ranks(self, parts: Sequence[CriticTally]) -> None:
        """Add an optimizer step, whose loss is the sum of what its processes had of it."""
        self.tokens += sum(part.tokens for part in parts)
        self.clipped += sum(part.clipped for part in parts)
        self.losses.append(sum(loss for part in parts for loss in part.losses))

    def metrics(self) -> dict[str, float]:
        """Means over optimizer steps and, of the clip, over tokens; by verl's names."""
        metrics = {"critic/vf_clipfrac": self.clipped / max(self.tokens, 1)}
        if self.losses:
            metrics["critic/vf_loss"] = sum(self.losses) / len(self.losses)
        if self.grad_norms:
            metrics["critic/grad_norm"] = sum(self.grad_norms) / len(self.grad_norms)
        return metrics


class CriticUpdates:
    """A critic with its optimizer.

    Args:
        accelerator: devices, mixed precision, gradient clipping.
        critic: what is asked and fitted.
        settings: learning rate, clip, weight of a shared critic's loss, warm-up.
        micro_batch_size: rows in one forward pass; changes memory, not the gradient.
        max_grad_norm: the gradient of what is the critic's own is clipped to this norm.
        ranks: the processes that share the work; each computes its part of the micro-batches.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        critic: Critic,
        settings: CriticSettings,
        micro_batch_size: int,
        max_grad_norm: float,
        ranks: Ranks | None = None,
    ) -> None:
        self.accelerator = accelerator
        self.critic = critic
        self.settings = settings
        self.micro_batch_size = micro_batch_size
        self.max_grad_norm = max_grad_norm
        self.ranks = ranks or Ranks()
        self.optimizer = torch.optim.AdamW(
            moved(critic.own_parameters()), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )

    def warms_up(self, step: int) -> bool:
        """Whether the critic alone learns in this step, counted from 0."""
        return step < self.settings.warmup_steps

    @torch.no_grad()
    def look(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The critic's values before each generated token, (N, T), and after the last token, (N,)."""
        values, ends = torch.zeros(batch.input_ids.shape), torch.zeros(len(batch))
        for index in self._micro_batches(batch, torch.arange(len(batch))):
            if len(index) == 0:
                keep_step(self.critic, self.accelerator.device)
                continue
            cut = Cut(batch, index)
            micro = cut.batch.to(self.accelerator.device)
            with self.accelerator.autocast():
                found, at_end = self.critic.with_end(micro.input_ids, micro.attention_mask, micro.loss_mask)
            cut.put(found.cpu(), values)
            ends[index] = at_end.cpu()
        # Each place is written by one process and 0 in the others, so that the sums are exact.
        return self.ranks.sum(values), self.ranks.sum(ends)

    def accumulate(
        self,
        batch: Batch,
        estimates: Estimates,
        rows: Tensor,
        tally: CriticTally | None = None,
        head_only: bool = False,
    ) -> bool:
        """Add to `.grad` the gradient of the value loss over `rows`, a mean over the tokens of the graded ones.

        The tokens are counted before the first backward pass, and before those without a loss are taken out, so
        that neither the split into micro-batches nor the share of truncated completions changes what one counts.

        Args:
            batch: the rollout.
            estimates: what it was worth.
            rows: indices of the minibatch.
            tally: is told of it.
            head_only: leave the backbone alone, as a shared critic does while it warms up.

        Returns:
            Whether there is a token to learn from.
        """
        tally = tally if tally is not None else CriticTally()
        tokens = int(batch.lengths[rows][~batch.rewards[rows].isnan()].sum())
        rows = rows[estimates.mask.any(dim=1)[rows]]
        weight = (self.settings.coef if self.critic.shared else 1.0) / max(tokens, 1)
        total, mine = 0.0, CriticTally()
        for index in self._micro_batches(batch, rows):
            if len(index) == 0:
                keep_step(self.critic, self.accelerator.device, head_only=head_only)
                continue
            loss = self._loss(Cut(batch, index), estimates, head_only, mine)
            self.accelerator.backward(loss * weight)
            total += float(loss.detach())
        if len(rows) == 0:
            return False
        mine.losses.append(total / tokens)
        tally.add_of_ranks(self.ranks.gather(mine))
        return True

    def move(self, tally: CriticTally) -> None:
        """One optimizer step on what is the critic's own.

        Raises:
            NotFinite: if there is none to be taken; then nothing moves.
        """
        parameters = moved(self.critic.own_parameters())
        self.ranks.sum_gradients(parameters)
        norm = clip_gradients(parameters, self.max_grad_norm)
        tally.grad_norms.append(norm)
        if not math.isfinite(norm):
            raise NotFinite(
                f"The gradient of the critic has norm {norm}, which would ruin its weights; lower "
                "critic.learning_rate, or go on from a checkpoint with train.precision=fp32."
            )
        self.optimizer.step()

    def _loss(self, cut: Cut, estimates: Estimates, head_only: bool, tally: CriticTally) -> Tensor:
        device = self.accelerator.device
        micro = cut.batch.to(device)
        old, returns = (cut.of(tensor).to(device) for tensor in (estimates.values, estimates.returns))
        with self.accelerator.autocast():
            values = self.critic(micro.input_ids, micro.attention_mask, micro.loss_mask, head_only)
        parts = clipped_value_loss(values, old, returns, self.settings.clip)
        tally.tokens += int(micro.loss_mask.sum())
        tally.clipped += int(parts.clipped[micro.loss_mask].sum())
        return parts.loss.masked_fill(~micro.loss_mask, 0.0).sum()

    def _micro_batches(self, batch: Batch, rows: Tensor) -> Iterable[Tensor]:
        return shared_micro_batches(self.ranks, batch, rows, self.micro_batch_size, self.critic.shares_prompts)
