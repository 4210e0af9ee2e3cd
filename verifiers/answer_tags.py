"""The verifier of answers between tags."""

from __future__ import annotations

from typing import Literal, get_args

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .extraction import answer_region, resolve_think_style, without_prompt
from .registry import verifier
from .tags import tags
from .think import has_text
from .verdict import Verdict

Outside = Literal["none", "before", "anywhere"]
"""Where text may stand between the reasoning and the end, outside the tags."""


@verifier("rlvr/answer-tags-v1")
def answer_tags(completion: str, think: str = "generated", outside: str = "before", prompt: object = None) -> Verdict:
    """Whether the completion gives its answer in `<answer>...</answer>`.

    After the reasoning (all of the completion if there is none) each of the two tags stands once, in this order
    and with some text between them. Tags inside the reasoning do not count, nor those that are only talked about
    (`tags` has the rules) or belong to a copy of the prompt. The form of the reasoning is for `rlvr/think-v1` to
    check; one that never ends leaves no answer. The score is 1 or 0, and `detail` says which rule was broken.

    Args:
        completion: what the model wrote.
        think: the think style.
        outside: where other text may stand after the reasoning: "none"; "before" the opening tag only; "anywhere".
        prompt: the rendered prompt, or chat messages.

    Raises:
        UserError: `think` or `outside` is not one of the possible values.
    """
    if outside not in get_args(Outside):
        raise UserError(f"There is no outside={outside!r}; {did_you_mean(str(outside), get_args(Outside))}")
    own = without_prompt(completion, prompt)
    region = answer_region(own, resolve_think_style(think, own, prompt))
    broken = "the reasoning never closed" if region is None else _broken_rule(region, outside)
    return Verdict(float(broken is None), broken is None, detail=broken or "")


def _broken_rule(region: str, outside: str) -> str | None:
    found = tags(region, "answer")
    closed = sum(tag.closing for tag in found)
    for name, count in (("<answer>", len(found) - closed), ("</answer>", closed)):
        if count != 1:
            return f"{name} stands {count} times after the reasoning"
    opening, closing = found
    if opening.closing:
        return "</answer> stands before <answer>"
    if not has_text(region[opening.end : closing.start]):
        return "the answer is empty"
    if outside == "none" and has_text(region[: opening.start]):
        return "text stands before <answer>"
    if outside != "anywhere" and has_text(region[closing.end :]):
        return "text stands after </answer>"
    return None
