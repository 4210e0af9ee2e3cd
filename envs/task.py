"""One problem with its hidden answer."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..sandbox.errors import UserError

RESERVED_FIELDS = ("completion", "prompt", "answer", "think", "completion_tokens")
"""What a verifier is given besides a task's `info`, so no key of `info` may have such a name."""


@dataclass(frozen=True)
class Task:
    """One problem: what the model reads, and what only the verifiers read.

    `answer` and `info` are left out of the `repr`, so that a task may be printed where a model could
    read it.

    Args:
        id: a name that is unique among the tasks of an environment.
        prompt: what is posed to the model.
        answer: the reference answer, hidden from the model.
        info: further fields for the verifiers, also hidden; each is passed to them under its own name.

    Raises:
        UserError: if id or prompt is not a `str`, or `info` is no mapping or has a key of `RESERVED_FIELDS`.
    """

    id: str
    prompt: str
    answer: Any = field(default=None, repr=False, hash=False)
    info: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise UserError(f"The id of a task is a str, but {self.id!r} is a {type(self.id).__name__}; convert it.")
        if not isinstance(self.prompt, str):
            raise UserError(
                f"The prompt of task {self.id!r} is a str, but {reprlib.repr(self.prompt)} is a "
                f"{type(self.prompt).__name__}; name a column of text as the prompt."
            )
        if not isinstance(self.info, Mapping):
            raise UserError(f"The info of task {self.id!r} is {reprlib.repr(self.info)}; pass a dict.")
        for name in RESERVED_FIELDS:
            if name in self.info:
                raise UserError(
                    f"The info of task {self.id!r} has a key {name!r}, which to verifiers means something "
                    "else; rename it, or list the columns to keep with info=."
                )
        # A copy: a caller that goes on using its dict must not change a task that calls itself frozen.
        object.__setattr__(self, "info", dict(self.info))

    def fields(self, *, completion: str, think: str, **known: Any) -> dict[str, Any]:
        """Everything a verifier may ask for by name about `completion` as an answer to this task.

        Args:
            completion: what the model wrote.
            think: the think style.
            known: what else is known about the completion, such as `completion_tokens`, its length in tokens.
        """
        return {
            "task_id": self.id,
            **self.info,
            "completion": completion,
            "prompt": self.prompt,
            "answer": self.answer,
            "think": think,
            **known,
        }
