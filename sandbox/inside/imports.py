"""What tests import that is not there; then none of them can say anything about a program."""

from __future__ import annotations

import ast
import importlib.util
import sys
from typing import Optional


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
