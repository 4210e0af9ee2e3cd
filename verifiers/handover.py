"""Functions, arguments and results as bytes that another process can read."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .worker import DONE, JobFailed

_importables: dict[str, bool] = {}


def portable(function: Callable[..., Any]) -> bytes:
    """Where to import from, and the function: by name where a worker can import it, by value where it cannot."""
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "__main__")
    if module is not None and not importable(module.__name__) and module.__name__ != "__main__":
        cloudpickle.register_pickle_by_value(module)
    return packed(search_path()) + packed(function)


def search_path() -> list[str]:
    """Where modules are imported from, wherever the other process stands."""
    return [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - ten times as fast, and "" is here


def packed(content: object) -> bytes:
    """An object as bytes; a class says with `reduce_for_worker` how its objects travel, if not as they are pickled."""
    buffer = io.BytesIO()
    _pickler()(buffer).dump(content)
    return buffer.getvalue()


@functools.cache
def _pickler() -> Any:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, what: Any) -> Any:
            reduce = getattr(type(what), "reduce_for_worker", None)
            return super().reducer_override(what) if reduce is None else reduce(what)

    return Pickler


def importable(name: str) -> bool:
    """Whether a worker that imports the module of this name gets the module that it has here.

    Not so for the main module, nor for a file that was loaded by its path, as `--import checks.py` does.
    """
    known = _importables.get(name)
    if known is None:
        known = _importables[name] = name in sys.modules and _found_by_name(sys.modules[name])
    return known


def _found_by_name(module: ModuleType) -> bool:
    name = module.__name__
    parent_name, _, _ = name.rpartition(".")
    path = getattr(sys.modules.get(parent_name), "__path__", None)
    if name == "__main__" or (parent_name and (path is None or not importable(parent_name))):
        return False
    spec = _spec(name, path)
    return spec is not None and (not spec.has_location or spec.origin == getattr(module, "__file__", None))


def _spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        with contextlib.suppress(AttributeError, ImportError):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


def unpacked(answer: bytes) -> Any:
    """The result that a worker's answer holds, or its exception, raised."""
    import cloudpickle

    try:
        content = cloudpickle.loads(answer[1:])
    except Exception as error:
        raise JobFailed(f"its result cannot be read here ({type(error).__name__}: {error})") from None
    if answer[:1] == DONE:
        return content
    raise content
