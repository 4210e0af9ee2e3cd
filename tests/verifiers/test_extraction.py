from __future__ import annotations

import pytest

from rlvr.verifiers import UserError
from rlvr.verifiers.extraction import answer_region, has_box, last_boxed


@pytest.mark.parametrize(
    ("completion", "think", "region"),
    [
        ("<think>a</think> b", "generated", " b"),
        ("a</think> b", "prefilled", " b"),
        ("a b", "none", "a b"),
        ("a b", "generated", "a b"),
        ("", "none", ""),
        ("<think>a</think>b<think>c</think>d", "generated", "d"),
        ("<think>a</think>", "generated", ""),
        ("<think>a</think> b", "none", " b"),
        # The reasoning never closed.
        ("<think>a", "generated", None),
        ("<think>a", "none", None),
        ("<think>a</think> b <think> c", "generated", None),
        ("a</think> b <think> c", "prefilled", None),
        ("a b", "prefilled", None),
        ("", "prefilled", None),
        ("a <think>b", "prefilled", None),
        # Tags as they are, and no others.
        ("<THINK>a</THINK>b", "none", "<THINK>a</THINK>b"),
    ],
)
def test_answer_region(completion, think, region):
    assert answer_region(completion, think) == region


def test_unknown_think_style():
    with pytest.raises(UserError, match="'prefilled'"):
        answer_region("", "prefiled")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\fbox{7}", "7"),
        (r"\boxed{1} \fbox{7}", "7"),
        (r"\boxed {7}", "7"),
        ("\\boxed\n {7}", "7"),
        (r"\boxed{ 7 }", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\frac{\sqrt{3}}{2}} {", r"\frac{\sqrt{3}}{2}"),
        (r"\boxed{\{1\}}", r"\{1\}"),
        (r"\boxed{\}}", r"\}"),
        (r"\boxed{\{}", r"\{"),
        (r"\boxed{a\\}", r"a\\"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\\boxed{5}", "5"),
        ("\\boxed{a\nb}", "a\nb"),
        # No answer, rather than the box before.
        (r"\boxed{12}. Rechecking gives \boxed{1", None),
        (r"\boxed{12}. Rechecking gives \boxed{1\}", None),
        (r"\boxed{12}. Rechecking gives \boxed", None),
        (r"\boxed{12}. Finally \boxed{}", None),
        (r"\boxed{12}. Finally \boxed{  }", None),
        (r"\boxed{5 \boxed{}", None),
        (r"\boxed{{5}", None),
        ("no box", None),
        ("boxed{5}", None),
        (r"\boxedtext{5}", None),
        (r"\boxed\{5\}", None),
        ("", None),
    ],
)
def test_last_boxed(text, content):
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{", True),
        (r"\boxed{}", True),
        (r"we reach \boxed", True),
        (r"put it in \boxed as asked", False),
        ("boxed", False),
    ],
)
def test_has_box(text, found):
    assert has_box(text) is found


# Each of these takes hours in quadratic time and well under a second in linear time.
MEGABYTES = 2_000_000


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{" * (MEGABYTES // 7), None),
        (r"\boxed{" * (MEGABYTES // 7) + "5" + "}" * (MEGABYTES // 7), "5"),
        (r"\boxed{" + "{" * MEGABYTES, None),
        (r"\boxed{" + "{" * MEGABYTES + "}" * MEGABYTES + "}", "{" * MEGABYTES + "}" * MEGABYTES),
        (r"\boxed{" + "\\" * MEGABYTES + "}", "\\" * MEGABYTES),
        (r"\boxed" + " " * MEGABYTES, None),
        ((r"\boxed" + " " * 1000) * (MEGABYTES // 1000), None),
        (r"\boxed" * (MEGABYTES // 6), None),
    ],
    ids=["opened", "nested", "braces", "deep", "backslashes", "spaces", "spaced", "bare"],
)
def test_megabytes_of_hostile_text(text, content):
    assert last_boxed(text) == content


def test_megabytes_of_tags():
    assert answer_region("<think>" * (MEGABYTES // 7), "generated") is None
    assert answer_region("</think>" * (MEGABYTES // 8), "generated") == ""
    assert answer_region("<think></think>" * (MEGABYTES // 15) + "x", "generated") == "x"
