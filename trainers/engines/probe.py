"""The guard against an engine whose distribution is not the policy's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...verifiers import UserError
from ..logprobs import TokenLogprobs
from ..seeding import derive
from .base import Completion, Engine, Sampling


@torch.no_grad()
def probe(
    engine: Engine,
    policy: TokenLogprobs,
    prompts: Sequence[Sequence[int]],
    pad_id: int,
    *,
    max_mean_diff: float,
    max_tokens: int = 16,
    autocast: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> dict[str, float]:
    """Compare the log-probs that an engine reports with the policy's own of the same tokens.

    The engine completes the same few prompts with the same seeds each time, at the policy's temperature and from the
    whole distribution.

    Args:
        engine: of any kind, at the policy's version.
        policy: the model whose completions they should be.
        prompts: token ids; a handful is enough.
        pad_id: fills shorter rows.
        max_mean_diff: the bound on the mean absolute difference, in nats a token.
        max_tokens: how many tokens a prompt is completed with at most; fewer where the engine has no room for them.
        autocast: makes the context of the policy's forward passes.

    Returns:
        `sampling/probe_logprob_diff_mean` and `..._max`: the mean and the largest absolute difference, in nats.

    Raises:
        UserError: if the mean is beyond the bound, or is no number.
    """
    seeds = [derive(0, "probe", row) for row in range(len(prompts))]
    if engine.max_length is not None:
        # What a rollout has room for, so that the probe does not refuse a run that would fit.
        max_tokens = max(1, min(max_tokens, engine.max_length - max(map(len, prompts))))
    completions = engine.generate(prompts, Sampling(max_tokens, policy.temperature), seeds)
    reported = torch.tensor([logprob for completion in completions for logprob in completion.logprobs])
    with autocast():
        own = _own_logprobs(policy, prompts, completions, pad_id).cpu()
    diff = (reported - own).abs()
    mean, largest = float(diff.mean()), float(diff.max())
    if not mean <= max_mean_diff:
        raise UserError(
            f"The engine is not the policy: over {len(diff)} tokens of {len(prompts)} prompts its log-probs and the "
            f"policy's of version {engine.version} differ by {mean:.3g} nats on average and {largest:.3g} at most, "
            f"where engine.max_logprob_diff allows {max_mean_diff:g}; usual causes are stale weights, another model "
            "or tokenizer on the server, a quantised or much coarser dtype (set engine.dtype), and log-probs that "
            "leave out the temperature (start vLLM with --logprobs-mode processed_logprobs)."
        )
    return {"sampling/probe_logprob_diff_mean": mean, "sampling/probe_logprob_diff_max": largest}


def _own_logprobs(
    policy: TokenLogprobs, prompts: Sequence[Sequence[int]], completions: Sequence[Completion], pad_id: int
) -> Tensor:
    """The policy's log-probs of the completions' tokens, one after another."""
    rows = [[*prompt, *completion.ids] for prompt, completion in zip(prompts, completions, strict=True)]
    ids = torch.full((len(rows), max(len(row) for row in rows)), pad_id)
    attention, generated = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for place, (prompt, row) in enumerate(zip(prompts, rows, strict=True)):
        ids[place, : len(row)] = torch.tensor(row)
        attention[place, : len(row)] = 1
        generated[place, len(prompt) : len(row)] = True
    device = next(policy.parameters()).device
    statistics = policy(ids.to(device), attention.to(device), generated.to(device))
    return statistics.logprobs[generated.to(device)].float()
