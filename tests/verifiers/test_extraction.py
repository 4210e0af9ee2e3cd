from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.verifiers import UserError
from rlvr.verifiers.extraction import (
    answer_region,
    boxes,
    check_fallback,
    last_word_with_digit,
    resolve_think_style,
    think_style_of,
    without_prompt,
)


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
        ("<think>a</think> b", "auto", " b"),
        ("a</think> b", "auto", " b"),
        ("a b", "auto", "a b"),
        # The reasoning never closed.
        ("<think>a", "generated", None),
        ("<think>a", "none", None),
        ("<think>a", "auto", None),
        ("<think>a</think> b <think> c", "generated", None),
        ("a</think> b <think> c", "prefilled", None),
        ("a b", "prefilled", None),
        ("", "prefilled", None),
        ("a <think>b", "prefilled", None),
        # Tags as they are, and no others.
        ("<THINK>a</THINK>b", "none", "<THINK>a</THINK>b"),
        ("<think>the tag '</think>' ends it</think>b", "generated", "b"),
        ("<think>the tag `</think>` ends it", "generated", None),
        ("<think>a</think>b `<think>` c", "generated", "b `<think>` c"),
        ('<think>"a</think>b', "generated", "b"),
        ("say `</think>` b", "prefilled", None),
    ],
)
def test_answer_region(completion, think, region):
    assert answer_region(completion, think) == region


def test_unknown_options():
    with pytest.raises(UserError, match="'prefilled'"):
        answer_region("", "prefiled")
    with pytest.raises(UserError, match="'auto'"):
        resolve_think_style("autos", "")
    with pytest.raises(UserError, match="'last_number'"):
        check_fallback("last_numbr")


@pytest.mark.parametrize(
    ("template", "style"),
    [
        ("{{ m['content'] }}{% if add_generation_prompt %}{{'<|Assistant|><think>\\n'}}{% endif %}", "prefilled"),
        ("{%- if add_generation_prompt %}\n  {{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}\n", "prefilled"),
        ('{% if add_generation_prompt %}{{ "<think>" }}{% endif %}{# the end #}', "prefilled"),
        ("{{ x }}{% if add_generation_prompt %}<|assistant|>\n<think>\n{% endif %}", "prefilled"),
        (
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is false %}"
            "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}",
            "generated",
        ),
        ("{{ 'Think in <think> tags.' }}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}", "generated"),
        ("{{ m['content'].split('</think>')[-1] }}{{ '<think>' }}{{ x }}", "generated"),
        ("{% for m in messages %}{{ m['content'] }}{% endfor %}{{ 'assistant\\n' }}", "none"),
        # Rendered.
        ("<|user|>hi<|assistant|><think>\n", "prefilled"),
        ("<|user|>hi<|assistant|><think>", "prefilled"),
        ("<|system|>Use <think> and </think>.<|user|>hi<|assistant|>", "generated"),
        ("<|user|>hi<|assistant|><think>\n\n</think>\n\n", "none"),
        ("<|user|>hi<|assistant|>", "none"),
        ("", "none"),
    ],
)
def test_the_think_style_of_a_chat_template_or_a_rendered_prompt(template, style):
    assert think_style_of(template) == style


