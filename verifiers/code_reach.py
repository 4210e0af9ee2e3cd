"""What tests ask for that cannot reach a program in another process, as far as their text says it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_CALLED = {
    "pytest.warns": "warnings",
    "pytest.deprecated_call": "warnings",
    "assertWarns": "warnings",
    "assertWarnsRegex": "warnings",
    "assertLogs": "its log",
    "assertNoLogs": "its log",
    "importlib.reload": "importlib.reload",
    "inspect.getsource": "its source",
    "importlib.util.spec_from_file_location": "its file",
    "runpy.run_path": "its file",
    "runpy.run_module": "its file",
}
_FIXTURES = {"caplog": "its log", "recwarn": "warnings", "capfd": "its descriptors", "capfdbinary": "its descriptors"}
_OF_EXCEPTIONS = ("__cause__", "__context__", "__traceback__")
_PATCHES = ("patch", "patch.object", "mock.patch", "mock.patch.object", "monkeypatch.setattr")
# What is patched there is told to the program's process.
_TOLD = frozenset({"builtins.input", "sys.stdin", "sys.stdout", "sys.stderr", "sys.argv", "os.environ"})


def beyond(tree: ast.Module, module: str) -> str:
    """The first thing that the tests ask for and that is out of reach; "" if nothing is.

    Args:
        tree: the tests.
        module: the name by which they import the program.
    """
    return next(_found(tree, module), "")


def _found(tree: ast.Module, module: str) -> Iterator[str]:
    imported = {name: origin for node in ast.walk(tree) for name, origin in _imported(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (_FIXTURES[argument.arg] for argument in node.args.args if argument.arg in _FIXTURES)
        elif isinstance(node, ast.Constant) and node.value == f"{module}.py":
            yield "its file"
        elif isinstance(node, ast.Attribute) and node.attr in _OF_EXCEPTIONS:
            yield "what an exception came from"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = ast.unparse(node.func)
            root, dot, rest = name.partition(".")
            name = imported.get(root, root) + dot + rest
            for called, what in _CALLED.items():
                if name == called or ("." not in called and name.endswith(f".{called}")):
                    yield what
            if name.removeprefix("unittest.mock.") in _PATCHES and node.args:
                patched = _patched(node, imported)
                if patched and patched.partition(".")[0] != module and patched not in _TOLD:
                    yield f"a patch of {patched}"


def _patched(call: ast.Call, imported: dict[str, str]) -> str:
    """The dotted name that a call of `patch` or `setattr` replaces; "" where its text does not say."""
    first = call.args[0]
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    second = call.args[1] if len(call.args) > 1 else None
    if isinstance(first, ast.Name) and isinstance(second, ast.Constant) and isinstance(second.value, str):
        # Of an object that the tests made nothing is known.
        return f"{imported[first.id]}.{second.value}" if first.id in imported else ""
    return ""


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        yield from (
            (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2 for alias in node.names
        )
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
