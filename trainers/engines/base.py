"""What the trainer and the evaluator ask of whatever generates text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn: softmax(logits / temperature), cut to top_k tokens and top_p mass; 0 is greedy."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True)
class Completion:
    """What an engine wrote for one prompt.

    Attributes:
        ids: the sampled tokens; an EOS that ended the completion is the last of them.
        logprobs: log-probability of each under the distribution it was drawn from.
        entropies: entropy in nats of each of those distributions, where the engine can tell.
        finish_reason: `stop` if the model ended it with an EOS, `length` if it was cut off.
    """

    ids: list[int]
    logprobs: list[float]
    entropies: list[float] | None
    finish_reason: Literal["stop", "length"]


class Engine(Protocol):
    """Generates completions with one version of the policy's weights."""

    version: int

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        """One completion a prompt, in order; a prompt's draws depend on its own seed, not on its neighbours."""
        ...

    def sync(self, weights: Any, version: int) -> None:
        """Take over the policy's weights; completions from now on are of that version."""
        ...
