"""Assert statements read as calls with expected values, so that these never have to enter the sandbox.

Only the source of tests is parsed here, never that of a program. Nothing is evaluated but constants.
"""

from __future__ import annotations

import ast
import builtins
import collections
import datetime
import decimal
import fractions
import functools
import math
import operator
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .code_compare import Comparison
from .code_lines import stubs, words

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "list": list,
    "set": set,
    "sorted": sorted,
    "tuple": tuple,
    "len": len,
}
"""What an assertion may do with a returned value before it compares it."""

_COLLECTIONS: dict[str, Callable[..., Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "sorted": sorted,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_CLASS = re.compile(r"[A-Z](\w*[a-z]\w*)?")
_EXCEPTIONS = ("Error", "Exception", "Warning")
_LARGEST_FACTOR = 10**300
_LARGEST_POWER = 300
_LONGEST = 100_000


@dataclass(frozen=True)
class AssertedCall:
    """A call, and what its value has to be.

    Args:
        args: the positional arguments.
        kwargs: the keyword arguments.
        expected: the value that is expected, after `wrapper`.
        comparison: when the two are the same.
        wrapper: the key in `WRAPPERS` of what is done with the value first; "" for nothing.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: Any
    comparison: Comparison
    wrapper: str = ""


class _NotReadableError(Exception):
    """The expression is none of those that can be read here."""


_EQUALITY = Comparison(pythonic=True, from_json=False)
_IDENTITY = Comparison(from_json=False)


def calls_of_asserts(tree: ast.Module, entry_point: str) -> list[AssertedCall] | None:
    """The calls that all the assertions together stand for; None if one of them is of another kind.

    Read are, with constants for arguments and operands, `f(...) == c`, `c == f(...)`, `f(...) is None`, `f(...)`,
    `not f(...)`, `abs(f(...) - c) < c`, `math.isclose(f(...), c)`, and `set(f(...)) == c` with other wrappers too.

    Args:
        tree: the source of the tests: a function `check(candidate)`, or bare assertions.
        entry_point: the name of the function under test.
    """
    check = check_function(tree)
    names = {entry_point}
    statements: Sequence[ast.stmt] = tree.body
    if check is not None:
        names.update(argument.arg for argument in check.args.args[:1])
        statements = check.body
        beside = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
        if any(isinstance(inner, ast.Assert) for node in beside for inner in ast.walk(node)):
            return None
    else:
        # What is imported is there for the other assertions, or is one of the functions that are known here.
        statements = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    try:
        calls = [call for statement in statements for call in _of_statement(statement, names)]
    except _NotReadableError:
        return None
    return calls or None


def check_function(tree: ast.Module) -> ast.FunctionDef | None:
    """The function `check` of a test source, the last one."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return found[-1] if found else None


def certain_asserts(tree: ast.Module) -> int:
    """How many assert statements a right program's run of the tests cannot pass by.

    Those that stand in a branch, a handler or another function may never be reached, and `assert False` must not be.
    """
    check = check_function(tree)
    statements = [*tree.body, *(check.body if check is not None else ())]
    return sum(not _is_false(found.test) for found in _certain(statements))


def may_reach_none(tree: ast.Module) -> bool:
    """Whether a right program passes by every assert statement, so that reaching the end is the test.

    So it is where an exception is expected, and all that is asserted is that there was one: `try: f(-1); assert False`.
    """
    return all(_is_false(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert))


def are_never_called(tree: ast.Module) -> bool:
    """Whether all assert statements stand in functions of which nothing in the tests speaks."""
    holders = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
    }
    inside = {id(inner) for holder in holders.values() for inner in ast.walk(holder)}
    outside = any(isinstance(node, ast.Assert) and id(node) not in inside for node in ast.walk(tree))
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return not outside and named.isdisjoint((*holders, "globals", "locals")) and "check" not in holders


def _is_false(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and not test.value


def calls_program(tree: ast.Module, entry_point: str) -> bool:
    """Whether the tests use the function under test anywhere, by its name, as `candidate` or as `check` calls it."""
    names = program_names(tree, entry_point)
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))


