"""The tests' side of a program in another process: the connection, over which stand-ins ask.

Whatever the program's process answers is read as plain data; nothing of it is run here.
"""

from __future__ import annotations

import builtins
import io
import itertools
import os
import re
import sys
import threading
import types
from array import array
from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any, Optional

from . import frames, imports, plain, raised, surroundings
from .stand_ins import StandIn, marked_as_named, marked_as_tested

ASK, HEAR = 4, 5
_MOST_COPIES = 100


class ProgramEnded(Exception):
    """The program's process ended, or answered nonsense."""


class ProgramError(Exception):
    """The program raised what is no ordinary exception, such as KeyboardInterrupt."""


class ProgramExit(SystemExit, Exception):
    """The program called for its own end, as `sys.exit` does; no reason for the tests to end."""


class Inside:
    """A program in this very process, so that nothing said about it can be relied on."""

    trusted = False
    needs_inside = False
    asked = True

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module

    def look_again(self) -> None:
        """See `Opposite.look_again`: the tests have the program's own values."""

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

    Args:
        tests: the texts of their files.

    Attributes:
        trusted: whether no comparison or truth value was left to the program.
        needs_inside: whether the tests asked for, or had to hand over, what cannot cross.
        asked: whether the program was asked for anything.
    """

    def __init__(self, tests: list) -> None:
        self.tests = tests
        self.trusted = True
        self.needs_inside = False
        self.asked = False
        self.asking = False
        self.handed_out: dict = {}
        self.failure: Optional[BaseException] = None
        self.callbacks: list[Any] = []
        self.numbers: dict = {}
        self.exceptions: dict = {}
        self.made: dict = {}
        self.given: dict = {}
        self.answers = frames.Reader(HEAR, plain.MAX_BYTES)
        self.looked_at: dict = {}
        self.copies: list = []
        self.around = surroundings.Around(self.hand_over, tests)
        self.ended = False
        # Tests may have threads, and the program answers one question at a time.
        self.turn = threading.RLock()

    def get(self, name: str) -> Any:
        """What the program means by a name; raises AttributeError."""
        value = marked_as_named(self.result(self.ask(["get", name])))
        if isinstance(value, _CHANGED_IN_PLACE):
            self.looked_at.setdefault(name, plain.encode(value, self.hand_over))
            self.keep_copy(value)
        if _CLASS_NAME.fullmatch(name.rpartition(".")[2]):
            marked_as_tested(value)
        return value

    def keep_copy(self, value: Any) -> None:
        """Remember a copy of what a name or an attribute of the program's holds, to see whether the tests change it."""
        if isinstance(value, _CHANGED_IN_PLACE) and len(self.copies) < _MOST_COPIES:
            self.copies.append((value, plain.encode(value, self.hand_over)))

    def look_again(self) -> None:
        """Find out whether the program has changed a value since the tests got a copy of it, or they the copy."""
        # `from solution import *` gets many that they have no use for.
        used = set(re.findall(r"\w+", "\n".join(self.tests)))
        try:
            for name, before in self.looked_at.items():
                if name in used and self.encode(self.result(self.ask(["get", name]))) != before:
                    self.needs_inside = True
            if any(self.encode(value) != before for value, before in self.copies):
                self.needs_inside = True
        except Exception:
            # It has no such name any more, or has ended, which is told elsewhere.
            pass

    def as_module(self, name: str) -> types.ModuleType:
        """A module to import whose names are the program's."""
        module = _StandInModule(name)
        object.__setattr__(module, "_opposite", self)
        return module

    def call(self, number: int, args: list, kwargs: dict) -> Any:
        """Call something of the program's; lists, dicts and sets among the arguments are changed as it changed them."""
        with self.turn:
            return self._call(number, args, kwargs)

    def _call(self, number: int, args: list, kwargs: dict) -> Any:
        for given in (*args, *kwargs.values()):
            self.refuse_own_file(given)
        told, named = self.encode(args), self.encode(kwargs)
        self.failure = None
        changes = self.around.changes()
        if changes is not None:
            self.tell(changes)
        if self.around.seeds:
            self.tell(["seed", self.encode(self.around.seeds)])
            self.around.seeds.clear()
        reply = self.ask(["call", number, told, named])
        if self.failure is not None:
            # What failed in a function of the tests is not for the program to catch.
            raise self.failure
        after, named_after = reply[-2:]
        if after is not None and after != told:
            for mine, new in zip(args, plain.decode(after, self.restore)):
                _take_over(mine, new)
        if named_after is not None and named_after != named:
            for name, new in plain.decode(named_after, self.restore).items():
                _take_over(kwargs.get(name), new)
        if reply[0] == "returned" and type(reply[1]) is list and reply[1][:1] == ["a"]:
            return self.handed_back(reply, [*args, *kwargs.values()], [*told[1:], *named[2::2]])
        return self.result(reply)

    def handed_back(self, reply: list, given: list, told: list) -> Any:
        """The very argument that the program gave back; what it made of one that cannot be changed in place."""
        tree, after, named_after = reply[1:]
        try:
            place = tree[1]
            is_now = [*after[1:], *named_after[2::2]][place]
            if is_now == told[place] or isinstance(given[place], _CHANGED_IN_PLACE):
                return given[place]
            return [*plain.decode(after, self.restore), *plain.decode(named_after, self.restore).values()][place]
        except (TypeError, LookupError, AttributeError, plain.NotPlain):
            self.ended = True
            raise ProgramEnded("the program answered nonsense") from None

    def tell(self, statement: list) -> None:
        """Say something that takes no answer."""
        try:
            frames.write_frame(ASK, frames.CALL, plain.to_bytes(statement))
        except OSError:
            self.ended = True

    def refuse_own_file(self, given: Any) -> None:
        """Refuse the path of a file that only the tests' process has, or will have."""
        if _is_mock(given):
            return  # which records that its text was asked for
        top = os.environ.get("TMPDIR", "")
        path = str(given) if isinstance(given, (str, os.PathLike)) else ""
        if top and path.startswith(f"{top}/"):
            folder = os.path.dirname(path)
            if os.path.exists(path) or (folder not in (top, os.environ.get("HOME")) and os.path.isdir(folder)):
                self.needs_inside = True
                raise TypeError(f"the file {path} is not in reach of the program's process")

    def do(self, operation: str, *args: Any) -> Any:
        """Have an operation done by the program."""
        reply = self.ask(["do", operation, self.encode(list(args)), self.encode({})])
        return self.result(reply, may_stop=operation in ("next", "send", "throw"))

    def ask(self, question: list) -> list:
        """The answer to a question, after the callbacks that it took.

        Raises:
            ProgramEnded: there is none.
        """
        with self.turn:
            before, self.asking = self.asking, True
            try:
                return self._ask(question)
            finally:
                self.asking = before

    def _ask(self, question: list) -> list:
        self.asked = True
        if self.ended:
            raise ProgramEnded("the program has ended")
        try:
            frames.write_frame(ASK, frames.CALL, plain.to_bytes(question))
            while True:
                reply = plain.from_bytes(self.answers.frame())
                if not isinstance(reply, list) or not reply:
                    raise plain.NotPlain("this is no answer")
                if reply[0] == "printed":
                    surroundings.say(reply[1:3])
                    continue
                if reply[0] not in ("callback", "attribute", "set attribute"):
                    break
                frames.write_frame(ASK, frames.CALL, plain.to_bytes(self.called_back(reply)))
            sound = (reply[0] == "returned" and len(reply) == 4) or (reply[0] == "raised" and len(reply) == 9)
            if not sound:
                raise plain.NotPlain("this is no answer")
        except (OSError, frames.HangUp, plain.NotPlain) as error:
            self.ended = True
            raise ProgramEnded(f"the program has ended ({type(error).__name__})") from None
        return reply

    def called_back(self, reply: list) -> list:
        """The answer to a question of the program's: what a function of the tests says."""
        try:
            kind, number, *given = reply
            function = self.callbacks[number]
            if kind == "attribute":
                return ["result", self.encode(_attribute_of_mock(function, *given))]
            if kind == "set attribute":
                if given[0] in MAGIC:
                    raise AttributeError(f"Mock object attribute {given[0]!r} is read-only")
                _attribute_of_mock(function, given[0])
                setattr(function, given[0], plain.decode(given[1], self.restore))
                return ["result", None]
            args, kwargs = (plain.decode(tree, self.restore) for tree in given)
            return ["result", self.encode(function(*args, **kwargs))]
        except Exception as error:
            if isinstance(error, AssertionError):
                self.failure = error
            return ["failed", *self.described(error)]

    def result(self, reply: list, may_stop: bool = False) -> Any:
        """The value of an answer, or its exception, raised.

        StopIteration only where it is an iterator's: from a call it would end a loop of the tests before its time
        (`all(map(candidate, ...))`).
        """
        try:
            if reply[0] == "returned":
                return plain.decode(reply[1], self.restore)
            error = self.error(*reply[1:7])
        except (plain.NotPlain, TypeError, ValueError):
            self.ended = True
            raise ProgramEnded("the program answered nonsense") from None
        if isinstance(error, (StopIteration, StopAsyncIteration)) and not may_stop:
            error = ProgramError(*error.args)
        raise error

    def error(self, name: Any, module: Any, bases: Any, given: Any, attributes: Any, text: Any) -> BaseException:
        """An exception of the program's, as it was described, or one that it has from here."""
        if type(name) is list:
            own = self.restore(name)
            if not isinstance(own, Exception):
                raise plain.NotPlain("this is no exception")
            return own
        kind = self.exception(name, module, bases)
        said, kept = plain.decode(given), plain.decode(attributes)
        if not isinstance(said, list) or not isinstance(kept, dict) or not isinstance(text, (str, type(None))):
            raise plain.NotPlain("this is no exception")
        if kind is ProgramExit:
            return ProgramExit(*said)
        return raised.rebuilt(kind, said, kept, text)

    def exception(self, name: Any, module: Any, bases: Any) -> type:
        """The exception class of this name."""
        if (name, module) == ("SystemExit", "builtins"):
            return ProgramExit
        return raised.class_of(name, module, bases, self.exceptions) or ProgramError

    def encode(self, value: Any) -> Any:
        """The value as it crosses."""
        try:
            return plain.encode(value, self.hand_over)
        except plain.NotPlain:
            # Too large, or it holds itself.
            self.needs_inside = True
            raise

    def hand_over(self, value: Any) -> list:
        """What is no plain data: a stand-in goes back as what it stands for, a function as one to call back."""
        if isinstance(value, StandIn):
            return ["h", object.__getattribute__(value, "_number")]
        if isinstance(value, type):
            name = str(value.__name__)
            if getattr(builtins, name, None) is value:
                return ["x", name]
        thing, number = self.handed_out.get(id(value), (None, None))
        if thing is value and number is not None:
            return ["h", number]
        if isinstance(value, Exception):
            return ["e", *self.described(value)]
        if _is_mock(value):
            return ["u", self.number_of(value), _is_magic(value)]
        if callable(value):
            return ["k", self.number_of(value), str(getattr(value, "__name__", type(value).__name__))[:100]]
        if hasattr(value, "__next__") and not isinstance(value, io.IOBase):
            return plain.encode(list(itertools.islice(value, plain.MAX_NODES)), self.hand_over)
        self.needs_inside = True
        raise TypeError(f"a value of type {type(value).__name__} cannot be handed to the program's process")

    def described(self, error: Exception) -> list:
        """An exception of the tests as data, with its number and that of its class."""
        numbers = [self.number_of(error), self.number_of(type(error))]
        return [*raised.described(error, raised.arguments(error)), numbers]

    def told(self, error: Any) -> Optional[list]:
        """What the program hears of an exception where it stands: of a failed assertion nothing, for it has values."""
        if not isinstance(error, Exception) or isinstance(error, AssertionError):
            return None
        return self.described(error)

    def number_of(self, value: Any) -> int:
        """The number under which the program knows it: the same each time, for what it is given it may take back."""
        # A method is another object each time that it is asked for.
        owner = getattr(value, "__self__", None) if type(value) in _METHODS else None
        identity = id(value) if owner is None else (id(owner), value.__name__)
        number: int = self.numbers.setdefault(identity, len(self.callbacks))
        if number == len(self.callbacks):
            self.callbacks.append(value)
        return number

    def restore(self, tree: list) -> Any:
        """What stands here for what the program kept."""
        if len(tree) == 2 and tree[0] in ("k", "u") and type(tree[1]) is int:
            return self.callbacks[tree[1]]
        if len(tree) == 2 and tree[0] == "x" and isinstance(getattr(builtins, str(tree[1]), None), type):
            return getattr(builtins, tree[1])
        if len(tree) == 8 and tree[0] == "e" and type(tree[7]) is int:
            return self.known_again(self.error(*tree[1:7]), tree[7])
        if len(tree) != 7 or tree[0] != "h" or type(tree[1]) is not int:
            raise plain.NotPlain("the data has a tag that is not known")
        _, number, kind, name, module, bases, _ = tree
        if kind == "exception":
            return self.exception(name, module, bases)
        if kind == "coroutine":
            return self.awaiting(StandIn(self, number, str(name)[:100], kind))
        if kind == "generator":
            return self.known_again(self.stepping(StandIn(self, number, str(name)[:100], "iterator")), number)
        if kind == "async generator":
            return self.going_through(StandIn(self, number, str(name)[:100], kind))
        return StandIn(self, number, str(name)[:100], str(kind))

    def known_again(self, value: Any, number: int) -> Any:
        """The value, which goes back to the program as the thing of this number."""
        self.handed_out[id(value)] = (value, number)
        return value

    def stepping(self, generator: StandIn) -> Generator:
        """A generator that goes through one of the program's."""
        step = partial(self.do, "next", generator)
        while True:
            try:
                value = step()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
            except GeneratorExit:
                # It may also be let go of, at any moment.
                if not self.asking:
                    self.do("close", generator)
                raise
            except Exception as error:
                step = partial(self.do, "throw", generator, self.told(error))
            else:
                step = partial(self.do, *(("next", generator) if sent is None else ("send", generator, sent)))

    async def awaiting(self, coroutine: StandIn) -> Any:
        """A coroutine that has one of the program's run to its end."""
        return self.do("await", coroutine)

    async def going_through(self, generator: StandIn) -> Any:
        """An asynchronous generator that goes through one of the program's."""
        while True:
            going, value = self.do("next of async", generator)
            if not going:
                return
            yield value


