"""What all episodes of an environment have in common."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, SupportsIndex

from ..verifiers import Rubric, UserError
from ..verifiers.extraction import ThinkStyle, check_think_style
from .dialogue import Message, TurnFunction
from .tasks import Tasks

TURN_FIELDS = ("conversation", "turns")
"""What verifiers are given, besides all else, in an environment of several turns."""


@dataclass(frozen=True, repr=False)
class Setup:
    """The tasks, the rubric and how the model is spoken to, checked once when an environment is built.

    Raises:
        UserError: if there are no tasks, the think style is unknown, a verifier of the rubric asks for a field
            that no task has, or there are several turns but nothing that plays the other side of them.
    """

    tasks: Tasks
    rubric: Rubric
    system: str | None
    think: ThinkStyle
    turn: TurnFunction | None = None
    max_turns: int = 1

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
        self._check_turns()
        # The first task stands for all: rows of one source have the same columns.
        first = self.tasks[0]
        known: dict[str, Any] = {}
        if self.turn is not None:
            known = {"conversation": self.messages(first.prompt), "turns": 0}
            for name in TURN_FIELDS:
                if name in first.info:
                    raise UserError(
                        f"The info of task {first.id!r} has a key {name!r}, which to the verifiers of an environment "
                        "of several turns means something else; rename it."
                    )
        self.rubric.check_fields(first.fields(completion="", think=self.think, **known))

    def _check_turns(self) -> None:
        if self.turn is not None and not callable(self.turn):
            raise UserError(f"turn is a {type(self.turn).__name__}; pass a function, or None for a single turn.")
        if isinstance(self.max_turns, bool) or not isinstance(self.max_turns, int) or self.max_turns < 1:
            raise UserError(f"max_turns={self.max_turns!r} must be a whole number of at least 1.")
        if self.max_turns > 1 and self.turn is None:
            raise UserError(
                f"max_turns={self.max_turns} asks for replies between the turns, which this environment has none of; "
                "give it a turn function, or leave max_turns at 1."
            )

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

    @property
    def turn(self) -> TurnFunction | None:
        """What replies between the turns; `None` where there is one turn only."""
        return self._setup.turn

    @property
    def max_turns(self) -> int:
        """The most completions of an episode."""
        return self._setup.max_turns
