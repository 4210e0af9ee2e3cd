"""What the text of a test file for pytest says about the tests in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_NEVER_PASSED = ("skip", "xfail", "expectedFailure")


def count_tests(tree: ast.Module) -> int:
    """How many tests pytest finds in a file at the least.

    What is parametrized counts once, one that another of its name replaces not at all, nor do the methods of a class
    that pytest may pass by.
    """
    return sum(len({test.name for _, test in tests}) for tests in _scopes(tree))


def may_make_tests(tree: ast.Module) -> bool:
    """Whether the file may have tests that its text does not show: in branches, or made by name."""
    return any(map(_may_make_tests, ast.walk(tree)))


def _may_make_tests(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(alias.name.startswith(("test", "Test", "*")) for alias in node.names)
    if isinstance(node, ast.Name):
        return node.id in ("globals", "setattr")
    return isinstance(node, _Function) and node.name.startswith("test")


def skipped_test(tree: ast.Module) -> tuple[str, str] | None:
    """A test that is skipped or expected to fail whatever the program does, and the mark that says so."""
    for tests in _scopes(tree):
        for holders, test in tests:
            for decorator in (mark for holder in (*holders, test) for mark in holder.decorator_list):
                name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
                conditional = isinstance(decorator, ast.Call) and name.endswith(".xfail") and decorator.args
                if name.rpartition(".")[2] in _NEVER_PASSED and not conditional:
                    return test.name, name
    return None


def _scopes(tree: ast.Module) -> Iterator[list[tuple[tuple[ast.ClassDef, ...], _Function]]]:
    """The tests of the file itself and of each class, with the class that they stand in."""
    yield [((), test) for test in _tests(tree.body)]
    # Of two classes of one name the second is there.
    for found in {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}.values():
        if _is_test_class(found):
            yield [((found,), test) for test in _tests(found.body)]


def _tests(body: list[ast.stmt]) -> Iterator[_Function]:
    for node in body:
        if not isinstance(node, _Function) or not node.name.startswith("test"):
            continue
        if not any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield node


def _is_test_class(node: ast.ClassDef) -> bool:
    if any(ast.unparse(base).endswith("TestCase") for base in node.bases):
        return True
    made = {inner.name for inner in node.body if isinstance(inner, _Function)}
    switched_off = any(
        isinstance(target, ast.Name) and target.id == "__test__"
        for inner in node.body
        if isinstance(inner, ast.Assign)
        for target in inner.targets
    )
    return node.name.startswith("Test") and not switched_off and made.isdisjoint(("__init__", "__new__"))
