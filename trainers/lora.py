"""Low-rank adapters in a policy: put in, switched off, merged, saved and read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from ..verifiers import UserError
from .logprobs import TokenLogprobs, TokenStatistics
from .lora_settings import LoraSettings
from .parts import Shards

_NAME = "default"
_WEIGHTS, _CONFIG = "adapter_model.safetensors", "adapter_config.json"
# What peft puts before the names of a causal language model that it wraps.
_PREFIX = "base_model.model."


def add_adapter(model: Any, settings: LoraSettings, seed: int, base: str) -> None:
    """Put a fresh adapter into a model, in place; all else in it is frozen from now on.

    The adapter's weights are in float32 whatever the model's are, since it is what the optimizer moves.

    Args:
        model: a causal language model of transformers; what it says stays the same.
        settings: of the adapter.
        seed: of its random half.
        base: the name of the model, for whoever reads the saved adapter.

    Raises:
        UserError: if no layer is meant, or the embeddings are.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise UserError("model.lora needs peft, which is not installed; pip install 'rlvr[train]'.") from None

    config = LoraConfig(
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
        r=settings.r,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]
        target_modules=settings.target_modules,
    )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            inject_adapter_in_model(config, model, adapter_name=_NAME)
    except ValueError:
        raise UserError(
            f"model.lora.target_modules is {settings.target_modules!r}, which is no layer that an adapter can be put "
            "on; name linear layers of the model, or set it to all-linear."
        ) from None
    tuned = _tuned(model).values()
    if model.get_input_embeddings() in tuned or model.get_output_embeddings() in tuned:
        raise UserError(
            f"model.lora.target_modules is {settings.target_modules!r}, which the embeddings or the output layer are "
            "among; leave them out."
        )
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    model.eval()


def has_adapter(model: Any) -> bool:
    """Whether a model has an adapter in it."""
    return any(".lora_" in name for name, _ in model.named_parameters())


@contextmanager
def adapter_off(model: Any) -> Iterator[None]:
    """The model as it was before its adapter was trained."""
    tuned = _tuned(model).values()
    for layer in tuned:
        # Not by `enable_adapters`, which would also change what requires a gradient.
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in tuned:
            layer._disable_adapters = False


class ReferenceOfAdapter(nn.Module):
    """The reference policy of a policy with an adapter: the very policy, with the adapter off.

    It goes in by the policy's own door, where one that is sharded gathers its weights.
    """

    def __init__(self, policy: TokenLogprobs) -> None:
        super().__init__()
        self.policy = policy

    @property
    def shares_prompts(self) -> bool:
        """As the policy does."""
        return self.policy.shares_prompts

    @property
    def shards(self) -> Shards | None:
        """As the policy's weights are split."""
        return self.policy.shards

    def forward(self, *args: Any, **kwargs: Any) -> TokenStatistics:
        """See `TokenLogprobs`; nothing that is trained takes part, so there is no gradient."""
        with torch.no_grad(), adapter_off(self.policy.model):
            said: TokenStatistics = self.policy(*args, **kwargs)
            return said


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapter alone, in peft's format."""
    from peft import get_peft_model_state_dict

    folder.mkdir(parents=True, exist_ok=True)
    weights = get_peft_model_state_dict(model, adapter_name=_NAME, save_embedding_layers=False)
    save_file(
        {_PREFIX + name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, folder / _WEIGHTS
    )
    config = model.peft_config[_NAME].to_dict() | {"inference_mode": True}
    # The names are a set, whose order differs from run to run.
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    (folder / _CONFIG).write_text(json.dumps(plain, indent=2, default=str) + "\n", encoding="utf-8")


def restore_adapter(model: Any, folder: Path) -> None:
    """Read what `save_adapter` wrote into the adapter of a model, in place.

    Raises:
        UserError: if it is an adapter of another shape.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    try:
        saved = load_file(folder / _WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UserError(f"The adapter in {str(folder)!r} cannot be read ({error}); resume from another one.") from None
    weights = {name.removeprefix(_PREFIX): tensor for name, tensor in saved.items()}
    own = get_peft_model_state_dict(model, adapter_name=_NAME, save_embedding_layers=False)
    if {name: tensor.shape for name, tensor in own.items()} != {name: t.shape for name, t in weights.items()}:
        raise UserError(
            f"The adapter in {str(folder)!r} has other layers or another rank than model.lora asks for; resume with "
            "the settings of the run."
        )
    set_peft_model_state_dict(model, weights, adapter_name=_NAME)


def _tuned(model: Any) -> dict[str, Any]:
    """The layers with an adapter, by name."""
    if not has_adapter(model):
        return {}  # and peft need not be there
    from peft.tuners.tuners_utils import BaseTunerLayer

    return {name: module for name, module in model.named_modules() if isinstance(module, BaseTunerLayer)}
