"""Verifiers by name: plain functions whose arguments are passed by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, runtime_checkable

from .errors import UserError
from .nearest import did_you_mean, nearest
from .verdict import Verdict, as_verdict, failure

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*-v[0-9]+", re.ASCII)
# A message may quote a whole completion; a detail is a line of a log.
_LONGEST_MESSAGE = 500

_registry: dict[str, Verifier[..., Any]] = {}


@runtime_checkable
class Grader(Protocol):
    """What a verifier and a rubric have in common."""

    def grade(self, fields: Mapping[str, Any]) -> Verdict:
        """The verdict on a completion, given with everything known about its task in `fields`."""

    def check_fields(self, fields: Collection[str]) -> None:
        """Raise UserError unless fields of these names are enough to grade."""

    def option_names(self) -> frozenset[str] | None:
        """The names that may be fixed by a rubric's part; None if any name may."""


class Verifier(Generic[P, R]):
    """A named verifier function.

    Calling it calls the function, as if it had never been decorated; `grade` gives a Verdict.

    Raises:
        UserError: the function is asynchronous or a generator, or its arguments cannot be passed by name.
    """

    def __init__(self, name: str, function: Callable[P, R]) -> None:
        self.name = name
        self.function = function
        parameters = _parameters(name, function)
        kinds = inspect.Parameter
        named = [p for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
        self.parameters = tuple(p.name for p in named)
        self.required = tuple(p.name for p in named if p.default is kinds.empty)
        self.takes_every_field = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
        # Without the function's own attributes, which could overwrite this object's.
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function returns for these arguments; its exceptions come through."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<verifier {self.name}>"

    def __reduce__(self) -> Any:
        # In its module the decorated name is bound to this object and not to the function, so a registered
        # verifier is pickled as that name; unpickling imports the module, which registers it there too.
        qualname = getattr(self, "__qualname__", "<locals>")
        if _registry.get(self.name) is self and "<locals>" not in qualname:
            return qualname
        return (Verifier, (self.name, self.function))

    def grade(self, fields: Mapping[str, Any]) -> Verdict:
        """The function's verdict on `fields`, which it receives by parameter name.

        A parameter with a default keeps it where no field has its name; a function with `**kwargs` receives
        every field. Whatever goes wrong inside the function is a verdict of status "error", except a
        UserError, which comes through, since it reports a wrong argument rather than a failed grading.

        Raises:
            UserError: no field gives a parameter that has no default.
        """
        self.check_fields(fields)
        if not self.takes_every_field:
            fields = {name: fields[name] for name in self.parameters if name in fields}
        call: Callable[..., Any] = self.function
        try:
            return as_verdict(call(**fields))
        except UserError:
            raise
        # SystemExit too: a checker written as a script must not end a run of hours by calling sys.exit.
        except (Exception, SystemExit) as error:
            message = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
            return failure(f"verifier {self.name!r} failed with {message}")

    def check_fields(self, fields: Collection[str]) -> None:
        """Raise UserError if a parameter without default has none of these fields' names."""
        for parameter in self.required:
            if parameter not in fields:
                near = nearest(parameter, set(fields).difference(self.parameters))
                cure = f"rename {near[0]!r} to it" if near else "add that field or give the parameter a default"
                raise UserError(
                    f"Verifier {self.name!r} needs {parameter!r}, which none of the fields "
                    f"({', '.join(map(repr, sorted(fields)))}) gives; {cure}."
                )

    def option_names(self) -> frozenset[str] | None:
        """The function's parameters; None if it takes `**kwargs`."""
        return None if self.takes_every_field else frozenset(self.parameters)


def verifier(name: str) -> Callable[[Callable[P, R]], Verifier[P, R]]:
    """Register the decorated function under `name`, which has the form `owner/name-vN`.

    The function's parameters name the fields it wants: `completion`, `prompt`, `answer`, `think`, and every
    key of the task's `info`. It returns a float (passed from 1.0 on), a bool, or a Verdict:

        @rlvr.verifier("me/short-v1")
        def short(completion: str, limit: int = 100) -> bool:
            return len(completion) <= limit

    Raises:
        UserError: the name is malformed or belongs to another function, or the function cannot be a verifier.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"Verifier name {name!r} is not of the form owner/name-vN; write, say, 'me/my-check-v1'.")

    def register(function: Callable[P, R]) -> Verifier[P, R]:
        taken = _registry.get(name)
        if taken is not None and not _same_definition(taken.function, function):
            raise UserError(
                f"Verifier name {name!r} already belongs to {_where(taken.function)}, so {_where(function)} "
                "needs another name or a higher version number."
            )
        registered = Verifier(name, function)
        _registry[name] = registered
        return registered

    return register


def get_verifier(name: str) -> Verifier[..., Any]:
    """The verifier registered under `name`.

    Raises:
        UserError: there is none; the message has the nearest names.
    """
    try:
        return _registry[name]
    except (KeyError, TypeError):
        raise UserError(f"No verifier is registered as {name!r}; {did_you_mean(str(name), _registry)}") from None


def as_grader(what: object) -> Grader:
    """The grader that is meant by a registered name, a verifier, a rubric or a plain function.

    Raises:
        UserError: it is none of these.
    """
    if isinstance(what, str):
        return get_verifier(what)
    if isinstance(what, Grader) and not isinstance(what, type):
        return what
    if callable(what):
        return Verifier(getattr(what, "__name__", type(what).__name__), what)
    raise UserError(f"{what!r} is no grader; give a verifier's name, a function, a Verifier or a Rubric instead.")


def verify(what: object, /, *, completion: str, **fields: Any) -> Verdict:
    """The verdict on `completion` of a verifier (by name or itself), a rubric, or a plain function.

        rlvr.verify("rlvr/number-v1", completion=r"So \\boxed{42}.", answer="42").passed

    Raises:
        UserError: the name is unknown, the completion is no text, or a field that the grader needs is
            missing.
    """
    if not isinstance(completion, str):
        raise UserError(f"A completion is a str, but completion= is a {type(completion).__name__}.")
    return as_grader(what).grade({"completion": completion, **fields})


def _parameters(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    if not callable(function):
        raise UserError(f"Verifier {name!r} is {function!r}, which cannot be called; decorate a function.")
    for candidate in (function, getattr(function, "__call__", None)):  # noqa: B004 - an object's own __call__
        if (
            inspect.iscoroutinefunction(candidate)
            or inspect.isasyncgenfunction(candidate)
            or inspect.isgeneratorfunction(candidate)
        ):
            raise UserError(f"Verifier {name!r} is an async or generator function; write a plain function instead.")
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


def _same_definition(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether `new` is `old` defined again, as when a module is reloaded or a notebook cell run twice."""
    qualname = getattr(new, "__qualname__", None)
    if qualname is None or "<lambda>" in qualname:
        return old is new
    same_module = getattr(old, "__module__", None) == getattr(new, "__module__", None)
    return same_module and getattr(old, "__qualname__", None) == qualname


def _where(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
