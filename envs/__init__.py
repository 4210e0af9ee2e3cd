"""Tasks, and the Gymnasium environments that pose them; importing this registers the built-in ones."""

from __future__ import annotations

from . import arithmetic, calculator, code, guess_number, list_ops, math
from .dialogue import Message, Reply, TurnFunction
from .procedural import item_rng
from .registry import Registration, make_vec, register, registered
from .spaces import UnicodeText
from .task import Task
from .tasks import Tasks
from .text_env import TextEnv
from .vector import TextVectorEnv

__all__ = [
    "Message",
    "Registration",
    "Reply",
    "Task",
    "Tasks",
    "TextEnv",
    "TextVectorEnv",
    "TurnFunction",
    "UnicodeText",
    "arithmetic",
    "calculator",
    "code",
    "guess_number",
    "item_rng",
    "list_ops",
    "make_vec",
    "math",
    "register",
    "registered",
]
