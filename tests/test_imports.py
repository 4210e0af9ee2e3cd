"""The packages import one way only: rlvr -> trainers -> envs -> verifiers -> sandbox."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rlvr.envs
import rlvr.sandbox
import rlvr.trainers
import rlvr.verifiers

# From the top of the house to its foundation; a package imports from itself and from those below it.
ORDER = ("rlvr", "trainers", "envs", "verifiers", "sandbox")
FOLDERS = {
    package: Path(module.__file__).parent
    for package, module in zip(ORDER, (rlvr, rlvr.trainers, rlvr.envs, rlvr.verifiers, rlvr.sandbox), strict=True)
}


def package_files() -> list[tuple[str, Path]]:
    """Every module file, with the package it belongs to. In a wheel, the subpackages lie within `rlvr`."""
    nested = [folder for package, folder in FOLDERS.items() if package != "rlvr"]
    files = []
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            if package != "rlvr" or not any(path.is_relative_to(other) for other in nested):
                files.append((package, path))
    return files


def imported_packages(package: str, path: Path) -> set[str]:
    """The packages of the house that a file imports from, wherever in it the import stands."""
    inside = path.relative_to(FOLDERS[package]).parent.parts
    here = ["rlvr", *([] if package == "rlvr" else [package]), *inside]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            absolute = [alias.name for alias in node.names if alias.name.partition(".")[0] in ORDER]
            assert not absolute, f"{path}: {absolute} is imported absolutely"
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                assert str(node.module).partition(".")[0] not in ORDER, f"{path}: {node.module} is imported absolutely"
                continue
            base = here[: len(here) - node.level + 1]
            assert base, f"{path}: an import goes above the package"
            parts = [*base, *(node.module.split(".") if node.module else [])]
            names = [parts] if len(parts) > 1 else [[*parts, alias.name] for alias in node.names]
            found |= {name[1] if name[1] in ORDER else "rlvr" for name in names}
    return found


@pytest.mark.parametrize("package", ORDER)
def test_imports_go_one_way(package):
    above = set(ORDER[: ORDER.index(package)])
    for owner, path in package_files():
        if owner == package:
            assert not imported_packages(package, path) & above, path


def test_the_walk_sees_the_imports_that_there_are():
    seen = {owner: set() for owner in ORDER}
    for owner, path in package_files():
        seen[owner] |= imported_packages(owner, path)
    assert "envs" in seen["trainers"]
    assert "verifiers" in seen["envs"]
    assert {"trainers", "envs", "verifiers"} <= seen["rlvr"]


def test_an_import_against_the_order_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(FOLDERS, "verifiers", tmp_path)
    for text, expected in {
        "from ..envs import Task": {"envs"},
        "from ..trainers.engines import base": {"trainers"},
        "from .. import trainers": {"trainers"},
        "from .. import Task": {"rlvr"},
        "def f():\n    from ..cli import app": {"rlvr"},
        "from .errors import UserError": {"verifiers"},
    }.items():
        (tmp_path / "module.py").write_text(text)
        assert imported_packages("verifiers", tmp_path / "module.py") == expected
    for text in ("import rlvr", "from rlvr.envs import Task", "import verifiers", "from ... import x"):
        (tmp_path / "module.py").write_text(text)
        with pytest.raises(AssertionError):
            imported_packages("verifiers", tmp_path / "module.py")
