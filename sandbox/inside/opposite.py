"""The tests' side of a program in another process: stand-ins for its functions and objects.

Whatever the program's process answers is read as plain data; nothing of it is run here.
"""

from __future__ import annotations

import builtins
import types
from typing import Any, Optional

from . import frames, plain

ASK, HEAR = 4, 5
_MESSAGE = 500


class ProgramEnded(Exception):
    """The program's process ended, or answered nonsense."""


class ProgramError(Exception):
    """The program raised what is no ordinary exception, such as SystemExit."""


class Inside:
    """A program in this very process, so that nothing said about it can be relied on."""

    trusted = False
    needs_inside = False

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module

    def get(self, name: str) -> Any:
        """What the program means by a name; raises AttributeError."""
        value: Any = self.module
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def as_module(self, name: str) -> types.ModuleType:
        """The program as a module to import."""
        return self.module


class Opposite:
    """The connection to the program's process.

    Attributes:
        trusted: whether no comparison or truth value was left to the program.
        needs_inside: whether the tests had something to hand over that cannot cross.
    """

    def __init__(self) -> None:
        self.trusted = True
        self.needs_inside = False
        self.callbacks: list[Any] = []
        self.exceptions: dict = {}
        self.ended = False

    def get(self, name: str) -> Any:
        """What the program means by a name; raises AttributeError."""
        return self.result(self.ask(["get", name]))

    def as_module(self, name: str) -> types.ModuleType:
        """A module to import whose names are the program's."""
        module = _StandInModule(name)
        object.__setattr__(module, "_opposite", self)
        return module

    def call(self, number: int, args: list, kwargs: dict) -> Any:
        """Call something of the program's; lists, dicts and sets among the arguments are changed as it changed them."""
        told, named = self.encode(args), self.encode(kwargs)
        reply = self.ask(["call", number, told, named])
        after, named_after = reply[-2:]
        if after is not None and after != told:
            for mine, new in zip(args, plain.decode(after, self.restore)):
                _take_over(mine, new)
        if named_after is not None and named_after != named:
            for name, new in plain.decode(named_after, self.restore).items():
                _take_over(kwargs.get(name), new)
        return self.result(reply)

    def do(self, operation: str, *args: Any) -> Any:
        """Have an operation done by the program."""
        reply = self.ask(["do", operation, self.encode(list(args)), self.encode({})])
        return self.result(reply, may_stop=operation == "next")

    def ask(self, question: list) -> list:
        """The answer to a question, after the callbacks that it took.

        Raises:
            ProgramEnded: there is none.
        """
        if self.ended:
            raise ProgramEnded("the program has ended")
        try:
            frames.write_frame(ASK, frames.CALL, plain.to_bytes(question))
            while True:
                _, content = frames.read_frame(HEAR, plain.MAX_BYTES)
                reply = plain.from_bytes(content)
                if not isinstance(reply, list) or not reply:
                    raise plain.NotPlain("this is no answer")
                if reply[0] != "callback":
                    break
                frames.write_frame(ASK, frames.CALL, plain.to_bytes(self.called_back(reply)))
            sound = (reply[0] == "returned" and len(reply) == 4) or (reply[0] == "raised" and len(reply) == 6)
            if not sound:
                raise plain.NotPlain("this is no answer")
        except (OSError, frames.HangUp, plain.NotPlain) as error:
            self.ended = True
            raise ProgramEnded(f"the program has ended ({type(error).__name__})") from None
        return reply

    def called_back(self, reply: list) -> list:
        """The answer to a question of the program's: what a function of the tests says."""
        try:
            _, number, args, kwargs = reply
            function = self.callbacks[number]
            value = function(*plain.decode(args, self.restore), **plain.decode(kwargs, self.restore))
            return ["result", self.encode(value)]
        except Exception as error:
            return ["failed", str(error)[:_MESSAGE]]

    def result(self, reply: list, may_stop: bool = False) -> Any:
        """The value of an answer, or its exception, raised.

        StopIteration only where it is an iterator's: from a call it would end a loop of the tests before its time
        (`all(map(candidate, ...))`).
        """
        try:
            if reply[0] == "returned":
                return plain.decode(reply[1], self.restore)
            _, name, bases, told, _, _ = reply
            kind = self.exception(name, bases)
            said = plain.decode(told)
            if not isinstance(said, list):
                raise plain.NotPlain("this is no answer")
        except (plain.NotPlain, TypeError, ValueError):
            self.ended = True
            raise ProgramEnded("the program answered nonsense") from None
        if issubclass(kind, (StopIteration, StopAsyncIteration)) and not may_stop:
            kind = ProgramError
        try:
            error = kind(*said)
        except Exception:
            error = RuntimeError(f"{name}: {said!r:.500}")
        raise error

    def exception(self, name: Any, bases: Any) -> type:
        """The exception class of this name: a built-in one, or one of the program's own, made here after its bases."""
        name = str(name)[:100]
        for base in bases if isinstance(bases, list) else ():
            kind = getattr(builtins, str(base), None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                if kind.__name__ == name:
                    return kind
                return self.exceptions.setdefault(name, type(name, (kind,), {}))
        return ProgramError

    def encode(self, value: Any) -> Any:
        """The value as it crosses."""
        return plain.encode(value, self.hand_over)

    def hand_over(self, value: Any) -> list:
        """What is no plain data: a stand-in goes back as what it stands for, a function as one to call back."""
        if isinstance(value, StandIn):
            return ["h", object.__getattribute__(value, "_number")]
        if isinstance(value, type):
            name = str(value.__name__)
            if getattr(builtins, name, None) is value:
                return ["x", name]
        if callable(value):
            self.callbacks.append(value)
            return ["k", len(self.callbacks) - 1]
        if hasattr(value, "__next__") or isinstance(value, range):
            return plain.encode(list(value), self.hand_over)
        self.needs_inside = True
        raise TypeError(f"a value of type {type(value).__name__} cannot be handed to the program's process")

    def restore(self, tree: list) -> Any:
        """What stands here for what the program kept."""
        if len(tree) == 2 and tree[0] == "k" and type(tree[1]) is int:
            return self.callbacks[tree[1]]
        if len(tree) != 6 or tree[0] != "h" or type(tree[1]) is not int:
            raise plain.NotPlain("the data has a tag that is not known")
        _, number, kind, name, bases, _ = tree
        if kind == "exception":
            return self.exception(name, bases)
        return StandIn(self, number, str(name)[:100])


def _take_over(mine: Any, new: Any) -> None:
    """Change a container of the tests in place to what the program made of it."""
    if type(mine) is not type(new):
        return
    if isinstance(mine, list):
        mine[:] = new
    elif isinstance(mine, (dict, set)):
        mine.clear()
        mine.update(new)


class _StandInModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        opposite = object.__getattribute__(self, "_opposite")
        if name == "__all__":
            return opposite.result(opposite.ask(["names"]))
        if name.startswith("__"):
            raise AttributeError(name)
        return opposite.get(name)


class StandIn:
    """An object or a function that lives in the program's process."""

    __slots__ = ("_name", "_number", "_opposite")

    def __init__(self, opposite: Opposite, number: int, name: str) -> None:
        object.__setattr__(self, "_opposite", opposite)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_name", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Have the program call it."""
        opposite = object.__getattribute__(self, "_opposite")
        return opposite.call(object.__getattribute__(self, "_number"), list(args), kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "__name__":
            return object.__getattribute__(self, "_name")
        if name.startswith("__") and name.endswith("__") and name not in ("__doc__", "__dict__"):
            raise AttributeError(name)
        return _do(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _do(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        _do(self, "delattr", name)

    def __instancecheck__(self, thing: Any) -> bool:
        return _judged(_do_with(self, "isinstance", thing, self), self)

    def __exit__(self, *_: Any) -> Optional[bool]:
        return bool(_do(self, "exit"))


def _do(thing: StandIn, operation: str, *args: Any) -> Any:
    return _do_with(thing, operation, thing, *args)


def _do_with(thing: StandIn, operation: str, *args: Any) -> Any:
    return object.__getattribute__(thing, "_opposite").do(operation, *args)


def _distrusted(value: Any, thing: StandIn) -> Any:
    """A value that the program made of what the tests compare with: the report is trusted no more."""
    object.__getattribute__(thing, "_opposite").trusted = False
    return value


def _judged(value: Any, thing: StandIn) -> bool:
    """A truth value that the program decided."""
    return bool(_distrusted(value, thing))


def _add_operators() -> None:
    def forward(operation: str) -> Any:
        return lambda self, *args: _do(self, operation, *args)

    def shown(operation: str) -> Any:
        return lambda self, *args: _distrusted(_do(self, operation, *args), self)

    def shown_first(operation: str) -> Any:
        return lambda self, other: _distrusted(_do_with(self, operation, other, self), self)

    def judge(operation: str) -> Any:
        return lambda self, *args: _judged(_do(self, operation, *args), self)

    def compare(operation: str, otherwise: bool) -> Any:
        def decide(self: StandIn, other: Any) -> bool:
            # No object of the program's equals a built-in value, whatever it says itself.
            return _judged(_do(self, operation, other), self) if isinstance(other, StandIn) else otherwise

        return decide

    for name in "len iter next reversed str repr int float abs round getitem setitem delitem enter index bool".split():
        setattr(StandIn, f"__{name}__", forward(name))
    for name in "neg pos invert hash".split():
        setattr(StandIn, f"__{name}__", forward(name))
    # What is on the other side of an operator may be the very value that is expected.
    for name in "iadd isub imul itruediv ifloordiv imod iand ior ixor".split():
        setattr(StandIn, f"__{name}__", shown(name))
    for name in "add sub mul truediv floordiv mod matmul lshift rshift pow divmod and or xor".split():
        operation = f"{name}_" if name in ("and", "or") else name
        setattr(StandIn, f"__{name}__", shown(operation))
        setattr(StandIn, f"__r{name}__", shown_first(operation))
    for name in "lt le gt ge contains".split():
        setattr(StandIn, f"__{name}__", judge(name))
    StandIn.__eq__ = compare("eq", False)  # type: ignore[method-assign]
    StandIn.__ne__ = compare("ne", True)  # type: ignore[method-assign]


_add_operators()
