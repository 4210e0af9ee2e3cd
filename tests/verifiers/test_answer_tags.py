from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# Importing the module registers the verifier.
import rlvr.verifiers.answer_tags  # noqa: F401
from rlvr.verifiers import UserError, verify


def check(completion: str, **options: object) -> str:
    """The rule that was broken, empty if none was."""
    verdict = verify("rlvr/answer-tags-v1", completion=completion, **options)
    assert verdict.status == "ok"
    assert verdict.passed is (verdict.detail == "")
    assert verdict.score == float(verdict.passed)
    return verdict.detail


@pytest.mark.parametrize(
    ("completion", "rule"),
    [
        ("<answer>42</answer>", ""),
        ("<think>a</think>\n<answer>\n42\n</answer>\n", ""),
        ("<think>a</think>So: <answer>42</answer>", ""),
        ("<think>maybe <answer>41</answer></think><answer>42</answer>", ""),
        ("<answer>the tag `<answer>` it is</answer>", ""),
        ("42", "<answer> stands 0 times"),
        ("", "<answer> stands 0 times"),
        ("<answer>42", "</answer> stands 0 times"),
        ("42</answer>", "<answer> stands 0 times"),
        ("</answer>42<answer>", "before <answer>"),
        ("<answer>41</answer><answer>42</answer>", "<answer> stands 2 times"),
        ("<answer><answer>42</answer></answer>", "<answer> stands 2 times"),
        ("<answer>42</answer></answer>", "</answer> stands 2 times"),
        ("<answer></answer>", "the answer is empty"),
        ("<answer> \n\u200b</answer>", "the answer is empty"),
        ("<answer>42</answer>.", "text stands after"),
        ("<think><answer>42</answer></think>", "<answer> stands 0 times"),
        ("<think>a <answer>42</answer>", "the reasoning never closed"),
        ("<Answer>42</Answer>", "<answer> stands 0 times"),
        ("`<answer>42</answer>`", "<answer> stands 0 times"),
        ("```\n<answer>42</answer>\n```", "<answer> stands 0 times"),
    ],
)
def test_rules(completion, rule):
    detail = check(completion)
    assert rule in detail
    assert bool(rule) is bool(detail)


@pytest.mark.parametrize(
    ("outside", "before", "after"), [("none", False, False), ("before", True, False), ("anywhere", True, True)]
)
def test_where_other_text_may_stand(outside, before, after):
    assert (check("<think>x</think>a <answer>42</answer>", outside=outside) == "") is before
    assert (check("<think>x</think><answer>42</answer> b", outside=outside) == "") is after
    assert check("<think>x</think>\n<answer>42</answer>\n", outside=outside) == ""


def test_think_styles_and_the_prompt():
    assert check("<answer>42</answer>", think="prefilled") == "the reasoning never closed"
    assert check("a</think><answer>42</answer>", think="prefilled") == ""
    assert check("<answer>42</answer>", think="auto", prompt="2+2?<think>") == "the reasoning never closed"
    prompt = "Answer between <answer> and </answer>: 6*7?"
    assert check(f"{prompt} <answer>42</answer>", prompt=prompt) == ""
    assert "<answer> stands 0 times" in check(prompt, prompt=prompt)


def test_wrong_options():
    with pytest.raises(UserError, match="'anywhere'"):
        check("", outside="anywere")
    with pytest.raises(UserError, match="'none'"):
        check("", think="non")


def test_megabytes():
    assert "times" in check("<answer>" * 200_000)
    assert check("<answer>" + "4" * 2_000_000 + "</answer>") == ""
    assert "times" in check('"<answer></answer>' * 60_000)


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=80))
def test_no_completion_makes_it_fail(text):
    check(text)
    check(f"<answer>{text}</answer>")
