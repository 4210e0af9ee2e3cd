"""Which rows go through the model together."""

from __future__ import annotations

import torch
from torch import Tensor

from .trajectory import Batch


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


def _positions(batch: Batch, part: Tensor) -> int:
    """How many positions a part takes, padding included, if its groups share their prompts."""
    prompts = batch.loss_mask[part].int().argmax(dim=1)
    completions = batch.attention_mask[part].sum(dim=1) - prompts
    return int(len(batch.groups[part].unique()) * prompts.max() + len(part) * completions.max())
