"""The program's side of tests that run in another process: answers calls over a pipe.

Plain data crosses as data. Anything else stays here, and the other side gets a number for it.
"""

from __future__ import annotations

import builtins
import copy
import operator
import sys
import types
from collections import OrderedDict
from typing import Any, Callable, Optional

from . import asserts, frames, harness, opposite, plain, pytest_tests, raised, surroundings

CALLS, ANSWERS = 4, 5
_MOST_THINGS = 1_000_000
_NOTHING = object()

OPERATIONS: dict = {
    "data": lambda thing: thing,
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "isinstance": isinstance,
    "issubclass": issubclass,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "len": len,
    "iter": iter,
    "next": next,
    "send": lambda generator, value: generator.send(value),
    "close": lambda generator: generator.close(),
    "reversed": reversed,
    "str": str,
    "repr": repr,
    "hash": hash,
    "bool": bool,
    "int": int,
    "float": float,
    "abs": abs,
    "dir": dir,
    "round": round,
    "pow": pow,
    "divmod": divmod,
    "contains": operator.contains,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "enter": lambda thing: type(thing).__enter__(thing),
    **{
        name: getattr(operator, name)
        for name in (
            "eq ne lt le gt ge add sub mul truediv floordiv mod matmul lshift rshift and_ or_ xor neg pos invert index "
            "iadd isub imul itruediv ifloordiv imod iand ior ixor"
        ).split()
    },
}


def run(job: dict, channel: harness.Channel) -> None:
    """Load the program and serve it until the tests are through; returns never."""
    code = 0
    try:
        for path, content in job["files"].items():
            harness.write_file(path, content)
        if "tests" not in job:
            surroundings.hear()
        else:
            # Tests beside it may look for its file.
            harness.write_file(f"{job['serve']}.py", harness.plain_text(job["source"]))
        module = harness.load(job["source"], job["serve"])
        if "tests" in job:
            tests = job["tests"]
            (asserts if tests["form"] == "asserts" else pytest_tests).conduct(tests, channel, opposite.Inside(module))
        else:
            _Server(module, channel).serve()
    except frames.HangUp:
        pass
    except BaseException as error:
        channel.note(error)
        code = harness.ended_by(error)
    finally:
        harness.leave(code)


