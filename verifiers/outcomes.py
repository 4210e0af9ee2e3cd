"""What became of a call of a verifier function: the values of a batch, and why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .patience import NotRun, OutOfPatience

# A message may quote a whole completion; a detail is a line of a log.
_LONGEST_MESSAGE = 500
_LONGEST_EXCERPT = 80


class NoScore(ValueError):
    """The function left this sample out."""


def values_of_batch(outcome: Any, count: int) -> list[Any]:
    """One value a row of what a batch function returned; its failure for every row where it is no list of them."""
    if isinstance(outcome, BaseException):
        return [outcome] * count
    if getattr(outcome, "ndim", None) == 1 and hasattr(outcome, "tolist"):
        outcome = outcome.tolist()
    if not isinstance(outcome, list | tuple):
        return [TypeError(f"returned {type(outcome).__name__}, not a list of {count} values")] * count
    if len(outcome) != count:
        return [ValueError(f"returned {len(outcome)} values for {count} completions")] * count
    return [NoScore() if value is None else value for value in outcome]


def explained(name: str, error: BaseException, row: Mapping[str, Any]) -> str:
    """The detail of a failed grading: the verifier, what happened, what to do where that is known, the sample."""
    return f"verifier {name!r} {_happened(error)} on {_sample(row)}"


def _happened(error: BaseException) -> str:
    if isinstance(error, OutOfPatience):
        return _ran_out(error)
    if isinstance(error, NotRun):
        return f"was not run, for {error.stuck} earlier calls of it still hang (give it timeout=, so that they end)"
    if isinstance(error, NoScore):
        return "gave no score for this sample"
    if isinstance(error, TimeoutError) and type(error).__name__ == "PoolTimeout":
        return str(error)
    message = f"{type(error).__name__}: {_text(error)}"[:_LONGEST_MESSAGE]
    return f"failed with {message}{_cure(message)}"


def _ran_out(error: OutOfPatience) -> str:
    if error.thread is not None:
        return (
            f"did not return within {error.limit:g} s and was left running in its thread (give it timeout=, so "
            "that it runs in a process that can be killed, or patience= for more time)"
        )
    return f"did not return within {error.limit:g} s"


def _cure(message: str) -> str:
    if "main thread" in message:
        return " (give it timeout=, so that it runs in the main thread of a process)"
    if "string indices must be integers" in message:
        return (
            " (if it reads completions[i][0]['content'], wrap it in rlvr.verifiers.foreign.trl(f, conversational=True))"
        )
    return ""


def _sample(row: Mapping[str, Any]) -> str:
    identity = next((row[key] for key in ("task_id", "id") if isinstance(row.get(key), str | int)), None)
    named = "" if identity is None else f"sample {str(identity)[:_LONGEST_EXCERPT]!r}, "
    completion = row.get("completion", "")
    text = completion[:_LONGEST_EXCERPT] if isinstance(completion, str) else type(completion).__name__
    dots = "..." if isinstance(completion, str) and len(completion) > _LONGEST_EXCERPT else ""
    return f"{named}completion {text!r}{dots}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "(a message that cannot be shown)"
