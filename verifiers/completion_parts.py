"""Cutting a completion into its reasoning and its answer, for the verifiers that look at one of them."""

from __future__ import annotations

from typing import Literal, get_args

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .extraction import answer_region, resolve_think_style
from .tags import tags

CompletionPart = Literal["all", "reasoning", "answer"]
"""All of the completion; its reasoning; or what follows the reasoning."""


def completion_part(completion: str, part: str, think: str, prompt: object = None) -> str:
    """The text of one part of a completion, without think tags.

    - "all": everything.
    - "answer": what follows the reasoning; nothing where the reasoning never closed.
    - "reasoning": what stands before that; of a completion without any tag, everything, since nothing in it
      is marked off as an answer.

    Args:
        completion: what the model wrote.
        part: which part.
        think: the think style.
        prompt: the rendered prompt or chat messages, which "auto" looks at.

    Raises:
        UserError: `part` or `think` is not one of the possible values.
    """
    parts = get_args(CompletionPart)
    if part not in parts:
        raise UserError(f"There is no part {part!r} of a completion; {did_you_mean(str(part), parts)}")
    answer = answer_region(completion, resolve_think_style(think, completion, prompt))
    if part == "answer":
        return answer or ""
    end = len(completion) if part == "all" or answer is None else len(completion) - len(answer)
    return _without_tags(completion, end or len(completion))


def _without_tags(completion: str, end: int) -> str:
    """The first `end` characters, with a new line for each think tag."""
    pieces, position = [], 0
    for tag in tags(completion, "think"):
        if tag.end > end:
            break
        pieces.append(completion[position : tag.start])
        position = tag.end
    pieces.append(completion[position:end])
    return "\n".join(pieces)
