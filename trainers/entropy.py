"""The entropy of the policy in the loss: with its gradient, and with a weight that may be steered to a target."""

from __future__ import annotations

import torch
from torch import Tensor

from .algorithms import Algorithm
from .logprobs import TokenLogprobs


class EntropyLogprobs(TokenLogprobs):
    """As `TokenLogprobs`, but the entropies that are asked for carry the gradient, as a bonus in the loss needs."""

    def _chunk(self, hidden: Tensor, targets: Tensor, entropies: bool) -> tuple[Tensor, ...]:
        if not entropies:
            return super()._chunk(hidden, targets, False)
        logits = self.model.get_output_embeddings()(hidden).float() / self.temperature
        logprobs = logits - logits.logsumexp(dim=-1, keepdim=True)
        taken = logprobs.gather(-1, targets[:, None])[:, 0]
        return taken, exact_entropy(logprobs)


def exact_entropy(logprobs: Tensor) -> Tensor:
    """H = -sum over v of p_v log p_v, in nats, of a distribution's log-probs (..., vocabulary); carries the gradient.

    Args:
        logprobs: normalised, already of the temperature that was sampled at.

    Returns:
        (...) entropies; a token of probability 0 adds nothing.
    """
    return -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(dim=-1)


class EntropyBonus:
    """The weight of the entropy bonus: constant, or steered so that the entropy keeps to a target.

    With a target, the weight rises by `entropy_coef_delta` after every optimizer step whose entropy was at or below
    it and falls by as much after every other, within [0, entropy_coef_max]; and it is applied only while the last
    entropy was at or below the target. Source: Skywork-OR1 (He et al. 2025), section 4; the constants are TRL's.

    Attributes:
        coef: the weight as it stands.
        last: the entropy of the last optimizer step, nats a token; None before the first.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.coef = algorithm.entropy_coef
        self.last: float | None = None

    @property
    def applied(self) -> float:
        """The weight for the next optimizer step."""
        target = self._algorithm.entropy_target
        return self.coef if target is None or self.last is None or self.last <= target else 0.0

    def observe(self, entropy: float) -> None:
        """Take note of the entropy of an optimizer step and move the weight for the next."""
        algorithm = self._algorithm
        self.last = entropy
        if algorithm.entropy_target is not None:
            sign = 1 if entropy <= algorithm.entropy_target else -1
            moved = self.coef + sign * algorithm.entropy_coef_delta
            self.coef = min(max(moved, 0.0), algorithm.entropy_coef_max)

    def state_dict(self) -> dict[str, float | None]:
        """What a checkpoint keeps."""
        return {"coef": self.coef, "start": self._algorithm.entropy_coef, "last": self.last}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        """Go on from a checkpoint; where the configuration has another weight than it had, that is where it stands.

        Older checkpoints do not say with which one they started.
        """
        started = state.get("start", self._algorithm.entropy_coef)
        steered = self._algorithm.entropy_target is not None and started == self._algorithm.entropy_coef
        if steered and state["coef"] is not None:
            self.coef = state["coef"]
        self.last = state["last"]
