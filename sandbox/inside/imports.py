"""What tests import: what is not there, so that they say nothing about a program, and what they forgot."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from typing import Any, Optional

_ALIASES = {"np": "numpy"}
_TOOLS = {
    "math": ("isclose",),
    "copy": ("deepcopy",),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
}
_TOOL_OF = {name: module for module, names in _TOOLS.items() for name in names}


def missing_import(source: str, own: str) -> Optional[tuple]:
    """The line and the name of the first module that the tests import in any case and that is not installed.

    Args:
        source: the tests.
        own: the module that they test.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in list(body):
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            body.extend(node.body)
    for node in body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in (name.partition(".")[0] for name in names):
            if name != own.partition(".")[0] and name not in sys.modules and importlib.util.find_spec(name) is None:
                return node.lineno, name
    return None


def forgotten_import(name: str, source: str) -> Any:
    """What a name of tests stands for that they use as a module or a tool of Python's without importing it, else None.

    A program that imports it lends it to them; but a program's own `math` would decide what is close.
    """
    if name in _TOOL_OF:
        return getattr(importlib.import_module(_TOOL_OF[name]), name)
    module = _ALIASES.get(name, name)
    known = name in _ALIASES or name in getattr(sys, "stdlib_module_names", ())
    if not known or re.search(rf"(?<![\w.]){name}\s*[^\w\s.]", source) or importlib.util.find_spec(module) is None:
        return None
    return importlib.import_module(module)


def lent_names(names: list, texts: list, own: str) -> dict:
    """What `import *` would take from a program of the modules and functions that files of tests forgot to import.

    Args:
        names: those of the program.
        texts: the files.
        own: the module that they test; what they import from it by name is the program's.
    """
    text = "\n".join(texts)
    taken = {alias.name for tree in _trees(texts) for node in ast.walk(tree) for alias in _aliases_from(node, own)}
    found = {name: forgotten_import(name, text) for name in names if name not in taken}
    # A class by such a name (`Counter`) may well be the program's own.
    return {name: lent for name, lent in found.items() if lent is not None and not isinstance(lent, type)}


def _aliases_from(node: ast.AST, own: str) -> list:
    return node.names if isinstance(node, ast.ImportFrom) and node.module == own else []


def _trees(texts: list) -> list:
    trees = []
    for text in texts:
        try:
            trees.append(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError):
            continue
    return trees


def bound_names(texts: list, own: str) -> set:
    """The names that files of tests import from elsewhere than the module that they test, or make themselves."""
    names: set = set()
    for tree in _trees(texts):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module != own:
                names.update(alias.asname or alias.name for alias in node.names)
        names.update(node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    return names
