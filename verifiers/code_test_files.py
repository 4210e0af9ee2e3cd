"""Test files for pytest, read into what is run."""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.program import TestProgram
from .code_asserts import makes_objects
from .code_copies import names_from_module, with_copied_arguments
from .code_fields import dotted_name, is_in_place, is_visible, parsed
from .code_forms import PytestTests
from .code_imports import foreign_imports, imported_names, mentions_module
from .code_pytest import count_tests, may_make_tests, skipped_test
from .code_reach import beyond_pytest, runs_answers

_CONFIGURATIONS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""Files that can tell pytest to collect files of other names."""


def read_test_files(form: Mapping[str, Any], place: str) -> PytestTests:
    """The tests that the form `pytest` describes.

    Args:
        form: with its files.
        place: where it stands, for whoever reads what is wrong with it.

    Raises:
        UserError: it describes none.
    """
    files, module = form["files"], dotted_name(form, "module", place) if "module" in form else "solution"
    if not isinstance(files, Mapping) or not files:
        raise UserError(f"{place}.files is {reprlib.repr(files)}; give a mapping from paths to the files' text.")
    _check_paths(files, place)
    count, names, touched, of_objects, runs, hidden = 0, set[str](), False, False, False, False
    imports: dict[str, frozenset[int]] = {}
    copied: dict[str, str] = {}
    out_of_reach = ""
    in_place = is_in_place(form, place)
    configured = any(PurePosixPath(str(path)).name in _CONFIGURATIONS for path in files)
    for path, content in files.items():
        if content is None:
            continue
        if not isinstance(path, str) or not isinstance(content, str):
            raise UserError(f"{place}.files has {path!r}: {reprlib.repr(content)}, which is no text; give its content.")
        if path.endswith(".py"):
            tree = parsed(content, f"{place}.files[{path!r}]")
            names |= imported_names(tree, module)
            if not in_place:
                copied[path] = with_copied_arguments(content, tree, names_from_module(tree, module))
            touched = touched or mentions_module(tree, module)
            imports[path] = foreign_imports(tree, module)
            of_objects = of_objects or makes_objects(tree, names_from_module(tree, module))
            runs = runs or runs_answers(tree)
            out_of_reach = out_of_reach or beyond_pytest(tree, module)
            if configured or _is_collected(path):
                count += count_tests(tree)
                hidden = hidden or may_make_tests(tree)
                _refuse_skipped(tree, f"{place}.files[{path!r}]")
    declared = form.get("count")
    if declared is not None and (isinstance(declared, bool) or not isinstance(declared, int) or declared < 1):
        raise UserError(f"{place}.count is {declared!r}; give the number of tests, or leave it out.")
    if not configured and not any(_is_collected(str(path)) for path in files):
        raise UserError(f"{place}.files has no file that pytest collects; name one test_something.py.")
    if not touched:
        raise UserError(f"{place}.files never imports {module!r}, so any program would pass; import what is tested.")
    if declared is None and not count and not hidden:
        raise UserError(f"{place}.files has no test function, so any program would pass; name one test_something.")
    texts = {path: copied.get(path, str(content)) for path, content in files.items() if content is not None}
    exact = declared is not None
    return PytestTests(
        texts,
        module,
        frozenset(names),
        count=declared or max(1, count),
        exact=exact,
        visible=is_visible(form, place),
        foreign_imports=imports,
        of_objects=of_objects,
        runs_answers=runs,
        beyond=out_of_reach,
        copied=any(text != files[path] for path, text in texts.items()),
    )


def _check_paths(files: Mapping[Any, Any], place: str) -> None:
    try:
        TestProgram("pytest", files={path: "" for path, content in files.items() if content is not None})
    except UserError as error:
        raise UserError(f"{place}.files cannot be laid out: {error}") from None


def _refuse_skipped(tree: ast.Module, place: str) -> None:
    skipped = skipped_test(tree)
    if skipped is not None:
        raise UserError(
            f"{place} has the test {skipped[0]!r} with @{skipped[1]}, which no program can pass, since a test that is "
            "skipped or expected to fail is not passed; take it out."
        )


def _is_collected(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
