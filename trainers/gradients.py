"""The gradient as a whole: its norm over all processes, and what is said of one that is not finite."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from ..verifiers import UserError
from .parts import whole


class NotFinite(UserError):
    """A gradient holds an infinity or a NaN, so that the step which it was for cannot be taken."""


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Scale the gradients, which may be sharded, so that their common norm is at most `most`; returns what it was."""
    moved = [parameter for parameter in parameters if parameter.grad is not None]
    kinds = [
        [parameter for parameter in moved if isinstance(parameter, DTensor) is sharded] for sharded in (False, True)
    ]
    norms: list[Tensor] = [
        whole(get_total_norm([parameter.grad for parameter in kind if parameter.grad is not None]))
        for kind in kinds
        if kind
    ]
    if not norms:
        return 0.0
    norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    for kind in kinds:
        if kind:
            clip_grads_with_norm_(kind, most, norm)
    return float(norm)
