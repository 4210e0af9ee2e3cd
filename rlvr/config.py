"""Reading a recipe: YAML, overrides from the command line, and errors that name the nearest key."""

from __future__ import annotations

import copy
import importlib
import importlib.resources
import importlib.util
import reprlib
import sys
import traceback
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .sandbox.nearest import did_you_mean
from .trainers.engine_settings import EngineSettings
from .trainers.settings import TrainConfig
from .verifiers import UserError


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
        raise UserError(f"{path} is not valid YAML ({_one_line(error)}); mend the file.") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no mapping of settings; start from one of the recipes: {_recipe_names()}.")
    of_file = copy.deepcopy(content)
    overridden = [_apply(content, override) for override in overrides]
    try:
        return TrainConfig.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = _key(first)
        named = any(_covers(key, other) or _covers(other, key) for other in overridden)
        # A rule about several sections names none of them.
        ours = not named and not _fits(of_file)
        raise UserError(_explain(first, f"in {path}" if ours else "on the command line")) from None


def engine_settings(kind: str, options: Mapping[str, Any]) -> EngineSettings:
    """The engine of an evaluation, from the command line.

    Args:
        kind: `hf`, `vllm` or `vllm-server`.
        options: its other settings, by the names that they have in a recipe's section `engine`.

    Raises:
        UserError: for an unknown setting, or a value that does not fit.
    """
    for name in ("kind", "async_steps", "sleep"):
        if name in options:
            reason = "--engine says it" if name == "kind" else "it is about updates, which an evaluation has none of"
            raise UserError(f"engine.{name} is no setting of an evaluation, because {reason}; leave it out.")
    try:
        return EngineSettings.model_validate({"kind": kind, "sleep": False, **options})
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(_explain({**first, "loc": ("engine", *first["loc"])}, "on the command line")) from None


def parse_value(text: str, where: str) -> Any:
    """A value that was written on the command line, in YAML, as part of `where`."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"The value in {where!r} is not valid YAML ({_one_line(error)}); quote it.") from None


def find_recipe(recipe: str) -> Path:
    """The file that `recipe` means: itself if it exists, else the packaged recipe of that name."""
    path = Path(recipe)
    if path.is_file():
        return path
    # Names have dots of their own, as qwen2.5 has.
    packaged = _recipes_folder() / f"{path.name.removesuffix('.yaml')}.yaml"
    if len(path.parts) == 1 and packaged.is_file():
        return packaged
    raise UserError(f"There is no configuration {recipe!r}; give a YAML file or one of the recipes: {_recipe_names()}.")


def import_extensions(names: Sequence[str]) -> None:
    """Import modules, or .py files by path, which register environments and verifiers as they load."""
    for name in names:
        if name.endswith(".py"):
            _import_file(Path(name))
        else:
            _import_module(name)


def _import_module(name: str) -> None:
    missing = f"There is no module {name!r} to import; give a module or the path of a .py file."
    if not all(part.isidentifier() for part in name.split(".")):
        raise UserError(missing)
    with _explained(name):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            # Or else it is there and lacks one of its own.
            if _covers(name, str(error.name)):
                raise UserError(missing) from None
            raise


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r} to import; give a module or the path of a .py file.")
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if Path(getattr(loaded, "__file__", None) or ".").resolve() == path.resolve():
            return
        raise UserError(f"A module named {path.stem!r} is loaded already; rename {path}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        with _explained(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns what goes wrong while `name` is imported into a sentence that says where."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        what = f"{type(error).__name__}: {' '.join(reason.split())[:300]}".rstrip(": ")
        raise UserError(f"{name!r} cannot be imported ({_place(error)}: {what}); mend it.") from error


def _place(error: BaseException) -> str:
    """File and line of what was imported that an exception came from, and not of a library that it called."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    frames = [frame for frame in frames if frame.filename not in (__file__, importlib.__file__)]
    if not frames:
        return "before its first line"
    folder = Path(frames[0].filename).parent
    last = [frame for frame in frames if Path(frame.filename).parent == folder][-1]
    return f"{last.filename}:{last.lineno}"


def _apply(content: dict[str, Any], override: str) -> str:
    """Set what `override` says in `content`; the key that it names."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"{override!r} is no override; write key=value, as in train.steps=10.")
    value = parse_value(text, override)
    *sections, last = key.split(".")
    place: Any = content
    for section in sections:
        if isinstance(place, dict) and place.get(section) is None:
            place[section] = {}
        place = place[_index(place, section, override)]
        if not isinstance(place, dict | list):
            raise UserError(f"{override!r} sets a key of {section!r}, which is a value and has none; set it whole.")
    place[_index(place, last, override)] = value
    return key


def _index(place: dict[str, Any] | list[Any], name: str, override: str) -> Any:
    """What `name` is to `place`: a key, or the number of an item."""
    if isinstance(place, dict):
        return name
    if not name.isdecimal() or int(name) >= len(place):
        raise UserError(
            f"{override!r} names {name!r} in a list of {len(place)}; number its items from 0, or set it whole."
        )
    return int(name)


def _explain(error: ErrorDetails, where: str) -> str:
    """One sentence for the first thing that is wrong."""
    *parents, last = [str(part) for part in error["loc"]] or [""]
    key = _key(error)
    if error["type"] == "extra_forbidden":
        return f"Unknown key {key!r} {where}; {did_you_mean(last, _section_at(parents).model_fields)}"
    if error["type"] == "missing":
        return f"The key {key!r} is missing {where}; set it in the file or as {key}=... on the command line."
    if error["type"] == "value_error":
        return f"{where[0].upper()}{where[1:]}: {error['msg'].removeprefix('Value error, ')}"
    given = reprlib.repr(error["input"])
    if error["type"] in ("model_type", "model_attributes_type"):
        names = ", ".join(_section_at([*parents, last]).model_fields)
        return f"{key} is {given} {where}, but it is a section; set its keys, which are {names}."
    if error["type"] == "tuple_type" and isinstance(error["input"], str | int | float):
        return f"{key} is {given} {where}, but it is a list; write it as {_as_list(error['input'])}."
    return f"{key} is {given} {where}, which does not fit: {error['msg'][:1].lower()}{error['msg'][1:]}."


def _fits(content: dict[str, Any]) -> bool:
    try:
        TrainConfig.model_validate(content)
    except ValidationError:
        return False
    return True


def _as_list(value: Any) -> str:
    """How a value that was given by itself is written as the one item of a list."""
    return yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=1000).strip()


def _key(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"])


def _covers(key: str, other: str) -> bool:
    """Whether a dotted name is `other`, or lies in it."""
    return f"{key}.".startswith(f"{other}.")


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
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())
