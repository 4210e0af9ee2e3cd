"""One episode while it is played: what was read and written so far, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..verifiers import Verdict
from .engines import Completion
from .seeding import derive
from .trajectory import NOT_GENERATED, Trajectory


@dataclass
class Draft:
    """A trajectory in the making.

    Attributes:
        ids: the first prompt, and all that was added to it.
        seed: of the first turn's completion.
        completion: the latest one.
        text: of the latest completion, as the environment sees it.
        has_room: whether another completion fits in the model.
    """

    ids: list[int]
    seed: int
    completion: Completion = field(default=Completion([], [], None, "length"), init=False)
    text: str = field(default="", init=False)
    has_room: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.ids = list(self.ids)
        self._mask = [0] * len(self.ids)
        self._logprobs = [0.0] * len(self.ids)
        self._entropies: list[float] | None = [0.0] * len(self.ids)
        self._versions = [NOT_GENERATED] * len(self.ids)
        self._rewards: list[float] = []
        self._ends: list[int] = []
        self._truncated = False

    @property
    def turn_seed(self) -> int:
        """The seed of the turn that comes next."""
        turn = len(self._ends)
        return self.seed if turn == 0 else derive(self.seed, "turn", turn)

    def write(self, completion: Completion, text: str, version: int) -> None:
        """Add what the model wrote, with the policy's weights of `version` unless the completion knows better."""
        self.completion, self.text = completion, text
        self._versions += [version] * len(completion.ids) if completion.versions is None else completion.versions
        self._add(completion.ids, 1, completion.logprobs, completion.entropies)
        # A turn without a token ends where the one before it did.
        self._ends.append(len(self.ids) - 1 if completion.ids else (self._ends or [-1])[-1])

    def end_turn(self, reward: float, truncated: bool) -> None:
        """Note what the turn was worth, and whether the environment cut the episode short."""
        self._rewards.append(reward)
        self._truncated = truncated

    def hear(self, ids: Sequence[int], longest: int) -> None:
        """Add the tokens of the next message, if there are then no more than `longest`."""
        self.has_room = len(self.ids) + len(ids) <= longest
        if self.has_room:
            zeros = [0.0] * len(ids)
            self._add(ids, 0, zeros, zeros)
            self._versions += [NOT_GENERATED] * len(ids)

    def trajectory(
        self, *, task_id: str, group: int, prompt: str, verdict: Verdict, conversation: list[dict[str, str]]
    ) -> Trajectory:
        """The finished episode."""
        return Trajectory(
            task_id=task_id,
            group=group,
            prompt=prompt,
            completion=self.text,
            ids=self.ids,
            loss_mask=self._mask,
            sampler_logprobs=self._logprobs,
            entropies=self._entropies,
            rewards=self._rewards,
            verdict=verdict,
            finish_reason=self.completion.finish_reason,
            turn_ends=self._ends,
            truncated=self._truncated or self.completion.finish_reason == "length",
            conversation=conversation,
            versions=self._versions,
        )

    def _add(self, ids: Sequence[int], mask: int, logprobs: Sequence[float], entropies: Sequence[float] | None) -> None:
        self.ids += ids
        self._mask += [mask] * len(ids)
        self._logprobs += logprobs
        if entropies is None:
            self._entropies = None
        elif self._entropies is not None:
            self._entropies += entropies
