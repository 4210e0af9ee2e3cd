"""The verifier of the form of the reasoning."""

from __future__ import annotations

from .extraction import THINK_CLOSE, THINK_OPEN, check_think_style
from .registry import verifier
from .verdict import Verdict


@verifier("rlvr/think-v1")
def think(completion: str, think: str = "generated") -> Verdict:
    """Whether the completion is one well-formed block of reasoning followed by an answer.

    - "generated": `<think>`, some text, `</think>`, some text; each tag once, and only white space before it.
    - "prefilled": some text, `</think>`, some text; the prompt holds the opening tag.
    - "none": no tag at all.

    Text of white space alone is no text. The score is 1 or 0, and `detail` says which rule was broken.

    Raises:
        UserError: `think` is no think style.
    """
    check_think_style(think)
    broken = _broken_rule(completion, think)
    return Verdict(float(broken is None), broken is None, detail=broken or "")


def _broken_rule(completion: str, think: str) -> str | None:
    opened, closed = completion.count(THINK_OPEN), completion.count(THINK_CLOSE)
    if think == "none":
        return "there are think tags, and there should be none" if opened or closed else None
    if opened != (1 if think == "generated" else 0):
        return f"{THINK_OPEN} stands {opened} times"
    if closed != 1:
        return f"{THINK_CLOSE} stands {closed} times"
    before, _, after = completion.partition(THINK_CLOSE)
    if think == "generated":
        if not before.lstrip().startswith(THINK_OPEN):
            return f"the completion does not begin with {THINK_OPEN}"
        before = before.lstrip().removeprefix(THINK_OPEN)
    if not before.strip():
        return "the reasoning is empty"
    if not after.strip():
        return "nothing follows the reasoning"
    return None
