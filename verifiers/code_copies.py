"""Tests in which a program that changes its arguments cannot change what its value is compared with."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

# What else there is may be an object of the program's, or a function.
COPIED = (
    "(lambda _: __import__('copy').deepcopy(_) if type(_) in (list, dict, set, tuple, bytearray) "
    "or type(_).__module__ in ('collections', 'numpy') else _)"
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def with_copied_arguments(source: str, tree: ast.Module, names: Collection[str]) -> str:
    """The source with copies for arguments that an expression compares with what the program made of them.

    In `assert f(a) == sorted(a)`, and in `x = f(a)` and then `assert x == sorted(a)`, the program gets a copy of `a`;
    else `a.clear(); return []` would be right. Tests of what a function does to its arguments keep them: those that
    compare the argument itself with something (`assert a == [1, 2]`, `assert x is a`), that drop the function's value
    (`f(a)`), or that have value and argument on the same side (`(f(a), a) == (None, [])`).

    Args:
        source: the tests.
        tree: the same, parsed.
        names: what stands for the program's functions, classes and modules.
    """
    arguments = {
        (argument.lineno, argument.col_offset, argument.end_lineno, argument.end_col_offset)
        for argument in _compared_arguments(tree, names)
    }
    # Offsets count bytes of UTF-8.
    lines = [line.encode() for line in source.split("\n")]
    if not arguments or "\f" in source or "\r" in source:
        return source
    marks = []
    for line, offset, end_line, end_offset in arguments:
        marks.append((line, offset, f"{COPIED}(".encode()))
        marks.append((end_line or 0, end_offset or 0, b")"))
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
    for node in _nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            for alias in node.names:
                names |= _unbound(tree) if alias.name == "*" else {alias.asname or alias.name}
        elif isinstance(node, ast.Import):
            names.update((a.asname or a.name).partition(".")[0] for a in node.names if a.name == module)
        elif isinstance(node, ast.Assign) and any(
            isinstance(inner, ast.Constant) and inner.value == module for inner in _nodes(node.value)
        ):
            # As of importlib.import_module.
            names.update(name for target in node.targets for name in _names(target))
    return frozenset(names)


@dataclass
class _Part:
    """A function of the tests, with those inside it, or what stands outside of all of them.

    Attributes:
        body: its statements.
        local: the names that are its own.
        made: what stands for the program and its values.
        sources: for each name, the names that its value was made from.
        compared: the names that are compared with the program's values.
        kept: those that are themselves what is tested.
    """

    body: list[ast.stmt]
    local: set[str]
    made: set[str] = field(default_factory=set)
    sources: dict[str, set[str]] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)


def _compared_arguments(tree: ast.Module, names: Collection[str]) -> Iterator[ast.expr]:
    """The arguments of calls of the program that are also compared with what it gave."""
    methods = [node for inner in tree.body if isinstance(inner, ast.ClassDef) for node in inner.body]
    functions = [node for node in (*tree.body, *methods) if isinstance(node, _FUNCTIONS)]
    top = _Part([node for node in tree.body if not isinstance(node, (*_FUNCTIONS, ast.ClassDef))], set())
    parts = [top, *(_Part([function], _bound(function)) for function in functions)]
    shared = set(names)
    # A function of the tests that calls the program gives the program's values.
    for _ in functions:
        found = {f.name for f in functions if f.name not in shared and f.name != "check" and _mentions(f, shared)}
        if not found:
            break
        shared |= found
    _find_values(top, shared)
    for part in parts[1:]:
        _find_values(part, shared | (top.made - part.local))
    for part in parts:
        _find_comparisons(part)
    common = {name for part in parts for name in part.compared - part.local}
    kept = {name for part in parts for name in part.kept - part.local}
    for part in parts:
        wanted = (part.compared | (common - kept - part.local)) - part.kept
        yield from _arguments(part, wanted, shared)


def _find_values(part: _Part, known: set[str]) -> None:
    part.made = set(known)
    bindings = [binding for statement in part.body for binding in _bindings(statement)]
    for _ in range(len(bindings)):
        before = (len(part.made), sum(map(len, part.sources.values())))
        for targets, value in bindings:
            if _mentions(value, part.made):
                part.made |= targets
                continue
            for target in targets:
                part.sources.setdefault(target, set()).update(_origins(part, value))
        if before == (len(part.made), sum(map(len, part.sources.values()))):
            return


def _origins(part: _Part, value: ast.expr) -> set[str]:
    """The names that an expression reads, and those that their values were made from."""
    read = _names(value)
    return read | {name for inner in read for name in part.sources.get(inner, ())}


def _find_comparisons(part: _Part) -> None:
    for statement in part.body:
        for node in _nodes(statement):
            if isinstance(node, ast.Assert) and isinstance(node.test, ast.UnaryOp):
                part.kept |= {node.test.operand.id} if isinstance(node.test.operand, ast.Name) else set()
            sides = _sides(node, part.made)
            _note_kept(part, node, sides)
            for at, side in enumerate(sides):
                if _mentions(side, part.made):
                    for other in (*sides[:at], *sides[at + 1 :]):
                        part.compared |= _origins(part, other)


def _note_kept(part: _Part, node: ast.AST, sides: list[ast.expr]) -> None:
    """Note the arguments that are themselves what a comparison tests, as the program left them."""
    equal, same = _kind(node)
    # Identity with a constant says nothing about an argument.
    if same and not any(isinstance(side, ast.Constant) for side in sides):
        part.kept.update(name for side in sides for name in _names(side))
    for side in sides if equal else ():
        beside = {name for other in sides if other is not side for name in _names(other)}
        outside = _names_outside_calls(side, part.made)
        if isinstance(side, ast.Name) and not any(_mentions(each, part.made) for each in sides):
            part.kept |= {side.id} - beside
        elif outside & part.made or _mentions(side, part.made):
            part.kept |= outside - part.made - beside


def _kind(node: ast.AST) -> tuple[bool, bool]:
    """Whether a node asks if its sides are equal, and if they are the same object."""
    if isinstance(node, ast.Compare):
        return all(isinstance(op, ast.Eq) for op in node.ops), any(
            isinstance(op, ast.Is | ast.IsNot) for op in node.ops
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        return name.startswith("assert") and "Equal" in name, name in ("assertIs", "assertIsNot")
    return False, False


def _arguments(part: _Part, wanted: set[str], functions: set[str]) -> Iterator[ast.expr]:
    for statement in part.body:
        dropped = {id(node.value) for node in _nodes(statement) if isinstance(node, ast.Expr)}
        for node in _nodes(statement):
            if not isinstance(node, ast.Call) or id(node) in dropped:
                continue
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            # As of map(candidate, lists).
            handed = any(isinstance(each, ast.Name) and each.id in functions for each in given)
            if _root(node.func) in part.made or handed:
                for argument in given:
                    argument = argument.value if isinstance(argument, ast.Starred) else argument
                    # The brackets of a generator are those of the call.
                    if not isinstance(argument, ast.GeneratorExp) and _names(argument) & wanted - functions:
                        yield argument


def _sides(node: ast.AST, made: Collection[str]) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and _root(node.func) not in made:
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    return []


def _names_outside_calls(side: ast.expr, made: Collection[str]) -> set[str]:
    """The names in an expression but for those in the program's calls."""
    names: set[str] = set()
    waiting: list[ast.AST] = [side]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        if not (isinstance(node, ast.Call) and _root(node.func) in made):
            waiting.extend(ast.iter_child_nodes(node))
    return names


