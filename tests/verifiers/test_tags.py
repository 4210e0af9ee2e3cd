from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.verifiers.tags import tags


def written(text: str, name: str = "think") -> list[tuple[int, str]]:
    return [(tag.start, text[tag.start : tag.end]) for tag in tags(text, name)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>a</think>b", ["<think>", "</think>"]),
        ("</think><think>", ["</think>", "<think>"]),
        ("<Think>a</THINK> < think > <think > <thinking> think", []),
        # Talked about: in code, fenced or not, and in quotes.
        ("`<think>`", []),
        ("``<think> and </think>``", []),
        ("'</think>' and \"<think>\" and “</think>” and «<think>» and ‘</think>’", []),
        ('they say "end with </think> please"', []),
        ('("<think>a</think>")', []),
        ("```\n<think>\n</think>\n```\n</think>", ["</think>"]),
        ("~~~~text\n</think>\n~~~\n</think>\n~~~~\n</think>", ["</think>"]),
        ("````\n```python\n</think>\n```\n</think>\n````", []),
        # Quotes and code that never close, or close elsewhere, hide nothing.
        ('"a</think>b', ["</think>"]),
        ("`a</think>b", ["</think>"]),
        ('"a\n</think>b"', ["</think>"]),
        ('so it is "cat</think>"dog" it is', ["</think>"]),
        ('it is "cat"</think>"dog" it is', ["</think>"]),
        ("use `x</think>The value `y` is", ["</think>"]),
        ('5" long</think> and 6" wide', ["</think>"]),
        ("f'(x) and g'</think> h'(x)'", ["</think>"]),
        ("the 'most of students</think> the students' work", ["</think>"]),
        ('"' + "a" * 250 + '</think>b"', ["</think>"]),
        ("```\nx\n</think>\ny", ["</think>"]),
        ("```python\nx\n</think>\n```text\n42\n```", ["</think>"]),
        ("```\nx\n</think>\n```\n42\n```\n", ["</think>"]),
    ],
)
def test_what_is_a_tag(text, kept):
    assert [tag for _, tag in written(text)] == kept


def test_other_names_and_places():
    text = "<think> <answer>1</answer>"
    assert written(text, "answer") == [(8, "<answer>"), (17, "</answer>")]
    assert [tag.closing for tag in tags(text, "answer")] == [False, True]


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.sampled_from(["<think>", "</think>", '"', "'", "`", "```", "\n", " ", "a", "“", "”", "~~~"])))
def test_only_tags_that_stand_there_come_back_and_in_order(pieces):
    text = "".join(pieces)
    found = tags(text, "think")
    assert [tag.start for tag in found] == sorted({tag.start for tag in found})
    for tag in found:
        assert text[tag.start : tag.end] == ("</think>" if tag.closing else "<think>")
    if not set(text) & set("\"'`“~"):
        assert len(found) == text.count("think>")


@settings(deadline=None)  # the machine may be busy
@given(st.text(alphabet="ab .\"'`“\n", max_size=60))
def test_a_tag_on_a_line_of_its_own_is_real_unless_fences_stand_around_it(reasoning):
    assert "</think>" in [tag for _, tag in written(f"{reasoning}\n</think>\n42")] or "```" in reasoning
