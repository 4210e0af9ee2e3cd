"""Tests in which a program that changes its arguments cannot change what its value is compared with."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

# What else there is may be an object of the program's, or a function.
COPIED = "(lambda _: __import__('copy').deepcopy(_) if type(_) in (list, dict, set, tuple, bytearray) else _)"


def with_copied_arguments(source: str, tree: ast.Module, names: Collection[str]) -> str:
    """The source with copies for arguments that the same assertion reads beside the call.

    In `assert f(a) == sorted(a)` the program gets a copy of `a`; else `a.clear(); return []` would be right. Tests of
    what a function does to its arguments keep them: those with `is`, with `and` or `or`, with the argument inside the
    same tuple or list as the call, and those that look at it in another statement (`x = f(a)` and then
    `assert x == sorted(a)`, which therefore has to copy for itself).

    Args:
        source: the tests.
        tree: the same, parsed.
        names: what stands for the program's functions.
    """
    arguments = {
        (argument.lineno, argument.col_offset): argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
        for argument in _read_again(node.test, names)
    }
    # Offsets count bytes of UTF-8.
    lines = [line.encode() for line in source.split("\n")]
    if not arguments or "\f" in source or "\r" in source:
        return source
    marks = []
    for argument in arguments.values():
        marks.append((argument.lineno, argument.col_offset, f"{COPIED}(".encode()))
        marks.append((argument.end_lineno or 0, argument.end_col_offset or 0, b")"))
    for line, offset, text in sorted(marks, reverse=True):
        lines[line - 1] = lines[line - 1][:offset] + text + lines[line - 1][offset:]
    return b"\n".join(lines).decode()


def _read_again(test: ast.expr, names: Collection[str]) -> Iterator[ast.expr]:
    """The arguments of calls in an assertion whose names are read on the other side of it."""
    for node in ast.walk(test):
        if isinstance(node, ast.BoolOp) or (
            isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
        ):
            return
    for node in ast.walk(test):
        sides = _sides(node, names)
        for at, side in enumerate(sides):
            others = {name for other in (*sides[:at], *sides[at + 1 :]) for name in _names(other)}
            for argument in _arguments(side, names):
                if others & _names(argument):
                    yield argument


def _sides(node: ast.AST, names: Collection[str]) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and ast.unparse(node.func) not in names:
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    return []


def _arguments(side: ast.expr, names: Collection[str]) -> Iterator[ast.expr]:
    for node in ast.walk(side):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                argument = argument.value if isinstance(argument, ast.Starred) else argument
                # The brackets of a generator are those of the call.
                if not isinstance(argument, ast.GeneratorExp):
                    yield argument


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
