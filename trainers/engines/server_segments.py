"""A completion that is put together from what servers generated until they were interrupted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from ..seeding import derive
from .base import Completion, Sampling
from .server_client import Segment


@dataclass
class SegmentedCompletion:
    """A completion in the making, of segments that were each drawn under one version."""

    prompt: list[int]
    seed: int
    sampling: Sampling
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    @property
    def left(self) -> Sampling:
        """How the rest is drawn."""
        return replace(self.sampling, max_tokens=self.sampling.max_tokens - len(self.ids))

    @property
    def segment_seed(self) -> int:
        """The seed of what comes next; after an interruption the server's random numbers would begin anew."""
        return derive(self.seed, "from", len(self.ids)) if self.ids else self.seed

    def add(self, segment: Segment, version: int) -> None:
        """Add what was generated under a version."""
        self.ids += segment.ids
        self.logprobs += segment.logprobs
        self.versions += [version] * len(segment.ids)

    def finished(self, segment: Segment, eos_ids: Collection[int]) -> Completion | None:
        """The completion, if `segment` was the last of it."""
        reason = self._reason(segment, eos_ids)
        return None if reason is None else Completion(self.ids, self.logprobs, None, reason, self.versions)

    def _reason(self, segment: Segment, eos_ids: Collection[int]) -> Literal["stop", "length"] | None:
        if segment.finish_reason != "abort":
            return segment.finish_reason
        if segment.ids and segment.ids[-1] in eos_ids:
            return "stop"
        return "length" if len(self.ids) >= self.sampling.max_tokens else None
