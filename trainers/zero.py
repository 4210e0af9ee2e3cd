"""Sharding by DeepSpeed's ZeRO-3: its hooks gather weights where they are used, and let go of them.

Gradients, optimizer steps, mixed precision and checkpoints stay those of the loop. So DeepSpeed's engine, which has
its own of each for one model, is not used.
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import proxy

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Shard

from ..verifiers import UserError
from .critic import Critic
from .logprobs import TokenLogprobs
from .parts import held, layers_of, split_flat

# What accelerate hands on of `deepspeed_config`: its name there, what it is unless it was set, what alone it may be.
_SETTINGS = {
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": ("zero_stage", "2", "3"),
    "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": ("offload_optimizer_device", "none", "none"),
    "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE": ("offload_param_device", "none", "none"),
    "ACCELERATE_DEEPSPEED_ZERO3_INIT": ("zero3_init_flag", "false", "false"),
    "ACCELERATE_DEEPSPEED_CONFIG_FILE": ("deepspeed_config_file", "none", "none"),
    "ACCELERATE_GRADIENT_CLIPPING": ("gradient_clipping", "none", "none"),
}

_CONFIG = {
    "train_micro_batch_size_per_gpu": 1,  # has to be there, and is never read
    # Else torch's linear function is replaced for whatever else the process does.
    "zero_optimization": {"stage": 3, "memory_efficient_linear": False},
}


@dataclass(frozen=True)
class ZeroSharding:
    """How ZeRO-3 splits models among the processes of a run.

    Attributes:
        mesh: the processes.
    """

    mesh: DeviceMesh

    def policy(self, policy: TokenLogprobs) -> None:
        """See `Sharding.policy`."""
        self._split(policy, policy.model)

    def critic(self, critic: Critic, policy: TokenLogprobs) -> None:
        """See `Sharding.critic`."""
        if not critic.shared:
            self._split(critic, critic)
            return
        assert isinstance(policy.shards, ZeroShards)
        policy.shards.watch(critic)
        critic.shards, critic.shares_prompts = policy.shards, False

    def _split(self, root: TokenLogprobs | Critic, model: nn.Module) -> None:
        shards = ZeroShards(model, self.mesh)
        shards.watch(root)
        # How often a process asks for the weights must not depend on its rows.
        root.shards, root.shares_prompts = shards, False


class ZeroShards:
    """How the weights of one model are split: those of a layer are gathered for the layer, all others for a pass.

    Args:
        model: holds the weights.
        mesh: the processes.
    """

    def __init__(self, model: nn.Module, mesh: DeviceMesh) -> None:
        from deepspeed import zero
        from deepspeed.utils import set_z3_leaf_module
        from deepspeed.utils.timer import NoopTimer

        self._model, self._mesh = model, mesh
        layers = layers_of(model)
        for layer in layers:
            set_z3_leaf_module(layer, True)
        inside = {parameter for layer in layers for parameter in layer.parameters()}
        self._outside: list[Any] = [parameter for parameter in model.parameters() if parameter not in inside]
        self._hooks = zero.DeepSpeedZeRoOffload(
            model, NoopTimer(), _CONFIG, overlap_comm=False, param_persistence_threshold=0
        )
        # It would learn in which order the modules are called, to fetch ahead; a step has more orders than one.
        self._hooks.fwd_pre_hook.remove()
        self._lets_go_after_backward = False
        # Python does not see what a gradient's hook refers to, so that a cycle through one would never be freed.
        add = partial(ZeroShards._add_gradient, proxy(self))
        parameter: Any
        for parameter in model.parameters():
            split_flat(parameter, parameter.ds_tensor, parameter.ds_shape, mesh)
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(add)

    def watch(self, root: nn.Module) -> None:
        """Gather and let go where a pass through the model begins and ends: whatever calls it, calls `root`."""
        root.register_forward_pre_hook(self._begin, prepend=True)
        root.register_forward_hook(self._end)

    def let_go(self) -> None:
        """See `Shards.let_go`."""
        from deepspeed.runtime.zero.parameter_offload import FWD_MODULE_STACK

        self._lets_go_after_backward = False
        self._hooks.release_backward_leftovers()
        self._hooks.partition_all_parameters()
        # The modules that were entered and not left: the outermost, and those that were computed again.
        FWD_MODULE_STACK.clear()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """See `Shards.gathered`."""
        from deepspeed import zero

        self.let_go()
        # They would let go of each weight after its first use.
        for hook in (*self._hooks.forward_hooks, *self._hooks.backward_hooks):
            hook.remove()
        self._hooks.forward_hooks, self._hooks.backward_hooks = [], []
        try:
            with zero.GatheredParameters(list(self._model.parameters())):
                yield
        finally:
            self._hooks._register_deepspeed_module(self._model)

    def _begin(self, root: nn.Module, given: Any) -> None:
        self.let_go()
        if self._outside:
            self._outside[0].all_gather(param_list=self._outside)
        # The output layer is called once a chunk of tokens, of which processes have different numbers, so it must not
        # gather its weights itself: it does not while they are in use elsewhere.
        for parameter in self._outside:
            parameter.ds_active_sub_modules.add(self)

    def _end(self, root: nn.Module, given: Any, said: Any) -> None:
        if not torch.is_grad_enabled():
            self.let_go()

    def _add_gradient(self, parameter: nn.Parameter) -> None:
        """Add a gradient over processes, in float32, and this process's part of the sum to that of its part."""
        assert parameter.grad is not None
        gradient, parameter.grad = parameter.grad.flatten().float(), None
        part = held(parameter)
        padded = nn.functional.pad(gradient, (0, part.numel() - gradient.numel()))
        summands = DTensor.from_local(padded, self._mesh, [Partial("sum")], run_check=False)
        added = summands.redistribute(placements=[Shard(0)]).to(part.dtype)
        part.grad = added if part.grad is None else part.grad + added
        if not self._lets_go_after_backward:
            self._lets_go_after_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self.let_go)


def check_zero_settings() -> None:
    """See that what `accelerate launch` was told of DeepSpeed is something that the loop works with.

    Raises:
        UserError: if it is not, or DeepSpeed is not installed.
    """
    for variable, (name, unset, only) in _SETTINGS.items():
        value = os.environ.get(variable, unset)
        if value.lower() != only:
            raise UserError(
                f"This run was started with DeepSpeed's {name}: {value}, which the training loop does not work with; "
                f"set it to {only} (see configs/accelerate/deepspeed_zero3.yaml)."
            )
    if importlib.util.find_spec("deepspeed") is None:
        raise UserError(
            "This run was started with DeepSpeed, which is not installed; pip install 'rlvr[deepspeed]', or start it "
            "with FSDP2, which shards the same (configs/accelerate/fsdp2.yaml)."
        )


def _leave() -> None:
    """Have DeepSpeed let go of the group of all processes, whose threads would outlive it."""
    from deepspeed import comm

    if distributed.is_initialized():
        comm.destroy_process_group()


def zero_sharding(mesh: DeviceMesh) -> ZeroSharding:
    """Start DeepSpeed in the processes that torch has joined."""
    # What DeepSpeed calls of torch is its own affair.
    warnings.filterwarnings("ignore", r".*torch\.distributed\.\w+. is deprecated", FutureWarning)
    import deepspeed
    from deepspeed import ops

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    # Else a library for processes on one CPU is compiled, which takes minutes.
    ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed()
    atexit.unregister(_leave)
    atexit.register(_leave)
    return ZeroSharding(mesh)
