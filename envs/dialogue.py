"""What an environment of several turns says between the completions."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..sandbox.errors import UserError
from .task import Task

Message = dict[str, str]
"""One chat message: its "role" and its "content"."""


@dataclass(frozen=True)
class Reply:
    """The environment's answer to one completion.

    Attributes:
        observation: the next message to the model; None ends the episode, and the rubric decides.
        reward: what the turn was worth, besides the verdict on the last one; finite.
    """

    observation: str | None
    reward: float = 0.0

    def __post_init__(self) -> None:
        if self.observation is not None and not isinstance(self.observation, str):
            kind = type(self.observation).__name__
            raise UserError(f"The observation of a Reply is a {kind}; pass a str, or None to end the episode.")
        if isinstance(self.reward, bool) or not isinstance(self.reward, numbers.Real):
            raise UserError(f"The reward of a Reply is a {type(self.reward).__name__}; pass a number.")
        if not math.isfinite(self.reward):
            raise ValueError(f"the reward of a reply is {self.reward}, not a finite number")


class TurnFunction(Protocol):
    """Plays the environment's side of a conversation.

    It keeps nothing between calls: all that happened is in the conversation. So episodes may run side by side,
    in threads or processes.
    """

    def __call__(self, task: Task, conversation: Sequence[Message], completion: str, /) -> Reply:
        """The reply to `completion`, which answers the last message of `conversation`.

        Args:
            task: what was posed, with its hidden answer.
            conversation: the chat messages before the completion, the system prompt (if any) and the task's prompt
                first; the model's are those of the role "assistant".
            completion: what the model wrote, hostile text.
        """
        ...