def makes_objects(tree: ast.Module, names: frozenset[str]) -> bool:
    """Whether the tests are about objects of the program's own classes, as far as their text says.

    They name what has the name of a class and is neither theirs nor built in (`Stack()`, `Level.INFO`), but for
    exceptions; ask what the program gave for an attribute that no plain value has (`f().push(3)`), or for its text
    (`str(f())`); or ask whether two things are one.

    Args:
        tree: the tests.
        names: what stands for the program's functions and classes.
    """
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            own.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    own -= names
    values = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_call_of(node.value, names)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if _asks_for_identity(node):
            return True
        if isinstance(node, ast.Name) and _names_class(node.id) and node.id not in own:
            return True
        if isinstance(node, ast.Attribute) and _names_class(node.attr) and getattr(node.value, "id", "") in names:
            return True
        if isinstance(node, ast.Call):
            name = _function_name(node).rpartition(".")[2]
            if name[:1].isupper() and name not in own and not hasattr(builtins, name):
                return True
            if name in ("str", "repr") and any(_is_call_of(given, names) for given in node.args):
                return True
        if isinstance(node, ast.Attribute) and node.attr not in _plain_attributes():
            value = node.value
            if _is_call_of(value, names) or (isinstance(value, ast.Name) and value.id in values):
                return True
    return False


def _names_class(name: str) -> bool:
    return bool(_CLASS.fullmatch(name)) and not hasattr(builtins, name) and not name.endswith(_EXCEPTIONS)


def _asks_for_identity(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        asks = any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
    else:
        sides = node.args[:2] if isinstance(node, ast.Call) else []
        asks = isinstance(node, ast.Call) and _function_name(node).endswith((".assertIs", ".assertIsNot"))
    return asks and not any(isinstance(side, ast.Constant) for side in sides)


@functools.lru_cache(maxsize=1024)
def given_helpers(stub: str, source: str, entry_point: str) -> str:
    """The functions and classes of a prompt's code that assertions use, with what stands beside them; "" if none.

    Args:
        stub: the prompt's code, in which what is to be written may be begun.
        source: the tests.
        entry_point: the function under test.
    """
    try:
        body = ast.parse(stub).body
    except (SyntaxError, ValueError, RecursionError):
        return ""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    unfinished = stubs(stub) | {entry_point.partition(".")[0]}
    kept = [node for node in body if not (isinstance(node, kinds) and node.name in unfinished)]
    used = words(source).intersection(node.name for node in kept if isinstance(node, kinds))
    return ast.unparse(ast.Module(kept, [])) if used else ""


def _is_call_of(node: ast.expr, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Call) and _function_name(node).partition(".")[0] in names


@functools.cache
def _plain_attributes() -> frozenset[str]:
    """What values that come back as plain data may be asked for."""
    kinds: list[type] = [int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, range, slice]
    kinds += [collections.deque, collections.Counter, collections.OrderedDict, collections.defaultdict]
    kinds += [decimal.Decimal, fractions.Fraction, datetime.datetime, datetime.timedelta, types.FunctionType]
    arrays = "shape dtype ndim size T tolist mean sum max min all any astype reshape flatten".split()
    return frozenset(arrays).union(*map(dir, kinds))


def program_names(tree: ast.Module, entry_point: str) -> frozenset[str]:
    """The names that stand for the function under test, or for what it is an attribute of."""
    check = check_function(tree)
    given = [argument.arg for argument in check.args.args[:1]] if check is not None else []
    return frozenset({entry_point.partition(".")[0], "candidate", *given})


def _certain(statements: Sequence[ast.stmt]) -> Iterator[ast.Assert]:
    for statement in statements:
        if isinstance(statement, ast.Assert):
            yield statement
        elif isinstance(statement, ast.For | ast.With) and not _swallows(statement):
            yield from _certain(statement.body)


def _swallows(statement: ast.For | ast.With) -> bool:
    """Whether a `with` takes exceptions, so that the end of its body need not be reached."""
    if isinstance(statement, ast.For):
        return False
    names = [_function_name(item.context_expr) for item in statement.items if isinstance(item.context_expr, ast.Call)]
    return any(name.rpartition(".")[2] in ("raises", "suppress", "assertRaises") for name in names)


def _of_statement(statement: ast.stmt, names: set[str]) -> Iterator[AssertedCall]:
    if isinstance(statement, ast.Pass):
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    if not isinstance(statement, ast.Assert):
        raise _NotReadableError
    if isinstance(statement.test, ast.Constant) and statement.test.value:
        return
    yield _of_test(statement.test, names)


def _of_test(test: ast.expr, names: set[str]) -> AssertedCall:
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _of_comparison(test.left, test.ops[0], test.comparators[0], names)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _called(test.operand, names, False, _EQUALITY, "bool")
    if isinstance(test, ast.Call) and _function_name(test) in ("math.isclose", "isclose"):
        return _of_isclose(test, names)
    return _called(test, names, True, _EQUALITY, "bool")


def _of_comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, names: set[str]) -> AssertedCall:
    if isinstance(op, ast.Eq):
        if not _mentions(left, names):
            left, right = right, left
        return _called(left, names, constant(right), _EQUALITY)
    if isinstance(op, ast.Is) and isinstance(right, ast.Constant) and right.value in (None, True, False):
        return _called(left, names, right.value, _IDENTITY)
    if isinstance(op, ast.Lt | ast.LtE) and isinstance(left, ast.Call) and len(left.args) == 1:
        difference = left.args[0]
        if _function_name(left) in ("abs", "math.fabs") and isinstance(difference, ast.BinOp):
            return _of_difference(difference, constant(right), names)
    raise _NotReadableError


