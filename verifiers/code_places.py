"""What the names in tests stand for, as far as the text of the tests tells."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

ANY = "*"

Place = tuple[str, ...]
"""A name and what is taken from it: ("case", "'x'") for `case["x"]`, ("self", ".d"), ("data", "*") for `data[i]`."""

_Bindings = dict[str, set[tuple[Place, Place, bool]]]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_DEEPEST = 5
# Methods of plain values that take something and say how the two compare; "__eq__" and its like are others.
_COMPARING = frozenset(
    "count index find get join issubset issuperset isdisjoint union intersection difference symmetric_difference "
    "startswith endswith".split()
)


def overlap(one: Place, other: Place) -> bool:
    """Whether two places are the same, or one is a part of the other."""
    return all(a == b or ANY in (a, b) for a, b in zip(one, other, strict=False))


def arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call, without their stars."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [each.value if isinstance(each, ast.Starred) else each for each in given]


class Places:
    """Where the values in tests come from.

    Args:
        tree: the tests.
        names: what stands for the program's functions, classes and modules.

    Attributes:
        blocks: for each node, the list of statements that it is in, by its id.
        values: for each name, what it is bound to, and in which block.
    """

    def __init__(self, tree: ast.Module, names: Collection[str]) -> None:
        self.blocks: dict[int, int] = {}
        self.values: dict[str, list[tuple[ast.expr, int]]] = {}
        self._names = {(name,) for name in names}
        self._scopes: dict[int, tuple[int, ...]] = {}
        self._pinned: set[Place] = set()
        self._own: dict[int, set[str]] = {}
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._lay_out(tree)
        self._known = {*names, *self._functions, *bound_names(tree)}
        self._bindings: _Bindings = {}
        # What a call takes decides what its value is made from, and the other way round.
        for _ in range(len(self._functions) + 3):
            self._origins: dict[Place, dict[Place, bool]] = {}
            self._taken: dict[ast.Call, bool] = {}
            self._found: _Bindings = {}
            self.values = {}
            for node in ast.walk(tree):
                self._follow(node)
            if self._found == self._bindings:
                break
            self._bindings = self._found

    def place(self, node: ast.AST) -> Place:
        """The place that an expression names; () if it is none."""
        path: list[str] = []
        while isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Attribute):
                path.append(f".{node.attr}")
            else:
                path.append(repr(node.slice.value) if isinstance(node.slice, ast.Constant) else ANY)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._known:
            return ()
        return (self._name(node.id, self._scopes[id(node)]), *reversed(path))

    def mentions(self, tree: ast.AST, handed: bool = False) -> Iterator[Place]:
        """The places that an expression reads, in order.

        Args:
            tree: the expression.
            handed: whether those that it hands over to the program are among them.
        """
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            inner: list[ast.AST] = []
            if place := self.place(node):
                yield place
                while isinstance(node, ast.Attribute | ast.Subscript):
                    inner += [node.slice] if isinstance(node, ast.Subscript) else []
                    node = node.value
            elif isinstance(node, ast.Call):
                taken, own = not handed and self.takes(node), self._own_function(node)
                if own:
                    yield (own,)
                # A function of the tests that is given the program's gives what it returns.
                given = [each for each in arguments(node) if not taken or (not own and self._is_function(each))]
                inner = [self._called(node.func), *given]
            else:
                # What a comprehension goes through is read where its variables are.
                inner = [*node.ifs] if isinstance(node, ast.comprehension) else [*ast.iter_child_nodes(node)]
            waiting += reversed(inner)

    def pin(self, places: Iterable[Place]) -> None:
        """Take these places for what the tests say that they are equal to."""
        self._pinned, self._origins = set(places), {}

    def origins(self, place: Place) -> dict[Place, bool]:
        """A place and those that its value comes from; true for those that it is the very value of."""
        if place not in self._origins:
            found, waiting = {place: True}, [place]
            while waiting:
                each = waiting.pop()
                if any(each[: at + 1] in self._pinned for at in range(len(each))):
                    continue
                for target, source, itself in self._bindings.get(each[0], ()):
                    if overlap(target, each):
                        origin = (*source, *(each[len(target) :] if itself else ()))[:_DEEPEST]
                        if (itself and found[each]) > found.get(origin, -1):
                            found[origin] = itself and found[each]
                            waiting.append(origin)
            self._origins[place] = found
        return self._origins[place]

    def is_program(self, place: Place) -> bool:
        """Whether a place is named as the program's."""
        return place[:1] in self._names

    def is_made(self, place: Place) -> bool:
        """Whether a place is the program, or holds a value of it."""
        return any(map(self.is_program, self.origins(place)))

    def takes(self, call: ast.Call) -> bool:
        """Whether the program gets the arguments of a call."""
        if call not in self._taken:
            self._taken[call] = self._takes(call)
        return self._taken[call]

    def _takes(self, call: ast.Call) -> bool:
        function = call.func
        compares = isinstance(function, ast.Attribute) and (function.attr in _COMPARING or function.attr[:2] == "__")
        if compares and not self.is_program(self.place(function)):
            return False
        called = [*self.mentions(self._called(function))]
        called += [(own,)] if (own := self._own_function(call)) else []
        return any(map(self.is_made, called)) or any(map(self._is_function, arguments(call)))

    def _is_function(self, node: ast.expr) -> bool:
        """Whether an argument is a function that leads to the program, as in `map(candidate, lists)`."""
        if isinstance(node, ast.Lambda):
            return any(self.is_made(place) for place in self.mentions(node.body))
        place = self.place(node)
        if not place or place[0] in self._functions:
            return bool(place) and self.is_made(place)
        return any(itself and self.is_program(origin) for origin, itself in self.origins(place).items())

    def _called(self, function: ast.expr) -> ast.expr:
        """What is read of what is called: `a` of `a.index`, but nothing more of `self` than the method."""
        of_self = self.place(function)[:1] == ("self",) and len(self.place(function)) == 2
        return function.value if isinstance(function, ast.Attribute) and not of_self else function

    def _own_function(self, call: ast.Call) -> str:
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        return name if name in self._functions else ""

    def _name(self, name: str, scopes: tuple[int, ...]) -> str:
        """A name, told apart from that of other functions; what objects have is the same in all methods."""
        if name in ("self", "cls"):
            return "self"
        scope = next((scope for scope in scopes if name in self._own[scope]), None)
        return name if scope is None or (name,) in self._names else f"{name} {scope}"

    def _lay_out(self, tree: ast.Module) -> None:
        waiting: list[tuple[ast.AST, tuple[int, ...], int]] = [(tree, (), 0)]
        while waiting:
            node, scopes, block = waiting.pop()
            self._scopes[id(node)], self.blocks[id(node)] = scopes, block
            if isinstance(node, _SCOPES):
                scopes, block = (id(node), *scopes), id(node)
                shared = (each.names for each in ast.walk(node) if isinstance(each, ast.Global | ast.Nonlocal))
                self._own[id(node)] = bound_names(node) - {name for names in shared for name in names}
            if isinstance(node, _FUNCTIONS):
                self._functions[node.name] = node
            for _, value in ast.iter_fields(node):
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, ast.AST):
                        waiting.append((each, scopes, id(value) if isinstance(each, ast.stmt) else block))

    def _follow(self, node: ast.AST) -> None:
        """Note what a node binds."""
        if isinstance(node, ast.Assign | ast.AugAssign | ast.NamedExpr | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._assign(target, node.value, (), self.blocks[id(node)])
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            inside = id(node.body) if not isinstance(node, ast.comprehension) else self.blocks[id(node)]
            self._assign(node.target, node.iter, (ANY,), inside)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(node.optional_vars, node.context_expr, (), self.blocks[id(node)])
        elif isinstance(node, _FUNCTIONS):
            results = [each.value for each in ast.walk(node) if isinstance(each, ast.Return | ast.Yield) and each.value]
            for value in (*results, *node.decorator_list):
                self._bind((node.name,), value)
            for argument in node.args.args:
                if argument.arg in self._functions:
                    # A fixture of pytest.
                    self._add((self._name(argument.arg, (id(node),)),), (argument.arg,), True)
        elif isinstance(node, ast.Call) and (own := self._functions.get(self._own_function(node))):
            given = [each.arg for each in own.args.args if each.arg not in ("self", "cls")]
            keywords = [(each.arg, each.value) for each in node.keywords if each.arg in given]
            for name, value in (*zip(given, node.args, strict=False), *keywords):
                self._bind((self._name(str(name), (id(own),)),), value)

    def _assign(self, target: ast.expr, value: ast.expr, path: Place, block: int) -> None:
        targets, values = (each.elts if isinstance(each, ast.Tuple | ast.List) else [] for each in (target, value))
        for at, each in enumerate(targets):
            if len(values) == len(targets) and not path:
                self._assign(each, values[at], (), block)
            else:
                self._assign(each, *_part(value, path, at), block)
        if not targets and (place := self.place(target.value if isinstance(target, ast.Starred) else target)):
            self.values.setdefault(place[0], []).append((value, block))
            self._bind(place, value, path)

    def _bind(self, target: Place, value: ast.expr, path: Place = ()) -> None:
        """Note that a place holds what a path leads to in a value."""
        if place := self.place(value):
            self._add(target, (*place, *path), True)
        else:
            for source in self.mentions(value):
                self._add(target, source, False)

    def _add(self, target: Place, source: Place, itself: bool) -> None:
        self._found.setdefault(target[0], set()).add((target, source[:_DEEPEST], itself))


def _part(value: ast.expr, path: Place, at: int) -> tuple[ast.expr, Place]:
    """Where a part of what a path leads to is, through `zip(a, b)`, `enumerate(a)` and `a.items()`, too."""
    if path and isinstance(value, ast.Call):
        name = value.func.id if isinstance(value.func, ast.Name) else getattr(value.func, "attr", "")
        if name == "zip" and at < len(value.args):
            return value.args[at], path
        if name == "enumerate" and value.args:
            return value.args[0], (path if at else ())
        if name == "items" and isinstance(value.func, ast.Attribute):
            return value.func.value, path
    return value, (*path, repr(at))


def bound_names(tree: ast.AST) -> set[str]:
    """The names that are bound somewhere in a function, a comprehension or a file, arguments among them."""
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return names | {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
