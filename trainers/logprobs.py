"""Log-probs and entropy of the sampled tokens, without ever holding the logits of a whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from ..verifiers import UserError
from .parts import Shards
from .shared_prompts import can_share_prompts, states_before

# Logits held at once, in floats: 64 MiB.
_CHUNK_FLOATS = 2**24


@dataclass(frozen=True)
class TokenStatistics:
    """(B, T) each, 0 outside the loss mask: log pi of the token at t, and the entropy it was drawn at.

    The entropy carries no gradient, and is None where it was not asked for.
    """

    logprobs: Tensor
    entropies: Tensor | None


class TokenLogprobs(nn.Module):
    """The policy as the trainer sees it: token ids and a mask in, log-probs of the masked tokens out.

    Hidden states are picked at the loss tokens first, so the vocabulary projection runs for those alone, in chunks
    that are recomputed in the backward pass. Rows that begin with the same prompt share its forward and backward
    pass.

    Args:
        model: a causal language model of transformers.
        temperature: that of the sampler; the log-probs are of softmax(logits / temperature).

    Raises:
        UserError: if the model does more to its logits than project the last hidden state (soft-capping,
            logit scaling), which this would silently leave out.

    Attributes:
        shards: how its weights are split among processes; None where each has all of them.
    """

    def __init__(self, model: PreTrainedModel, temperature: float = 1.0) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature
        self.shares_prompts = can_share_prompts(model.base_model)
        self.shards: Shards | None = None
        self._check_projection()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, loss_mask: Tensor, entropies: bool = False
    ) -> TokenStatistics:
        """Statistics at the tokens where `loss_mask` (B, T) is true; the first token of a row has none.

        Rows are padded on the right. Entropies take a second pass over the logits, so they are to be asked for.
        """
        hidden = states_before(
            self.model.base_model, self.shares_prompts, input_ids, attention_mask, _without_first(loss_mask)
        )
        targets = input_ids[:, 1:][loss_mask[:, 1:]]
        chunk = max(1, _CHUNK_FLOATS // self.model.config.vocab_size)
        starts = range(0, max(1, len(targets)), chunk)
        parts = [
            self._chunk(hidden[start : start + chunk], targets[start : start + chunk], entropies)
            # The backward pass begins with the last chunk, so its logits would only be recomputed at once.
            if start == starts[-1] or not torch.is_grad_enabled()
            else checkpoint(
                self._chunk,
                hidden[start : start + chunk],
                targets[start : start + chunk],
                entropies,
                use_reentrant=False,
                preserve_rng_state=False,
            )
            for start in starts
        ]
        placed = [
            hidden.new_zeros(input_ids.shape, dtype=torch.float32).masked_scatter(
                _without_first(loss_mask), torch.cat(column)
            )
            for column in zip(*parts, strict=True)
        ]
        return TokenStatistics(placed[0], placed[1] if entropies else None)

    def _chunk(self, hidden: Tensor, targets: Tensor, entropies: bool) -> tuple[Tensor, ...]:
        logits = self.model.get_output_embeddings()(hidden).float()
        if self.temperature != 1:
            logits = logits / self.temperature
        normaliser = logits.logsumexp(dim=-1)
        logprobs = logits.gather(-1, targets[:, None])[:, 0] - normaliser
        if not entropies:
            return (logprobs,)
        with torch.no_grad():
            # H = lse(z) - sum softmax(z) z
            return logprobs, normaliser - (torch.softmax(logits, dim=-1) * logits).sum(dim=-1)

    @torch.no_grad()
    def _check_projection(self) -> None:
        probe = torch.arange(4, device=self.model.device)[None] % self.model.config.vocab_size
        whole = self.model(input_ids=probe, use_cache=False).logits
        hidden = self.model.base_model(input_ids=probe, use_cache=False).last_hidden_state
        if not torch.allclose(self.model.get_output_embeddings()(hidden), whole, rtol=1e-3, atol=1e-3):
            raise UserError(
                f"{type(self.model).__name__} does more to its logits than project the last hidden state, so its "
                "log-probs would be wrong here; train a model without logit soft-capping or scaling."
            )


def _without_first(loss_mask: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(loss_mask[:, :1]), loss_mask[:, 1:]], dim=1)
