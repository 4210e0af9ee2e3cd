"""What each generated token of a rollout earned. Pure functions on tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def token_rewards(scores: Tensor, turn_ends: Tensor, mask: Tensor, kl: Tensor | None, kl_coef: float) -> Tensor:
    """r_t = -beta * KL_t on every generated token, plus the score of a turn on the turn's last one.

    Source: Ziegler et al. 2019, eq. 2, with the KL a token (Ouyang et al. 2022, appendix C.4). The last token of a
    turn is where `turn_ends` says, so no padding, on whichever side, has a part in it.

    Args:
        scores: (N, K) what each turn was worth; 0 where a row has fewer turns.
        turn_ends: (N, K) position of the last generated token of each turn; -1 for a turn without one, whose
            score no token earned, and where a row has fewer turns.
        mask: (N, T) true on the tokens that the model generated.
        kl: (N, T) estimate of the KL to the reference at each token; None for no such term.
        kl_coef: beta.

    Returns:
        (N, T) float32, 0 outside the mask.
    """
    placed = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    present = turn_ends >= 0
    placed.scatter_add_(1, turn_ends.clamp(min=0), torch.where(present, scores.float(), 0.0))
    if kl is not None and kl_coef != 0:
        placed = placed - kl_coef * kl.detach().float()
    return placed.masked_fill(~mask, 0.0)


def subtract_missing_eos(scores: Tensor, turn_ends: Tensor, cut_off: Tensor, penalty: float) -> Tensor:
    """Take `penalty` off the last turn of every row that was cut off before it could end.

    Args:
        scores: (N, K) of each turn.
        turn_ends: (N, K), -1 where a row has fewer turns.
        cut_off: (N,) true where the last completion has no EOS because it ran out of tokens.
        penalty: taken off once a row; 0 or more.

    Returns:
        (N, K) scores.
    """
    places = torch.arange(scores.shape[1], device=scores.device).expand(scores.shape)
    last = torch.where(turn_ends >= 0, places, -1).amax(dim=1, keepdim=True)
    return scores - penalty * (cut_off[:, None] & (places == last)).to(scores.dtype)
