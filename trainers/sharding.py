"""Sharded models (FSDP2): each process holds a part of every weight, and of what the optimizer keeps of it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from ..verifiers import UserError
from .critic import Critic
from .logprobs import TokenLogprobs
from .ranks import Ranks
from .weights import whole


@dataclass(frozen=True)
class Sharding:
    """How models are split among the processes of a run.

    Attributes:
        mesh: the processes.
        reshard_after_forward: whether a layer's weights are let go of between its forward and its backward pass.
    """

    mesh: DeviceMesh
    reshard_after_forward: bool

    def policy(self, policy: TokenLogprobs) -> None:
        """Shard a policy or a reference, in place: each layer by itself, and what is left."""
        self._all(policy)
        # The first pass tells which module is the outermost.
        ids = torch.zeros((1, 2), dtype=torch.long, device=policy.model.device)
        with torch.no_grad():
            policy(ids, torch.ones_like(ids), torch.ones_like(ids, dtype=torch.bool))
        # It leaves the outermost weights whole, and it is the parts that the optimizer is to move.
        policy.reshard()  # type: ignore[operator]

    def critic(self, critic: Critic, policy: TokenLogprobs) -> None:
        """Shard a critic of its own, in place; of a shared one the backbone is sharded already, and the head stays."""
        if not critic.shared:
            # By itself, since it may be of another dtype.
            self._one(critic.head, reshard=False)
            self._all(critic)
            return
        critic.shares_prompts = False
        # The weights outside the layers are gathered where the policy is entered.
        entered: Any = policy
        entered.enter = _call
        register_fsdp_forward_method(policy, "enter")
        critic.forward = partial(entered.enter, critic.forward)  # type: ignore[method-assign]

    def _all(self, root: TokenLogprobs | Critic) -> None:
        for layer in _layers(root):
            self._one(layer, self.reshard_after_forward)
        self._one(root, reshard=False)
        # How often a process asks for the weights must not depend on its rows.
        root.shares_prompts = False

    def _one(self, module: nn.Module, reshard: bool) -> None:
        fully_shard(
            module,
            mesh=self.mesh,
            reshard_after_forward=reshard,
            mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32),
        )
        assert isinstance(module, FSDPModule)
        # The loss of a micro-batch is its part of the whole, so gradients are added, not averaged.
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)


def sharding_of_this_run(ranks: Ranks, device: torch.device) -> Sharding | None:
    """What `accelerate launch` was told of FSDP; None where every process holds all weights.

    Raises:
        UserError: if it is the first version of FSDP that was asked for, or offloading.
    """
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() != "true" or ranks.count == 1:
        return None
    version = os.environ.get("FSDP_VERSION", "1")
    if version != "2":
        raise UserError(f"This run was started with FSDP version {version}; set fsdp_version: 2 (see fsdp2.yaml).")
    if os.environ.get("FSDP_OFFLOAD_PARAMS", "false").lower() == "true":
        raise UserError("This run was started with fsdp_offload_params, which is not supported; set it to false.")
    reshard = os.environ.get("FSDP_RESHARD_AFTER_FORWARD", "true").lower() != "false"
    mesh = init_device_mesh(device.type, (ranks.count,))
    # DTensor's caches keep the mesh as long as the process lives, and it would keep the threads of its group.
    atexit.register(mesh._pg_registry.clear)
    return Sharding(mesh, reshard)


@contextmanager
def gathered(root: nn.Module) -> Iterator[None]:
    """With all weights of a model in every process, which can then use it without the others; to be entered by all.

    A model that is not sharded is left as it is.
    """
    modules = [module for module in root.modules() if isinstance(module, FSDPModule)]
    kept = [[group.post_forward_mesh_info for group in _groups(module)] for module in modules]
    for module in modules:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module, infos in zip(modules, kept, strict=True):
            for group, info in zip(_groups(module), infos, strict=True):
                group.post_forward_mesh_info = info
            module.reshard()


@contextmanager
def saved_whole(*roots: nn.Module) -> Iterator[None]:
    """With whole parameters in place of sharded ones, in the main memory of the main process, for it to save them.

    To be entered by all processes; models that are not sharded are left as they are.
    """
    modules = list(dict.fromkeys(module for root in roots for module in root.modules()))
    for module in modules:
        if isinstance(module, FSDPModule):
            module.reshard()
    sharded: list[tuple[nn.Module, str, nn.Parameter]] = []
    made: dict[nn.Parameter, nn.Parameter] = {}
    for module in modules:
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if isinstance(parameter, DTensor):
                if parameter not in made:
                    made[parameter] = _in_main_memory(parameter)
                sharded.append((module, name, parameter))
    for module, name, parameter in sharded:
        module._parameters[name] = made[parameter]
    try:
        yield
    finally:
        for module, name, parameter in sharded:
            module._parameters[name] = parameter


def _in_main_memory(parameter: nn.Parameter) -> nn.Parameter:
    tensor = whole(parameter.detach())
    kept = tensor.cpu() if distributed.get_rank() == 0 else tensor.new_empty(0, device="cpu")
    return nn.Parameter(kept, requires_grad=parameter.requires_grad)


def keep_step(model: nn.Module, device: torch.device, **options: Any) -> None:
    """Pass over nothing, forward and backward, while other processes pass over rows, if they share its weights.

    Adds 0 to the gradient.
    """
    if not any(isinstance(module, FSDPModule) for module in model.modules()):
        return
    ids = torch.zeros((1, 2), dtype=torch.long, device=device)
    said = model(ids, torch.ones_like(ids), torch.ones_like(ids, dtype=torch.bool), **options)
    total = (said if isinstance(said, Tensor) else said.logprobs).sum() * 0.0
    if total.requires_grad:
        total.backward()


class WholeOptimizer:
    """An optimizer of sharded parameters whose state is saved, and loaded, as that of the whole ones.

    Both are to be asked for by every process.

    Args:
        optimizer: also one whose parameters are not sharded.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        """As of an optimizer of whole parameters."""
        return dict(whole_state(self._optimizer.state_dict()))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take each process's part of what `state_dict` gave."""
        parameters = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        moments = {
            index: {name: _like(value, parameters[index]) for name, value in values.items()}
            for index, values in state["state"].items()
        }
        self._optimizer.load_state_dict({**state, "state": moments})


def whole_state(state: Any) -> Any:
    """A state dict with its sharded tensors made whole, in every process."""
    if isinstance(state, dict):
        return {name: whole_state(value) for name, value in state.items()}
    if isinstance(state, list):
        return [whole_state(value) for value in state]
    return whole(state) if isinstance(state, Tensor) else state


def load_whole_state(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Load what `whole_state` made of a module's state dict, in place, sharded as the module is."""
    own = module.state_dict()
    module.load_state_dict({name: _like(value, own[name]) if name in own else value for name, value in state.items()})


def _like(value: Any, other: Tensor) -> Any:
    """A tensor of a parameter's shape, sharded as that is."""
    if not isinstance(value, Tensor) or not isinstance(other, DTensor) or value.shape != other.shape:
        return value
    return distribute_tensor(value.to(other.device), other.device_mesh, other.placements)


def _layers(root: nn.Module) -> list[nn.Module]:
    """The blocks of a transformer, which its own class names."""
    names = {name for module in root.modules() for name in getattr(module, "_no_split_modules", None) or ()}
    return [module for module in root.modules() if type(module).__name__ in names]


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _groups(module: FSDPModule) -> list[Any]:
    return list(module._get_fsdp_state()._fsdp_param_groups)
