"""The critic: what it expects from before each token on, where it comes from, and how it is kept."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..verifiers import UserError
from .lora import has_adapter
from .models import hub_answers, load_model, quiet
from .parts import Shards
from .shared_prompts import can_share_prompts, states_before
from .weights import named_weights

_HEAD = "value_head.safetensors"


class Critic(nn.Module):
    """A value head on a backbone: V_t is read off the state that predicts the token at t.

    Args:
        body: a causal language model without its vocabulary projection. Of a separate critic it is its own; of a
            shared one, the policy's.
        head: a linear map to one number, in float32.
        shared: whether `body` is the policy's. Then it belongs to the policy's optimizer.

    Attributes:
        shards: how its weights are split among processes; None where each has all of them.
    """

    def __init__(self, body: Any, head: nn.Linear, shared: bool) -> None:
        super().__init__()
        self.body = body
        self.head = head.to(device=body.device, dtype=torch.float32)
        self.shared = shared
        self.shares_prompts = can_share_prompts(body)
        self.shards: Shards | None = None

    def forward(self, input_ids: Tensor, attention_mask: Tensor, mask: Tensor, head_only: bool = False) -> Tensor:
        """The values, (B, T) float32, at the tokens where `mask` is true; 0 elsewhere and at a row's first token.

        Rows are padded on the right. With `head_only` no gradient flows into the body.
        """
        mask = torch.cat([torch.zeros_like(mask[:, :1]), mask[:, 1:]], dim=1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not head_only):
            hidden = states_before(self.body, self.shares_prompts, input_ids, attention_mask, mask)
        values = self.values(hidden)
        return values.new_zeros(input_ids.shape).masked_scatter(mask, values)

    def values(self, hidden: Tensor) -> Tensor:
        """The values at states (..., width). Never in half precision, in which returns are but few numbers."""
        with torch.autocast(hidden.device.type, enabled=False):
            return self.head(hidden.float())[..., 0]

    def with_end(self, input_ids: Tensor, attention_mask: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The values as `forward` gives them, and those of the states after the last token of each row, (B,)."""
        # A token more in each row; which one does not matter, because nothing looks at what follows it.
        ends = attention_mask.sum(dim=1, keepdim=True)
        ids, attention, extended = (
            torch.cat([tensor, torch.zeros_like(tensor[:, :1])], dim=1) for tensor in (input_ids, attention_mask, mask)
        )
        attention = attention.scatter(1, ends, torch.ones_like(attention[:, :1]))
        extended = extended.scatter(1, ends, torch.ones_like(extended[:, :1]))
        values = self(ids, attention, extended)
        return values[:, :-1].masked_fill(~mask, 0.0), values.gather(1, ends)[:, 0]

    def own_parameters(self) -> list[nn.Parameter]:
        """What the critic's optimizer moves: all of a separate critic, the head of a shared one."""
        own = self.head.parameters() if self.shared else self.parameters()
        return [parameter for parameter in own if parameter.requires_grad]


def build_critic(policy: Any, shared: bool) -> Critic:
    """A critic on the policy's backbone, or on a copy of it. Its head is zero: at first it expects nothing.

    Args:
        policy: a causal language model of transformers.
        shared: whether the backbone is the policy's very own.
    """
    body = policy.base_model if shared else copy.deepcopy(policy.base_model)
    return Critic(body, _zero_head(body), shared).eval()


def load_critic(name: str, dtype: str, device: torch.device | str, vocabulary: int) -> Critic:
    """A critic of its own backbone, from weights other than the policy's.

    Args:
        name: a folder that `save_critic` wrote, or one with such a folder `critic` in it, as a run's `final` has; or a
            reward model (a sequence classifier with one label), whose head becomes the value head; or whatever
            `load_model` takes, with a zero head.
        dtype: of the backbone.
        device: where to put it.
        vocabulary: how many token ids the policy knows; the critic must know them all.

    Raises:
        UserError: if there is no such model, or it cannot serve as a critic.
    """
    body, head = _read(name, dtype, device)
    known = body.get_input_embeddings().num_embeddings
    if known < vocabulary:
        raise UserError(
            f"The critic {name!r} knows {known} token ids but the policy has {vocabulary}; set critic.model to a model "
            "with the policy's tokenizer."
        )
    return Critic(body.to(device), head, shared=False).eval()


def save_critic(critic: Critic, folder: str | Path) -> None:
    """Write the value head and, of a separate critic, its backbone in Hugging Face format."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not critic.shared:
        with quiet():
            adapted = has_adapter(critic.body)
            critic.body.save_pretrained(folder, state_dict=dict(named_weights(critic.body)) if adapted else None)
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in critic.head.state_dict().items()}, folder / _HEAD
    )


def restore_head(critic: Critic, folder: str | Path) -> None:
    """Load the value head that `save_critic` wrote to `folder`, in place."""
    critic.head.load_state_dict(load_file(Path(folder) / _HEAD))


def _zero_head(body: Any) -> nn.Linear:
    head = nn.utils.skip_init(nn.Linear, body.config.hidden_size, 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def _read(name: str, dtype: str, device: torch.device | str) -> tuple[Any, nn.Linear]:
    folder = Path(name).expanduser()
    for place in (folder, folder / "critic"):
        if (place / _HEAD).is_file():
            return _read_critic(place, dtype)
    if _is_classifier(name):
        return _read_reward_model(name, dtype)
    body: Any = load_model(name, dtype=dtype, device=device).model.base_model
    return body, _zero_head(body)


def _read_critic(folder: Path, dtype: str) -> tuple[Any, nn.Linear]:
    from transformers import AutoModel

    if not (folder / "config.json").is_file():
        raise UserError(
            f"The critic in {str(folder)!r} shared its policy's backbone, so only its head is there; set critic.model "
            "to a model."
        )
    with quiet():
        body = AutoModel.from_pretrained(folder, dtype=getattr(torch, dtype), trust_remote_code=False)
    head = _zero_head(body)
    head.load_state_dict(load_file(folder / _HEAD))
    return body, head


def _is_classifier(name: str) -> bool:
    from transformers import AutoConfig

    local = Path(name).expanduser().is_dir()
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, local_files_only=local or not hub_answers())
    except (OSError, ValueError):  # a .gguf file, a package that carries one, or nothing at all: load_model knows
        return False
    return any(architecture.endswith("ForSequenceClassification") for architecture in config.architectures or [])


def _read_reward_model(name: str, dtype: str) -> tuple[Any, nn.Linear]:
    from transformers import AutoModelForSequenceClassification

    with quiet(), torch.random.fork_rng(devices=[]):
        model: Any = AutoModelForSequenceClassification.from_pretrained(
            name, dtype=getattr(torch, dtype), trust_remote_code=False
        )
    score = getattr(model, "score", None)
    if not isinstance(score, nn.Linear) or score.out_features != 1:
        raise UserError(
            f"The classifier {name!r} does not score with one linear head of one label ({model.config.num_labels} "
            "labels), so it is no reward model; set critic.model to one that does."
        )
    head = _zero_head(model.base_model)
    with torch.no_grad():
        head.weight.copy_(score.weight)
        if score.bias is not None:
            head.bias.copy_(score.bias)
    return model.base_model, head
