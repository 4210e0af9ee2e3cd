"""An engine that says what it is told to: for tests, and for trying an environment without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...verifiers import UserError
from .base import Completion, Engine, Sampling

if TYPE_CHECKING:
    from torch import Tensor


class ScriptedEngine(Engine):
    """Completes a prompt with what `script(prompt text, seed)` returns.

    Args:
        tokenizer: a Hugging Face tokenizer.
        script: the completion's text for a prompt's text; the seed lets it vary within a group.
        eos_id: appended to each completion; one that does not fit in `max_tokens` is cut off instead.
    """

    def __init__(self, tokenizer: Any, script: Callable[[str, int], str], eos_id: int) -> None:
        self._tokenizer = tokenizer
        self._script = script
        self._eos_id = eos_id

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`; log-probs and entropies are 0, as nothing is left to chance."""
        for place, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
            yield place, self._complete(self._tokenizer.decode(list(prompt)), sampling.max_tokens, seed)

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Note the version; a script has no weights."""
        self.version = version

    def _complete(self, prompt: str, max_tokens: int, seed: int) -> Completion:
        text = self._script(prompt, seed)
        if not isinstance(text, str):
            raise UserError(f"The script returned {type(text).__name__} for {prompt[:60]!r}; return a str.")
        ids = [*self._tokenizer.encode(text, add_special_tokens=False), self._eos_id]
        cut = len(ids) > max_tokens
        ids = ids[:max_tokens]
        zeros = [0.0] * len(ids)
        return Completion(ids, zeros, list(zeros), "length" if cut else "stop")
