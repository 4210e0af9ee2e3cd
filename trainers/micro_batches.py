"""Which rows go through the model together, and those rows without the padding around them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from .ranks import Ranks
from .trajectory import Batch

# Positions in a micro-batch: one of fewer takes a device about as long as this many do.
_WORTH_SPLITTING = 4096


@dataclass(frozen=True)
class Cut:
    """Some rows of a batch, padded on the right to the longest of them, on whichever side they were padded before."""

    source: Batch
    rows: Tensor

    @cached_property
    def batch(self) -> Batch:
        """The rows as a batch of their own."""
        source, ends = self.source, self.source.turn_ends
        if ends is not None:
            ends = torch.where(ends[self.rows] >= 0, ends[self.rows] - self._starts[:, None], -1)
        return replace(
            source.rows(self.rows),
            input_ids=self.of(source.input_ids),
            attention_mask=self.of(source.attention_mask),
            loss_mask=self.of(source.loss_mask),
            sampler_logprobs=self.of(source.sampler_logprobs),
            turn_ends=ends,
        )

    def of(self, values: Tensor) -> Tensor:
        """The part of a value a token, (N, T), that these rows have, (n, width); 0 in the padding."""
        return values[self.rows[:, None], self._places].masked_fill(~self._inside, 0)

    def put(self, values: Tensor, into: Tensor) -> None:
        """Write a value a token of these rows, (n, width), to where they are in the whole, (N, T)."""
        rows = self.rows[:, None].expand_as(self._places)
        into[rows[self._inside], self._places[self._inside]] = values[self._inside]

    @cached_property
    def _lengths(self) -> Tensor:
        return self.source.attention_mask[self.rows].sum(dim=1)

    @cached_property
    def _inside(self) -> Tensor:
        return torch.arange(int(self._lengths.max())) < self._lengths[:, None]

    @cached_property
    def _starts(self) -> Tensor:
        return self.source.attention_mask[self.rows].argmax(dim=1)

    @cached_property
    def _places(self) -> Tensor:
        places = self._starts[:, None] + torch.arange(int(self._lengths.max()))
        return places.clamp(max=self.source.input_ids.shape[1] - 1)


def micro_batches(batch: Batch, rows: Tensor, size: int, shares_prompts: bool) -> list[Tensor]:
    """Split `rows` into parts of at most `size`, so that the model computes few positions.

    In order of length, little of a part is padding. Group by group, the prompt of a group is computed once for all
    of its rows in a part. The better of the two orders is taken; neither changes the gradient.

    Args:
        batch: N trajectories.
        rows: indices of those to split.
        size: the most rows in a part.
        shares_prompts: whether the model computes equal prompts of a part once.
    """
    if len(rows) == 0:
        return []
    lengths = batch.attention_mask[rows].sum(dim=1)
    by_length = lengths.argsort(stable=True)
    if not shares_prompts:
        return list(rows[by_length].split(size))
    _, groups = batch.groups[rows].unique(return_inverse=True)
    longest = torch.zeros_like(lengths).scatter_reduce(0, groups, lengths, "amax")[groups]
    by_group = by_length[groups[by_length].argsort(stable=True)]
    by_group = by_group[longest[by_group].argsort(stable=True)]
    candidates = [list(rows[order].split(size)) for order in (by_length, by_group)]
    return min(candidates, key=lambda parts: sum(_positions(batch, part) for part in parts))


def shared_micro_batches(ranks: Ranks, batch: Batch, rows: Tensor, size: int, shares_prompts: bool) -> list[Tensor]:
    """This process's part of the micro-batches, of which every process has equally many.

    They are those of one process, dealt out in turn; the last of some processes may be without rows. Only where there
    is enough to compute are they made smaller, so that all processes have the same to do.
    """
    if ranks.count == 1 or len(rows) == 0:
        return micro_batches(batch, rows, size, shares_prompts)
    parts = ranks.count * math.ceil(len(rows) / (ranks.count * size))
    if int(batch.attention_mask[rows].sum()) >= parts * _WORTH_SPLITTING:
        size = math.ceil(len(rows) / parts)
    dealt = micro_batches(batch, rows, size, shares_prompts)
    return [*ranks.every(dealt), rows[:0]][: math.ceil(len(dealt) / ranks.count)]


def _positions(batch: Batch, part: Tensor) -> int:
    """How many positions a part takes, padding included, if its groups share their prompts."""
    prompts = batch.loss_mask[part].int().argmax(dim=1) - batch.attention_mask[part].argmax(dim=1)
    completions = batch.attention_mask[part].sum(dim=1) - prompts
    return int(len(batch.groups[part].unique()) * prompts.max() + len(part) * completions.max())
