"""Building and rewriting expression trees."""

from __future__ import annotations

from .nodes import Apply, Expr, Number
from .tokens import Unreadable


def negated(expr: Expr) -> Expr:
    """Minus the expression; of a number, the negative number."""
    return Number(-expr.value, expr.places) if isinstance(expr, Number) else Apply("neg", (expr,))


def multiplied(left: Expr, right: Expr) -> Expr:
    """The product, flat."""
    args = left.args if isinstance(left, Apply) and left.op == "mul" else (left,)
    return Apply("mul", (*args, right))


def replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with `new` wherever `old` stands in it."""
    if expr == old:
        return new
    if isinstance(expr, Apply):
        return Apply(expr.op, tuple(replaced(arg, old, new) for arg in expr.args))
    return expr


def determinant(rows: list[list[Expr]]) -> Expr:
    """The determinant of a square matrix of up to four rows, along its first row."""
    size = len(rows)
    if size > 4 or any(len(row) != size for row in rows):
        raise Unreadable("only square matrices of up to four rows have a determinant here")
    if size == 1:
        return rows[0][0]
    terms: list[Expr] = []
    for column, entry in enumerate(rows[0]):
        minor = determinant([row[:column] + row[column + 1 :] for row in rows[1:]])
        term = Apply("mul", (entry, minor))
        terms.append(term if column % 2 == 0 else Apply("neg", (term,)))
    return Apply("add", tuple(terms))
