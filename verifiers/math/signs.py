r"""Expressions with `\pm`: the list of all that they stand for."""

from __future__ import annotations

from .forms import Form, Listing, Value
from .nodes import Apply, Expr
from .tokens import Unreadable
from .trees import negated, replaced


def spread_signs(value: Value) -> Form:
    r"""A value with \pm as the list of both values."""
    count = _count_signs(value.expr)
    if count == 0:
        return value
    if count > 4:
        raise Unreadable(r"there are more than four signs \pm")
    choices = [value.expr]
    if _contains(value.expr, "mp"):
        choices = [_with_signs(value.expr, True), _with_signs(value.expr, False)]
    else:
        while any(_contains(choice, "pm") for choice in choices):
            choices = [sign for choice in choices for sign in _first_sign(choice)]
    return Listing(tuple(Value(choice, value.unit) for choice in choices))


def _count_signs(expr: Expr) -> int:
    if not isinstance(expr, Apply):
        return 0
    return (expr.op in ("pm", "mp")) + sum(_count_signs(arg) for arg in expr.args)


def _contains(expr: Expr, op: str) -> bool:
    return isinstance(expr, Apply) and (expr.op == op or any(_contains(arg, op) for arg in expr.args))


def _with_signs(expr: Expr, plus: bool) -> Expr:
    if not isinstance(expr, Apply):
        return expr
    args = tuple(_with_signs(arg, plus) for arg in expr.args)
    if expr.op in ("pm", "mp"):
        return args[0] if (expr.op == "pm") == plus else negated(args[0])
    return Apply(expr.op, args)


def _first_sign(expr: Expr) -> list[Expr]:
    """The expression with its first sign read as plus and as minus."""
    sign = _find(expr, "pm")
    if sign is None:
        return [expr]
    return [replaced(expr, sign, sign.args[0]), replaced(expr, sign, negated(sign.args[0]))]


def _find(expr: Expr, op: str) -> Apply | None:
    """An operation of this kind with none of its kind inside."""
    if not isinstance(expr, Apply):
        return None
    for arg in expr.args:
        found = _find(arg, op)
        if found is not None:
            return found
    return expr if expr.op == op else None
