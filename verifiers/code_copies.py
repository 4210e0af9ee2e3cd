"""Tests in which a program that changes its arguments cannot change what its value is compared with."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator

from .code_places import ANY, Place, Places, arguments, bound_names, overlap

COPIED = "__copied__"
"""What makes the copies, in the process of the tests (`sandbox.inside.identity`)."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_EQUAL = frozenset(
    "assertEqual assertEquals assertListEqual assertDictEqual assertSetEqual assertTupleEqual assertSequenceEqual "
    "array_equal assert_array_equal assert_equal".split()
)
_COPYING = frozenset("list tuple sorted set dict copy deepcopy len".split())
_PARTS = (ast.List, ast.Dict, ast.Set, ast.Tuple, ast.ListComp, ast.Call, ast.Name, ast.BinOp)
_Position = tuple[int, int]
_Test = tuple[ast.stmt, list[ast.expr], bool]
"""A statement, what it reads together or compares, and whether that has to be equal."""


def with_copied_arguments(source: str, tree: ast.Module, names: Collection[str]) -> str:
    """The source with copies for arguments that the tests read together with a value of the program's.

    A program that gets `a` itself passes `assert f(a) == sorted(a)`, or `x = f(a)` and then `assert a[x] == 9`, by
    changing `a`. It gets `a` only where that gains it nothing: where the tests read `a` with no value of the program's
    (`f(a)`, then `assert sorted(a) == [1, 3]`), or next say what it is equal to (`assert a == [1, 3]`, `assert (f(a),
    a) == (None, [])`); values that are said to be equal to something else (`assert k == 2`) are no longer the
    program's. Of several arguments of a call that are read together, the one that is tested (`assert a == sorted(b)`)
    is what the program made, and the others are given as copies.

    Values that the tests keep in attributes, lists and functions of their own are followed as far as `Places` goes;
    calls inside of formatted strings get no copies.

    Args:
        source: the tests.
        tree: the same, parsed.
        names: what stands for the program's functions, classes and modules.
    """
    marks = []
    for argument in _Mixed(tree, names).arguments():
        marks.append((argument.lineno, argument.col_offset, f"{COPIED}(".encode()))
        marks.append((argument.end_lineno or 0, argument.end_col_offset or 0, b")"))
    if not marks:
        return source
    # Python reads all ends of lines as this one; offsets count bytes of UTF-8.
    lines = [line.encode() for line in source.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    for line, offset, text in sorted(marks, reverse=True):
        lines[line - 1] = lines[line - 1][:offset] + text + lines[line - 1][offset:]
    copied = b"\n".join(lines).decode()
    try:
        ast.parse(copied)
    except SyntaxError:
        return source
    return copied


def names_from_module(tree: ast.Module, module: str) -> frozenset[str]:
    """The names in a file of tests that stand for the program's module, or for what is taken from it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            for alias in node.names:
                names |= _unbound(tree) if alias.name == "*" else {alias.asname or alias.name}
        elif isinstance(node, ast.Import):
            names.update((a.asname or a.name).partition(".")[0] for a in node.names if a.name == module)
        elif isinstance(node, ast.Assign) and any(
            isinstance(inner, ast.Constant) and inner.value == module for inner in ast.walk(node.value)
        ):
            # As of importlib.import_module.
            names |= bound_names(node)
    return frozenset(names)


class _Mixed:
    """What tests read together with values of the program's, and what they say that is equal to something else."""

    def __init__(self, tree: ast.Module, names: Collection[str]) -> None:
        self.places = Places(tree, names)
        nodes = list(ast.walk(tree))
        in_text = {id(inner) for node in nodes if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
        # Some Pythons tell the places inside of formatted strings wrong.
        self.calls = [n for n in nodes if isinstance(n, ast.Call) and id(n) not in in_text and self.places.takes(n)]
        self.given: dict[str, list[tuple[Place, ast.Call, int]]] = {}
        for call in self.calls:
            for at, argument in enumerate(arguments(call)):
                for place in dict.fromkeys(self._sources(argument)):
                    self.given.setdefault(place[0], []).append((place, call, at))
        statements = [node for node in nodes if isinstance(node, ast.stmt)]
        self.tests = [test for statement in statements for test in _tests(statement)]
        self.pins: dict[str, list[tuple[Place, int, _Position]]] = {}
        self._find_pins()
        self.mixed: dict[str, set[Place]] = {}
        for statement, sides, equal in self.tests:
            if self._said(sides, equal) is None:
                self._mix_values(sides)
                if not isinstance(statement, ast.Assign):
                    self._mix_arguments(sides)
        for statement in statements:
            if isinstance(statement, ast.If | ast.While):
                self._mix_condition(statement)

    def arguments(self) -> Iterator[ast.expr]:
        """The arguments that the program gets copies of."""
        for call in self.calls:
            block = self.places.blocks[id(call)]
            for argument in arguments(call):
                # The brackets of a generator are those of the call.
                if not isinstance(argument, ast.GeneratorExp) and any(
                    self._is_mixed(place) and not self._is_said(place, block, _start(call))
                    for place in self.places.mentions(argument, handed=True)
                ):
                    yield argument

    def _sources(self, node: ast.expr) -> Iterator[Place]:
        for place in self.places.mentions(node, handed=True):
            yield from self._origins(place)

    def _origins(self, place: Place) -> Iterator[Place]:
        for origin in self.places.origins(place):
            if not self.places.is_program(origin):
                yield origin

    def _said(self, sides: list[ast.expr], equal: bool) -> list[Place] | None:
        """The places of which a comparison says what they are equal to; None if it leaves that open."""
        if not equal or not (known := [side for side in sides if self._is_independent(side)]):
            return None
        parts = [part for side in sides if side not in known for part in _added(side)]
        places = [self.places.place(part) for part in parts]
        for part, place in zip(parts, places, strict=True):
            given = isinstance(part, ast.Constant) or (isinstance(part, ast.Call) and self.places.takes(part))
            if ANY in place or not (place or given):
                return None
        return [place for place in places if place]

    def _is_independent(self, side: ast.expr) -> bool:
        """Whether neither a value of the program's nor something that it got is read there."""
        for place in self.places.mentions(side, handed=True):
            if not self._is_copy_from_before(place) and (
                self.places.is_made(place)
                or any(overlap(origin, given) for origin in self._origins(place) for given, _, _ in self._given(origin))
            ):
                return False
        return True

    def _given(self, place: Place) -> list[tuple[Place, ast.Call, int]]:
        return self.given.get(place[0], [])

    def _is_copy_from_before(self, place: Place) -> bool:
        """Whether a name holds a copy of an argument from before the program got it, as of `before = a[:]`."""
        values = self.places.values.get(place[0], [])
        if len(values) != 1 or not (found := _copied(values[0][0])) or not (copied := self.places.place(found[0])):
            return False
        value, block = values[0]
        made = self.places.values.get(copied[0], [])
        whole = found[1] or (bool(made) and all(_is_flat(each) for each, _ in made))
        once = not made or block in {each for _, each in made}
        return whole and once and all(_start(call) > _start(value) for _, call, _ in self._given(copied))

    def _find_pins(self) -> None:
        for statement, sides, equal in self.tests:
            if isinstance(statement, ast.Assert) or (
                isinstance(statement, ast.Expr) and _is_assertion(statement.value)
            ):
                block = self.places.blocks[id(statement)]
                for place in self._said(sides, equal) or ():
                    self.pins.setdefault(place[0], []).append((place, block, _end(statement)))
        self.places.pin(
            (name,)
            for name in self.pins
            if (values := self.places.values.get(name)) and name not in self.given
            # Their values are the program's no longer.
            if all(self._is_said((name,), block, _start(value)) for value, block in values)
        )

    def _is_said(self, place: Place, block: int, since: _Position) -> bool:
        """Whether the tests say what a place is equal to, before anything else can become of it."""
        changes = [_start(value) for value, _ in self.places.values.get(place[0], ())]
        changes += [_start(call) for given, call, _ in self._given(place) if overlap(given, place)]
        return any(
            place[: len(pin)] == pin
            and there == block
            and since <= end
            and not any(since < at <= end for at in changes)
            for pin, there, end in self.pins.get(place[0], ())
        )

    def _is_mixed(self, place: Place) -> bool:
        return any(overlap(mixed, each) for each in self._origins(place) for mixed in self.mixed.get(each[0], ()))

    def _mix(self, place: Place) -> None:
        for origin in self._origins(place):
            self.mixed.setdefault(origin[0], set()).add(origin)

    def _mix_values(self, sides: list[ast.expr]) -> None:
        """Note what is read together with a value of the program's."""
        read = {place for side in sides for place in self.places.mentions(side)}
        made = {place for place in read if self.places.is_made(place)}
        for place in read:
            if any(not self._are_parts_of_one(place, other) for other in made - {place}):
                self._mix(place)
        for origin in (origin for place in made for origin in self._origins(place)):
            if not self.places.is_made(origin):
                self._mix(origin)

    def _are_parts_of_one(self, place: Place, other: Place) -> bool:
        """Whether two values are made from the same one of the program's."""
        made = [origin for origin in self._origins(place) if self.places.is_made(origin)]
        return any(overlap(origin, each) for origin in made for each in self._origins(other))

    def _mix_arguments(self, sides: list[ast.expr]) -> None:
        """Note what is read after another argument of the same call, which that may have changed."""
        tested: dict[ast.Call, set[int]] = {}
        for place in (place for side in sides for place in self.places.mentions(side)):
            given: dict[ast.Call, set[int]] = {}
            for origin in self._origins(place):
                for argument, call, at in self._given(origin):
                    if overlap(argument, origin):
                        given.setdefault(call, set()).add(at)
            for call, positions in given.items():
                if not positions & tested.setdefault(call, positions):
                    self._mix(place)

    def _mix_condition(self, statement: ast.If | ast.While) -> None:
        """Note what decides whether a value of the program's is tested."""
        inner = [node for each in (*statement.body, *statement.orelse) for node in ast.walk(each)]
        asserted = [node for node in inner if isinstance(node, ast.Assert) or _is_assertion(node)]
        if any(self.places.is_made(place) for node in asserted for place in self.places.mentions(node)):
            for place in self.places.mentions(statement.test):
                self._mix(place)


def _tests(statement: ast.stmt) -> Iterator[_Test]:
    """What a statement reads, in pieces that each say something for themselves."""
    read = getattr(statement, "test", None) or getattr(statement, "value", None)
    waiting = [read] if read else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            waiting += node.values
        elif isinstance(node, ast.Tuple | ast.List):
            waiting += node.elts
        else:
            for sides, equal in _compared(node):
                yield statement, sides, equal


def _compared(node: ast.expr) -> Iterator[tuple[list[ast.expr], bool]]:
    """What an expression has on the sides of a comparison, and whether these have to be equal; else the expression."""
    if isinstance(node, ast.Compare):
        sides, kinds = [node.left, *node.comparators], {type(op) for op in node.ops}
        constant = any(isinstance(side, ast.Constant) for side in sides)
        if kinds == {ast.Eq} or (kinds == {ast.Is} and constant):
            yield from _pairs(sides)
        elif constant or not kinds <= {ast.Is, ast.IsNot}:
            # What is in a list is tested of the list.
            yield (sides[::-1] if kinds <= {ast.In, ast.NotIn} else sides), False
    elif isinstance(node, ast.Call) and _function_name(node) in _EQUAL:
        yield from _pairs(node.args[:2])
    elif not isinstance(node, ast.Call) or _function_name(node) not in ("assertIs", "assertIsNot"):
        yield [node], False


def _pairs(sides: list[ast.expr]) -> Iterator[tuple[list[ast.expr], bool]]:
    """The sides of an equation, part by part where all are lists of the same length."""
    lists = [side.elts for side in sides if isinstance(side, ast.Tuple | ast.List)]
    starred = any(isinstance(each, ast.Starred) for parts in lists for each in parts)
    if starred or len(lists) < len(sides) or len(set(map(len, lists))) > 1:
        yield sides, True
    else:
        for parts in zip(*lists, strict=True):
            yield from _pairs(list(parts))


def _added(side: ast.expr) -> Iterator[ast.expr]:
    """The parts of a list or tuple, or of several that are put together."""
    waiting = [side]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            waiting += [node.left, node.right]
        elif isinstance(node, ast.Tuple | ast.List):
            waiting += node.elts
        else:
            yield node.target if isinstance(node, ast.NamedExpr) else node


def _copied(value: ast.expr) -> tuple[ast.expr, bool] | None:
    """What a value is a copy of, and whether nothing of it can change with that."""
    if isinstance(value, ast.ListComp) and _copied(value.elt):
        return value.generators[0].iter, True
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
        return value.value, False
    if isinstance(value, ast.Call) and _function_name(value) in _COPYING:
        given = value.args[0] if value.args else getattr(value.func, "value", None)
        return (given, _function_name(value) in ("deepcopy", "len")) if given else None
    return None


def _is_flat(value: ast.expr) -> bool:
    """Whether a list or the like has only numbers, texts and their like in it."""
    inside = [node for node in ast.walk(value) if node is not value]
    return isinstance(value, _PARTS[:4]) and not any(isinstance(node, _PARTS) for node in inside)


def _is_assertion(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _function_name(node).startswith("assert")


def _function_name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _start(node: ast.expr) -> _Position:
    return node.lineno, node.col_offset


def _end(node: ast.stmt) -> _Position:
    return node.end_lineno or 0, node.end_col_offset or 0


def _root(function: ast.expr) -> str:
    """The name that a called expression begins with."""
    while isinstance(function, ast.Attribute | ast.Call | ast.Subscript):
        function = function.func if isinstance(function, ast.Call) else function.value
    return function.id if isinstance(function, ast.Name) else ""


def _unbound(tree: ast.Module) -> set[str]:
    """The names that a file calls and neither it nor Python has made."""
    made = bound_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            made.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    called = {_root(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {name for name in called - made if name and not hasattr(builtins, name)}
