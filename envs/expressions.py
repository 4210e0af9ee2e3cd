"""Arithmetic expressions as trees: their value, their text, and what makes two of them the same problem."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

APPLY: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
BINDING = {"+": 1, "-": 1, "*": 2}


@dataclass(frozen=True)
class Operation:
    """An inner node of an expression: `left operator right`."""

    operator: str
    left: Expression
    right: Expression


Expression = int | Operation


def evaluate(expression: Expression) -> int:
    """The exact value of an expression."""
    if isinstance(expression, int):
        return expression
    return APPLY[expression.operator](evaluate(expression.left), evaluate(expression.right))


def render(expression: Expression) -> str:
    """The expression as text, with parentheses only where the tree needs them: `3 * (4 - 1)`."""
    if isinstance(expression, int):
        return str(expression)
    binding = BINDING[expression.operator]
    left, right = render(expression.left), render(expression.right)
    if isinstance(expression.left, Operation) and BINDING[expression.left.operator] < binding:
        left = f"({left})"
    if isinstance(expression.right, Operation) and BINDING[expression.right.operator] <= binding:
        right = f"({right})"
    return f"{left} {expression.operator} {right}"


def canonical(expression: Expression) -> str:
    """The operands and operators of an expression, sorted: equal for `3 + 5` and `5 + 3`.

    Coarser than equality of problems (`3 - 5` and `5 - 3` agree too), so relatives stay in one split.
    """
    operands: list[int] = []
    operators: list[str] = []
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, int):
            operands.append(node)
        else:
            operators.append(node.operator)
            pending += [node.left, node.right]
    return " ".join([*map(str, sorted(operands)), *sorted(operators)])
