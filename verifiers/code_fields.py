"""Fields of tests that are plain data: read, or refused in a sentence that says where they stand."""

from __future__ import annotations

import ast
import keyword
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .code_compare import Comparison, tolerance_of


def cases_of(form: Mapping[str, Any], place: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The cases of a form, each with where it stands. Raises UserError where there is none."""
    cases = form["cases"]
    if not isinstance(cases, Sequence) or isinstance(cases, str | bytes):
        raise UserError(f"{place}.cases is {reprlib.repr(cases)}; give a list of cases.")
    if not cases:
        raise UserError(f"{place}.cases is empty, so any program would pass; give at least one case.")
    for at, case in enumerate(cases):
        if not isinstance(case, Mapping):
            raise UserError(f"{place}.cases[{at}] is {reprlib.repr(case)}; give a mapping.")
    return [(f"{place}.cases[{at}]", case) for at, case in enumerate(cases)]


def check_keys(
    given: Mapping[str, Any], required: Sequence[str], known: Sequence[str], place: str, null: Sequence[str] = ()
) -> None:
    """Refuse keys that are not known, and the lack of those that must be there (may be None, for those in `null`)."""
    for key in given:
        # A value of None is a column of a table that this row has no use for.
        if key not in known and given[key] is not None:
            raise UserError(f"{place} has an unknown key {key!r}; {did_you_mean(str(key), known)}")
    for key in required:
        if key not in given or (given[key] is None and key not in null):
            raise UserError(f"{place} has no {key!r}; add it.")


def text_of(given: Mapping[str, Any], key: str, place: str, empty: bool = False) -> str:
    """A text, which is not empty unless it may be. Raises UserError where it is none."""
    value = given[key]
    if not isinstance(value, str) or not (value or empty):
        raise UserError(f"{place}.{key} is {reprlib.repr(value)}; give a text.")
    return value


def dotted_name(given: Mapping[str, Any], key: str, place: str) -> str:
    """A name of Python's, with dots perhaps. Raises UserError where it is none."""
    name = text_of(given, key, place)
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
        raise UserError(f"{place}.{key} is {name!r}, which is no name of Python; give one, such as 'solve' or 'A.run'.")
    return name


def is_visible(given: Mapping[str, Any], place: str) -> bool:
    """Whether the tests are visible ones. Raises UserError where that is no truth value."""
    visible = value_or(given.get("visible"), False)
    if not isinstance(visible, bool):
        raise UserError(f"{place}.visible is {reprlib.repr(visible)}; give true or false.")
    return visible


def is_in_place(form: Mapping[str, Any], place: str) -> bool:
    """Whether the tests are about what becomes of arguments. Raises UserError where that is no truth value."""
    in_place = value_or(form.get("in_place"), False)
    if not isinstance(in_place, bool):
        raise UserError(f"{place}.in_place is {reprlib.repr(in_place)}; give true or false.")
    return in_place


def comparison_of(form: Mapping[str, Any], case: Mapping[str, Any], place: str) -> Comparison:
    """How a case is compared, by its tolerance or that of all cases. Raises UserError where it is none."""
    declared = value_or(case.get("tolerance"), form.get("tolerance"))
    tolerance = tolerance_of(declared)
    if tolerance is None:
        raise UserError(
            f"The tolerance at {place} is {reprlib.repr(declared)}; give a number from 0 to below 1, or a mapping with "
            "'absolute' or 'relative'."
        )
    return Comparison(*tolerance)


def value_or(value: Any, default: Any) -> Any:
    """The value, or the default in place of None."""
    return default if value is None else value


def parsed(source: str, place: str) -> ast.Module:
    """The code as a tree. Raises UserError where it is no Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{place} is no Python ({' '.join(str(error).split())[:200]}); mend it.") from None
