"""How the fields of a completion and its task become the arguments of a verifier function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.nearest import nearest
from .foreign import (
    BATCH_SIGNS,
    COLUMNS,
    TRL_ARGUMENTS,
    VERL_FIELDS,
    Conversational,
    expects_conversations,
    is_verl,
    verl_data_source,
    verl_extra_info,
)

Kwargs = dict[str, Any]

_MISSING = object()


class Arguments:
    """The parameters of a verifier function, and what each is given.

    Attributes:
        function: what to call, with what a conversational function needs around it.
        parameters: the names of its parameters.
        required: those without a default.
        takes_every_field: whether it has `**kwargs`.
        batch: whether it takes all completions at a time, each parameter as a list.
        is_async: whether it is a coroutine function.
        is_verl: whether it is a `compute_score`.
        field_names: the fields that it may read.

    Raises:
        UserError: the function's arguments cannot be passed by name, or it is a generator.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        parameters = _parameters(name, function)
        kinds = inspect.Parameter
        named = [p for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
        self.name = name
        self.parameters = tuple(p.name for p in named)
        self.required = tuple(p.name for p in named if p.default is kinds.empty)
        self.takes_every_field = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
        self.batch = not BATCH_SIGNS.isdisjoint(self.parameters)
        self.is_verl = is_verl(self.parameters)
        by_name = {p.name: p for p in named}
        if expects_conversations(function, by_name.get("completions")):
            function = Conversational(function)
        self.function = function
        self.is_async = any(map(inspect.iscoroutinefunction, _faces(function)))
        if self.batch and "completion" in self.parameters:
            raise UserError(f"Verifier {name!r} takes one completion and a list of them; keep one of the parameters.")
        self._plain = not self.batch and not self.is_verl
        self.field_names = self._field_names()

    def check(self, fields: Collection[str]) -> None:
        """Raise UserError if a parameter without default has none of these fields' names."""
        for parameter in self.required:
            if parameter in fields or self._is_given(parameter, fields):
                continue
            near = nearest(parameter, set(fields).difference(self.parameters))
            cure = f"rename {near[0]!r} to it" if near else "add that field or give the parameter a default"
            raise UserError(
                f"Verifier {self.name!r} needs {parameter!r}, which none of the fields "
                f"({', '.join(map(repr, sorted(fields)))}) gives; {cure}."
            )

    def _field_names(self) -> frozenset[str]:
        names = set(self.parameters)
        for parameter in self.parameters:
            singular = COLUMNS.get(parameter, parameter) if self.batch else parameter
            names.add(singular)
            if self.is_verl:
                names.update(VERL_FIELDS.get(singular, ()))
        return frozenset(names)

    def of_one(self, row: Mapping[str, Any]) -> Kwargs:
        """The arguments for one row; a parameter with a default is left out where no field gives it."""
        if self._plain:
            if self.takes_every_field:
                return dict(row)
            return {name: row[name] for name in self.parameters if name in row}
        values = {parameter: self._value(parameter, row) for parameter in self.parameters}
        return {parameter: value for parameter, value in values.items() if value is not _MISSING}

    def groups(self, rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
        """The rows' indices, those together that can be one call of a batch function: that have the same fields."""
        groups: dict[frozenset[str], list[int]] = {}
        for index, row in enumerate(rows):
            groups.setdefault(frozenset(row), []).append(index)
        return list(groups.values())

    def of_many(self, rows: Sequence[Mapping[str, Any]]) -> Kwargs:
        """The arguments of a batch function for rows of one group: a list, in the rows' order, for each parameter."""
        columns: Kwargs = {}
        for parameter in self.parameters:
            values = [self._value(parameter, row) for row in rows]
            if all(value is not _MISSING for value in values):
                columns[parameter] = values
            elif parameter in TRL_ARGUMENTS and parameter in self.required:
                columns[parameter] = TRL_ARGUMENTS[parameter]
        if self.takes_every_field and not self.is_verl:
            plurals = {"completion": "completions", "prompt": "prompts"}
            for field in rows[0]:
                columns.setdefault(plurals.get(field, field), [row[field] for row in rows])
        return columns

    def _value(self, parameter: str, row: Mapping[str, Any]) -> Any:
        for field in self._sources(parameter):
            if field in row:
                return row[field]
        if self.is_verl:
            singular = COLUMNS.get(parameter, parameter)
            if singular == "data_source":
                return verl_data_source(row)
            if singular == "extra_info":
                return verl_extra_info(row)
        return _MISSING

    def _sources(self, parameter: str) -> tuple[str, ...]:
        """The fields that may give a parameter, the first that is there."""
        singular = COLUMNS.get(parameter, parameter) if self.batch else parameter
        if self.is_verl and singular in VERL_FIELDS:
            return VERL_FIELDS[singular]
        return (singular,) if singular == parameter else (singular, parameter)

    def _is_given(self, parameter: str, fields: Collection[str]) -> bool:
        if any(field in fields for field in self._sources(parameter)):
            return True
        if self.is_verl and COLUMNS.get(parameter, parameter) in ("data_source", "extra_info"):
            return True
        return self.batch and parameter in TRL_ARGUMENTS


def _parameters(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    if not callable(function):
        raise UserError(f"Verifier {name!r} is {function!r}, which cannot be called; decorate a function.")
    for face in _faces(function):
        if inspect.isasyncgenfunction(face) or inspect.isgeneratorfunction(face):
            raise UserError(f"Verifier {name!r} is a generator, which returns no score; return it instead of yielding.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise UserError(
            f"Verifier {name!r} is {function!r}, whose parameters Python cannot name; wrap it in a function."
        ) from None
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise UserError(
                f"Verifier {name!r} takes {parameter.name!r} by position only, but fields come by name; "
                "remove the '/' from its signature."
            )
    return parameters


def _faces(function: Callable[..., Any]) -> tuple[Any, ...]:
    """What shows whether calling `function` gives a coroutine or a generator."""
    if isinstance(function, Conversational):
        function = function.function
    return (function, getattr(function, "__call__", None))  # noqa: B004 - an object's own __call__
