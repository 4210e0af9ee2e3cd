"""Sharded models: each process holds a part of every weight, and of what the optimizer keeps of it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .critic import Critic
from .fsdp import check_fsdp_settings, fsdp_sharding
from .logprobs import TokenLogprobs
from .lora import ReferenceOfAdapter
from .parts import held, part_like, replaced, whole
from .ranks import Ranks
from .zero import check_zero_settings, zero_sharding


class Sharding(Protocol):
    """How models are split among the processes of a run."""

    def policy(self, policy: TokenLogprobs) -> None:
        """Shard a policy or a reference, in place: each layer by itself, and what is left."""

    def critic(self, critic: Critic, policy: TokenLogprobs) -> None:
        """Shard a critic of its own, in place; of a shared one the backbone is sharded already, and the head stays."""


# What `accelerate launch` sets where it was told to shard; what sees to its settings; what shards then.
_KINDS: dict[str, tuple[Callable[[], None], Callable[[DeviceMesh], Sharding]]] = {
    "ACCELERATE_USE_FSDP": (check_fsdp_settings, fsdp_sharding),
    "ACCELERATE_USE_DEEPSPEED": (check_zero_settings, zero_sharding),
}


def check_sharding_settings() -> None:
    """See that the run was started with a way to shard that the loop works with, or with none.

    Raises:
        UserError: if it was not.
    """
    for variable, (check, _) in _KINDS.items():
        if asked_for(variable):
            check()


def sharding_of_this_run(ranks: Ranks, device: torch.device) -> Sharding | None:
    """What `accelerate launch` was told; None where every process holds all weights."""
    kind = next((shards for variable, (_, shards) in _KINDS.items() if asked_for(variable)), None)
    if kind is None or ranks.count == 1:
        return None
    mesh = init_device_mesh(device.type, (ranks.count,))
    # DTensor's caches keep the mesh as long as the process lives, and it would keep the threads of its group.
    atexit.register(mesh._pg_registry.clear)
    return kind(mesh)


def gathered(root: TokenLogprobs) -> AbstractContextManager[None]:
    """With all weights of a model in every process, which can then use it without the others; to be entered by all.

    A model that is not sharded is left as it is.
    """
    return nullcontext() if root.shards is None else root.shards.gathered()


def saved_whole(*roots: TokenLogprobs | Critic) -> AbstractContextManager[None]:
    """With whole parameters in place of sharded ones, in the main memory of the main process, for it to save them.

    To be entered by all processes; models that are not sharded are left as they are.
    """
    for root in roots:
        if root.shards is not None:
            root.shards.let_go()
    return replaced(roots, by=_in_main_memory)


@torch.no_grad()
def _in_main_memory(parameter: nn.Parameter) -> nn.Parameter:
    tensor = whole(parameter)
    kept = tensor.cpu() if distributed.get_rank() == 0 else tensor.new_empty(0, device="cpu")
    return nn.Parameter(kept, requires_grad=parameter.requires_grad)


def keep_step(model: TokenLogprobs | ReferenceOfAdapter | Critic, device: torch.device, **options: Any) -> None:
    """Pass over nothing, forward and backward, while other processes pass over rows, if they share its weights.

    Adds 0 to the gradient.
    """
    if model.shards is None:
        return
    ids = torch.zeros((1, 2), dtype=torch.long, device=device)
    said = model(ids, torch.ones_like(ids), torch.ones_like(ids, dtype=torch.bool), **options)
    total = (said if isinstance(said, Tensor) else said.logprobs).sum() * 0.0
    if total.requires_grad:
        total.backward()


class WholeOptimizer:
    """An optimizer of sharded parameters whose state is saved, and loaded, as that of the whole ones.

    Both are to be asked for by every process. What it has learned of the gradients is loaded; its learning rate, betas
    and weight decay stay those that it was made with, which a resumed run may have been given anew.

    Args:
        optimizer: also one whose parameters are not sharded.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        """As of an optimizer of whole parameters."""
        state = self._optimizer.state_dict()
        return {**state, "state": self._each(state["state"], whole)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take each process's part of what `state_dict` gave."""
        made = self._optimizer.state_dict()["param_groups"]
        groups = [{**mine, "params": saved["params"]} for mine, saved in zip(made, state["param_groups"], strict=True)]
        self._optimizer.load_state_dict({"state": self._each(state["state"], part_like), "param_groups": groups})

    def _each(self, state: dict[int, dict[str, Any]], change: Any) -> dict[int, dict[str, Any]]:
        parameters = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        return {
            index: {name: change(value, parameters[index]) for name, value in values.items()}
            for index, values in state.items()
        }


@torch.no_grad()
def whole_weights(module: nn.Module) -> dict[str, Tensor]:
    """A module's state dict with whole tensors in place of sharded ones, in every process."""
    return {name: whole(tensor).detach() for name, tensor in _own(module)}


@torch.no_grad()
def load_whole_weights(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load what `whole_weights` gave, in place, sharded as the module is."""
    for name, tensor in _own(module):
        held(tensor).copy_(part_like(weights[name], tensor))


def whole_weights_fit(module: nn.Module, weights: Mapping[str, Tensor]) -> bool:
    """Whether `load_whole_weights` can load them: they are of the module's names and shapes."""
    own = {name: getattr(held(tensor), "shape_of_whole", held(tensor).shape) for name, tensor in _own(module)}
    return own == {name: tensor.shape for name, tensor in weights.items()}


def _own(module: nn.Module) -> list[tuple[str, Tensor]]:
    return list(module.state_dict(keep_vars=True).items())


def asked_for(variable: str) -> bool:
    """Whether `accelerate launch` says yes to something."""
    return os.environ.get(variable, "").lower() in ("1", "true", "yes")
