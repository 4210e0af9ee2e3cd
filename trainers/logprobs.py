"""Log-probs and entropy of the sampled tokens, without ever holding the logits of a whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from ..verifiers import UserError

# Logits held at once, in floats: 64 MiB.
_CHUNK_FLOATS = 2**24


@dataclass(frozen=True)
class TokenStatistics:
    """(B, T) each, 0 outside the loss mask: log pi of the token at t, and the entropy it was drawn at (no gradient)."""

    logprobs: Tensor
    entropies: Tensor


class TokenLogprobs(nn.Module):
    """The policy as the trainer sees it: token ids and a mask in, log-probs of the masked tokens out.

    Hidden states are picked at the loss tokens first, so the vocabulary projection runs for those alone, in chunks
    that are recomputed in the backward pass.

    Args:
        model: a causal language model of transformers.
        temperature: that of the sampler; the log-probs are of softmax(logits / temperature).

    Raises:
        UserError: if the model does more to its logits than project the last hidden state (soft-capping,
            logit scaling), which this would silently leave out.
    """

    def __init__(self, model: PreTrainedModel, temperature: float = 1.0) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature
        self._check_projection()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, loss_mask: Tensor) -> TokenStatistics:
        """Statistics at the tokens where `loss_mask` (B, T) is true; the first token of a row has none."""
        body = self.model.base_model
        hidden = body(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        predicts = loss_mask[:, 1:]
        picked = hidden[:, :-1][predicts]
        targets = input_ids[:, 1:][predicts]
        chunk = max(1, _CHUNK_FLOATS // self.model.config.vocab_size)
        parts = [
            checkpoint(self._chunk, states, ids, use_reentrant=False, preserve_rng_state=False)
            if torch.is_grad_enabled()
            else self._chunk(states, ids)
            for states, ids in zip(picked.split(chunk), targets.split(chunk), strict=True)
        ]
        logprobs, entropies = (torch.cat(columns) for columns in zip(*parts, strict=True))
        return TokenStatistics(
            hidden.new_zeros(input_ids.shape, dtype=torch.float32).masked_scatter(_shift(predicts), logprobs),
            hidden.new_zeros(input_ids.shape, dtype=torch.float32).masked_scatter(_shift(predicts), entropies),
        )

    def _chunk(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model.get_output_embeddings()(hidden).float() / self.temperature
        normaliser = logits.logsumexp(dim=-1)
        logprobs = logits.gather(-1, targets[:, None])[:, 0] - normaliser
        with torch.no_grad():
            # H = lse(z) - sum softmax(z) z
            entropies = normaliser - (torch.softmax(logits, dim=-1) * logits).sum(dim=-1)
        return logprobs, entropies

    @torch.no_grad()
    def _check_projection(self) -> None:
        probe = torch.arange(4, device=self.model.device)[None] % self.model.config.vocab_size
        whole = self.model(input_ids=probe, use_cache=False).logits
        hidden = self.model.base_model(input_ids=probe, use_cache=False).last_hidden_state
        if not torch.allclose(self.model.get_output_embeddings()(hidden), whole, rtol=1e-3, atol=1e-3):
            raise UserError(
                f"{type(self.model).__name__} does more to its logits than project the last hidden state, so its "
                "log-probs would be wrong here; train a model without logit soft-capping or scaling"
            )


def _shift(predicts: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(predicts[:, :1]), predicts], dim=1)