class _Server:
    def __init__(self, module: types.ModuleType, channel: harness.Channel) -> None:
        self.module = module
        self.channel = channel
        self.calls = frames.Reader(CALLS, plain.MAX_BYTES)
        self.things: list[Any] = []
        self.numbers: dict = {}
        self.of_tests_by_number: dict = {}
        self.ways_back: dict = {}
        self.exceptions: dict = {}
        self.around = surroundings.Surroundings()
        self.patched: dict = {}

    def serve(self) -> None:
        """Answer questions until the other side has no more.

        Raises:
            HangUp: then.
        """
        surroundings.printed()
        while True:
            self.answer(plain.from_bytes(self.calls.frame()))

    def answer(self, question: list) -> None:
        if question[0] == "around":
            environment, argv, given, text = question[1:]
            self.around.take_over(environment, argv, None if given is None else self.restore(given), text)
            return
        if question[0] == "seed":
            surroundings.seed(plain.decode(question[1]))
            return
        try:
            tree = self._answer(question)
            content = plain.to_bytes(tree)
        except BaseException as error:
            if not isinstance(error, plain.NotPlain):
                raise
            content = plain.to_bytes(self.raised(TypeError(f"the value cannot cross: {error}"), [], {}))
        said = surroundings.printed()
        if said is not None:
            frames.write_frame(ANSWERS, frames.CALL, plain.to_bytes(said))
        frames.write_frame(ANSWERS, frames.CALL, content)

    def _answer(self, question: list) -> list:
        kind = question[0]
        if kind == "names":
            public = getattr(self.module, "__all__", None)
            names = [name for name in vars(self.module) if not name.startswith("_")] if public is None else public
            return ["returned", plain.encode([str(name) for name in names]), None, None]
        args: list = []
        kwargs: dict = {}
        try:
            if kind == "set":
                self.patch(question[1], plain.decode(question[2], self.restore))
                return ["returned", None, None, None]
            if kind == "unset":
                self.mend(question[1])
                return ["returned", None, None, None]
            if kind == "get":
                return ["returned", self.encode(harness.resolve(self.module, question[1])), None, None]
            args, kwargs = plain.decode(question[2], self.restore), plain.decode(question[3], self.restore)
            function: Callable = self.things[question[1]] if kind == "call" else self.operation(question[1])
            value = function(*args, **kwargs)
        except frames.HangUp:
            raise
        except BaseException as error:
            self.channel.note(error)
            return self.raised(error, args, kwargs)
        after = self.after(kind, args, kwargs)
        if after[0] is not None and type(value) not in _WITHOUT_IDENTITY:
            for place, given in enumerate((*args, *kwargs.values())):
                if value is given:
                    return ["returned", ["a", place], *after]
        of_class = function if kind == "call" else args[0] if question[1] in _GIVE_OBJECTS else None
        made_here = (isinstance(of_class, type) or question[1] in _COPY) and self.is_more_than_data(value)
        return ["returned", self.keep(value) if made_here else self.encode(value), *after]

    def operation(self, name: str) -> Callable:
        """What is done to an object when the tests do this to its stand-in."""
        return {"exit": self.leave, "throw": self.throw}.get(name) or OPERATIONS[name]

    def throw(self, generator: Any, told: Any) -> Any:
        """Raise what the tests throw where a generator stands."""
        return generator.throw(AssertionError() if told is None else self.failure(*told))

    def leave(self, manager: Any, told: Any) -> Any:
        """End a `with` of the tests, where what they raised in it was told."""
        if told is None:
            return type(manager).__exit__(manager, None, None, None)
        error = self.failure(*told)
        return type(manager).__exit__(manager, type(error), error, None)

    def is_more_than_data(self, value: Any) -> bool:
        """Whether it is of a class of the program's with a state or methods of its own, whatever it inherits from."""
        kind = type(value)
        if kind.__module__ != self.module.__name__:
            return False
        if not hasattr(kind, "_fields"):
            return True
        return _has_methods(kind)

    def patch(self, name: str, value: Any) -> None:
        """Give a name of the program another value."""
        self.patched.setdefault(name, vars(self.module).get(name, _NOTHING))
        setattr(self.module, name, value)

    def mend(self, name: str) -> None:
        """Give it back the one that it had; `monkeypatch` and `mock` end a patch by deleting the name."""
        before = self.patched.get(name, _NOTHING)
        if before is _NOTHING:
            delattr(self.module, name)
        else:
            setattr(self.module, name, before)

    def after(self, kind: str, args: list, kwargs: dict) -> list:
        if kind != "call":
            return [None, None]
        try:
            return [self.encode(args), self.encode(kwargs)]
        except plain.NotPlain:
            return [None, None]

    def raised(self, error: BaseException, args: list, kwargs: dict) -> list:
        after = self.after("call", args, kwargs)
        if id(error) in self.ways_back:
            return ["raised", self.ways_back[id(error)], "", [], None, None, None, *after]
        return ["raised", *raised.described(error, raised.arguments(error)), *after]

    def encode(self, value: Any) -> Any:
        return plain.encode(value, self.keep)

    def keep(self, value: Any) -> list:
        """Keep what cannot cross, and give the other side its number."""
        if id(value) in self.ways_back:
            return self.ways_back[id(value)]
        if isinstance(value, Exception) and not _has_methods(type(value)):
            return ["e", *raised.described(value, raised.arguments(value)), self.number_of(value)]
        number = self.number_of(value)
        kind = kind_of(value)
        bases: list = []
        if isinstance(value, type):
            own_name = value.__name__
            if vars(builtins).get(own_name) is value:
                return ["x", own_name]
            bases = raised.bases_of(value)
            kind = "exception" if bases else "class"
        name = getattr(value, "__name__", type(value).__name__)
        module = str(getattr(value, "__module__", ""))[:100]
        return ["h", number, kind, str(name)[:100], module, bases, callable(value)]

    def number_of(self, value: Any) -> int:
        if len(self.things) >= _MOST_THINGS:
            raise plain.NotPlain("too many objects were handed out")
        number: int = self.numbers.setdefault(id(value), len(self.things))
        if number == len(self.things):
            self.things.append(value)
        return number

    def restore(self, tree: list) -> Any:
        if tree[0] == "e":
            return self.failure(*tree[1:])
        if tree[0] == "h":
            return self.things[tree[1]]
        if tree[0] in ("k", "u"):
            return self.of_tests(*tree)
        if tree[0] == "x":
            kind = getattr(builtins, tree[1])
            if isinstance(kind, type):
                return kind
        raise plain.NotPlain("the data has a tag that is not known")

    def of_tests(self, tag: str, number: int, about: Any) -> Any:
        """What stands here for a function or a mock of the tests: one thing for one, and it goes back as that."""
        if number not in self.of_tests_by_number:
            thing = self.callback(number, about) if tag == "k" else (MagicMock if about else Mock)(self, number)
            self.of_tests_by_number[number] = thing
            self.ways_back[id(thing)] = [tag, number]
        return self.of_tests_by_number[number]

    def callback(self, number: int, name: str) -> Callable:
        """A function of the tests, as the program sees it."""

        def function(*args: Any, **kwargs: Any) -> Any:
            return self.ask(["callback", number, self.encode(list(args)), self.encode(kwargs)])

        function.__name__ = function.__qualname__ = name
        return function

    def ask(self, question: list) -> Any:
        """What the tests say; until they do, they may ask in turn."""
        frames.write_frame(ANSWERS, frames.CALL, plain.to_bytes(question))
        while True:
            reply = plain.from_bytes(self.calls.frame())
            if reply[0] == "result":
                return plain.decode(reply[1], self.restore)
            if reply[0] == "failed":
                raise self.failure(*reply[1:])
            self.answer(reply)

    def failure(
        self, name: str, module: str, bases: list, told: Any, attributes: Any, text: Any, numbers: Optional[list] = None
    ) -> BaseException:
        """An exception of the tests, the same for one number; where the program has a class of that name, as that."""
        if numbers is not None and numbers[0] in self.of_tests_by_number:
            known: BaseException = self.of_tests_by_number[numbers[0]]
            return known
        own = vars(self.module).get(name)
        if isinstance(own, type) and issubclass(own, Exception):
            kind: type = own
        else:
            kind = raised.class_of(name, module, bases, self.exceptions) or RuntimeError
        error = raised.rebuilt(kind, plain.decode(told), plain.decode(attributes), text)
        if numbers is not None:
            self.of_tests_by_number[numbers[0]] = error
            self.ways_back[id(error)] = ["k", numbers[0]]
            if kind.__module__ == raised.__name__:
                # A class of the tests' own, made here by its name.
                self.ways_back[id(kind)] = ["k", numbers[1]]
        return error