def _of_difference(difference: ast.BinOp, bound: Any, names: set[str]) -> AssertedCall:
    call, wanted = difference.left, difference.right
    if not _mentions(call, names):
        call, wanted = wanted, call
    expected = constant(wanted)
    if not isinstance(difference.op, ast.Sub) or not _is_number(expected) or not _is_number(bound) or bound <= 0:
        raise _NotReadableError
    return _called(call, names, float(expected), Comparison(absolute=float(bound), pythonic=True))


def _of_isclose(test: ast.Call, names: set[str]) -> AssertedCall:
    bounds = {"rel_tol": 1e-9, "abs_tol": 0.0, **_keywords(test)}
    if len(test.args) != 2 or set(bounds) != {"rel_tol", "abs_tol"} or not all(map(_is_number, bounds.values())):
        raise _NotReadableError
    call, wanted = test.args if _mentions(test.args[0], names) else reversed(test.args)
    expected = constant(wanted)
    if not _is_number(expected):
        raise _NotReadableError
    comparison = Comparison(float(bounds["abs_tol"]), float(bounds["rel_tol"]), pythonic=True)
    return _called(call, names, float(expected), comparison)


def _called(node: ast.expr, names: set[str], expected: Any, comparison: Comparison, wrapper: str = "") -> AssertedCall:
    if not isinstance(node, ast.Call):
        raise _NotReadableError
    name = _function_name(node)
    if not wrapper and name in WRAPPERS and name not in names and len(node.args) == 1 and not node.keywords:
        return _called(node.args[0], names, expected, comparison, name)
    if name not in names:
        raise _NotReadableError
    return AssertedCall(tuple(map(constant, node.args)), _keywords(node), expected, comparison, wrapper)


def _keywords(call: ast.Call) -> dict[str, Any]:
    if any(keyword.arg is None for keyword in call.keywords):
        raise _NotReadableError
    return {str(keyword.arg): constant(keyword.value) for keyword in call.keywords}


def _function_name(call: ast.Call) -> str:
    return ast.unparse(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""


def _mentions(node: ast.expr, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Call) and _function_name(inner) in names for inner in ast.walk(node))


def constant(node: ast.expr) -> Any:
    """The value of an expression made of literals, arithmetic on them, and collections of them.

    Raises:
        _NotReadableError: it is not made of these alone, or too large.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | bytes | None):
        if isinstance(node.value, float) and not math.isfinite(node.value):
            raise _NotReadableError
        return node.value
    if isinstance(node, ast.List):
        return [constant(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(constant(item) for item in node.elts)
    try:
        if isinstance(node, ast.Set):
            return {constant(item) for item in node.elts}
        if isinstance(node, ast.Dict):
            return {_key(key): constant(value) for key, value in zip(node.keys, node.values, strict=True)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = constant(node.operand)
            return -value if isinstance(node.op, ast.USub) else +value
        if isinstance(node, ast.BinOp):
            return _arithmetic(node)
        if isinstance(node, ast.Call) and not node.keywords and len(node.args) <= 1:
            return _COLLECTIONS[_function_name(node)](*map(constant, node.args))
    except (TypeError, ValueError, ArithmeticError, KeyError):
        pass
    raise _NotReadableError


def _key(node: ast.expr | None) -> Any:
    if node is None:
        raise _NotReadableError
    return constant(node)


def _arithmetic(node: ast.BinOp) -> Any:
    left, right = constant(node.left), constant(node.right)
    apply = _ARITHMETIC.get(type(node.op))
    if apply is None or (isinstance(left, str | bytes) and isinstance(node.op, ast.Mod)):
        raise _NotReadableError
    numbers = [value for value in (left, right) if _is_number(value)]
    if any(abs(number) > _LARGEST_FACTOR for number in numbers):
        raise _NotReadableError
    if isinstance(node.op, ast.Pow) and (len(numbers) < 2 or abs(right) > _LARGEST_POWER or abs(left) > _LARGEST_POWER):
        raise _NotReadableError
    if isinstance(node.op, ast.Mult) and len(numbers) == 1:
        items = right if _is_number(left) else left
        if numbers[0] * len(items) > _LONGEST:
            raise _NotReadableError
    return apply(left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
