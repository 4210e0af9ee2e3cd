"""The forward pass over the rows of groups, with each prompt computed once and not once a completion."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from .recompute import recomputes, recomputing


@dataclass(frozen=True)
class SplitRows:
    """B rows cut in two where each one's loss begins, with U different prompts among them.

    Attributes:
        prompt_ids: (U, P), padded on the left, so that a prompt lies right before its completions.
        prompt_mask: (U, P), false on padding.
        owner: (B,) which of the prompts each row begins with.
        starts: (B,) how long that is.
        completion_ids: (B, C), padded on the right.
        completion_mask: (B, C), false on padding.
        loss_mask: (B, C), of the completions.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    owner: Tensor
    starts: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    loss_mask: Tensor


def states_before(body: Any, shares_prompts: bool, input_ids: Tensor, attention_mask: Tensor, mask: Tensor) -> Tensor:
    """The hidden state before each token of a mask, (tokens, width), row by row.

    Args:
        body: a causal language model without its head.
        shares_prompts: what `can_share_prompts` says of it.
        input_ids: (B, T), padded on the right.
        attention_mask: (B, T), 0 on padding.
        mask: (B, T), false at the first token of a row, which nothing comes before.
    """
    # A cache of the prompts and layers that are computed again do not go together.
    if shares_prompts and not recomputes(body):
        rows = split_rows(input_ids, attention_mask, mask)
        if len(rows.prompt_ids) < len(input_ids):
            return predicting_states(body, rows)[rows.loss_mask]
    # Nothing is predicted from the last token.
    with recomputing(body):
        hidden: Tensor = body(
            input_ids=input_ids[:, :-1], attention_mask=attention_mask[:, :-1], use_cache=False
        ).last_hidden_state
    return hidden[mask[:, 1:]]


def split_rows(input_ids: Tensor, attention_mask: Tensor, loss_mask: Tensor) -> SplitRows:
    """Cut rows, (B, T) and padded on the right, before the first token of each that has a loss."""
    ends = attention_mask.sum(dim=1)
    starts = torch.where(loss_mask.any(dim=1), loss_mask.int().argmax(dim=1), ends)
    places = starts[:, None] + torch.arange(-int(starts.max()), 0, device=input_ids.device)
    prompts = input_ids.gather(1, places.clamp(min=0)).masked_fill(places < 0, -1)
    unique, owner = prompts.unique(dim=0, return_inverse=True)

    places = starts[:, None] + torch.arange(max(1, int((ends - starts).max())), device=input_ids.device)
    inside = places < ends[:, None]
    places = places.clamp(max=input_ids.shape[1] - 1)
    return SplitRows(
        prompt_ids=unique.clamp(min=0),
        prompt_mask=unique >= 0,
        owner=owner,
        starts=starts,
        completion_ids=input_ids.gather(1, places),
        completion_mask=inside,
        loss_mask=loss_mask.gather(1, places) & inside,
    )


def predicting_states(body: Any, rows: SplitRows) -> Tensor:
    """The hidden states that predict the tokens of each completion, (B, C, width).

    The completions go on from the keys and values of their prompts, as they do in generation; what flows back
    through these is the sum over the completions. Equal to a pass over whole rows, up to the order of additions.
    """
    prompt_states, cache = prompt_pass(body, rows.prompt_ids, rows.prompt_mask, rows.owner)
    states = prompt_states[:, -1:].index_select(0, rows.owner)
    # Nothing is predicted from the last token of the longest completion.
    inputs = rows.completion_ids[:, :-1]
    if inputs.shape[1] == 0:
        return states
    mask = torch.cat([rows.prompt_mask.index_select(0, rows.owner), rows.completion_mask[:, :-1]], dim=1)
    completion_states = body(
        input_ids=inputs,
        attention_mask=mask.long(),
        position_ids=rows.starts[:, None] + torch.arange(inputs.shape[1], device=inputs.device),
        **{cache_argument(body): cache},
        use_cache=True,
    ).last_hidden_state
    return torch.cat([states, completion_states], dim=1)


def prompt_pass(body: Any, prompt_ids: Tensor, prompt_mask: Tensor, owner: Tensor) -> tuple[Tensor, Any]:
    """One pass over U prompts, (U, P) and padded on the left, on behalf of the B rows that begin with them.

    Args:
        body: the model without its head; see `can_share_prompts`.
        prompt_ids: token ids.
        prompt_mask: false on padding.
        owner: (B,) which prompt each row begins with.

    Returns:
        The hidden states of the prompts, (U, P, width), and a cache of keys and values with a copy for each row.
    """
    cache: Any = DynamicCache(config=body.config)
    states = body(
        input_ids=prompt_ids,
        attention_mask=prompt_mask.long(),
        position_ids=(prompt_mask.long().cumsum(dim=1) - 1).clamp(min=0),
        **{cache_argument(body): cache},
        use_cache=True,
    ).last_hidden_state
    for layer in cache.layers:
        # index_select, because the backward pass of advanced indexing adds in an order that differs from run to run.
        layer.keys = layer.keys.index_select(0, owner)
        layer.values = layer.values.index_select(0, owner)
    return states, cache


def cache_argument(model: Any) -> str:
    """Under which name a model takes what it keeps of its past, which changed in the course of transformers 5."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def can_share_prompts(body: Any) -> bool:
    """Whether a model keeps the whole of its past as keys and values, and takes positions: most of them do."""
    if not {"position_ids", cache_argument(body)} <= inspect.signature(body.forward).parameters.keys():
        return False
    layers = DynamicCache(config=body.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
