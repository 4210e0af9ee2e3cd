"""What a chat template writes between two completions of a conversation, as token ids.

The ids so far stay as they were sampled; what is added is read off the difference that the next message makes to the
rendered conversation.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from typing import Any

from jinja2 import TemplateError

from ..verifiers import UserError

Messages = Sequence[dict[str, str]]

_PROBE = "rlvr-probe"
_REASONING = "<think>\nrlvr-reasoning\n</think>\n\n"
_OPENED = re.compile(r"<think>\s*\Z")
_WHAT_TO_DO = (
    "set model.chat_template to a Jinja file that leaves earlier messages as they are, the environment's option think "
    "to none if the model does not reason, or max_turns to 1"
)
_EXPLANATION = (
    "The chat template rewrites earlier turns (it strips old reasoning, say), so a conversation that is rendered anew "
    f"is not the one that the policy was trained on; {_WHAT_TO_DO}."
)


def check_keeps_turns(tokenizer: Any, messages: Messages, reasons: bool) -> None:
    """Try whether the chat template leaves a completion as it is once another message follows.

    Args:
        tokenizer: has the template.
        messages: the first prompt of a conversation.
        reasons: whether the completions hold reasoning in `<think>` tags.

    Raises:
        UserError: if the template rewrites it (as those that strip old reasoning do), or takes no such conversation.
    """
    before = _render(tokenizer, messages)
    opened = _OPENED.search(before)
    closing = _REASONING.removeprefix("<think>\n") if opened else _REASONING
    completion = (closing if reasons else "") + _PROBE
    # A reasoning block that the prompt opens may be part of the message's text, or be written by the template.
    texts = [completion] if opened is None else [completion, opened[0] + completion]
    rendered = [_render(tokenizer, _followed(messages, text, "?")) for text in texts]
    if not any(text.startswith(before + completion) for text in rendered):
        raise UserError(_EXPLANATION)


def warn_if_rewritten(tokenizer: Any, messages: Messages) -> None:
    """Warn if the template rewrites what the model wrote: reasoning that it was not expected to write, say.

    The episode goes on with the tokens as sampled, but whoever renders this conversation anew would show the model
    another one.
    """
    rendered, position = _render(tokenizer, messages), 0
    for message in messages:
        if message["role"] == "assistant":
            written = message["content"].strip()
            position = rendered.find(written, position)
            if position < 0:
                warnings.warn(_EXPLANATION, stacklevel=2)
                return
            position += len(written)


def message_ids(
    tokenizer: Any, messages: Messages, observation: str, generated: Sequence[int], eos_ids: Collection[int]
) -> list[int]:
    """The tokens from the end of a completion to where the model is to speak again.

    They are what the template writes after a completion: the end of the turn, so far as the model has not generated
    it, the new message and the opening of the next turn.

    Args:
        tokenizer: has the template.
        messages: the conversation up to the completion, without it.
        observation: the new message.
        generated: the completion's token ids.
        eos_ids: every id that ends a completion.

    Raises:
        UserError: if the template takes no such conversation, or leaves the completion out.
    """
    probe = _PROBE
    while any(probe in text for text in (observation, *(message["content"] for message in messages))):
        probe += "."
    rendered = _render(tokenizer, _followed(messages, probe, observation))
    _, found, rest = rendered.rpartition(probe)
    if not found:
        raise UserError(_EXPLANATION)
    # Encoded with the end of the turn in front, since what stands before a text decides how some tokenizers read it.
    ids = _encode(tokenizer, rest)
    if not generated or generated[-1] not in eos_ids:
        return ids
    end = next((place for place, token in enumerate(ids) if token in eos_ids), None)
    # The end that the model generated takes the place of the template's.
    return ids if end is None or tokenizer.decode(ids[:end]).strip() else ids[end + 1 :]


def _followed(messages: Messages, completion: str, observation: str) -> list[dict[str, str]]:
    said = [{"role": "assistant", "content": completion}, {"role": "user", "content": observation}]
    return [*messages, *said]


def _render(tokenizer: Any, messages: Messages) -> str:
    try:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
    except TemplateError as error:
        raise UserError(
            f"The chat template refuses a conversation of {len(messages)} messages ({error}); {_WHAT_TO_DO}."
        ) from None


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
