"""What tests import, from the program and from elsewhere."""

from __future__ import annotations

import ast


def foreign_imports(tree: ast.Module, module: str) -> frozenset[int]:
    """The lines of the statements that import something, and nothing of the program's module."""
    lines: dict[int, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            foreign = not any(_is_of(name, module) for name in names)
            lines[node.lineno] = foreign and lines.get(node.lineno, True)
    return frozenset(line for line, foreign in lines.items() if foreign)


def mentions_module(tree: ast.Module, module: str) -> bool:
    """Whether a file imports the program's module, or has its name in a text, as for `importlib.import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_of(node.module or "", module):
            return True
        if isinstance(node, ast.Import) and any(_is_of(alias.name, module) for alias in node.names):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_of(node.value, module):
            return True
    return False


def imported_names(tree: ast.Module, module: str) -> set[str]:
    """What a test file takes from the program's module."""
    names, aliases = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names.update(alias.name for alias in node.names if alias.name != "*")
        elif isinstance(node, ast.Import):
            aliases.update(alias.asname or alias.name for alias in node.names if alias.name == module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            names.add(node.attr)
    return names


def _is_of(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")
