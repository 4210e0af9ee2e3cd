"""Sharding by FSDP2, which is a part of torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

from ..verifiers import UserError
from .critic import Critic
from .logprobs import TokenLogprobs
from .parts import layers_of


@dataclass(frozen=True)
class FsdpSharding:
    """How FSDP2 splits models among the processes of a run.

    Attributes:
        mesh: the processes.
        reshard_after_forward: whether a layer's weights are let go of between its forward and its backward pass.
    """

    mesh: DeviceMesh
    reshard_after_forward: bool

    def policy(self, policy: TokenLogprobs) -> None:
        """See `Sharding.policy`."""
        self._all(policy)
        # The first pass tells which module is the outermost.
        ids = torch.zeros((1, 2), dtype=torch.long, device=policy.model.device)
        with torch.no_grad():
            policy(ids, torch.ones_like(ids), torch.ones_like(ids, dtype=torch.bool))
        # It leaves the outermost weights whole, and it is the parts that the optimizer is to move.
        policy.reshard()  # type: ignore[operator]

    def critic(self, critic: Critic, policy: TokenLogprobs) -> None:
        """See `Sharding.critic`."""
        if not critic.shared:
            # By itself, since it may be of another dtype.
            self._one(critic.head, reshard=False)
            self._all(critic)
            return
        critic.shards, critic.shares_prompts = policy.shards, False
        # The weights outside the layers are gathered where the policy is entered.
        entered: Any = policy
        entered.enter = _call
        register_fsdp_forward_method(policy, "enter")
        critic.forward = partial(entered.enter, critic.forward)  # type: ignore[method-assign]

    def _all(self, root: TokenLogprobs | Critic) -> None:
        for layer in layers_of(root):
            self._one(layer, self.reshard_after_forward)
        self._one(root, reshard=False)
        root.shards = FsdpShards(root)
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


class FsdpShards:
    """How the weights of one model are split.

    Args:
        root: the model.
    """

    def __init__(self, root: nn.Module) -> None:
        self._modules = [module for module in root.modules() if isinstance(module, FSDPModule)]

    def let_go(self) -> None:
        """See `Shards.let_go`."""
        for module in self._modules:
            module.reshard()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """See `Shards.gathered`."""
        kept = [[group.post_forward_mesh_info for group in _groups(module)] for module in self._modules]
        for module in self._modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        try:
            yield
        finally:
            for module, infos in zip(self._modules, kept, strict=True):
                for group, info in zip(_groups(module), infos, strict=True):
                    group.post_forward_mesh_info = info
                module.reshard()


def check_fsdp_settings() -> None:
    """See that what `accelerate launch` was told of FSDP is something that the loop works with.

    Raises:
        UserError: if it is its first version that was asked for, or offloading.
    """
    version = os.environ.get("FSDP_VERSION", "1")
    if version != "2":
        raise UserError(f"This run was started with FSDP version {version}; set fsdp_version: 2 (see fsdp2.yaml).")
    if os.environ.get("FSDP_OFFLOAD_PARAMS", "false").lower() == "true":
        raise UserError("This run was started with fsdp_offload_params, which is not supported; set it to false.")


def fsdp_sharding(mesh: DeviceMesh) -> FsdpSharding:
    """What `accelerate launch` was told of FSDP."""
    return FsdpSharding(mesh, os.environ.get("FSDP_RESHARD_AFTER_FORWARD", "true").lower() != "false")


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _groups(module: FSDPModule) -> list[Any]:
    return list(module._get_fsdp_state()._fsdp_param_groups)
