"""The verifier of the form of the reasoning."""

from __future__ import annotations

from .extraction import THINK_CLOSE, THINK_OPEN, resolve_think_style, without_prompt
from .registry import verifier
from .tags import tags
from .verdict import Verdict


@verifier("rlvr/think-v1")
def think(completion: str, think: str = "generated", prompt: object = None) -> Verdict:
    """Whether the completion is one well-formed block of reasoning followed by an answer.

    - "generated": `<think>`, some text, `</think>`, some text; each tag once, and only white space before it.
    - "prefilled": some text, `</think>`, some text; the prompt holds the opening tag.
    - "none": some text and no tag at all.
    - "auto": "prefilled" if `prompt` ends with `<think>`, "generated" if it mentions `<think>` anywhere else. Only
      where it does neither, the completion decides: "generated" if it opens a block, else "none". Without a prompt
      the policy thus chooses its style; name the style to demand one.

    Tags that are only talked about, in code or quotes, are none (`tags` has the rules), and neither are those of
    a copy of the prompt. Text without a visible character is no text. The score is 1 or 0, and `detail` says
    which rule was broken.

    Args:
        completion: what the model wrote.
        think: the think style.
        prompt: the rendered prompt, or chat messages.

    Raises:
        UserError: `think` is no think style.
    """
    own = without_prompt(completion, prompt)
    broken = _broken_rule(own, resolve_think_style(think, own, prompt))
    return Verdict(float(broken is None), broken is None, detail=broken or "")


def has_text(text: str) -> bool:
    """Whether a visible character stands in the text (zero-width ones are none)."""
    return any(character.isprintable() for character in text.strip() if not character.isspace())


def _broken_rule(completion: str, think: str) -> str | None:
    found = tags(completion, "think")
    if think == "none":
        if found:
            return "there are think tags, and there should be none"
        return None if has_text(completion) else "there is no text"
    closed = [tag for tag in found if tag.closing]
    opened = len(found) - len(closed)
    if opened != (1 if think == "generated" else 0):
        return f"{THINK_OPEN} stands {opened} times"
    if len(closed) != 1:
        return f"{THINK_CLOSE} stands {len(closed)} times"
    begin = 0
    if think == "generated":
        if found[0].closing or completion[: found[0].start].strip():
            return f"the completion does not begin with {THINK_OPEN}"
        begin = found[0].end
    if not has_text(completion[begin : closed[0].start]):
        return "the reasoning is empty"
    if not has_text(completion[closed[0].end :]):
        return "nothing follows the reasoning"
    return None
