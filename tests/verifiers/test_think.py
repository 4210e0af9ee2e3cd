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
        ("none", "", None),
        ("none", "<think>a</think>b", "there should be none"),
        ("none", "a</think>", "there should be none"),
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


def test_unknown_style():
    with pytest.raises(UserError, match="'generated'"):
        verify("rlvr/think-v1", completion="", think="genrated")


def test_megabytes():
    assert not verify("rlvr/think-v1", completion="<think>" * 300_000).passed
    assert verify("rlvr/think-v1", completion="<think>" + "a" * 2_000_000 + "</think>b").passed
