"""Where in a completion the answer stands: after the reasoning, in the last box.

Everything here takes time linear in the completion's length, which is hostile text of any size.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from .errors import UserError
from .nearest import did_you_mean

ThinkStyle = Literal["none", "generated", "prefilled"]
"""How a completion holds its reasoning: not marked at all; in `<think>...</think>` that the model writes; or
up to a `</think>`, the `<think>` being the last thing in the prompt (some chat templates end with it)."""

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|\Z)")
# A backslash takes the next character with it, so that \{ and \} are no braces and \\} is a closing one.
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def check_think_style(think: str) -> None:
    """Raise UserError unless `think` is a ThinkStyle."""
    styles = get_args(ThinkStyle)
    if think not in styles:
        raise UserError(f"There is no think style {think!r}; {did_you_mean(str(think), styles)}")


def answer_region(completion: str, think: str) -> str | None:
    """The text after the reasoning: what follows the last `</think>`.

    None if the reasoning is still open where the completion ends: a `<think>` with no `</think>` after it, or
    no `</think>` at all where the prompt opened the reasoning. Without any tag, the reasoning having never
    begun, the region is the whole completion.

    Raises:
        UserError: `think` is no think style.
    """
    check_think_style(think)
    _, close, region = completion.rpartition(THINK_CLOSE)
    if THINK_OPEN in region or (think == "prefilled" and not close):
        return None
    return region


def has_box(text: str) -> bool:
    r"""Whether a `\boxed{` or `\fbox{` begins anywhere in the text.

    A bare `\boxed` at its very end counts, being a box that was cut off.
    """
    return _BOX.search(text) is not None


def last_boxed(text: str) -> str | None:
    r"""The stripped content of the `\boxed{...}` or `\fbox{...}` that begins last; of nested ones, the
    innermost.

    None if there is no box, and also if the last one is empty or never closes: an earlier box is no
    substitute, since the model went on after it.
    """
    start = None
    for box in _BOX.finditer(text):
        start = box.end()
    if start is None:
        return None
    depth = 1
    for brace in _BRACE.finditer(text, start):
        if brace.group() == "{":
            depth += 1
        elif brace.group() == "}":
            depth -= 1
            if depth == 0:
                return text[start : brace.start()].strip() or None
    return None
