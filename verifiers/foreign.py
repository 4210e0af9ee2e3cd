"""Reward functions written for other trainers: TRL's and verl's, taken as they are wherever a grader is accepted.

- TRL: `f(completions, **columns) -> list[float | None]`, a batch function. One for conversations, which reads
  `completions[i][0]["content"]`, is known by the annotation `list[list[...]]` of its `completions`, as TRL's own
  are; wrap any other in `trl(f, conversational=True)`. `None` is TRL's "no reward for this sample", here an error.
- verl: `compute_score(data_source, solution_str, ground_truth, extra_info=None)`, which returns a number or a
  dict with "score", whose other numbers become parts and whose "acc" says whether it passed; also its batch form
  `(data_sources, solution_strs, ...)`.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Collection, Mapping
from functools import update_wrapper
from typing import Any

from .verdict import Verdict, as_verdict

COLUMNS = {
    "completions": "completion",
    "prompts": "prompt",
    "answers": "answer",
    "data_sources": "data_source",
    "solution_strs": "solution_str",
    "ground_truths": "ground_truth",
    "extra_infos": "extra_info",
}
"""What a parameter of a batch function holds for each row, where its name is a plural."""

BATCH_SIGNS = frozenset({"completions", "completion_ids", "solution_strs"})
"""Parameters that tell a batch function from one that takes one completion."""

VERL_FIELDS = {"solution_str": ("completion",), "ground_truth": ("ground_truth", "answer")}
"""The fields that may give a parameter of verl's, the first that is there."""

_OWN_FIELDS = ("completion", "prompt", "answer", "think")


def ignore(*args: Any, **kwargs: Any) -> None:
    """Stands for TRL's `log_extra` and `log_metric` where a function insists on them."""


TRL_ARGUMENTS: Mapping[str, Any] = {"trainer_state": None, "log_extra": ignore, "log_metric": ignore}
"""What a TRL function is given for arguments of its trainer that have no default."""


def is_verl(parameters: Collection[str]) -> bool:
    """Whether these are the parameters of a `compute_score`."""
    return {"solution_str", "ground_truth"}.issubset(parameters) or {"solution_strs", "ground_truths"}.issubset(
        parameters
    )


def verl_data_source(fields: Mapping[str, Any]) -> Any:
    """The row's `data_source`, or an empty text."""
    return fields.get("data_source", "")


def verl_extra_info(fields: Mapping[str, Any]) -> Any:
    """The row's `extra_info`, or else everything that is known about its task beyond prompt and answer."""
    if "extra_info" in fields:
        return fields["extra_info"]
    return {name: value for name, value in fields.items() if name not in _OWN_FIELDS}


def verl_verdict(result: Any) -> Verdict:
    """The verdict that a `compute_score` stands for: of a dict, its "score", with its other numbers as parts.

    An "acc" that is a boolean, 0 or 1 decides `passed`; without one, a score from 1.0 on passes.

    Raises:
        TypeError, ValueError: as `as_verdict`, or the dict has no "score".
    """
    if not isinstance(result, Mapping):
        return as_verdict(result)
    if "score" not in result:
        raise ValueError(f"returned a dict without 'score', with {', '.join(map(repr, result)) or 'nothing'}")
    verdict = as_verdict(result["score"])
    parts = {str(name): value for name, value in result.items() if name != "score"}
    scalars = {name: value.item() if getattr(value, "shape", None) == () else value for name, value in parts.items()}
    numeric = {name: float(value) for name, value in scalars.items() if isinstance(value, numbers.Real)}
    passed = verdict.passed
    if passed is not None and numeric.get("acc") in (0.0, 1.0):
        passed = bool(numeric["acc"])
    return Verdict(verdict.score, passed, verdict.status, {**verdict.parts, **numeric}, verdict.detail)


def trl(function: Callable[..., Any], *, conversational: bool = False) -> Callable[..., Any]:
    """A TRL reward function as a batch function of plain texts.

    Args:
        function: `f(completions, **columns) -> list[float | None]`.
        conversational: it expects each completion as `[{"role": "assistant", "content": text}]` and each prompt
            as a list with a user message.
    """
    return Conversational(function) if conversational else function


class Conversational:
    """A TRL reward function of conversations, called with plain texts."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function, updated=())

    def __call__(self, **columns: Any) -> Any:
        """What the function returns for the texts as messages."""
        for name, role in (("completions", "assistant"), ("prompts", "user")):
            if name in columns:
                columns[name] = [[{"role": role, "content": text}] for text in columns[name]]
        return self.function(**columns)


def expects_conversations(function: Callable[..., Any], parameter: inspect.Parameter | None) -> bool:
    """Whether the parameter `completions` says by its annotation that it holds lists of messages."""
    if parameter is None or isinstance(function, Conversational):
        return False
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else str(annotation)
    return text.replace("typing.", "").replace(" ", "").lower().startswith("list[list[")
