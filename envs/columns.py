"""Which column of a row becomes which part of a task."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.nearest import nearest
from .task import Task

Row = Mapping[str, Any]
Column = str | Callable[[Row], Any]
"""The name of a column, or a function of the row."""


@dataclass(frozen=True)
class Columns:
    """How rows are read as tasks.

    Args:
        prompt: the column with the prompt; a list of names joins these columns with a space.
        answer: the column with the reference answer.
        id: the column with the task's id; `None` numbers the tasks from 0.
        info: the columns kept in `Task.info`; `None` keeps all that have no other use.
    """

    prompt: Column | Sequence[str] = "prompt"
    answer: Column = "answer"
    id: Column | None = None
    info: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.info, str):
            raise UserError(f"info={self.info!r} is not a list of columns; write info=[{self.info!r}].")
        if self.info is not None and not isinstance(self.info, Sequence):
            raise UserError(f"info={self.info!r} is not a list of columns; pass a list of their names.")
        joined = self.prompt if isinstance(self.prompt, list | tuple) else [self.prompt]
        numbered = [] if self.id is None else [("id", self.id)]
        for name, column in [*(("prompt", column) for column in joined), ("answer", self.answer), *numbered]:
            if not isinstance(column, str) and not callable(column):
                raise UserError(f"{column!r} names no column to read the {name} from; pass the name of one.")

    def task(self, row: Row, default_id: str, place: str) -> Task:
        """The task that `row` holds.

        Args:
            row: one row of the data.
            default_id: the id where no column gives one.
            place: where the row was read, for error messages.

        Raises:
            UserError: if a column is missing, or a value cannot be what it is meant to be.
        """
        info_columns = self._unused(row) if self.info is None else self.info
        try:
            return Task(
                id=default_id if self.id is None else _as_id(_read(row, self.id)),
                prompt=_read(row, self.prompt),
                answer=_read(row, self.answer),
                info={name: _read(row, name) for name in info_columns},
            )
        except _MissingColumnError as missing:
            near = nearest(missing.name, row)
            cure = f"did you mean {near[0]!r}?" if near else "name one of these."
            columns = ", ".join(map(repr, row)) or "none"
            raise UserError(f"{place} has no column {missing.name!r} among its columns {columns}; {cure}") from None
        except UserError as error:
            raise UserError(f"{place}: {error}") from None

    def _unused(self, row: Row) -> list[str]:
        used: set[str] = set()
        for column in (self.prompt, self.answer, self.id):
            if isinstance(column, str):
                used.add(column)
            elif isinstance(column, Sequence):
                used.update(column)
        return [name for name in row if name not in used]


class _MissingColumnError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _read(row: Row, column: Column | Sequence[str]) -> Any:
    if isinstance(column, str):
        if column not in row:
            raise _MissingColumnError(column)
        return row[column]
    if callable(column):
        try:
            return column(row)
        except KeyError as error:
            raise _MissingColumnError(str(error.args[0]) if error.args else "") from error
    return " ".join(_text(row, name) for name in column)


def _text(row: Row, name: str) -> str:
    value = _read(row, name)
    if not isinstance(value, str):
        raise UserError(f"Column {name!r} holds {reprlib.repr(value)}; join only columns of text.")
    return value


def _as_id(value: Any) -> str:
    # Numbers make good ids; True, None or a list would hide that the wrong column was named.
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UserError(f"The id {reprlib.repr(value)} is neither text nor a whole number; name another id=.")
    return str(value)
