"""A gym and a trainer for reasoning models: reinforcement learning with verifiable rewards.

Importing this registers the environments with Gymnasium. Nothing here imports torch until it is needed:
`rlvr.Trainer`, `rlvr.evaluate` and `rlvr.load_model` load it on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import loading as loading
from .envs import Task, Tasks, TextEnv, TextVectorEnv, UnicodeText, make_vec, register
from .extras import needs_extra
from .verifiers import (
    CompletionTimeout,
    Rubric,
    UserError,
    Verdict,
    averify,
    first,
    gate,
    metric,
    product,
    rubric_from,
    score,
    threshold,
    verifier,
    verify,
    verify_many,
)

__version__ = "0.1.0"

# These need torch, or say what would be done with it.
_LAZY = {
    "TrainConfig": "trainers.settings",
    "Trainer": "trainers.loop",
    "evaluate": "trainers.evaluate",
    "load_model": "trainers.models",
}

__all__ = [
    "CompletionTimeout",
    "Rubric",
    "Task",
    "Tasks",
    "TextEnv",
    "TextVectorEnv",
    "TrainConfig",
    "Trainer",
    "UnicodeText",
    "UserError",
    "Verdict",
    "averify",
    "evaluate",
    "first",
    "gate",
    "load_model",
    "make_vec",
    "metric",
    "product",
    "register",
    "rubric_from",
    "score",
    "threshold",
    "verifier",
    "verify",
    "verify_many",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("train"):
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
