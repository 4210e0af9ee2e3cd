"""What all episodes of an environment have in common."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, SupportsIndex

from ..verifiers import Rubric, UserError
from ..verifiers.extraction import ThinkStyle, check_think_style
from .tasks import Tasks

Message = dict[str, str]
"""One chat message: its "role" and its "content"."""


@dataclass(frozen=True, repr=False)
class Setup:
    """The tasks, the rubric and how the model is spoken to, checked once when an environment is built.

    Raises:
        UserError: if there are no tasks, the think style is unknown, or a verifier of the rubric asks for
            a field that no task has.
    """

    tasks: Tasks
    rubric: Rubric
    system: str | None
    think: ThinkStyle

    def __post_init__(self) -> None:
        if not isinstance(self.tasks, Tasks):
            raise UserError(f"tasks is a {type(self.tasks).__name__}; wrap a list in Tasks.from_list.")
        if not isinstance(self.rubric, Rubric):
            raise UserError(f"rubric is a {type(self.rubric).__name__}; wrap a verifier in Rubric(score(...)).")
        if not len(self.tasks):
            raise UserError("An environment needs tasks and was given none; pass at least one.")
        check_think_style(self.think)
        if self.system is not None and not isinstance(self.system, str):
            raise UserError(f"The system prompt is {self.system!r}, which is no text; pass a str or None.")
        # The first task stands for all: rows of one source have the same columns.
        self.rubric.check_fields(self.tasks[0].fields(completion="", think=self.think))

    def messages(self, observation: str) -> list[Message]:
        """`observation` as the chat messages to be answered, after the system prompt if there is one."""
        user = {"role": "user", "content": observation}
        return [user] if self.system is None else [{"role": "system", "content": self.system}, user]

    def index(self, value: Any) -> int:
        """`value` as the index of a task; `UserError` if it is none."""
        # True is an int to Python, and never what someone meant as the number of a task.
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise UserError(f"options['task'] is {value!r}; pass the whole number of a task.")
        number = operator.index(value)
        if not 0 <= number < len(self.tasks):
            raise UserError(f"options['task'] is {number}; pass a number from 0 to {len(self.tasks) - 1}.")
        return number


class HasSetup:
    """Shows the parts of an environment's setup as its attributes."""

    _setup: Setup

    @property
    def tasks(self) -> Tasks:
        """The tasks, which know their answers."""
        return self._setup.tasks

    @property
    def rubric(self) -> Rubric:
        """What scores the completions."""
        return self._setup.rubric

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self._setup.system

    @property
    def think(self) -> ThinkStyle:
        """Who opens the reasoning."""
        return self._setup.think
