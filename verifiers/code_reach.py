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
    "dataclasses.asdict": "the class of an object",
    "dataclasses.astuple": "the class of an object",
    "dataclasses.fields": "the class of an object",
    "dataclasses.replace": "the class of an object",
    "dataclasses.is_dataclass": "the class of an object",
    "importlib.util.spec_from_file_location": "its file",
    "runpy.run_path": "its file",
    "runpy.run_module": "its file",
}
_RUN = ("eval", "exec", "pickle.loads", "pickle.load", "marshal.loads")
_FIXTURES = {"caplog": "its log", "recwarn": "warnings", "capfd": "its descriptors", "capfdbinary": "its descriptors"}
_ATTRIBUTES = {
    "__class__": "the class of an object",
    "__cause__": "what an exception came from",
    "__context__": "what an exception came from",
    "__traceback__": "what an exception came from",
}
_GROUPS = ("ExceptionGroup", "BaseExceptionGroup", "KeyboardInterrupt")
_RAISES = ("raises", "assertRaises", "assertRaisesRegex")
_NEXT = ("next", "__next__", "anext", "__anext__", "send", "throw")
FOLDER = "files in its folder"
"""Which tests beside a program neither see nor make: even where they pass, that says nothing."""
_FOLDER_CALLS = frozenset(
    "os.path.exists os.path.isfile os.path.isdir os.path.getsize os.listdir os.scandir os.remove os.unlink os.mkdir "
    "os.makedirs os.rmdir os.rename shutil.rmtree shutil.copy shutil.move glob.glob".split()
)
_FOLDER_METHODS = frozenset("exists is_file is_dir write_text write_bytes unlink iterdir touch rmdir".split())
_TURNS = frozenset("os.chdir monkeypatch.chdir contextlib.chdir tempfile.gettempdir".split())
_ELSEWHERE = ("tmp_path", "tmpdir", "tempfile")
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


def beyond_pytest(tree: ast.Module, module: str) -> str:
    """The same where pytest makes the comparisons, which take a stand-in for what it stands for."""
    imported = {name: origin for node in ast.walk(tree) for name, origin in _imported(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _asks_for_class(node, imported, module):
            return _ATTRIBUTES["__class__"]
    return beyond(tree, module)


def _looks_at_folder(tree: ast.Module, imported: dict[str, str]) -> bool:
    """Whether the tests make files, or look for some, in the folder that they run in."""
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | set(imported.values())
    words |= {argument.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for argument in node.args}
    elsewhere = any(word.partition(".")[0] in _ELSEWHERE for word in words)
    with_paths = any(origin.partition(".")[0] == "pathlib" for origin in imported.values())
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        root, dot, rest = ast.unparse(node.func).partition(".")
        name = imported.get(root, root) + dot + rest
        if name in _TURNS:
            return True
        if elsewhere and not _names_file(node):
            # Paths in folders of the tests' own are known when they are handed over.
            continue
        if name in _FOLDER_CALLS:
            return True
        if with_paths and isinstance(node.func, ast.Attribute) and node.func.attr in _FOLDER_METHODS:
            return True
        modes = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        if root == "open" and any(isinstance(m, ast.Constant) and {*str(m.value)} & {*"wax+"} for m in modes):
            return True
    return False


def _names_file(call: ast.Call) -> bool:
    """Whether it is about a file whose name the tests say, and no folder of it."""
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str) and not first.value.startswith("/")


def _found(tree: ast.Module, module: str) -> Iterator[str]:
    imported = {name: origin for node in ast.walk(tree) for name, origin in _imported(node)}
    if _looks_at_folder(tree, imported):
        yield FOLDER
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (_FIXTURES[argument.arg] for argument in node.args.args if argument.arg in _FIXTURES)
        elif isinstance(node, ast.Constant) and node.value == f"{module}.py":
            yield "its file"
        elif isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            yield _ATTRIBUTES[node.attr]
        elif (isinstance(node, ast.Name) and node.id in _GROUPS) or type(node).__name__ == "TryStar":
            yield "exceptions that do not cross"
        elif isinstance(node, ast.With) and _expects_stop(node):
            yield "StopIteration of a function"
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


def _asks_for_class(node: ast.Compare, imported: dict[str, str], module: str) -> bool:
    """Whether the type of a value is compared with a class of the program's."""
    sides = [node.left, *node.comparators]
    roots = [ast.unparse(side).partition(".")[0] for side in sides if isinstance(side, ast.Name | ast.Attribute)]
    asks = any(isinstance(side, ast.Call) and _last_name(side.func) == "type" for side in sides)
    return asks and any(imported.get(root, "").partition(".")[0] == module for root in roots)


def _expects_stop(node: ast.With) -> bool:
    """Whether its body is to raise StopIteration without going on with an iterator; it would end loops of the tests."""
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    stops = any(
        _last_name(call.func) in _RAISES and any("StopIteration" in ast.unparse(given) for given in call.args)
        for call in calls
    )
    inner = (part for statement in node.body for part in ast.walk(statement))
    return stops and not any(isinstance(part, ast.Call) and _last_name(part.func) in _NEXT for part in inner)


def runs_answers(tree: ast.Module) -> bool:
    """Whether the tests run texts that they do not hold themselves, which may be the program's."""
    imported = {name: origin for node in ast.walk(tree) for name, origin in _imported(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and not all(isinstance(g, ast.Constant) for g in node.args[:1]):
            root, dot, rest = ast.unparse(node.func).partition(".")
            if imported.get(root, root) + dot + rest in _RUN:
                return True
    return False


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


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
