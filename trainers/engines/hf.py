"""The embedded engine: `model.generate` of transformers, on the policy's own weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, PreTrainedModel
from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper

from ...verifiers import UserError
from ..shared_prompts import can_share_prompts, prompt_pass
from .base import Completion, Engine, Sampling


class HFEngine(Engine):
    """Generates with the policy model itself, so its weights are never stale.

    Args:
        model: the policy; left in eval mode.
        eos_ids: every id that ends a completion.
        pad_id: fills shorter prompts on the left.
        max_batch: how many prompts are generated at once.
        autocast: makes the context that generation runs in (mixed precision).
    """

    def __init__(
        self,
        model: PreTrainedModel,
        eos_ids: Collection[int],
        pad_id: int,
        max_batch: int = 256,
        autocast: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> None:
        self._model: Any = model  # the stubs of transformers take `generate` for a tensor
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
            completions = self._generate_batch(prompts[start:stop], sampling, seeds[start:stop])
            yield from enumerate(completions, start)

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
    ) -> list[Completion]:
        device = self._model.device
        width = max(len(prompt) for prompt in prompts)
        ids = torch.full((len(prompts), width), self._pad_id)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        sampler = _Sampler(sampling, seeds, device)
        ids, mask = ids.to(device), mask.to(device)
        with torch.no_grad(), self._autocast(), self._own_generation_config(sampling):
            self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                past_key_values=self._shared_past(ids, mask),
                logits_processor=LogitsProcessorList([sampler]),
            )
        return sampler.completions(self._eos_ids)

    def _shared_past(self, ids: Tensor, mask: Tensor) -> Any:
        """Keys and values of all but the last prompt token, computed once for the rows of a group."""
        if not self._shares_prompts or ids.shape[1] == 1:
            return None
        prompts, owner = ids.masked_fill(mask == 0, -1)[:, :-1].unique(dim=0, return_inverse=True)
        if len(prompts) == len(ids):
            return None
        return prompt_pass(self._model.base_model, prompts.clamp(min=0), prompts >= 0, owner)[1]

    @contextlib.contextmanager
    def _own_generation_config(self, sampling: Sampling) -> Iterator[None]:
        # What is not set in a config passed to `generate` is filled in from the checkpoint's own (repetition
        # penalties, suppressed tokens), and the log-probs would not be the policy's; so that one stands aside.
        kept = self._model.generation_config
        self._model.generation_config = GenerationConfig(
            max_new_tokens=sampling.max_tokens,
            do_sample=False,
            eos_token_id=sorted(self._eos_ids),
            pad_token_id=self._pad_id,
        )
        try:
            yield
        finally:
            self._model.generation_config = kept


class _Sampler(LogitsProcessor):
    """Draws the next token of each row by inversion, with random numbers of the row's own, and keeps the books.

    Handing back logits with one finite entry makes the greedy choice of `generate` that token, so the draw uses
    no global random state, and log-probs and entropies are those of the distribution that was drawn from,
    without a (batch, length, vocabulary) tensor.
    """

    def __init__(self, sampling: Sampling, seeds: Sequence[int], device: torch.device) -> None:
        self._temperature = sampling.temperature
        draws = np.stack([np.random.default_rng(seed).random(sampling.max_tokens) for seed in seeds])
        self._uniforms = torch.from_numpy(draws).float().clamp(max=1 - 2**-24).to(device)
        self._warpers = LogitsProcessorList()
        if sampling.top_k > 0:
            self._warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            self._warpers.append(TopPLogitsWarper(sampling.top_p))
        self._ids: list[Tensor] = []
        self._logprobs: list[Tensor] = []
        self._entropies: list[Tensor] = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        logits: Any = scores.float()
        if self._temperature > 0:
            logits = self._warpers(input_ids, logits / self._temperature if self._temperature != 1 else logits)
        # What was cut has a probability of 0 all the same, and 0 times a finite number is no NaN.
        logits = logits.clamp(min=torch.finfo(logits.dtype).min)
        normaliser = logits.logsumexp(dim=-1, keepdim=True)
        probs = (logits - normaliser).exp_()
        # H = lse(z) - sum softmax(z) z
        self._entropies.append(normaliser[:, 0] - torch.linalg.vecdot(probs, logits))
        if self._temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            mass = probs.cumsum_(dim=-1)
            threshold = self._uniforms[:, len(self._ids), None] * mass[:, -1:]
            chosen = torch.searchsorted(mass, threshold, right=True).clamp(max=logits.shape[-1] - 1)
        self._ids.append(chosen[:, 0])
        self._logprobs.append((logits.gather(-1, chosen) - normaliser)[:, 0])
        return logits.fill_(-torch.inf).scatter_(-1, chosen, 0.0)

    def completions(self, eos_ids: frozenset[int]) -> list[Completion]:
        ids, logprobs, entropies = (
            torch.stack(columns, dim=1).tolist() for columns in (self._ids, self._logprobs, self._entropies)
        )
        return [_until_eos(*row, eos_ids=eos_ids) for row in zip(ids, logprobs, entropies, strict=True)]


def _until_eos(ids: list[int], logprobs: list[float], entropies: list[float], eos_ids: frozenset[int]) -> Completion:
    end = next((place + 1 for place, token in enumerate(ids) if token in eos_ids), None)
    return Completion(ids[:end], logprobs[:end], entropies[:end], "length" if end is None else "stop")