@pytest.mark.parametrize(
    ("completion", "prompt", "style"),
    [
        ("a</think>b", "Hi. <think>\n", "prefilled"),
        ("a</think>b", [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>"}], "prefilled"),
        ("<think>a</think>b", "Hi.", "generated"),
        ("<think>a</think>b", None, "generated"),
        ("b", "Think in <think> tags.", "generated"),
        ("b", [{"role": "system", "content": "Use <think>."}, {"role": "user", "content": "Hi"}], "generated"),
        ("<think>a</think>b", "Hi.<think>\n\n</think>\n\n", "none"),
        ("write `<think>`", None, "none"),
        ("b", 7, "none"),
        ("b", [7, {"content": None}], "none"),
    ],
)
def test_auto_is_read_off_the_prompt_and_the_completion(completion, prompt, style):
    assert resolve_think_style("auto", completion, prompt) == style
    assert resolve_think_style("generated", completion, prompt) == "generated"


def test_copies_of_the_prompt_are_left_out():
    prompt = "What is 6*7? Answer in \\boxed{}.\n"
    assert without_prompt(f"{prompt}It is 42. {prompt.strip()} 43", prompt) == "\n\nIt is 42. \n 43"
    assert without_prompt(f"a {prompt.strip()}", [{"role": "user", "content": prompt}]) == "a \n"
    assert without_prompt("6*7", "6*7") == "6*7"
    assert without_prompt("What is 6*7?", prompt) == "What is 6*7?"
    assert without_prompt("a", None) == "a"


def test_lines_of_the_prompt_that_announce_nothing_stay():
    prompt = "There are 6 rows of 7 chairs. How many chairs are there? Answer in \\boxed{}, as in \\boxed{1}."
    solution = "There are 6 rows of 7 chairs. That makes \\boxed{42}."
    assert without_prompt(solution, prompt) == solution
    assert without_prompt("There are 6 rows of 7 chairs.", prompt) == "There are 6 rows of 7 chairs."


def test_megabytes_of_a_prompts_sentences():
    prompt = "For example, \\boxed{5}. " * 50_000 + "Now you."
    assert without_prompt(prompt[:-4], prompt) == ""
    assert "5" not in without_prompt("x" + prompt + "y", prompt.replace("Now", "And"))


# None for no box at all, and "" for one that is empty or never closes.
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
        ("\\boxed{a\nb}", "a\nb"),
        (r"} \boxed{5} {", "5"),
        # Inside each other: the outermost closed one, unwrapped.
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{\fbox{\boxed{ 5 }}}", "5"),
        (r"\boxed{x = \boxed{5}}", "x =  5"),
        (r"\boxed{\boxed{4}2}", "4 2"),
        (r"\boxed{12 then \boxed{13}", "13"),
        # A backslash escaped once too often.
        (r"\\boxed{5}", "5"),
        (r"\boxed{\\boxed{5}}", "5"),
        (r"x \\\boxed{5}", "5"),
        # Without braces.
        (r"\boxed 5", "5"),
        (r"\boxed5.", "5"),
        (r"\boxed -12.5, so", "-12.5"),
        (r"\boxed 1,234, so", "1,234"),
        (r"\boxed\frac12", r"\frac12"),
        (r"\boxed \dfrac{\sqrt{3}}{2}", r"\dfrac{\sqrt{3}}{2}"),
        (r"\boxed\sqrt[3]{2}", r"\sqrt[3]{2}"),
        (r"\boxed\text{yes}", r"\text{yes}"),
        (r"$\boxed C$", "C"),
        (r"\boxed(1,2)", "(1,2)"),
        # No answer, rather than the box before.
        (r"\boxed{12}. Rechecking gives \boxed{1", ""),
        (r"\boxed{12}. Rechecking gives \boxed{1\}", ""),
        (r"\boxed{12}. Rechecking gives \boxed", ""),
        (r"\boxed{12}. Finally \boxed{}", ""),
        (r"\boxed{12}. Finally \boxed{  }", ""),
        (r"\boxed{5 \boxed{}", ""),
        (r"\boxed{5 \boxed{}}", ""),
        (r"\boxed{{5}", ""),
        (r"\boxed{", ""),
        (r"we reach \boxed", ""),
        # No box.
        ("no box", None),
        ("boxed{5}", None),
        (r"\boxedtext{5}", None),
        (r"\boxed\{5\}", None),
        (r"put it in \boxed as asked", None),
        (r"a \boxed answer is asked for", None),
        ("", None),
    ],
)
def test_the_last_box(text, content):
    found = boxes(text)
    assert (found[-1].content or "" if found else None) == content


def test_boxes_say_where_they_stand():
    text = r"\boxed{1}, \boxed{\boxed{2}} and \boxed 3 or \boxed{"
    assert [text[box.start : box.end] for box in boxes(text)] == [
        r"\boxed{1}",
        r"\boxed{\boxed{2}}",
        r"\boxed 3",
        r"\boxed{",
    ]
    assert [box.content for box in boxes(text)] == ["1", "2", "3", None]


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
        (r"\boxed\frac{" * (MEGABYTES // 12) + r"\boxed{5}", "5"),
        (r"\boxed{1 " * (MEGABYTES // 9) + r"\boxed{5}", "5"),
    ],
    ids=["opened", "nested", "braces", "deep", "backslashes", "spaces", "spaced", "bare", "unbraced", "never"],
)
def test_megabytes_of_hostile_text(text, content):
    assert boxes(text)[-1].content == content


def test_megabytes_of_tags():
    assert answer_region("<think>" * (MEGABYTES // 7), "generated") is None
    assert answer_region("</think>" * (MEGABYTES // 8), "generated") == ""
    assert answer_region("<think></think>" * (MEGABYTES // 15) + "x", "generated") == "x"
    # Of an odd number of quotes the last one only opens, and the tag after it is real.
    assert answer_region('<think>"</think>' * (MEGABYTES // 16) + "x", "generated") is not None
    assert answer_region("<think>" + "```\n</think>\n" * (MEGABYTES // 13), "generated") == "\n"


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.sampled_from([r"\boxed", r"\fbox", "{", "}", "\\", "5", " ", "a", ".", r"\frac", "[", "("])))
def test_boxes_of_any_text(pieces):
    text = "".join(pieces)
    position = 0
    for box in boxes(text):
        assert position <= box.start < box.end <= len(text)
        assert text[box.start : box.end].lstrip("\\").startswith(("boxed", "fbox"))
        assert box.content is None or box.content == box.content.strip() != ""
        position = box.end


def test_the_last_word_with_a_digit():
    assert last_word_with_digit("It is 41, no, **42**.") == "42"
    assert last_word_with_digit(r"so \(x=42\).") == "42"
    assert last_word_with_digit("none") is None
