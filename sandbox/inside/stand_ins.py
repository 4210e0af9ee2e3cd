"""Stand-ins of the tests for functions and objects of a program in another process.

They go through a connection to that process (`opposite.Opposite`), and tell it when the program's word decides.
"""

from __future__ import annotations

import sys
from typing import Any


class StandIn:
    """An object or a function that lives in the program's process.

    What an object of the program's own class says (its attributes, items, length, truth and so on) is its own decision,
    and ends the trust in the report. So it is not where the tests make the object, of a class that they know as one by
    its name (`Stack`): then its methods are what is tested, as functions are, and what they give is compared here.
    Comparisons and operators end the trust there too, for they may see what is expected. Calling a function or a class
    does not, nor going through an iterator: what they give is compared here. The program could lie about the kind, and
    gain no more than an honest function can give.
    """

    __slots__ = ("_kind", "_made", "_name", "_named", "_number", "_opposite")

    def __init__(self, opposite: Any, number: int, name: str, kind: str) -> None:
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_made", "")
        object.__setattr__(self, "_named", False)
        object.__setattr__(self, "_opposite", opposite)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_name", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Have the program call it."""
        opposite = object.__getattribute__(self, "_opposite")
        kind = _kind(self)
        if not object.__getattribute__(self, "_named") and kind not in _CALLABLES and not _made(self):
            _doubt(self)
        value = opposite.call(_number(self), list(args), kwargs)
        return _marked(value, "object") if kind == "tested class" else value

    def __getattr__(self, name: str) -> Any:
        if name == "__name__":
            return object.__getattribute__(self, "_name")
        if name.startswith(_MARKS_OF_PYTEST):
            # Asked of all that a test file has, which says nothing about the program.
            raise AttributeError(name)
        if name in _OF_CLASSES and _kind(self) in _WITH_NAMES:
            return _do(self, "getattr", name)
        if name.startswith("__") and name.endswith("__") and name not in ("__doc__", "__dict__"):
            if name in _INSIDES and not _is_asked_by_mock():
                object.__getattribute__(self, "_opposite").needs_inside = True
            raise AttributeError(name)
        if object.__getattribute__(self, "_named") and _kind(self) in _WITH_NAMES:
            # Part of what the tests asked for by name.
            value = marked_as_named(_do(self, "getattr", name))
            return _marked(value, "member") if _kind(self) == "tested class" else value
        if _kind(self) == "iterator":
            raise AttributeError(f"{_name(self)!r} object has no attribute {name!r}")
        if not _made(self):
            _doubt(self)
        value = _do(self, "getattr", name)
        object.__getattribute__(self, "_opposite").keep_copy(value)
        given = object.__getattribute__(self, "_opposite").given.get((_number(self), name))
        # Where it is the very object that the tests put there, it is still one that they made (`root.left.left = ...`).
        return given if given is not None and is_same(given, value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        _do(self, "setattr", name, value)
        if type(value) is StandIn and _made(value):
            object.__getattribute__(self, "_opposite").given[_number(self), name] = value

    def __delattr__(self, name: str) -> None:
        _do(self, "delattr", name)

    def __mro_entries__(self, bases: tuple) -> tuple:
        object.__getattribute__(self, "_opposite").needs_inside = True
        name = object.__getattribute__(self, "_name")
        raise TypeError(f"{name} is in another process, so nothing can inherit from it")

    def __instancecheck__(self, thing: Any) -> bool:
        if type(thing) is not StandIn or not _made(thing):
            _doubt(self)
        return bool(_do_with(self, "isinstance", thing, self))

    def __subclasscheck__(self, thing: Any) -> bool:
        if type(thing) is not StandIn or _kind(thing) != "tested class":
            _doubt(self)
        return bool(_do_with(self, "issubclass", thing, self))

    def __copy__(self) -> Any:
        return _copied(self, "copy")

    def __deepcopy__(self, _: dict) -> Any:
        return _copied(self, "deepcopy")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if not _made(self) and _kind(self) != "manager":
            _doubt(self)
        told = object.__getattribute__(self, "_opposite").told(error)
        swallowed = bool(_do(self, "exit", told)) and kind is not None
        if swallowed:
            _doubt(self)
        # A failed test stays one: an assertion, or an outcome of pytest's, which is no Exception.
        return swallowed and issubclass(kind, Exception) and not issubclass(kind, AssertionError)


def _is_asked_by_mock() -> bool:
    """Whether `unittest.mock` asks, which looks at what it replaces."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == "unittest.mock":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _copied(thing: StandIn, operation: str) -> Any:
    if _kind(thing) in (*_WITH_NAMES, "exception"):
        return thing
    value = _do(thing, operation)
    return _marked(value, "object") if _made(thing) else value


def _do(thing: StandIn, operation: str, *args: Any) -> Any:
    return _do_with(thing, operation, thing, *args)


def _do_with(thing: StandIn, operation: str, *args: Any) -> Any:
    return object.__getattribute__(thing, "_opposite").do(operation, *args)


def _doubt(thing: StandIn) -> None:
    """The program decides, or sees what is expected: the report is trusted no more, even if it answers nothing."""
    object.__getattribute__(thing, "_opposite").trusted = False


def _kind(thing: StandIn) -> str:
    kind: str = object.__getattribute__(thing, "_kind")
    return kind


def _marked(value: Any, how: str) -> Any:
    """The value, marked as an object that the tests made of a class that they test, or as a member of such a class.

    The same for the same object.
    """
    if type(value) is not StandIn:
        return value
    object.__setattr__(value, "_made", how)
    made: dict = object.__getattribute__(value, "_opposite").made
    return made.setdefault(_number(value), value)


def _made(thing: StandIn) -> str:
    """How the tests came by it, of a class that they test: as an "object" or a "member" of it; "" if not at all."""
    made: str = object.__getattribute__(thing, "_made")
    return made


def _number(thing: StandIn) -> int:
    number: int = object.__getattribute__(thing, "_number")
    return number


def _name(thing: StandIn) -> str:
    name: str = object.__getattribute__(thing, "_name")
    return name


def is_same(left: Any, right: Any) -> bool:
    """`is`, where two stand-ins for one thing are the same."""
    if type(left) is StandIn and type(right) is StandIn:
        return _number(left) == _number(right)
    return left is right


def is_judged_same(left: Any, right: Any) -> bool:
    """The same where it decides about a test.

    What a name means in the program (`Level.INFO`) is the program's word, so that it is no measure of what it gave.
    """
    same = is_same(left, right)
    if same and type(left) is StandIn and type(right) is StandIn and left is not right:
        known = {_made(side) or object.__getattribute__(side, "_named") for side in (left, right)}
        if "object" not in known and False in known:
            _doubt(left)
    return same


def is_data(value: Any) -> bool:
    """Whether it stands for an object whose class inherits from a built-in one."""
    return type(value) is StandIn and _kind(value) == "data"


def asks_for_type(side: Any, other: Any) -> bool:
    """Whether a comparison of these is about the type of a stand-in, which says nothing about the program's object.

    No plain value is of the type that the object has, so beside such a type it says enough.
    """
    # The very text, which a program's value never is.
    return side is StandIn.__name__ or (side is StandIn and other not in _PLAIN_TYPES)


def marked_as_named(value: Any) -> Any:
    """The value, marked as what the tests asked for by its name."""
    if type(value) is StandIn:
        object.__setattr__(value, "_named", True)
    return value


def marked_as_tested(value: Any) -> None:
    """Mark a class as one that the tests know by a name which says so: objects that they make of it are tested."""
    if type(value) is StandIn and _kind(value) == "class":
        object.__setattr__(value, "_kind", "tested class")


def _add_operators() -> None:
    def forward(operation: str) -> Any:
        return lambda self, *args: _do(self, operation, *args)

    def told(operation: str) -> Any:
        def tell(self: StandIn, *args: Any) -> Any:
            if _kind(self) not in _OF_BUILT_IN_TYPES and not _made(self):
                _doubt(self)
            elif operation == "len" and _kind(self) == "iterator":
                raise TypeError(f"object of type {object.__getattribute__(self, '_name')!r} has no len()")
            value = _do(self, operation, *args)
            # An object may be its own iterator.
            return _marked(value, "object") if operation == "iter" and _made(self) else value

        return tell

    def shown(operation: str) -> Any:
        def show(self: StandIn, *args: Any) -> Any:
            member = operation == "getitem" and _kind(self) == "tested class"
            trusted = _made(self) or member or (operation == "enter" and _kind(self) == "manager")
            if operation not in _METHODS or not trusted:
                _doubt(self)
            value = _do(self, operation, *args)
            return _marked(value, "member") if member else value

        return show

    def shown_first(operation: str) -> Any:
        def show(self: StandIn, other: Any) -> Any:
            _doubt(self)
            return _do_with(self, operation, other, self)

        return show

    def judge(operation: str) -> Any:
        def decide(self: StandIn, *args: Any) -> bool:
            if not _made(self) or operation != "contains":
                _doubt(self)
            return bool(_do(self, operation, *args))

        return decide

    def compare(operation: str, otherwise: bool) -> Any:
        def decide(self: StandIn, other: Any) -> bool:
            # What inherits from a built-in type is compared here, by the data in it. No other object of the program's
            # equals a built-in value, whatever it says itself.
            if not isinstance(other, StandIn):
                if _kind(self) == "data":
                    return bool(_do(self, "data") == other) is not otherwise
                if _name(self) in _LIKE_SETS and _kind(self) == "builtin" and isinstance(other, (set, frozenset)):
                    return (set(self) == other) is not otherwise
                return otherwise
            _doubt(self)
            return bool(_do(self, operation, other))

        return decide

    for name in "setitem delitem".split():
        setattr(StandIn, f"__{name}__", forward(name))
    for name in "len iter next reversed bool str repr hash".split():
        setattr(StandIn, f"__{name}__", told(name))
    # What is on the other side of an operator may be the very value that is expected.
    for name in (
        "getitem enter int float abs round index neg pos invert iadd isub imul itruediv ifloordiv imod iand ior ixor"
    ).split():
        setattr(StandIn, f"__{name}__", shown(name))
    for name in "add sub mul truediv floordiv mod matmul lshift rshift pow divmod and or xor".split():
        operation = f"{name}_" if name in ("and", "or") else name
        setattr(StandIn, f"__{name}__", shown(operation))
        setattr(StandIn, f"__r{name}__", shown_first(operation))
    for name in "lt le gt ge contains".split():
        setattr(StandIn, f"__{name}__", judge(name))
    # The program's, in place of this class's own.
    StandIn.__doc__ = property(lambda self: self.__getattr__("__doc__"))  # type: ignore[assignment]
    StandIn.__eq__ = compare("eq", False)  # type: ignore[method-assign]
    StandIn.__ne__ = compare("ne", True)  # type: ignore[method-assign]


_PLAIN_TYPES = frozenset(
    (type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
)
_WITH_NAMES = ("function", "class", "tested class", "module")
_OF_BUILT_IN_TYPES = (*_WITH_NAMES, "iterator", "builtin")
_LIKE_SETS = ("dict_keys", "dict_items", "odict_keys", "odict_items")
_CALLABLES = ("function", "class", "exception")
# What the tests ask of an instance of a class under test without showing it what is expected.
_METHODS = ("getitem", "enter", "int", "float", "index")
_MARKS_OF_PYTEST = ("_pytest", "_mock_name", "pytestmark", "__test__")
_OF_CLASSES = ("__mro__", "__bases__", "__qualname__", "__members__")
# What only the function itself could say.
_INSIDES = (
    "__signature__",
    "__code__",
    "__annotations__",
    "__defaults__",
    "__kwdefaults__",
    "__closure__",
    "__globals__",
)

_add_operators()
