"""Reading a recipe: YAML, overrides from the command line, and errors that name the nearest key."""

from __future__ import annotations

import importlib
import importlib.resources
import importlib.util
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .trainers.settings import TrainConfig
from .verifiers import UserError
from .verifiers.nearest import did_you_mean


def load_config(recipe: str, overrides: Sequence[str] = ()) -> TrainConfig:
    """The configuration in a YAML file, or in the recipe of that name that the package carries.

    Args:
        recipe: a path, or a bare name such as `quickstart`.
        overrides: `key.sub=value`, the value in YAML; they win over the file.

    Raises:
        UserError: for a missing file, bad YAML, an unknown key or a value that does not fit.
    """
    path = find_recipe(recipe)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid YAML: {_one_line(error)}; mend the file") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no mapping of settings; start from one of the recipes: {_recipe_names()}")
    for override in overrides:
        _apply(content, override)
    return parse_config(content, str(path))


def parse_config(content: dict[str, Any], source: str) -> TrainConfig:
    """Check settings against the schema; `source` is named in the error."""
    try:
        return TrainConfig.model_validate(content)
    except ValidationError as error:
        raise UserError(_explain(error.errors()[0], source)) from None


def save_config(config: TrainConfig, path: Path) -> None:
    """Write every setting of a run, defaults included, so that the file alone repeats it."""
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def find_recipe(recipe: str) -> Path:
    """The file that `recipe` means: itself if it exists, else the packaged recipe of that name."""
    path = Path(recipe)
    if path.is_file():
        return path
    packaged = _recipes_folder() / f"{path.stem}.yaml"
    if path.name in (path.stem, packaged.name) and len(path.parts) == 1 and packaged.is_file():
        return packaged
    raise UserError(f"there is no configuration {recipe!r}; give a YAML file or one of the recipes: {_recipe_names()}")


def import_extensions(names: Sequence[str]) -> None:
    """Import modules, or .py files by path, which register environments and verifiers as they load."""
    for name in names:
        if name.endswith(".py"):
            _import_file(Path(name))
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name.partition(".")[0] and error.name != name:
                raise
            raise UserError(f"there is no module {name!r} to import; give a module or the path of a .py file") from None


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"there is no file {str(path)!r} to import; give a module or the path of a .py file")
    if path.stem in sys.modules:
        raise UserError(f"a module named {path.stem!r} is loaded already; rename {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


def _apply(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"{override!r} is no override; write key=value, as in train.steps=10")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"the value in {override!r} is not valid YAML: {_one_line(error)}; quote it") from None
    *sections, last = key.split(".")
    place = content
    for section in sections:
        if place.get(section) is None:
            place[section] = {}
        place = place[section]
        if not isinstance(place, dict):
            raise UserError(f"{override!r} sets a key of {section!r}, which is a value and has none; set it whole")
    place[last] = value


def _explain(error: ErrorDetails, source: str) -> str:
    """One sentence for the first thing that is wrong."""
    location = [str(part) for part in error["loc"]]
    key = ".".join(location)
    if error["type"] == "extra_forbidden":
        known = list(_section_at(location[:-1]).model_fields)
        return f"unknown key {key!r} in {source}; {did_you_mean(location[-1], known)}"
    if error["type"] == "missing":
        return f"{key!r} is missing from {source}; set it there or on the command line"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return f"{message} (in {source})"
    return f"{key} is {error['input']!r} in {source}, which does not do: {message[:1].lower()}{message[1:]}"


def _section_at(location: Sequence[str]) -> type[BaseModel]:
    section: type[BaseModel] = TrainConfig
    for name in location:
        annotation = section.model_fields[name].annotation
        options = [annotation, *typing.get_args(annotation)]
        section = next(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))
    return section


def _recipes_folder() -> Path:
    return Path(str(importlib.resources.files("rlvr.configs")))


def _recipe_names() -> str:
    return ", ".join(sorted(path.stem for path in _recipes_folder().glob("*.yaml")))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
