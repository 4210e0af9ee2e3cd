"""What a chat template adds between two completions, and templates that rewrite what was said."""

from __future__ import annotations

import pytest

from rlvr import UserError
from rlvr.trainers.next_message import check_keeps_turns, message_ids, warn_if_rewritten
from rlvr.trainers.tiny import build_tokenizer

# The shapes of well-known templates, in the tiny tokenizer's special tokens.
CHATML = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
TRIMMING = CHATML.replace("m.content", "(m.content | trim)")
STRIPPING = CHATML.replace(
    "m.content", "(m.content.split('</think>')[-1] if m.role == 'assistant' and not loop.last else m.content)"
)
SPACED = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ '[U] ' + m.content + ' [/U]' }}"
    "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}"
)
PREFILLED = CHATML.replace("'<|assistant|>\n'", "'<|assistant|>\n<think>\n'")
PREFILLED_STRIPPING = STRIPPING.replace("'<|assistant|>\n' }}{% endif %}", "'<|assistant|>\n<think>\n' }}{% endif %}")
NO_REPLIES = "{% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}"
STRICT = "{% if messages | length > 1 %}{{ raise_exception('one message only') }}{% endif %}" + CHATML

ASKED = [{"role": "user", "content": "1+1="}]


@pytest.fixture
def with_template():
    def make(template=None):
        tokenizer = build_tokenizer()
        if template is not None:
            tokenizer.chat_template = template
        return tokenizer

    return make


def added(tokenizer, generated, observation="Higher.", messages=ASKED):
    return tokenizer.decode(message_ids(tokenizer, messages, observation, generated, {tokenizer.eos_token_id}))


@pytest.mark.parametrize(
    ("template", "with_eos", "without"),
    [
        (None, "<|user|>Higher.<|assistant|>", "<|end|><|user|>Higher.<|assistant|>"),
        (CHATML, "\n<|user|>\nHigher.<|end|>\n<|assistant|>\n", "<|end|>\n<|user|>\nHigher.<|end|>\n<|assistant|>\n"),
        (SPACED, "[U] Higher. [/U]", " <|end|>[U] Higher. [/U]"),
        (PREFILLED, "\n<|user|>\nHigher.<|end|>\n<|assistant|>\n<think>\n", None),
    ],
)
def test_the_end_of_a_turn_is_added_unless_the_model_generated_it(with_template, template, with_eos, without):
    tokenizer = with_template(template)
    three = tokenizer.encode("3")
    assert added(tokenizer, [*three, tokenizer.eos_token_id]) == with_eos
    if without is not None:
        assert added(tokenizer, three) == without
        assert added(tokenizer, []) == without


def test_another_eos_of_the_model_takes_the_templates_place(with_template):
    tokenizer = with_template(CHATML)
    other = tokenizer.convert_tokens_to_ids("<|pad|>")
    ids = message_ids(tokenizer, ASKED, "a", [other], {tokenizer.eos_token_id, other})
    assert tokenizer.decode(ids) == "\n<|user|>\na<|end|>\n<|assistant|>\n"


def test_an_eos_in_the_message_is_not_taken_for_the_turns(with_template):
    tokenizer = with_template("{% for m in messages %}{{ m.role[0] + m.content }}{% endfor %}>")
    assert added(tokenizer, [tokenizer.eos_token_id], "a<|end|>b") == "ua<|end|>b>"


def test_the_added_tokens_are_those_of_the_whole_conversation(with_template):
    """With what the model wrote put in between, the ids are those of the conversation rendered as a whole."""
    for template in (None, CHATML, TRIMMING):
        tokenizer = with_template(template)
        ids = list(tokenizer.apply_chat_template(ASKED, add_generation_prompt=True, return_dict=False))
        messages = list(ASKED)
        for guess, said in (("3", "Lower."), ("rlvr-probe", "rlvr-probe"), ("2", "Bye.")):
            generated = [*tokenizer.encode(guess), tokenizer.eos_token_id]
            ids += [*generated, *message_ids(tokenizer, messages, said, generated, {tokenizer.eos_token_id})]
            messages += [{"role": "assistant", "content": guess}, {"role": "user", "content": said}]
        whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert ids == list(whole)


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize("template", [None, CHATML, TRIMMING, PREFILLED])
def test_templates_that_keep_turns_pass(with_template, template, reasons):
    check_keeps_turns(with_template(template), ASKED, reasons)


@pytest.mark.parametrize("template", [STRIPPING, PREFILLED_STRIPPING])
def test_templates_that_strip_old_reasoning_are_refused_and_explained(with_template, template):
    with pytest.raises(UserError, match=r"rewrites earlier turns .*strips old reasoning.*set model\.chat_template"):
        check_keeps_turns(with_template(template), ASKED, reasons=True)


def test_without_reasoning_there_is_nothing_to_strip(with_template):
    check_keeps_turns(with_template(STRIPPING), ASKED, reasons=False)


def test_templates_that_leave_completions_out_or_take_no_conversation_are_refused(with_template):
    for template, words in ((NO_REPLIES, "rewrites"), (STRICT, "one message only")):
        with pytest.raises(UserError, match=words):
            check_keeps_turns(with_template(template), ASKED, reasons=False)
        with pytest.raises(UserError, match=words):
            added(with_template(template), [])


def test_reasoning_that_was_not_expected_is_warned_of(with_template, recwarn):
    said = [*ASKED, {"role": "assistant", "content": "<think>2?</think>3"}, {"role": "user", "content": "Lower."}]
    warn_if_rewritten(with_template(CHATML), said)
    warn_if_rewritten(with_template(TRIMMING), [*said, {"role": "assistant", "content": "  3 \n"}])
    assert not recwarn.list
    with pytest.warns(UserWarning, match="rewrites earlier turns"):
        warn_if_rewritten(with_template(STRIPPING), said)