def _is_mock(value: Any) -> bool:
    mock = sys.modules.get("unittest.mock")
    return mock is not None and isinstance(value, mock.NonCallableMock)


def _is_magic(value: Any) -> bool:
    return isinstance(value, sys.modules["unittest.mock"].MagicMixin)


def _attribute_of_mock(mock: Any, name: str) -> Any:
    """What a mock of the tests has by a name; not what mocks are told and asked by, which is for the tests alone."""
    if _is_mock(mock) and _is_magic(mock) and name in MAGIC:
        return getattr(mock, name)
    if not _is_mock(mock) or name.startswith("_") or hasattr(type(mock), name):
        raise AttributeError(f"Mock object has no attribute {name!r}")
    return getattr(mock, name)


def _take_over(mine: Any, new: Any) -> None:
    """Change a container of the tests in place to what the program made of it."""
    if type(mine) is not type(new):
        return
    if isinstance(mine, (list, bytearray, array)):
        mine[:] = new
    elif isinstance(mine, deque):
        mine.clear()
        mine.extend(new)
    elif isinstance(mine, (dict, set)):
        mine.clear()
        mine.update(new)
    elif plain.is_array(mine) and mine.shape == new.shape and mine.flags.writeable:
        mine[...] = new


class _StandInModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        opposite = object.__getattribute__(self, "_opposite")
        if name == "__all__":
            # Without what the tests do not want from `import *`, and what would replace what judges the program.
            names = opposite.result(opposite.ask(["names"]))
            bound = imports.bound_names(opposite.tests, self.__name__)
            self._lent = imports.lent_names(names, opposite.tests, self.__name__)
            return [name for name in names if not (hasattr(builtins, name) or name in bound or _OF_PYTEST.match(name))]
        if name.startswith("__"):
            raise AttributeError(name)
        lent: dict = vars(self).get("_lent", {})
        return lent[name] if name in lent else opposite.get(name)

    def __dir__(self) -> list:
        opposite = object.__getattribute__(self, "_opposite")
        return sorted([*super().__dir__(), *opposite.result(opposite.ask(["names"]))])

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            # A patch of the program's own.
            opposite = object.__getattribute__(self, "_opposite")
            opposite.result(opposite.ask(["set", name, opposite.encode(value)]))

    def __delattr__(self, name: str) -> None:
        opposite = object.__getattribute__(self, "_opposite")
        opposite.result(opposite.ask(["unset", name]))


_OF_PYTEST = re.compile(
    r"[tT]est|pytest_|(?:setup|teardown)_(?:module|function|class|method)$|(?:setUp|tearDown)Module$"
)
MAGIC = tuple(f"__{name}__" for name in "len iter contains getitem setitem delitem enter exit bool int float".split())
"""What Python calls of a `MagicMock` that a program was given."""
_METHODS = (types.MethodType, types.BuiltinMethodType)
_CLASS_NAME = re.compile(r"[A-Z]\w*")
_CHANGED_IN_PLACE = (list, bytearray, array, deque, dict, set)
