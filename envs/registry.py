"""Text environments by name."""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium

from ..sandbox.nearest import did_you_mean
from ..verifiers import Rubric, UserError
from ..verifiers.extraction import ThinkStyle
from ..verifiers.registry import Grader
from ..verifiers.rubric_spec import rubric_from
from .dialogue import TurnFunction
from .task import Task
from .tasks import Tasks
from .text_env import TextEnv
from .vector import TextVectorEnv

REQUIRED = inspect.Parameter.empty
"""Stands in `Registration.options` for the default of an option that has none."""

TaskSource = Tasks | Sequence[Task | Mapping[str, Any]]
RubricLike = Grader | str | Path | Callable[..., Any] | Sequence[Any] | Mapping[str, Any]
"""A rubric, or what `rubric_from` makes one of."""

_ID = re.compile(r"[\w.-]+/[\w.-]+-v\d+", re.ASCII)
_OVERRIDES = ("system", "think", "rubric", "max_turns")
# What gymnasium.make_vec keeps for itself.
_TAKEN = ("id", "num_envs", "vectorization_mode", "vector_kwargs", "wrappers")


@dataclass(frozen=True)
class Registration:
    """One registered text environment.

    Args:
        id: "owner/Name-vN".
        description: one line for a table.
        splits: the names of its splits, or `None` where only its task function knows them.
        options: the options of its task function with their defaults (`REQUIRED` where there is none).
        rubric: what scores completions, unless another is passed.
        system: the system prompt, unless another is passed.
        think: the think style, unless another is passed.
        turn: what replies between the turns; `None` where there is one turn only.
        max_turns: the most completions of an episode, unless another number is passed.
    """

    id: str
    description: str
    splits: tuple[str, ...] | None
    options: Mapping[str, Any]
    rubric: Rubric
    system: str | None
    think: ThinkStyle
    turn: TurnFunction | None = None
    max_turns: int = 1


_registrations: dict[str, Registration] = {}


def register(
    id: str,
    *,
    tasks: TaskSource | Mapping[str, TaskSource] | Callable[..., Tasks],
    rubric: RubricLike,
    system: str | None = None,
    think: ThinkStyle = "generated",
    turn: TurnFunction | None = None,
    max_turns: int = 1,
    description: str = "",
) -> None:
    """Makes a text environment known to `gymnasium.make` and `gymnasium.make_vec`.

    Then `gymnasium.make(id, split="eval", system=..., think=..., rubric=..., max_turns=..., **options)` builds a
    `TextEnv`, and `gymnasium.make_vec` a `TextVectorEnv`. The options are those of the task function.

    Args:
        id: "owner/Name-vN".
        tasks: the tasks as `Tasks` or a list (which is the split "train"), a dict of splits, or a function
            `tasks(split="train", **options) -> Tasks` that is called when an environment is made. A
            function that annotates `split` as a `Literal` tells which splits there are.
        rubric: a `Rubric`, one verifier (its registered name or a plain function), which then alone makes the
            score, or a spec as `rubric_from` reads it: plain data, or the path of a YAML or JSON file.
        system: the system prompt.
        think: see `TextEnv`.
        turn: see `TextEnv`; what it needs to know of the options stands in the `info` of the tasks.
        max_turns: see `TextEnv`.
        description: one line that says what the tasks are.

    Raises:
        UserError: if the id is malformed, or what is registered cannot be what it is meant to be.
    """
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise UserError(f"The environment id {id!r} is not of the form owner/Name-vN, such as me/Sums-v0; rename it.")
    load = _task_function(tasks)
    options = _options(id, load)
    registration = Registration(
        id=id,
        description=description,
        splits=_splits(tasks),
        options=options,
        rubric=rubric_from(rubric),
        system=system,
        think=think,
        turn=turn,
        max_turns=max_turns,
    )

    # Gymnasium deep-copies the keyword arguments of a registration, and with them all tasks; functions it
    # copies by reference.
    def entry_point(**kwargs: Any) -> TextEnv:
        return TextEnv(**_arguments(registration, load, kwargs))

    def vector_entry_point(**kwargs: Any) -> TextVectorEnv:
        num_envs = kwargs.pop("num_envs")
        return TextVectorEnv(num_envs, **_arguments(registration, load, kwargs))

    gymnasium.register(id, entry_point=entry_point, vector_entry_point=vector_entry_point)
    _registrations[id] = registration


def registered() -> list[Registration]:
    """Every text environment registered in this process, sorted by id."""
    return [_registrations[id] for id in sorted(_registrations)]


