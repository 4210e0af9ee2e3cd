from __future__ import annotations

import pytest

from rlvr.verifiers import UserError, verify


@pytest.mark.parametrize(
    ("style", "completion", "rule"),
    [
        ("generated", "<think>a</think>b", None),
        ("generated", "\n  <think>\na\n</think>\n\nb", None),
        ("generated", "<think>a < b > c</think> <b>", None),
        ("generated", "b", "<think> stands 0 times"),
        ("generated", "a</think>b", "<think> stands 0 times"),
        ("generated", "<think>a b", "</think> stands 0 times"),
        ("generated", "<think>a</think>b<think>c</think>d", "<think> stands 2 times"),
        ("generated", "<think><think>a</think>b", "<think> stands 2 times"),
        ("generated", "<think>a</think>b</think>c", "</think> stands 2 times"),
        ("generated", "</think>a<think>b", "does not begin"),
        ("generated", "Well: <think>a</think>b", "does not begin"),
        ("generated", "<think></think>b", "the reasoning is empty"),
        ("generated", "<think> \n\t</think>b", "the reasoning is empty"),
        ("generated", "<think>a</think>", "nothing follows"),
        ("generated", "<think>a</think> \n", "nothing follows"),
        ("generated", "<Think>a</Think>b", "<think> stands 0 times"),
        ("generated", "", "<think> stands 0 times"),
        ("prefilled", "a</think>b", None),
        ("prefilled", "<think>a</think>b", "<think> stands 1 times"),
        ("prefilled", "a</think>b</think>c", "</think> stands 2 times"),
        ("prefilled", "a b", "</think> stands 0 times"),
        ("prefilled", " </think>b", "the reasoning is empty"),
        ("prefilled", "a</think> ", "nothing follows"),
        ("none", "a", None),
        ("none", "", "there is no text"),
        ("none", " \u200b\n", "there is no text"),
        ("auto", "", "there is no text"),
        ("none", "<think>a</think>b", "there should be none"),
        ("none", "a</think>", "there should be none"),
        ("none", "the tag `<think>` is not used", None),
        # Tags that are only talked about are none.
        ("generated", "<think>I close it with `</think>` later</think>b", None),
        ("generated", '<think>The form is "<think>...</think>", so</think>b', None),
        ("generated", "<think>Like\n```\n<think>x</think>\n```\n</think>b", None),
        ("generated", "<think>a</think>I wrote '</think>' above.", None),
        ("generated", "<think>It ends with '</think>'", "</think> stands 0 times"),
        ("generated", "`<think>`a</think>b", "<think> stands 0 times"),
        ("generated", '<think>an open " quote "a</think>b', None),
        ("generated", "<think>an open ` tick `a</think>b", None),
        ("generated", "<think>```\ncode without an end\n</think>\nb", None),
        ("generated", "<think>a</think></think>b", "</think> stands 2 times"),
        ("generated", "<think>a <think>b</think> c</think>d", "<think> stands 2 times"),
        ("generated", "< think >a< /think >b", "<think> stands 0 times"),
        ("generated", "<think>\u200b</think>b", "the reasoning is empty"),
        ("generated", "<think>a</think>\u200b\ufeff", "nothing follows"),
        ("prefilled", "the tag '</think>' ends it</think>b", None),
        ("auto", "<think>a</think>b", None),
        ("auto", "b", None),
        ("auto", "<think>a", "</think> stands 0 times"),
        ("auto", "a</think>b", "there should be none"),
    ],
)
def test_rules(style, completion, rule):
    verdict = verify("rlvr/think-v1", completion=completion, think=style)
    assert verdict.passed is (rule is None)
    assert verdict.score == float(rule is None)
    assert verdict.status == "ok"
    assert (rule or "") in verdict.detail
    assert bool(verdict.detail) is (rule is not None)


def test_generated_is_the_default():
    assert verify("rlvr/think-v1", completion="<think>a</think>b").passed


@pytest.mark.parametrize("prompt", ["2+2?<think>\n", [{"role": "assistant", "content": "<think>"}]])
def test_auto_with_a_prompt_that_opens_the_reasoning(prompt):
    assert verify("rlvr/think-v1", completion="a</think>b", think="auto", prompt=prompt).passed
    assert not verify("rlvr/think-v1", completion="b", think="auto", prompt=prompt).passed
    assert not verify("rlvr/think-v1", completion="<think>a</think>b", think="auto", prompt=prompt).passed


def test_auto_with_a_prompt_that_asks_for_tags():
    prompt = [{"role": "system", "content": "Think in <think> tags."}, {"role": "user", "content": "2+3?"}]
    for completion in ("5", "", "a</think>5"):
        assert not verify("rlvr/think-v1", completion=completion, think="auto", prompt=prompt).passed
    assert verify("rlvr/think-v1", completion="<think>a</think>5", think="auto", prompt=prompt).passed


def test_tags_of_the_prompt_are_not_the_completions():
    prompt = "Think between <think> and </think>, then answer: 2+2?"
    assert not verify("rlvr/think-v1", completion="4", prompt=prompt).passed
    assert verify("rlvr/think-v1", completion="<think>2 and 2</think>4", prompt=prompt).passed
    assert verify("rlvr/think-v1", completion=f"<think>{prompt} Well.</think>4", prompt=prompt).passed
    assert not verify("rlvr/think-v1", completion=f"<think>{prompt}</think>4", prompt=prompt).passed


def test_unknown_style():
    with pytest.raises(UserError, match="'generated'"):
        verify("rlvr/think-v1", completion="", think="genrated")


def test_megabytes():
    assert not verify("rlvr/think-v1", completion="<think>" * 300_000).passed
    assert verify("rlvr/think-v1", completion="<think>" + "a" * 2_000_000 + "</think>b").passed
    assert verify("rlvr/think-v1", completion="<think>" + "a`\"'" * 500_000 + "\n</think>b").passed
