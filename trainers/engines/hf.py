"""The embedded engine: a model of transformers, generating with the policy's own weights."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, LogitsProcessorList, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin
from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper

from ...verifiers import UserError
from ..shared_prompts import cache_argument, can_share_prompts, prompt_pass
from .base import Completion, Engine, Sampling

# Rows that have ended are dropped once no more than this share of the batch is left.
_DROP_AT = 0.9


class HFEngine(Engine):
    """Generates with the policy model itself, so its weights are never stale.

    Args:
        model: the policy; left in eval mode.
        eos_ids: every id that ends a completion.
        pad_id: fills shorter prompts on the left.
        max_batch: how many prompts are generated at once.
        autocast: makes the context that generation runs in (mixed precision).

    Raises:
        UserError: if the model does not keep its past as keys and values.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        eos_ids: Collection[int],
        pad_id: int,
        max_batch: int = 256,
        autocast: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> None:
        self._model = model
        self._takes = frozenset(inspect.signature(model.forward).parameters)
        self._cache_argument = cache_argument(model)
        if self._cache_argument not in self._takes or not _keeps_keys_and_values(model):
            raise UserError(
                f"{type(model).__name__} does not keep its past as keys and values, so the engine hf cannot generate "
                "with it; set engine.kind to vllm."
            )
        self._shares_prompts = can_share_prompts(model.base_model)
        self._eos_ids = frozenset(eos_ids)
        self._pad_id = pad_id
        self._max_batch = max_batch
        self._autocast = autocast
        self.max_length = getattr(model.config, "max_position_embeddings", None)

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`."""
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds; give one seed a prompt")
        self._check_length(prompts, sampling.max_tokens)
        count = len(prompts)
        for start in range(0, count, self._max_batch):
            stop = min(start + self._max_batch, count)
            # One context for the batch: what autocast makes of the weights is kept as long as it lasts.
            with self._autocast():
                for place, completion in self._generate_batch(prompts[start:stop], sampling, seeds[start:stop]):
                    # Whoever reads the stream is not to compute in it.
                    with torch.autocast(self._model.device.type, enabled=False):
                        yield start + place, completion

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Note the version: the engine generates with the very tensors that the optimizer moves."""
        self.version = version

    def _check_length(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        longest = max((len(prompt) for prompt in prompts), default=0)
        if self.max_length is not None and longest + max_tokens > self.max_length:
            raise UserError(
                f"A prompt of {longest} tokens and {max_tokens} new ones do not fit in the model's {self.max_length} "
                "positions; lower max_tokens or shorten the prompt."
            )

    def _generate_batch(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """The completions of prompts that are generated side by side, each with its place, as they end."""
        rows = self._begin(prompts)
        sampler = _Sampler(sampling, seeds, self._model.device)
        # What is under way in each row; None in one that has ended and was not dropped yet.
        under_way: list[int | None] = list(range(len(prompts)))
        while under_way:
            with torch.no_grad():
                chosen = sampler.draw(self._logits(rows))
            last = sampler.drawn == sampling.max_tokens
            for row, token in enumerate(chosen.tolist()):
                place = under_way[row]
                if place is not None and (last or token in self._eos_ids):
                    yield place, sampler.completion(row, "stop" if token in self._eos_ids else "length")
                    under_way[row] = None
            left = [row for row, place in enumerate(under_way) if place is not None]
            rows.add(chosen)
            # To drop rows is to copy the keys and values of the others.
            if len(left) <= _DROP_AT * len(under_way):
                under_way = [under_way[row] for row in left]
                kept = torch.tensor(left, dtype=torch.long, device=self._model.device)
                rows.keep(kept)
                sampler.keep(kept)

    def _begin(self, prompts: Sequence[Sequence[int]]) -> _Rows:
        """The prompts in rows, padded on the left."""
        width = max(len(prompt) for prompt in prompts)
        ids = torch.full((len(prompts), width), self._pad_id)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        ids, mask = ids.to(self._model.device), mask.to(self._model.device)
        with torch.no_grad():
            past = self._shared_past(ids, mask)
        if past is None:
            return _Rows(ids, mask, DynamicCache(config=self._model.config))
        return _Rows(ids[:, -1:], mask, past)

    def _logits(self, rows: _Rows) -> Tensor:
        """Of the token that comes next in each row: (rows, vocabulary)."""
        count = rows.inputs.shape[1]
        given: dict[str, Any] = {
            "position_ids": (rows.mask.cumsum(dim=1) - 1).clamp(min=0)[:, -count:],
            "logits_to_keep": 1,
            self._cache_argument: rows.past,
        }
        output = self._model(
            input_ids=rows.inputs,
            attention_mask=rows.mask,
            use_cache=True,
            **{name: value for name, value in given.items() if name in self._takes},
        )
        return output.logits[:, -1]

    def _shared_past(self, ids: Tensor, mask: Tensor) -> Any:
        """Keys and values of all but the last prompt token, computed once for the rows of a group."""
        if not self._shares_prompts or ids.shape[1] == 1:
            return None
        prompts, owner = ids.masked_fill(mask == 0, -1)[:, :-1].unique(dim=0, return_inverse=True)
        if len(prompts) == len(ids):
            return None
        return prompt_pass(self._model.base_model, prompts.clamp(min=0), prompts >= 0, owner)[1]


def _keeps_keys_and_values(model: Any) -> bool:
    # Some take a cache under the same name that is of a kind of their own.
    return model._supports_default_dynamic_cache() and any(
        isinstance(layer, CacheLayerMixin) for layer in DynamicCache(config=model.config).layers
    )


@dataclass
class _Rows:
    """Rows that are being generated.

    Attributes:
        inputs: (rows, n) the tokens that the model has not seen yet.
        mask: (rows, T) of all that it will have seen with them, 0 on padding.
        past: keys and values of what it has seen.
    """

    inputs: Tensor
    mask: Tensor
    past: Any

    def add(self, chosen: Tensor) -> None:
        """Go on with one more token each, (rows,)."""
        self.inputs = chosen[:, None]
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(chosen), 1)], dim=1)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self.inputs, self.mask = self.inputs[rows], self.mask[rows]
        # Made for beams, and all kinds of layers have it.
        self.past.reorder_cache(rows)


class _Sampler:
    """Draws the next token of each row by inversion, with random numbers of the row's own, and keeps the books.

    So a draw uses no global random state, and log-probs and entropies are those of the distribution that was drawn
    from, without a (batch, length, vocabulary) tensor.

    Attributes:
        drawn: how many tokens of each row.
    """

    def __init__(self, sampling: Sampling, seeds: Sequence[int], device: torch.device) -> None:
        self.drawn = 0
        self._temperature = sampling.temperature
        draws = np.stack([np.random.default_rng(seed).random(sampling.max_tokens) for seed in seeds])
        self._uniforms = torch.from_numpy(draws).float().clamp(max=1 - 2**-24).to(device)
        self._warpers = LogitsProcessorList()
        if sampling.top_k > 0:
            self._warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            self._warpers.append(TopPLogitsWarper(sampling.top_p))
        self._ids = torch.zeros_like(self._uniforms, dtype=torch.long)
        self._logprobs, self._entropies = torch.zeros_like(self._uniforms), torch.zeros_like(self._uniforms)

    def draw(self, scores: Tensor) -> Tensor:
        """The next token of each row, (rows,), given the model's logits."""
        logits: Any = scores.float()
        if self._temperature > 0:
            unread: Any = None  # the tokens so far, which neither top-k nor top-p asks for
            logits = self._warpers(unread, logits / self._temperature if self._temperature != 1 else logits)
        # What was cut has a probability of 0 all the same, and 0 times a finite number is no NaN.
        logits = logits.clamp(min=torch.finfo(logits.dtype).min)
        normaliser = logits.logsumexp(dim=-1, keepdim=True)
        probs = (logits - normaliser).exp_()
        # H = lse(z) - sum softmax(z) z
        self._entropies[:, self.drawn] = normaliser[:, 0] - torch.linalg.vecdot(probs, logits)
        if self._temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            mass = probs.cumsum_(dim=-1)
            threshold = self._uniforms[:, self.drawn, None] * mass[:, -1:]
            chosen = torch.searchsorted(mass, threshold, right=True).clamp(max=logits.shape[-1] - 1)
        self._ids[:, self.drawn] = chosen[:, 0]
        self._logprobs[:, self.drawn] = (logits.gather(-1, chosen) - normaliser)[:, 0]
        self.drawn += 1
        return chosen[:, 0]

    def completion(self, row: int, finish_reason: Literal["stop", "length"]) -> Completion:
        """All that was drawn in a row."""
        ids, logprobs, entropies = (
            column[row, : self.drawn].tolist() for column in (self._ids, self._logprobs, self._entropies)
        )
        return Completion(ids, logprobs, entropies, finish_reason)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self._uniforms, self._ids = self._uniforms[rows], self._ids[rows]
        self._logprobs, self._entropies = self._logprobs[rows], self._entropies[rows]