def make_vec(id: str, num_envs: int, /, **options: Any) -> TextVectorEnv:
    """`gymnasium.make_vec` for text environments, with errors that say what to do.

    Args:
        id: the id of a text environment; "module:id" imports the module that registers it first.
        num_envs: how many episodes side by side.
        options: `split`, `system`, `think`, `max_turns`, `rubric` (as `register` takes it) and the options of the
            environment.

    Raises:
        UserError: for an unknown id or option.
    """
    name = registration_of(id).id
    for option in _TAKEN:
        if option in options:
            raise UserError(f"{name} has no option {option!r}, which Gymnasium keeps for itself; leave it out.")
    env = gymnasium.make_vec(name, num_envs=num_envs, vectorization_mode="vector_entry_point", **options)
    return typing.cast(TextVectorEnv, env)


def registration_of(id: str) -> Registration:
    """The environment of an id, as `make_vec` takes it.

    Raises:
        UserError: there is none, or it is none of text.
    """
    module, _, name = id.rpartition(":")
    if module:
        _import(module, id)
    if name in _registrations:
        return _registrations[name]
    if name in gymnasium.registry:
        raise UserError(f"{name!r} is not a text environment; {did_you_mean(name, _registrations)}")
    raise UserError(f"No environment is registered as {name!r}; {did_you_mean(name, _registrations)}")


def _import(module: str, id: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UserError(
            f"The module {module!r} of {id!r} cannot be imported ({error}); install it, or put its folder "
            "on PYTHONPATH."
        ) from None


def _arguments(registration: Registration, load: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What the two environments are built from, given what was passed to `gymnasium.make`."""
    for name in kwargs:
        if name not in ("split", *_OVERRIDES, *registration.options) and not _takes_any_option(load):
            known = ("split", *_OVERRIDES, *registration.options)
            raise UserError(f"{registration.id} has no option {name!r}; {did_you_mean(name, known)}")
    for name, default in registration.options.items():
        if default is REQUIRED and name not in kwargs:
            raise UserError(f"{registration.id} needs the option {name!r}; pass {name}=.")
    if "split" in kwargs and registration.splits is not None:
        _check_split(registration, kwargs["split"])
    tasks = load(**{name: value for name, value in kwargs.items() if name not in _OVERRIDES})
    if not isinstance(tasks, Tasks):
        raise UserError(f"The task function of {registration.id} returned a {type(tasks).__name__}; return Tasks.")
    return {
        "tasks": tasks,
        "rubric": rubric_from(kwargs.get("rubric", registration.rubric)),
        "system": kwargs.get("system", registration.system),
        "think": kwargs.get("think", registration.think),
        "turn": registration.turn,
        "max_turns": kwargs.get("max_turns", registration.max_turns),
    }


def _check_split(registration: Registration, split: Any) -> None:
    assert registration.splits is not None
    if split in registration.splits:
        return
    if registration.splits == ("train",):
        raise UserError(
            f"{registration.id} has no split {split!r}, only 'train'; register a dict of splits, such as "
            f"tasks={{'train': ..., {split!r}: ...}}."
        )
    raise UserError(f"{registration.id} has no split {split!r}; {did_you_mean(str(split), registration.splits)}")


def _task_function(tasks: Any) -> Callable[..., Any]:
    """`tasks` as a function of the split and the options."""
    if callable(tasks):
        return typing.cast(Callable[..., Any], tasks)
    splits = tasks if isinstance(tasks, Mapping) else {"train": tasks}
    loaded = {name: _as_tasks(source) for name, source in splits.items()}

    def load(split: str = "train") -> Tasks:
        if split not in loaded:  # only where the dict has no "train" and no split was asked for
            raise UserError(f"There is no split {split!r}; {did_you_mean(split, loaded)}")
        return loaded[split]

    return load


def _as_tasks(source: Any) -> Tasks:
    if isinstance(source, Tasks):
        return source
    if isinstance(source, str) or not isinstance(source, Sequence):
        raise UserError(
            f"tasks= cannot be a {type(source).__name__}; pass Tasks, a list, a dict of splits or a function."
        )
    return Tasks.from_list(source)


def _splits(tasks: Any) -> tuple[str, ...] | None:
    if not callable(tasks):
        return tuple(tasks) if isinstance(tasks, Mapping) else ("train",)
    try:
        annotation = inspect.signature(tasks, eval_str=True).parameters["split"].annotation
    except NameError:  # an annotation that only type checkers can read
        return None
    if typing.get_origin(annotation) is not Literal:
        return None
    return tuple(typing.get_args(annotation))


def _options(id: str, load: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(load).parameters
    if "split" not in parameters:
        raise UserError(f"The task function of {id} has no parameter 'split'; add split='train'.")
    for name in (*_OVERRIDES, "num_envs"):
        if name in parameters:
            raise UserError(f"The task function of {id} has a parameter {name!r}, a name that is taken; rename it.")
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name: p.default for p in parameters.values() if p.kind in kinds and p.name != "split"}


def _takes_any_option(load: Callable[..., Any]) -> bool:
    parameters = inspect.signature(load).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
