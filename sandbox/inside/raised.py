"""Exceptions that cross between the program's process and the tests': their class, what they were given, what they say.

The class is found by its name: a built-in one, one of the standard library that is known on the other side, or one
that is made there, once for each name, after the classes that it inherits from.
"""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, Optional

from . import harness, plain

_MOST_ATTRIBUTES = 50
_LONGEST_TEXT = 2000
_LONGEST_NAME = 100


def bases_of(kind: type) -> list:
    """The names of the exception classes that it is, nearest first; before those that are not built in is a point."""
    bases = [base for base in type.mro(kind) if issubclass(base, Exception)]
    return [("" if getattr(builtins, base.__name__, None) is base else ".") + base.__name__ for base in bases]


def arguments(error: BaseException) -> Any:
    """What an exception was given, as data; its text where that is none."""
    given: list = list(error.args)
    if isinstance(error, OSError) and error.filename is not None and len(given) == 2:
        given.append(error.filename)
    try:
        return plain.encode(given)
    except plain.NotPlain:
        return plain.encode([harness.message_of(error)])


def described(error: BaseException, told: Any) -> list:
    """An exception as data: name, module, bases, arguments, attributes, and its text where its class makes that."""
    kind = type(error)
    attributes = {}
    for name, value in list(vars(error).items())[:_MOST_ATTRIBUTES]:
        try:
            attributes[str(name)[:_LONGEST_NAME]] = plain.decode(plain.encode(value))
        except plain.NotPlain:
            continue
    text = None
    if isinstance(kind.__str__, types.FunctionType):
        try:
            text = str.__getitem__(str(error), slice(_LONGEST_TEXT))
        except Exception:
            text = ""
    return [kind.__name__, str(kind.__module__), bases_of(kind), told, plain.encode(attributes), text]


def class_of(name: Any, module: Any, bases: Any, made: dict) -> Optional[type]:
    """The exception class of this name on this side; None if it is no ordinary exception."""
    name, bases = str(name)[:_LONGEST_NAME], [str(base) for base in bases] if isinstance(bases, list) else []
    known: list[Any] = [kind for kind in (getattr(builtins, base, None) for base in bases) if _is_exception(kind)]
    if not known:
        return None
    if bases[0] == name:
        return known[0]
    if str(module).partition(".")[0] in getattr(sys, "stdlib_module_names", ()):
        kind = getattr(sys.modules.get(module), name, None)
        if _is_exception(kind):
            return kind
    parent = known[0]
    for base in reversed([base[1:] for base in bases[:_MOST_ATTRIBUTES] if base.startswith(".")]):
        base = base[:_LONGEST_NAME]
        if base not in made:
            made[base] = _made(base, parent, known[0])
        parent = made[base]
    return parent


def _made(name: str, parent: type, built_in: type) -> type:
    bases = (parent,) if issubclass(parent, built_in) else (parent, built_in)
    return type(name, bases, {"__str__": _text_of})


def _text_of(error: Any) -> str:
    text = getattr(error, "_text", None)
    if isinstance(text, str):
        return text
    own = next(kind for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind)
    return own.__str__(error)


def _is_exception(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def rebuilt(kind: type, told: list, attributes: dict, text: Optional[str]) -> BaseException:
    """The exception of such a class with what was told of it."""
    try:
        built_in = getattr(builtins, kind.__name__, None) is kind
        # The program's has run already, and that of a class made here is another.
        error = kind(*told) if built_in else kind.__new__(kind, *told)
        if not built_in:
            error.args = tuple(told)
    except Exception:
        error = RuntimeError(f"{kind.__name__}: {told!r:.500}")
    for name, value in attributes.items():
        try:
            setattr(error, name, value)
        except Exception:
            continue
    if text is not None and "_text" not in attributes:
        error._text = text
    return error
