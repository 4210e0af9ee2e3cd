"""Whether an engine took over the weights that it was handed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class SentWeights:
    """Weights on their way to an engine; keeps a bit sum of each that was taken.

    Args:
        weights: (name, tensor) pairs.
        dtype: that the engine keeps weights in; the sums are of the weights in it.
    """

    def __init__(self, weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> None:
        self.bit_sums: dict[str, int] = {}
        self.all_taken = False
        self.last = ""  # which weight, of which shape, is being taken
        self._weights = weights
        self._dtype = dtype

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self._weights:
            weight = tensor.detach()
            self.last = f"{name} of shape {tuple(weight.shape)}"
            self.bit_sums[name] = bit_sum(weight.to(self._dtype))
            yield name, weight
        self.all_taken = True


def bit_sum(tensor: Tensor) -> int:
    """The sum of a tensor's elements read as integers.

    It is the same for any order of the elements and with any number of zeros added, so it survives what kernels do to
    weights: fused, transposed, tiled and padded ones have the sum of what they were made of.
    """
    integers = tensor.detach().contiguous().view(_INTEGERS[tensor.element_size()])
    return int(integers.sum(dtype=torch.int64))


@torch.no_grad()
def held_bit_sums(model: nn.Module, dtype: torch.dtype) -> dict[str, int]:
    """Bit sums of the parameters that an engine's model still holds in `dtype`.

    Kernels that keep a packed copy of their own leave an empty parameter behind, which says nothing.
    """
    parameters = ((name, parameter) for name, parameter in model.named_parameters() if parameter.dtype == dtype)
    return {name: bit_sum(parameter) for name, parameter in parameters if parameter.numel()}


def stale_weights(sent: Mapping[str, int], held: Mapping[str, int], fused: Mapping[str, list[str]]) -> list[str]:
    """Names of an engine's weights that are not what was sent, among those that can be told.

    Args:
        sent: bit sums by the names of a checkpoint.
        held: bit sums by the names of the engine's model.
        fused: the parts that the engine's model fuses into one, by its name: `qkv_proj` out of `q_proj`, `k_proj`
            and `v_proj`.
    """
    stale = []
    for name, found in held.items():
        parts = _names_in_checkpoint(name, fused)
        if all(part in sent for part in parts) and _wrapped(sum(sent[part] for part in parts)) != found:
            stale.append(name)
    return stale


def _names_in_checkpoint(name: str, fused: Mapping[str, list[str]]) -> list[str]:
    places = name.split(".")
    for place, word in enumerate(places):
        if word in fused:
            return [".".join([*places[:place], part, *places[place + 1 :]]) for part in fused[word]]
    return [name]


def _wrapped(number: int) -> int:
    """The number as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63
