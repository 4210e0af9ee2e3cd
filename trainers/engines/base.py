"""What the trainer and the evaluator ask of whatever generates text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor


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
        versions: of the policy's weights that each token was drawn with; None where all are the engine's version.
    """

    ids: list[int]
    logprobs: list[float]
    entropies: list[float] | None
    finish_reason: Literal["stop", "length"]
    versions: list[int] | None = None


class Engine(ABC):
    """Generates completions with one version of the policy's weights.

    Attributes:
        version: of the weights that it generates with.
        max_length: how many tokens prompt and completion may have together; None where it does not say.
        dtype: of its own copy of the weights, by torch's name; None where it generates with the policy itself.
    """

    version: int = 0
    max_length: int | None = None
    dtype: str | None = None

    @abstractmethod
    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """(index of the prompt, its completion) of each, as they are finished.

        A prompt's draws depend on its own seed, not on its neighbours.

        Whoever reads the stream may append to `seeds` and `prompts` between two completions. An engine that batches
        continuously takes what was added into its running batch; one that does not leaves it to a later stream.
        """

    @abstractmethod
    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over the policy's weights; completions from now on are of that version.

        Args:
            weights: (name, tensor) as in a checkpoint of Hugging Face.
            version: of these weights.
        """

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        """One completion a prompt, in their order."""
        finished = dict(self.stream(prompts, sampling, seeds))
        return [finished[place] for place in range(len(prompts))]

    # Not abstract: an engine that holds nothing of its own has nothing to do here.
    def close(self) -> None:  # noqa: B027
        """Let go of processes, memory and folders; there is no generating afterwards."""

    def sleep(self) -> None:  # noqa: B027
        """Free the memory of a device that training needs too, until `wake`."""

    def wake(self) -> None:  # noqa: B027
        """Be ready to generate again after `sleep`."""
