"""Gradient checkpointing: a layer keeps its input alone and is computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from ..verifiers import UserError


def enable_recomputing(model: Any) -> None:
    """Have the layers of a model computed again in the backward pass, wherever `recomputing` surrounds the forward one.

    transformers does so in training mode only, in which a model would also drop out; a policy never does, or it would
    not be the one that was sampled from. So a layer is in training mode until it was decided how it is called, and in
    evaluation mode while it computes.

    Raises:
        UserError: if the model has no such layers.
    """
    if not model.supports_gradient_checkpointing or not _layers(model):
        raise UserError(
            f"{type(model).__name__} has no layers that can be computed again; set model.gradient_checkpointing: false."
        )
    for layer in _layers(model):
        layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = _Recomputed(layer)


def recomputes(body: Any) -> bool:
    """Whether a forward pass that is to have a backward pass keeps the inputs of layers alone."""
    return torch.is_grad_enabled() and any(layer.gradient_checkpointing for layer in _layers(body))


@contextmanager
def recomputing(body: Any) -> Iterator[None]:
    """What is computed inside by a model that was enabled for it is computed again in the backward pass."""
    layers = _layers(body) if recomputes(body) else []
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


class _Recomputed:
    """What transformers calls in place of a layer that is to be computed again.

    It belongs to one layer, and what is copied with that layer belongs to the copy.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def __call__(self, compute: Callable[..., Any], *args: Any) -> Any:
        self._layer.training = False
        return checkpoint(compute, *args, use_reentrant=False, preserve_rng_state=False)


def _layers(model: Any) -> list[Any]:
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