def _bindings(statement: ast.stmt) -> Iterator[tuple[set[str], ast.expr]]:
    """The names that values are bound to, and the values."""
    for node in _nodes(statement):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, ast.AugAssign | ast.NamedExpr) or (isinstance(node, ast.AnnAssign) and node.value):
            assert node.value is not None
            yield _stored(node.target), node.value
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield _stored(node.target), node.iter
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield _stored(node.optional_vars), node.context_expr


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[set[str], ast.expr]]:
    """Each target with the value for it, where both are lists of the same length."""
    targets, values = (each.elts if isinstance(each, ast.Tuple | ast.List) else [] for each in (target, value))
    if not targets or len(targets) != len(values) or any(isinstance(each, ast.Starred) for each in targets):
        yield _stored(target), value
        return
    for name, each in zip(targets, values, strict=True):
        yield from _pairs(name, each)


def _mentions(tree: ast.AST, made: Collection[str]) -> bool:
    """Whether the program, or a value of its, is named there."""
    return any(isinstance(node, ast.Name) and node.id in made for node in _nodes(tree))


def _root(function: ast.expr) -> str:
    """The name that a called expression begins with."""
    while isinstance(function, ast.Attribute | ast.Call | ast.Subscript):
        function = function.func if isinstance(function, ast.Call) else function.value
    return function.id if isinstance(function, ast.Name) else ""


def _bound(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that a function binds, its arguments among them."""
    names = {node.arg for node in _nodes(function) if isinstance(node, ast.arg)}
    shared = {name for node in _nodes(function) if isinstance(node, ast.Global) for name in node.names}
    for statement in function.body:
        names |= _stored(statement)
    return names - shared


def _unbound(tree: ast.Module) -> set[str]:
    """The names that a file calls and neither it nor Python has made."""
    made = _stored(tree) | {node.arg for node in _nodes(tree) if isinstance(node, ast.arg)}
    for node in _nodes(tree):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            made.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    called = {_root(node.func) for node in _nodes(tree) if isinstance(node, ast.Call)}
    return {name for name in called - made if name and not hasattr(builtins, name)}


def _nodes(tree: ast.AST) -> Iterable[ast.AST]:
    """All nodes but those inside of formatted strings, whose places some Pythons tell wrong."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.JoinedStr):
            waiting.extend(ast.iter_child_nodes(node))


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in _nodes(tree) if isinstance(node, ast.Name)}


def _stored(tree: ast.AST) -> set[str]:
    return {node.id for node in _nodes(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
