"""A policy's weights as others know them: whole, unwrapped, by the names of a Hugging Face checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .parts import replaced, whole

# What peft puts around the names of the model that it adapts.
_PEFT_ROOT, _PEFT_BASE, _PEFT_ADAPTER = "base_model.model.", ".base_layer", ".lora_"

# Integers of a weight's size in bytes.
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.no_grad()
def named_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Every weight once, by its name in a checkpoint: sharded ones gathered, LoRA adapters merged in.

    One at a time, so that no second copy of a large model is ever held. Where the model is sharded, each weight is
    gathered as it is asked for: every process must go through all of them.

    Args:
        model: a causal language model of transformers, as it is, sharded or in peft's wrapping.
    """
    # A model that peft put adapters into, without wrapping it, has its own names.
    prefix = _PEFT_ROOT if hasattr(model, "get_base_model") else ""
    adapted = _adapted(model)
    for name, tensor in _once(model):
        if _PEFT_ADAPTER not in name:
            plain = name.removeprefix(prefix).replace(_PEFT_BASE, "")
            yield plain, (_merged(adapted[name]) if name in adapted else whole(tensor)).detach()


@torch.no_grad()
def digest(model: nn.Module) -> str:
    """Of the bits of all parameters and buffers: models that differ in any one weight differ in it."""
    found = hashlib.sha256()
    for name, tensor in _once(model):
        words = tensor.detach().contiguous().flatten().view(_WORDS[tensor.element_size()])
        # Summed where the weights are: to copy a large model off its device takes minutes.
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {int(words.sum(dtype=torch.int64))}".encode())
        found.update(str(words[:32].tolist()).encode())
    return found.hexdigest()[:16]


def _once(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers that a checkpoint holds; of tied ones the first."""
    kept = set(model.state_dict(keep_vars=True))
    yield from ((name, parameter) for name, parameter in model.named_parameters() if name in kept)
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name in kept)


def _adapted(model: nn.Module) -> dict[str, Any]:
    """The layers with adapters that act on them beside the weight, by the name of that weight."""
    return {
        f"{name}{_PEFT_BASE}.weight": layer
        for name, layer in model.named_modules()
        if hasattr(layer, "get_delta_weight") and not (layer.disable_adapters or layer.merged)
    }


def _merged(layer: Any) -> Tensor:
    """The weight as it acts: W + scaling * B A of each active adapter (LoRA, Hu et al. 2021, section 4.1)."""
    with replaced([layer], by=lambda parameter: nn.Parameter(whole(parameter), parameter.requires_grad)):
        weight: Tensor = layer.base_layer.weight.float()
        for adapter in layer.active_adapters:
            if adapter in layer.lora_A or adapter in layer.lora_embedding_A:
                weight = weight + layer.get_delta_weight(adapter).float()
        return weight.to(layer.base_layer.weight.dtype)  # rounded once
