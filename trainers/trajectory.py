"""Trajectories (one episode each) and the batch that they are padded into, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from ..verifiers import Verdict


@dataclass(frozen=True)
class Trajectory:
    """One episode: what was said, which tokens the model generated, and what that was worth.

    Attributes:
        task_id: the task; all trajectories of a group share it.
        group: number of the group within its rollout.
        prompt: the task's prompt as text.
        completion: what the model wrote, as the environment saw it.
        ids: prompt and completion as token ids, exactly as sampled.
        loss_mask: 1 on tokens that the model generated, EOS included.
        sampler_logprobs: the engine's log-prob of each generated token, 0 elsewhere.
        entropies: the engine's entropy at each generated token, 0 elsewhere; None where it cannot tell.
        rewards: one a turn; NaN where the grader failed.
        verdict: of the last turn.
        finish_reason: `stop`, or `length` if the completion was cut off.
    """

    task_id: str
    group: int
    prompt: str
    completion: str
    ids: list[int]
    loss_mask: list[int]
    sampler_logprobs: list[float]
    entropies: list[float] | None
    rewards: list[float]
    verdict: Verdict
    finish_reason: Literal["stop", "length"]

    @property
    def reward(self) -> float:
        """The return of the episode: the sum of its rewards."""
        return sum(self.rewards)

    @property
    def length(self) -> int:
        """How many tokens the model generated."""
        return sum(self.loss_mask)


@dataclass(frozen=True)
class Batch:
    """Trajectories as tensors, padded on the right to the longest: (N, T), or (N,) for what is one a row.

    Position t of `loss_mask` and `sampler_logprobs` speaks of the token at t, which the policy predicts from the
    tokens before it.
    """

    input_ids: Tensor
    attention_mask: Tensor
    loss_mask: Tensor
    sampler_logprobs: Tensor
    rewards: Tensor
    groups: Tensor

    @classmethod
    def from_trajectories(cls, trajectories: Sequence[Trajectory], pad_id: int) -> Batch:
        """Pad with `pad_id`, which neither attention nor loss ever sees."""
        width = max(len(trajectory.ids) for trajectory in trajectories)

        def pad(rows: list[list[int]] | list[list[float]], value: float, dtype: torch.dtype) -> Tensor:
            return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], dtype=dtype)

        return cls(
            input_ids=pad([t.ids for t in trajectories], pad_id, torch.long),
            attention_mask=pad([[1] * len(t.ids) for t in trajectories], 0, torch.long),
            loss_mask=pad([t.loss_mask for t in trajectories], 0, torch.bool),
            sampler_logprobs=pad([t.sampler_logprobs for t in trajectories], 0.0, torch.float32),
            rewards=torch.tensor([t.reward for t in trajectories], dtype=torch.float32),
            groups=torch.tensor([t.group for t in trajectories]),
        )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def lengths(self) -> Tensor:
        """(N,) loss tokens of every row."""
        return self.loss_mask.sum(dim=1)

    def rows(self, index: Tensor) -> Batch:
        """The rows at `index`, cut to the longest of them."""
        width = int(self.attention_mask[index].sum(dim=1).max())
        chosen = {field.name: getattr(self, field.name)[index] for field in fields(self)}
        return Batch(**{name: value[:, :width] if value.dim() == 2 else value for name, value in chosen.items()})

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})
