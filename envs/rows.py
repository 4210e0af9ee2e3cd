"""Reading rows from task files and from the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..sandbox.errors import UserError

PlacedRow = tuple[str, dict[str, Any]]
"""A row, after the words that say where it was read (for error messages)."""


def jsonl_rows(path: str | Path) -> Iterator[PlacedRow]:
    """The rows of a UTF-8 file with one JSON object a line; blank lines are skipped.

    Raises:
        UserError: if there is no such file, or a line is not a JSON object.
    """
    file = existing_file(path)
    try:
        # A byte-order mark, which some editors write, is no part of the JSON. Lines end at \n only: a text
        # may hold other Unicode line separators unescaped, at which str.splitlines would cut it in two.
        with file.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    place = f"{file}, line {number}"
                    yield place, _json_object(line, place)
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text ({error.reason}); convert it.") from None


def parquet_rows(path: str | Path) -> Iterator[PlacedRow]:
    """The rows of a Parquet file.

    Raises:
        UserError: if there is no such file, it is not Parquet, or pyarrow is not installed.
    """
    file = existing_file(path)
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UserError(f"Reading {file} needs pyarrow; pip install 'rlvr[train]'.") from None
    try:
        table = parquet.read_table(file)
    except (ArrowException, OSError) as error:
        raise UserError(f"{file} is not a readable Parquet file ({_first_line(error)}); name another.") from None
    for number, row in enumerate(table.to_pylist()):
        yield f"{file}, row {number}", row


def hub_rows(name: str, *, config: str | None, split: str, revision: str | None) -> Iterator[PlacedRow]:
    """The rows of one split of a data set that `datasets.load_dataset` finds.

    Raises:
        UserError: if the data set cannot be loaded, or `datasets` is not installed.
    """
    try:
        import datasets
    except ImportError:
        raise UserError(f"Loading {name!r} from the hub needs datasets; pip install 'rlvr[train]'.") from None
    try:
        data = datasets.load_dataset(name, config, split=split, revision=revision)
    # The network, the hub, the cache and the data set's own files raise exceptions of many unrelated types.
    except Exception as error:
        raise UserError(
            f"Data set {name!r} (config {config!r}, split {split!r}) did not load ({_first_line(error)}); "
            "check the name and the connection, or pass path= with a JSONL or Parquet file."
        ) from error
    for number, row in enumerate(data):
        yield f"{name} ({split}), row {number}", dict(row)


def existing_file(path: str | Path) -> Path:
    """`path` as a `Path`; `UserError` where no file is."""
    file = Path(path).expanduser()
    if file.is_dir():
        raise UserError(f"{file} is a folder; name a task file in it.")
    if not file.is_file():
        raise UserError(f"There is no task file {file}; check the path, which is relative to {Path.cwd()}.")
    return file


def _json_object(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    # ValueError: not JSON, or an integer of too many digits; RecursionError: nested too deeply.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place} is not valid JSON ({_first_line(error)}); write one object a line.") from None
    if not isinstance(row, dict):
        raise UserError(f"{place} holds a {type(row).__name__} and no object; write one object a line.")
    return row


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
