"""Weights of which each process holds a part: what of them an optimizer moves, and the way to the whole and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


class Shards(Protocol):
    """How the weights of one model are split among processes."""

    def let_go(self) -> None:
        """Keep nothing but this process's part of each weight."""

    def gathered(self) -> AbstractContextManager[None]:
        """With all weights in every process, which can then use the model without the others; for all to enter."""


def split_flat(parameter: nn.Parameter, part: Tensor, shape: torch.Size, mesh: DeviceMesh) -> None:
    """Note which part of a weight this process holds: one of equal pieces of the flattened one, padded at its end."""
    sharded = nn.Parameter(DTensor.from_local(part, mesh, [Shard(0)], run_check=False), parameter.requires_grad)
    sharded.shape_of_whole = shape  # type: ignore[attr-defined]
    parameter.flat_part = sharded  # type: ignore[attr-defined]


def is_split(parameter: Tensor) -> bool:
    """Whether this process holds but a part of a weight."""
    return isinstance(held(parameter), DTensor)


def held(parameter: Tensor) -> Any:
    """What this process holds of a weight: the parameter itself, unless it is split apart from it."""
    return getattr(parameter, "flat_part", parameter)


def moved(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """What an optimizer is to move so that these parameters are trained; it is this that has the gradients."""
    return [held(parameter) for parameter in parameters if parameter.requires_grad]


def whole(tensor: Tensor, like: Tensor | None = None) -> Tensor:
    """The tensor itself, or all of it where this process holds a part; then every process must ask.

    Args:
        tensor: a weight, or what an optimizer keeps of one.
        like: the weight of which it is kept.
    """
    part = held(tensor)
    if not isinstance(part, DTensor):
        return tensor
    full = part.full_tensor()
    shape = getattr(held(part if like is None else like), "shape_of_whole", None)
    return full if shape is None or part.dim() == 0 else full[: shape.numel()].view(shape)


def part_like(value: Any, parameter: Tensor) -> Any:
    """This process's part of what is as large as a weight, split as that is; anything else as it is."""
    other = held(parameter)
    shape = getattr(other, "shape_of_whole", other.shape)
    if not isinstance(value, Tensor) or not isinstance(other, DTensor) or value.shape != shape:
        return value
    value = value.to(other.device)
    if shape != other.shape:
        value = nn.functional.pad(value.flatten(), (0, other.numel() - value.numel()))
    return distribute_tensor(value, other.device_mesh, other.placements)


@contextmanager
def replaced(roots: Iterable[nn.Module], by: Any) -> Iterator[None]:
    """With another parameter, which `by` makes of it, in place of each that is split; one that is shared stays so."""
    modules = list(dict.fromkeys(module for root in roots for module in root.modules()))
    split: list[tuple[nn.Module, str, nn.Parameter]] = []
    made: dict[nn.Parameter, nn.Parameter] = {}
    for module in modules:
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if is_split(parameter):
                if parameter not in made:
                    made[parameter] = by(parameter)
                split.append((module, name, parameter))
    for module, name, parameter in split:
        module._parameters[name] = made[parameter]
    try:
        yield
    finally:
        for module, name, parameter in split:
            module._parameters[name] = parameter


def layers_of(root: nn.Module) -> list[nn.Module]:
    """The blocks of a transformer, which its own class names."""
    names = {name for module in root.modules() for name in getattr(module, "_no_split_modules", None) or ()}
    return [module for module in root.modules() if type(module).__name__ in names]
