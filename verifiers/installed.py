"""Verifiers of other packages, which name them in the entry-point group `rlvr.verifiers`.

    [project.entry-points."rlvr.verifiers"]
    "me/exact-v1" = "my_package.checks:exact"
    checks = "my_package.more_checks"

An entry point leads to a function, which is registered under the entry point's name, or to a verifier or a module,
which registers itself as it is imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

GROUP = "rlvr.verifiers"


def load_installed(register: Callable[[str, Any], None]) -> dict[str, str]:
    """Load every entry point of the group; why those that are broken are, by name.

    Args:
        register: called with name and object for what is neither a module nor registered already.
    """
    broken: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        try:
            found = entry.load()
            if not isinstance(found, ModuleType):
                register(entry.name, found)
        # Whatever goes wrong in a package that somebody installed must not hide the others.
        except (Exception, SystemExit) as error:
            broken[entry.name] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if broken:
        names = ", ".join(map(repr, broken))[:100]
        warnings.warn(f"verifiers of installed packages cannot be loaded: {names}", stacklevel=2)
    return broken
