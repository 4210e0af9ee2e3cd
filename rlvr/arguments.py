"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from .config import parse_value
from .verifiers import UserError

ImportOption = Annotated[
    list[str] | None,
    typer.Option("--import", help="A module or .py file that registers environments or verifiers.", metavar="MODULE"),
]


def key_values(texts: Sequence[str]) -> dict[str, Any]:
    """The options in texts of the form key=value, the values in YAML.

    Raises:
        UserError: one of them has another form.
    """
    return dict(_key_value(text) for text in texts)


def key_texts(texts: Sequence[str]) -> dict[str, str]:
    """As `key_values`, the values as they are written."""
    pairs = (_split(text) for text in texts)
    return dict(pairs)


def _key_value(text: str) -> tuple[str, Any]:
    key, value = _split(text)
    return key, parse_value(value, text)


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"{text!r} is no option; write key=value.")
    return key, value
