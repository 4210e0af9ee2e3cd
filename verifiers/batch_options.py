"""The arguments of a batch function row by row: whatever it is given is a list, and its defaults are not."""

from __future__ import annotations

from typing import Any

from ..sandbox.errors import UserError


def rows_of(count: int, **arguments: Any) -> list[dict[str, Any]]:
    """The arguments of each of `count` rows, where a list holds one value a row and anything else is for all.

    Raises:
        UserError: a list has another length.
    """
    for name, value in arguments.items():
        if isinstance(value, list) and len(value) != count:
            raise UserError(f"{name}= has {len(value)} entries for {count} completions; give one for each.")
    return [
        {name: value[row] if isinstance(value, list) else value for name, value in arguments.items()}
        for row in range(count)
    ]


def rows_by_options(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[tuple[dict[str, Any], list[int]]]:
    """The rows' indices, those together that agree in the arguments of these names, and what those are."""
    groups: list[tuple[dict[str, Any], list[int]]] = []
    for index, row in enumerate(rows):
        options = {name: row[name] for name in names}
        for known, members in groups:
            # Compared and not hashed: an option may be a function or a mapping.
            if all(known[name] is options[name] or known[name] == options[name] for name in names):
                members.append(index)
                break
        else:
            groups.append((options, [index]))
    return groups