class Mock:
    """A mock of the tests, as the program sees it."""

    def __init__(self, server: _Server, number: int) -> None:
        object.__setattr__(self, "_Mock__server", server)
        object.__setattr__(self, "_Mock__number", number)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it there."""
        return self.__server.callback(self.__number, "mock")(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return self.__server.ask(["attribute", self.__number, name])

    def __setattr__(self, name: str, value: Any) -> None:
        self.__server.ask(["set attribute", self.__number, name, self.__server.encode(value)])


class MagicMock(Mock):
    """One with the methods that Python calls."""


def _asked_for(name: str) -> Callable:
    def method(self: MagicMock, *args: Any) -> Any:
        value = self.__getattr__(name)(*args)
        return iter(value) if name == "__iter__" else value

    return method


for _name in opposite.MAGIC:
    setattr(MagicMock, _name, _asked_for(_name))


def _has_methods(kind: type) -> bool:
    own = [name for name, entry in vars(kind).items() if isinstance(entry, (types.FunctionType, property))]
    return any(not name.startswith("_") for name in own)


def kind_of(value: Any) -> str:
    """What the other side may do without asking an object of the program's own class."""
    kind = type(value)
    if kind is types.CoroutineType:
        return "coroutine"
    if kind is types.GeneratorType:
        return "generator"
    if kind is types.AsyncGeneratorType:
        return "async generator"
    if isinstance(value, _DATA):
        return "data"
    if issubclass(kind, type):
        return "class"
    if kind is types.ModuleType:
        return "module"
    known = getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
    if kind in _FUNCTIONS or (known and kind.__module__ in ("functools", "operator") and callable(value)):
        return "function"
    if kind in _ITERATORS or (known and kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__")):
        return "iterator"
    if known and kind.__module__ == "contextlib":
        return "manager"
    return "builtin" if kind in _VIEWS or (known and kind.__module__ == "re") else "object"


def _awaited(coroutine: Any) -> Any:
    """What a coroutine returns, on an event loop of the program's own."""
    import asyncio

    if not _loops:
        _loops.append(asyncio.new_event_loop())
    return _loops[0].run_until_complete(coroutine)


def _next_of(generator: Any) -> list:
    try:
        return [True, _awaited(generator.__anext__())]
    except StopAsyncIteration:
        return [False, None]


OPERATIONS.update({"await": _awaited, "next of async": _next_of})
_loops: list = []
_COPY = ("copy", "deepcopy")
_GIVE_OBJECTS = ("getattr", "getitem")
_DATA = (int, float, str, bytes, bytearray, list, tuple, set, frozenset, dict)
_WITHOUT_IDENTITY = (type(None), bool, int, float, complex, str, bytes)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType)
_ITERABLES: tuple = ([], (), "", "\u00e9", b"", {}, set(), range(0), range(1 << 70))
_ITERATORS: tuple = tuple(type(iter(made)) for made in _ITERABLES)
_ITERATORS += (type(iter({}.values())), type(iter({}.items())), type(reversed([])), type(reversed({})))
_ORDERED: OrderedDict = OrderedDict()
_MAPPINGS: tuple = ({}, _ORDERED)
_VIEWS: tuple = tuple(type(view) for made in _MAPPINGS for view in (made.keys(), made.values(), made.items()))
_ITERATORS += (type(iter(_ORDERED)), type(iter(_ORDERED.values())), type(iter(_ORDERED.items())))
