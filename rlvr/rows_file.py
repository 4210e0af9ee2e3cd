"""Reading completions to be scored from a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .sandbox.errors import kind_of
from .sandbox.nearest import did_you_mean
from .verifiers import UserError


@dataclass(frozen=True)
class Row:
    """One line of a file.

    Attributes:
        line: its number, from 1.
        fields: what the verifier may ask for.
        expected: whether the completion is right, if the line says so under "expected".
    """

    line: int
    fields: Mapping[str, Any]
    expected: bool | None


class Lines:
    """The lines of a file, which can be gone through more than once; those of a pipe are kept in memory.

    Raises:
        UserError: there is no such file.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.is_dir():
            raise UserError(f"There is no file {str(path)!r} to score; give a file with a JSON object a line.")
        self.path = path
        self._kept = None if path.is_file() else path.read_bytes().splitlines(keepends=True)

    def __iter__(self) -> Iterator[bytes]:
        if self._kept is not None:
            yield from self._kept
            return
        with self.path.open("rb") as file:
            yield from file


def read_rows(lines: Lines, columns: Mapping[str, str]) -> Iterator[Row]:
    """The rows of a file with a JSON object a line; empty lines are skipped.

    Args:
        lines: the file's.
        columns: for a field, the key under which the file has it, where that is another one.

    Raises:
        UserError: a line is no object, lacks a column or has no text as completion.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _row(line, number, f"Line {number} of {lines.path}", columns)


def _kind(value: Any) -> str:
    return "null" if value is None else kind_of(value)


def _row(line: bytes, number: int, where: str, columns: Mapping[str, str]) -> Row:
    try:
        found = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise UserError(f"{where} is not valid JSON ({reason[:200]}); mend or remove it.") from None
    if not isinstance(found, dict):
        raise UserError(f'{where} is {_kind(found)} and no object; write it as {{"completion": ...}}.')
    fields = dict(found)
    for field, key in columns.items():
        if key not in found:
            raise UserError(f"{where} has no key {key!r} for --column {field}={key}; {did_you_mean(key, found)}")
        fields[field] = found[key]
    expected = fields.pop("expected", None)
    if expected is not None and not isinstance(expected, bool):
        raise UserError(f"{where} has {str(expected)[:80]!r} as expected, which is neither true nor false; mend it.")
    completion = fields.get("completion")
    if "completion" not in fields:
        raise UserError(f"{where} has no key 'completion'; name the one that has it with --column completion=KEY.")
    if not isinstance(completion, str):
        raise UserError(f"{where} has {_kind(completion)} as completion; it has to be a text.")
    return Row(number, fields, expected)
