"""Whitening: advantages to mean 0 and deviation 1 over the loss tokens of a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def whiten(values: Tensor, mask: Tensor, eps: float = 1e-8) -> Tensor:
    """(x - mean) / sqrt(var + eps), mean and variance (ddof 1) over the places of the mask.

    The variance is of the centred values (two passes), so that equal values become exactly 0. A single value has
    nothing to be compared with and becomes 0.

    Args:
        values: any shape.
        mask: the same shape, true where a value counts.
        eps: added to the variance.

    Returns:
        float32 of the same shape, 0 outside the mask.
    """
    result = torch.zeros(values.shape, dtype=torch.float32, device=values.device)
    counted = values[mask].double()
    if len(counted) < 2 or bool((counted == counted[0]).all()):
        return result
    centred = counted - counted.mean()
    variance = centred.square().sum() / (len(counted) - 1)
    result[mask] = (centred * torch.rsqrt(variance + eps)).float()
    return result
