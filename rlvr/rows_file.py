"""Reading completions to be scored from a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .verifiers import UserError
from .verifiers.nearest import did_you_mean


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


def read_rows(path: Path, columns: Mapping[str, str]) -> Iterator[Row]:
    """The rows of a file with a JSON object a line; empty lines are skipped.

    Args:
        path: the file.
        columns: for a field, the key under which the file has it, where that is another one.

    Raises:
        UserError: there is no such file, or a line is no object, lacks a column or has no text as completion.
    """
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r} to score; give a file with a JSON object a line.")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _row(line, number, f"Line {number} of {path}", columns)


def _row(line: bytes, number: int, where: str, columns: Mapping[str, str]) -> Row:
    try:
        found = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise UserError(f"{where} is not valid JSON ({reason[:200]}); mend or remove it.") from None
    if not isinstance(found, dict):
        raise UserError(f'{where} is a {type(found).__name__} and no object; write it as {{"completion": ...}}.')
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
        raise UserError(f"{where} has a {type(completion).__name__} as completion; it has to be a text.")
    return Row(number, fields, expected)
