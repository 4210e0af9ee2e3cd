"""Collections of tasks, and where they come from."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import overload

from ..sandbox.errors import UserError
from .columns import Column, Columns, Row
from .rows import PlacedRow, hub_rows, jsonl_rows, parquet_rows
from .task import Task


class Tasks(Sequence[Task]):
    """A sequence of tasks, numbered from 0, that says where it came from.

    Build one with `from_list`, `from_jsonl`, `from_parquet`, `from_path`, `from_hub` or `from_function`.
    All but the last read rows, with the same four keywords: `prompt` and `answer` name a column or are a
    function of the row (`prompt` may be a list of columns, joined with a space), `id` names the column of
    ids (by default tasks are called "<source>/<row>", rows counted from 0), and `info` lists the columns
    kept for the verifiers (by default all that are left).

    Args:
        items: the tasks; indexing may compute them.
        source: what they were read from, for messages.
    """

    def __init__(self, items: Sequence[Task], source: str = "list") -> None:
        self._items = items
        self.source = source

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Tasks: ...
    def __getitem__(self, index: int | slice) -> Task | Tasks:
        """A task, or the tasks of a slice."""
        if isinstance(index, slice):
            return Tasks(self._items[index], self.source)
        return self._items[index]

    def __repr__(self) -> str:
        return f"<Tasks: {len(self)} from {self.source}>"

    @classmethod
    def from_list(
        cls,
        tasks: Iterable[Task | Row],
        *,
        prompt: Column | Sequence[str] = "prompt",
        answer: Column = "answer",
        id: Column | None = None,
        info: Sequence[str] | None = None,
        source: str = "list",
    ) -> Tasks:
        """Tasks as they are, or dicts read as rows.

        Raises:
            UserError: if there are none, two have one id, or a row is not what the columns say.
        """
        columns = Columns(prompt, answer, id, info)
        return _build((_from_item(item, columns, source, number) for number, item in enumerate(tasks)), source)

    @classmethod
    def from_jsonl(
        cls,
        path: str | Path,
        *,
        prompt: Column | Sequence[str] = "prompt",
        answer: Column = "answer",
        id: Column | None = None,
        info: Sequence[str] | None = None,
    ) -> Tasks:
        """Tasks from a file with one JSON object a line.

        Raises:
            UserError: as `from_list`, or if the file is missing or malformed (the message names the line).
        """
        return _from_rows(jsonl_rows(path), Columns(prompt, answer, id, info), str(path), Path(path).stem)

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        *,
        prompt: Column | Sequence[str] = "prompt",
        answer: Column = "answer",
        id: Column | None = None,
        info: Sequence[str] | None = None,
    ) -> Tasks:
        """Tasks from a Parquet file (needs pyarrow, of the extra `train`).

        Raises:
            UserError: as `from_list`, or if the file is missing or malformed, or pyarrow is missing.
        """
        return _from_rows(parquet_rows(path), Columns(prompt, answer, id, info), str(path), Path(path).stem)

    @classmethod
    def from_path(
        cls,
        path: str | Path,
        *,
        prompt: Column | Sequence[str] = "prompt",
        answer: Column = "answer",
        id: Column | None = None,
        info: Sequence[str] | None = None,
    ) -> Tasks:
        """Tasks from a file, read by its ending: `.jsonl` or `.parquet`.

        Raises:
            UserError: as `from_jsonl` and `from_parquet`, or for another ending.
        """
        readers = {".jsonl": cls.from_jsonl, ".parquet": cls.from_parquet}
        reader = readers.get(Path(path).suffix.lower())
        if reader is None:
            raise UserError(f"{path} ends in neither .jsonl nor .parquet; convert or rename the file.")
        return reader(path, prompt=prompt, answer=answer, id=id, info=info)

    @classmethod
    def from_hub(
        cls,
        name: str,
        *,
        config: str | None = None,
        split: str = "train",
        revision: str | None = None,
        prompt: Column | Sequence[str] = "prompt",
        answer: Column = "answer",
        id: Column | None = None,
        info: Sequence[str] | None = None,
    ) -> Tasks:
        """Tasks from a data set of the Hugging Face hub, through `datasets` (of the extra `train`).

        Args:
            name: "owner/name" on the hub, or a folder that `datasets` can read.
            config: the data set's configuration, where it has several.
            split: the hub's name of the split.
            revision: a branch, tag or commit; pin it where runs must be repeatable.
            prompt: see `Tasks`.
            answer: see `Tasks`.
            id: see `Tasks`.
            info: see `Tasks`.

        Raises:
            UserError: as `from_list`, or if the data set cannot be loaded, or `datasets` is missing.
        """
        rows = hub_rows(name, config=config, split=split, revision=revision)
        stem = f"{Path(name).name}_{split}"
        return _from_rows(rows, Columns(prompt, answer, id, info), f"{name} ({split})", stem)

    @classmethod
    def from_function(cls, fn: Callable[[int], Task], size: int) -> Tasks:
        """Tasks that are made when they are asked for: task i is `fn(i)`, for i from 0 to size - 1.

        `fn` must be a function of the index alone (see `item_rng`), and give each task its own id.

        Raises:
            UserError: if size is below 1, or, on indexing, if `fn` returns anything but a `Task`.
        """
        if size < 1:
            raise UserError(f"size={size} leaves no tasks; pass a size of at least 1.")
        return cls(_Generated(fn, range(size)), getattr(fn, "__qualname__", repr(fn)))


class _Generated(Sequence[Task]):
    def __init__(self, fn: Callable[[int], Task], indices: range) -> None:
        self._fn = fn
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> _Generated: ...
    def __getitem__(self, index: int | slice) -> Task | _Generated:
        if isinstance(index, slice):
            return _Generated(self._fn, self._indices[index])
        number = self._indices[operator.index(index)]
        task = self._fn(number)
        if not isinstance(task, Task):
            raise UserError(
                f"The task function {getattr(self._fn, '__qualname__', self._fn)} returned a "
                f"{type(task).__name__} for index {number}; return a Task."
            )
        return task


def _from_item(item: Task | Row, columns: Columns, source: str, number: int) -> Task:
    if isinstance(item, Task):
        return item
    if isinstance(item, Mapping):
        return columns.task(item, f"{source}/{number}", f"{source}, row {number}")
    raise UserError(f"{source}, row {number} is a {type(item).__name__}; pass Task objects or dicts.")


def _from_rows(rows: Iterable[PlacedRow], columns: Columns, source: str, stem: str) -> Tasks:
    tasks = (columns.task(row, f"{stem}/{number}", place) for number, (place, row) in enumerate(rows))
    return _build(tasks, source)


def _build(tasks: Iterable[Task], source: str) -> Tasks:
    first_with: dict[str, int] = {}
    items: list[Task] = []
    for number, task in enumerate(tasks):
        if task.id in first_with:
            raise UserError(
                f"Rows {first_with[task.id]} and {number} of {source} share the id {task.id!r}; "
                "give each task its own id, or drop id= to have them numbered."
            )
        first_with[task.id] = number
        items.append(task)
    if not items:
        raise UserError(f"{source} holds no tasks; add at least one.")
    return Tasks(items, source)
