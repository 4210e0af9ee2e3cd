from __future__ import annotations

import ast
from collections.abc import Callable
from fractions import Fraction

import pytest

from rlvr.verifiers.math.nodes import Apply, Constant, Expr, Number, Symbol


@pytest.fixture(scope="session")
def tree() -> Callable[[str], Expr]:
    """Makes trees of expressions in Python's syntax, so that the cases can be read."""
    return lambda text: _build(ast.parse(text, mode="eval").body)


def _build(node: ast.AST) -> Expr:
    match node:
        case ast.Constant(value):
            return Number(Fraction(str(value)))
        case ast.Name(name):
            named = {"pi": "pi", "e": "e", "I": "i", "oo": "infinity"}
            return Constant(named[name]) if name in named else Symbol(name)
        case ast.UnaryOp(ast.USub(), operand):
            return Apply("neg", (_build(operand),))
        case ast.BinOp(left, ast.Sub(), right):
            return Apply("add", (_build(left), Apply("neg", (_build(right),))))
        case ast.BinOp(left, op, right):
            ops = {ast.Add: "add", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
            return Apply(ops[type(op)], (_build(left), _build(right)))
        case ast.Call(ast.Name("sqrt"), [arg]):
            return Apply("root", (_build(arg), Number(Fraction(2))))
        case ast.Call(ast.Name("f"), args):
            return Apply("call:f", tuple(map(_build, args)))
        case ast.Call(ast.Name(op), args):
            return Apply(op, tuple(map(_build, args)))
    raise ValueError(ast.dump(node))
