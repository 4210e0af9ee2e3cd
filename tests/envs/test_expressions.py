from __future__ import annotations

import numpy as np
import pytest

from rlvr.envs.expressions import APPLY, Expression, Operation, canonical, evaluate, render


def any_tree(rng: np.random.Generator, depth: int) -> Expression:
    if depth == 0 or rng.random() < 0.2:
        return int(rng.integers(0, 30))
    return Operation(str(rng.choice(list(APPLY))), any_tree(rng, depth - 1), any_tree(rng, depth - 1))


def test_the_text_of_a_tree_has_its_value():
    rng = np.random.default_rng(0)
    for _ in range(500):
        tree = any_tree(rng, 4)
        # The text is our own, so Python may read it; the code under test never does.
        assert evaluate(tree) == eval(render(tree))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (7, "7"),
        (Operation("-", 5, Operation("-", 3, 1)), "5 - (3 - 1)"),
        (Operation("-", Operation("-", 5, 3), 1), "5 - 3 - 1"),
        (Operation("+", 5, Operation("-", 3, 1)), "5 + (3 - 1)"),
        (Operation("*", Operation("+", 1, 2), 3), "(1 + 2) * 3"),
        (Operation("*", 3, Operation("*", 1, 2)), "3 * (1 * 2)"),
        (Operation("+", 1, Operation("*", 2, 3)), "1 + 2 * 3"),
        (Operation("-", Operation("*", 2, 3), 1), "2 * 3 - 1"),
    ],
)
def test_parentheses_stand_where_the_tree_needs_them(expression, text):
    assert render(expression) == text


def test_values_are_exact_beyond_machine_integers():
    assert evaluate(Operation("*", 10**30, 10**30 + 1)) == 10**60 + 10**30


def test_the_canonical_form_forgets_order_and_grouping_but_no_operand_and_no_operator():
    one = Operation("+", 3, Operation("*", 4, 5))
    assert canonical(one) == "3 4 5 * +"
    assert canonical(Operation("+", Operation("*", 5, 4), 3)) == canonical(one)
    assert canonical(Operation("*", Operation("+", 5, 4), 3)) == canonical(one)
    assert canonical(Operation("+", 3, Operation("+", 4, 5))) != canonical(one)
    assert canonical(Operation("+", 3, Operation("*", 4, 6))) != canonical(one)
    assert canonical(Operation("+", 1, 23)) != canonical(Operation("+", 12, 3))
