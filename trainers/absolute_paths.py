"""Paths in a configuration, made to mean the same in whichever folder the run is gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .settings import EnvSettings, TrainConfig


def with_absolute_paths(config: TrainConfig) -> TrainConfig:
    """The configuration with what it names in the current folder named from the root.

    That is whatever is there: files to import, a model (a name of the hub that no folder has stays one), a critic, a
    chat template, and tasks, in the option `path` of an environment.
    """
    changes: dict[str, Any] = {
        "imports": tuple(str(Path(name).absolute()) if name.endswith(".py") else name for name in config.imports),
        "env": _of_env(config.env),
    }
    if config.model.warm_start is None:
        named = {"name": _from_root(config.model.name), "chat_template": _from_root(config.model.chat_template)}
        changes["model"] = config.model.model_copy(update=named)
    if config.critic is not None:
        changes["critic"] = config.critic.model_copy(update={"model": _from_root(config.critic.model)})
    if config.eval.env is not None:
        changes["eval"] = config.eval.model_copy(update={"env": _of_env(config.eval.env)})
    return config.model_copy(update=changes)


def _of_env(env: EnvSettings) -> EnvSettings:
    if "path" not in env.options:
        return env
    path = env.options["path"]
    splits = {split: _from_root(part) for split, part in path.items()} if isinstance(path, Mapping) else None
    return env.model_copy(update={"options": {**env.options, "path": splits or _from_root(path)}})


def _from_root(name: Any) -> Any:
    if not isinstance(name, str) or not name:
        return name
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else name
