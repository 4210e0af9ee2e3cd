from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.verifiers import UserError
from rlvr.verifiers.commitment import Commitment, commitment

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "math.jsonl"


def read(completion: str, **options: object) -> tuple[str, str, tuple[str, ...]]:
    """How the answers are joined, where they were found, and their texts."""
    found = commitment(completion, **options)
    assert isinstance(found, Commitment), found
    return found.joined, found.source, found.answers


def one(completion: str, **options: object) -> str | None:
    """The one answer; None if there is none."""
    found = commitment(completion, **options)
    if not isinstance(found, Commitment):
        return None
    assert found.joined == "one", found
    (answer,) = found.answers
    return answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"The answer is \boxed{42}.", "42"),
        (r"The answer is 41. \boxed{42}", "42"),
        (r"so $\boxed{42}$, as $6 \cdot 7 = 42$. Check: 40 + 2.", "42"),
        ("\\[\n\\boxed{42}\n\\] This took 3 steps.", "42"),
        ("\\begin{align*}x&=6\\\\&=\\boxed{42}\\end{align*}", "42"),
        (r"**\boxed{42}**", "42"),
        (r"\boxed{\boxed{42}}", "42"),
        (r"\\boxed{42}", "42"),
        (r"\boxed 42.", "42"),
        (r"\fbox{42}", "42"),
        (r"\boxed{\text{The answer is } 5}", "5"),
        (r"\boxed{\text{Answer: }5}", "5"),
        (r"<think>\boxed{41}</think>\boxed{42}", "42"),
        (r"<think>\boxed{41}</think> Hm.", None),
        (r"<think>\boxed{42}", None),
        # Nothing replaces an empty or unterminated last box.
        (r"\boxed{42}. Finally \boxed{}", None),
        (r"\boxed{42}. Rechecking gives \boxed{4", None),
        (r"\boxed{} The answer is 42. #### 42", None),
        (r"Put your final answer in \boxed{}.", None),
        (r"Put your final answer in \boxed{}. It is \boxed{42}.", "42"),
        # A later correction wins, however it is worded.
        (r"\boxed{42}. Hold on, the total must include the last row, which gives \boxed{41}", "41"),
        (r"\boxed{42}. No, \boxed{41}", "41"),
        (r"\boxed{42}. Or rather, \boxed{41}", "41"),
        (r"\boxed{6} apples a day, so in a week \boxed{42}", "42"),
        (r"\boxed{42}. Yes, the answer is \boxed{42}.", "42"),
        # Denied boxes are passed over.
        (r"It is \boxed{42}, not \boxed{41}.", "42"),
        (r"It is not \boxed{41} but \boxed{42}.", "42"),
        (r"The answer is not \boxed{42}", None),
        (r"$x \neq \boxed{42}$", None),
        (r"\boxed{42} is wrong.", None),
        (r"$\boxed{42}$, but that is incorrect.", None),
        (r"\boxed{42}? No.", None),
        (r"It is \boxed{41}. A tempting \boxed{42} is a common mistake.", "41"),
        (r"\boxed{42} is what you would get if you forgot the carry. Final answer: 41", "41"),
        (r"\boxed{42}. Wait, that is wrong. The answer is 41.", "41"),
        # Sentences after the box that announce no other value.
        (r"\boxed{42}. The answer is correct.", "42"),
        (r"\boxed{42}. The answer is consistent with the estimate of 40.", "42"),
        (r"\boxed{12}. So the answer is (C).", "12"),
        (r"The user might expect the final answer is 42. I hope not. \boxed{17}", "17"),
    ],
)
def test_one_box(completion, answer):
    assert one(completion) == answer


@pytest.mark.parametrize(
    ("completion", "joined", "answers"),
    [
        (r"The solutions are \boxed{1} and \boxed{-2}.", "list", ("1", "-2")),
        (r"\boxed{1}, \boxed{-2} and \boxed{3}", "list", ("1", "-2", "3")),
        (r"$\boxed{1}$, $\boxed{2}$, and $\boxed{3}$", "list", ("1", "2", "3")),
        (r"$\boxed{1} \text{ and } \boxed{-2}$", "list", ("1", "-2")),
        (r"$x = \boxed{1}$, $y = \boxed{2}$", "list", ("1", "2")),
        (r"(a) \boxed{3} (b) \boxed{4}", "list", ("3", "4")),
        (r"The solutions are \boxed{1} or \boxed{2}.", "list", ("1", "2")),
        (r"$x = \boxed{1}$ or $x = \boxed{2}$", "list", ("1", "2")),
        (r"The first root is \boxed{1}. The other root is \boxed{2}.", "list", ("1", "2")),
        ("The roots are\n$\\boxed{1}$\n$\\boxed{2}$", "list", ("1", "2")),
        # The list begins anew after a correction.
        (r"It is \boxed{7}. On second thought there are two of them: \boxed{1} and \boxed{2}", "list", ("1", "2")),
        (r"\boxed{41}\boxed{42}", "rival", ("41", "42")),
        (r"\boxed{4}$\boxed{2}$", "rival", ("4", "2")),
        ("\\boxed{41}\n\n\\boxed{42}", "rival", ("41", "42")),
        (r"\boxed{41}. \boxed{42}.", "rival", ("41", "42")),
        (r"Either \boxed{41} or \boxed{42}.", "rival", ("41", "42")),
        (r"The answers are either \boxed{41} or \boxed{42}.", "rival", ("41", "42")),
        (r"\boxed{41} or \boxed{42}", "rival", ("41", "42")),
        (r"\boxed{41} (or perhaps \boxed{42})", "rival", ("41", "42")),
        (r"\boxed{41}/\boxed{42}", "rival", ("41", "42")),
        (r"Maybe \boxed{41}. Maybe \boxed{42}.", "rival", ("41", "42")),
        (r"It is \boxed{41}. Another candidate is \boxed{42}.", "rival", ("41", "42")),
        (r"It is \boxed{1/2}, that is, \boxed{0.5}", "rival", ("1/2", "0.5")),
        (r"$\boxed{\frac12} = \boxed{0.5}$", "rival", (r"\frac12", "0.5")),
        (r"\boxed{1/2}, or equivalently \boxed{0.5}", "rival", ("1/2", "0.5")),
        (r"\boxed{1/2} (i.e. \boxed{50\%})", "rival", ("1/2", r"50\%")),
        # What is announced afterwards stands beside the box.
        (r"\boxed{41} The final answer is 42. I hope it is correct.", "rival", ("41", "42")),
        ("\\boxed{41}\n#### 42", "rival", ("41", "42")),
        (r"\boxed{41} <answer>42</answer>", "rival", ("41", "42")),
        (r"\boxed{42}. So the answer is 42 because 6*7 is.", "rival", ("42", "42")),
        (r"\boxed{C}. The answer is (D).", "rival", ("C", "(D)")),
        (r"\boxed{1} and \boxed{2}. The answer is 3.", "rival", ("1, 2", "3")),
    ],
)
def test_several_boxes(completion, joined, answers):
    assert read(completion) == (joined, "box", answers)


def test_boxes_without_end_side_by_side_are_no_answer():
    assert commitment(r"\boxed{1}, " * 101) == "too many boxes stand side by side"
    assert read(r"\boxed{1}, " * 100)[0] == "list"


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("6*7 = 42\n#### 42", "42"),
        ("####42", "42"),
        ("#### $42", "$42"),
        ("#### -3", "-3"),
        ("#### 1,234.", "1,234"),
        ("#### 42 apples\nThis matches the estimate.", "42 apples"),
        ("#### 41\nI made a slip.\n#### 42", "42"),
        ("#### Paris", "Paris"),
        ("The answer is 41.\n#### 42", "42"),
        ("#### 42\n####", None),
        # Markdown's headings.
        ("#### Step 1\n3 + 4\nThe answer is 42.", "42"),
        ("#### 1. Set it up\nThe answer is 42.", "42"),
        ("#### Final Answer\n\n42", "42"),
        ("##### 41", None),
    ],
)
def test_markers(completion, answer):
    assert one(completion) == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<answer>42</answer>", "42"),
        ("<answer>\n $42$ \n</answer>", "42"),
        ("<answer>41</answer> no, <answer>42</answer>", "42"),
        (r"<answer>so it is \boxed{42}</answer>", "42"),
        ("<answer>The answer is 42.</answer>", "42"),
        ("Tags like `<answer>` hold it. <answer>42</answer>", "42"),
        ("<answer>42", None),
        ("<answer>41</answer> no, <answer>42", None),
        ("<answer> </answer> 42", None),
    ],
)
def test_answer_tags(completion, answer):
    assert one(completion) == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("The answer is 42", "42"),
        ("THE ANSWER IS: 42", "42"),
        ("Final answer: 42", "42"),
        ("Answer: 42", "42"),
        ("Answer:\n42", "42"),
        ("answer = 42", "42"),
        ("**Answer:** 42", "42"),
        ("**Answer**: 42", "42"),
        ("**Answer: 42**", "42"),
        ("**Final Answer**\n\n42", "42"),
        ("The final answer is **42**.", "42"),
        ("Final Answer: The final answer is $42$. I hope it is correct.", "42"),
        ("The answer to the question is 42.", "42"),
        ("The answer, therefore, is 42.", "42"),
        ("The answer is therefore 42.", "42"),
        ("I think the answer is 42.", "42"),
        # Choices.
        ("Answer: C", "C"),
        ("The correct option is (C).", "(C)"),
        ("The correct answer is option C.", "C"),
        ("Option (C) is tempting, but the answer is (A).", "(A)"),
        # It ends with the sentence, and mathematics is no end.
        ("The answer is 3.14.", "3.14"),
        ("The answer is $3.5$ meters.", "$3.5$ meters"),
        ("The answer is $42. She keeps $3.", "$42"),
        ("The answer is $ 42 $.", "42"),
        (r"The answer is \(42\). Next, 43.", "42"),
        (r"so $x = 5$, hence the answer is \[ 42 \]", "42"),
        ("The answer is\n\\[\n42\n\\]\nDone.", "42"),
        ("Answer:\n\n$$x = 3.$$\n\nDone.", "x = 3"),
        (r"The answer is $\begin{pmatrix}1\\2\end{pmatrix}$.", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("The answer is [2, 5). Here 7 is out.", "[2, 5)"),
        ("The answer is 3 p.m. on Monday. Not 4.", "3 p.m. on Monday"),
        ("The answer is 42 because 6*7 is 42.", "42"),
        ("The answer is 42, and we are done.", "42"),
        ("The answer is 41, not 42.", "41"),
        ("The answer is 41 or 42.", "41 or 42"),
        ("The answers are 1 and 2.", "1 and 2"),
        # The last one counts, unless it says nothing about the value.
        ("The answer is 41. Wait, I forgot one: the answer is 42.", "42"),
        ("The answer is 42. The answer is correct, I checked.", "42"),
        ("The answer is 41. The answer is not 42.", "41"),
        # No statement of the writer's.
        ("The answer is not 42", None),
        ("The answer isn't 42.", None),
        ("The answer is not obvious.", None),
        ("The user might expect the final answer is 42. I hope not.", None),
        ("You may think that the answer is 42.", None),
        ("If the answer is 42, it is even.", None),
        ("I am not sure the answer is 42.", None),
        ("The student's answer is 42.", None),
        ("Possible answers: 1, 2, 3, 4, 5", None),
        ("Is the answer 42?", None),
        ("There were 42 apples and 17 pears. I am not sure.", None),
        ("6 * 7 = 42", None),
        ("", None),
        (" \n", None),
        # Cut off.
        ("The answer is 41. So the answer is", None),
    ],
)
def test_sentences(completion, answer):
    assert one(completion) == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("So there are **42**", "42"),
        ("So there are **$42$**.\n", "42"),
        ("**41** or **42**", None),
        ("**41**, **42**", None),
        ("**Note** that 42", None),
    ],
)
def test_bold_at_the_end(completion, answer):
    assert one(completion) == answer


@pytest.mark.parametrize(
    ("completion", "source", "answers"),
    [
        ("The answer is 41. The answer is 42.", "phrase", ("41", "42")),
        ("Answer: 41\nAnswer: 42", "phrase", ("41", "42")),
        ("#### 41\n#### 42", "marker", ("41", "42")),
        ("<answer>41</answer><answer>42</answer>", "tag", ("41", "42")),
        ("#### 41\nThe final answer is 42.", "marker", ("41", "42")),
        ("<answer>41</answer> The final answer is 42.", "tag", ("41", "42")),
    ],
)
def test_statements_side_by_side_are_rivals(completion, source, answers):
    assert read(completion) == ("rival", source, answers)


def test_copies_of_the_prompt_are_no_answer():
    prompt = r"Example: 2+2 gives \boxed{4}. What is 6*7? The answer is"
    assert one(prompt, prompt=prompt) is None
    assert one(rf"{prompt} 42, so \boxed{{42}}", prompt=prompt) == "42"
    assert one(rf"\boxed{{42}} {prompt}", prompt=prompt) == "42"
    assert one(rf"\boxed{{42}} {prompt}", prompt=[{"role": "user", "content": prompt}]) == "42"
    assert one(rf"\boxed{{42}} {prompt}") == "4"


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        # A factorial in mathematics, between tags and behind a marker.
        ("The answer is $5!$.", "5!"),
        ("<answer>5!</answer>", "5!"),
        ("<answer>$5!$</answer>", "5!"),
        ("#### 5!", "5!"),
        (r"Answer: \(5!\)", "5!"),
        (r"Answer: \(5!\)!", "5!"),
        ("**$5!$**", "5!"),
        ("**n!**", "n!"),
        (r"\boxed{5!}", "5!"),
        ("The answer is n!", "n!"),
        ("The answer is (n-1)!", "(n-1)!"),
        ("The answer is 5! = 120.", "5! = 120"),
        ("The answer is 5!.", "5!"),
        # An exclamation.
        ("The answer is 42!", "42"),
        ("The answer is 42! Great.", "42"),
        ("The answer is **42!**", "42"),
        ("So there are **42!**", "42"),
        ("The answer is $42$!", "42"),
        ("The answer is (C)!", "(C)"),
        ("#### Paris!", "Paris"),
    ],
)
def test_factorials_and_exclamations(completion, answer):
    assert one(completion) == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"$\text{Answer: } 3$", "3"),
        (r"\[\text{The answer is } 5\]", "5"),
        ("\\[\n\\text{The answer is }\n5\n\\]\nDone.", "5"),
        (r"$$\textbf{Answer: } \frac12$$", r"\frac12"),
        (r"\(\mathrm{Answer}: 3\) as expected.", "3"),
        (r"$x + 2 = 5, \text{ so the answer is } x = 3$. Done.", "x = 3"),
        (r"\textbf{Answer: } $3$.", "3"),
        (r"\textbf{Answer: 3}", "3"),
        (r"**Answer:** \(\text{Answer: } 3\)", "3"),
        (r"<answer>\text{Answer: } 3</answer>", r"\text{Answer: } 3"),
        (r"$\text{The answer is not } 3$", None),
    ],
)
def test_announcements_within_mathematics(completion, answer):
    assert one(completion) == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("The answer is 5. Wait, that is wrong.", None),
        ("The answer is 5, but that is wrong.", None),
        ("The answer is 5. Hmm, no, that's not right.", None),
        ("#### 5\nThat is not right.", None),
        ("<answer>5</answer> Actually, this is incorrect.", None),
        (r"\boxed{5}. No, that is wrong.", None),
        (r"\boxed{5}. Sorry, that's not right.", None),
        ("#### 5\nThat is not right. The answer is 6.", "6"),
        ("The answer is 5. Wait, that is wrong. The answer is 6.", "6"),
        ("The answer is 5. Wait, let me double-check: 2 + 3 = 5, yes, it is right.", "5"),
        (r"The answer isn't \boxed{5}.", None),
        (r"The answer isn’t \boxed{5}.", None),
        (r"The answer isn’t \boxed{5}; it is \boxed{6}.", "6"),
        (r"It can’t be \boxed{5}.", None),
        (r"It doesn’t equal $\boxed{5}$.", None),
        (r"It is no longer \boxed{5}.", None),
        (r"It is not $x = \boxed{5}$.", None),
        (r"$y \ne x = \boxed{5}$.", "5"),
        (r"It is neither \boxed{5} nor \boxed{6}.", None),
        (r"It is \boxed{5}, neither more nor less.", "5"),
        (r"There is no longer side; it is \boxed{5}.", "5"),
        (r"\boxed{5}? That can’t be right.", None),
        (r"\boxed{5}? That is wrong.", None),
        (r"\boxed{5}? That is right.", "5"),
        ("It isn’t sure that the answer is 5.", None),
        ("The answer is 5. That is not the only way to see it.", "5"),
        ("The answer is 5. Is that wrong? No.", "5"),
        ("The answer is 5. Wait, is that correct? Yes.", "5"),
        # Questions.
        ("Is the answer 5?", None),
        ("Is the answer is 5?", None),
        ("Could the answer be 5?", None),
        (r"Is it \boxed{5}?", None),
        (r"What is it? It is \boxed{5}.", "5"),
        # Hints at the format.
        (r"The format is `\boxed{5}`", None),
        (r'Write it in a box, e.g. "\boxed{5}".', None),
        (r"For example, the answer is `\boxed{5}`", None),
        (r"The answer is 42. The format was to be `\boxed{5}`.", "42"),
        (r"\boxed{42} is written in a box, such as `\boxed{5}`.", "42"),
        (r"For example, 2 + 2 = 4. The answer is `\boxed{5}`.", "5"),
        (r"In the required format: \boxed{5}", "5"),
    ],
)
def test_what_is_withdrawn_asked_or_shown_is_no_answer(completion, answer):
    assert one(completion) == answer


def test_a_withdrawal_is_named():
    assert commitment("#### 5\nThat is wrong.", fallback="whole") == "every answer is withdrawn"


EXAMPLE = r"Solve the task and put the answer in a box. For example, \boxed{5}. Now then: how many legs have 6 cats?"


@pytest.mark.parametrize(
    "completion",
    [
        *(EXAMPLE, EXAMPLE[:-1], EXAMPLE[:80], EXAMPLE[30:80], EXAMPLE[50:], r"For example, \boxed{5}."),
        *(EXAMPLE.replace("legs", "tails"), EXAMPLE.replace("example", "instance"), EXAMPLE + " I do not know."),
        *(EXAMPLE[:80] + " and so on.", rf"<think>Hm.</think>{EXAMPLE[:80]}", "They say: " + EXAMPLE[44:67] + " Well."),
    ],
)
def test_a_part_of_the_prompt_is_no_answer(completion):
    assert one(completion, prompt=EXAMPLE) is None
    assert one(completion, prompt=[{"role": "user", "content": EXAMPLE}]) is None
    assert one(rf"{completion} So it is \boxed{{24}}.", prompt=EXAMPLE) == "24"


@pytest.mark.parametrize(
    ("prompt", "completion", "answer"),
    [
        (r"What is 6*7? Put the final answer in \boxed{}.", r"The final answer is \boxed{42}.", "42"),
        (r"What is 6*7? End with: The final answer is \boxed{}", r"The final answer is \boxed{42}", "42"),
        (r"The final answer is \boxed{X}: write it like this.", r"The final answer is \boxed{42}", "42"),
        ("The final answer is what I want. What is 6*7?", "The final answer is 42.", "42"),
        ("What is 6*7? The answer is", "The answer is 42", "42"),
        ("Hint: the answer is 4", "Hint: the answer is 42", "42"),
        # Worked examples end in the words that every solution ends in.
        ("Q: 3+5? 3 and 5 make 8. The answer is 8.\nQ: 2+6?", "2 and 6 make 8. The answer is 8.", "8"),
        ("Q: 3+5?\nA: 3 and 5.\n#### 8\nQ: 2+6?\nA:", "2 and 6.\n#### 8", "8"),
        (
            "Format:\n<think>\n...\n</think>\n<answer>\n...\n</answer>",
            "<think>\n6*7\n</think>\n<answer>\n42\n</answer>",
            "42",
        ),
        (r"Q: 3+5? Counting on, \boxed{8}. Q: 2+6?", r"So we have \boxed{8}.", "8"),
    ],
)
def test_a_prompt_never_costs_a_right_answer(prompt, completion, answer):
    assert one(completion, prompt=prompt) == answer


def test_think_styles():
    assert one(r"\boxed{41}</think>\boxed{42}", think="prefilled") == "42"
    assert one(r"\boxed{42}", think="prefilled") is None
    assert one(r"\boxed{42}", think="auto") == "42"
    assert one(r"\boxed{42}", think="auto", prompt="6*7?<think>\n") is None
    assert one(r"<think>the tag '</think>' ends it. \boxed{42}") is None
    assert one(r"<think>the tag '</think>' ends it: \boxed{41}</think>\boxed{42}") == "42"


def test_fallbacks():
    for completion in ("6*7 = 42", "Surely 42."):
        assert commitment(completion) == "there is no answer after the reasoning"
        assert read(completion, fallback="whole") == ("one", "whole", (completion,))
        assert read(completion, fallback="last_number") == ("one", "last_number", ("42",))
    for fallback in ("whole", "last_number"):
        assert one(r"42 \boxed{", fallback=fallback) is None
        assert one("42 The answer is", fallback=fallback) is None
        assert one("<think>42", fallback=fallback) is None
        assert one("", fallback=fallback) is None


def test_the_reason_is_named():
    assert commitment("<think>42") == "the reasoning never closed"
    assert commitment(r"\boxed{") == "the last box is empty or never closes"
    assert commitment(r"\boxed{42} is wrong") == "every box is withdrawn"
    assert commitment("<answer>4") == "the last answer is empty or was cut off"


def test_wrong_options_are_the_users_mistake():
    with pytest.raises(UserError, match="'last_number'"):
        commitment("", fallback="last_numbr")
    with pytest.raises(UserError, match="'generated'"):
        commitment("", think="genrated")


def _shared_cases() -> list[dict[str, object]]:
    if not CASES.exists():
        return []
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return [case for case in cases if case["form"] == "completion"]


def _is_accepted(case: dict[str, object]) -> bool:
    """The case's label as far as texts decide it: the answers, or their joint list, are the gold one's text."""
    found = commitment(str(case["answer"]), "auto")
    if not isinstance(found, Commitment) or not case["gold"]:
        return False
    texts = [answer.replace("$", "").removeprefix("x=").strip("()") for answer in found.answers]
    if found.joined == "list":
        return ",".join(texts) == case["gold"]
    return all(text == str(case["gold"]).strip("()") for text in texts)


# Equal in value and not in text, which is for whoever compares.
VALUE_DECIDES = {"extract-019", "extract-079", "extract-084", "extract-099", "extract-104", "extract-108"}


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
@pytest.mark.parametrize("case", _shared_cases(), ids=lambda case: str(case["id"]))
def test_shared_cases(case):
    if case["id"] in VALUE_DECIDES:
        assert isinstance(commitment(str(case["answer"]), "auto"), Commitment)
    else:
        assert _is_accepted(case) is case["expected"]


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "piece",
    [
        *("The answer is $", "answer ", "the answer is not ", "answer of ", "answer: ", "answer is 'a' ", "final "),
        *("\\[ ", "\\( ", "$", "$ ", "\\", "{", "}", "**", "**a** ", "'", '"', "`", "```\n", "\n", " ", "4"),
        *("\\boxed", "\\boxed{", "\\boxed{1}", "\\boxed{1} is wrong ", "\\boxed 1 ", "\\boxed\\frac{", "\\\\boxed{"),
        *("#### ", "####\n", "#### 4\n", "<answer>", "</answer>", "<answer>1</answer>", "<think>", '"</think>'),
    ],
)
def test_megabytes_end(piece):
    text = piece * (MEGABYTE // len(piece))
    commitment(text, fallback="last_number")
    found = commitment(text + "\n\nAfter all of this, I wrote \\boxed{41}.")
    assert not isinstance(found, Commitment) or found.answers[-1] == "41"


def test_floods_are_no_answer():
    assert one("The answer is $" * 70_000) is None
    assert one("answer " * 150_000) is None
    assert one("\\[ " * 300_000) is None
    assert one("answer " * 150_000 + r"\boxed{41}") == "41"


PIECES = st.sampled_from(
    [
        *(
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "\\boxed{",
            "\\boxed ",
            "\\fbox{",
            "{",
            "}",
            "$",
            "\\[",
            "\\]",
        ),
        *(
            "#### ",
            "The answer is ",
            "Answer:",
            "final ",
            "**",
            "not ",
            "or ",
            "and ",
            ", ",
            ". ",
            "\n",
            "42",
            "x",
            "\\",
        ),
    ]
)


@settings(deadline=None)  # the machine may be busy
@given(
    st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=30).map("".join)),
    st.sampled_from(["none", "generated", "prefilled", "auto"]),
    st.sampled_from(["none", "whole", "last_number"]),
)
def test_any_text_commits_to_stripped_texts_or_to_nothing(text, think, fallback):
    found = commitment(text, think, fallback=fallback, prompt=text[:20])
    if isinstance(found, Commitment):
        assert found.answers
        assert all(answer == answer.strip() != "" for answer in found.answers)
        assert (found.joined == "one") is (len(found.answers) == 1)


@settings(deadline=None)  # the machine may be busy
@given(st.text(alphabet="ab x41.,\n", max_size=60), st.integers(-1000, 1000), st.text(alphabet="ab ,", max_size=60))
def test_the_box_is_read_whatever_stands_around_it(before, value, after):
    assert one(rf"{before}\boxed{{{value}}}{after}") == str(value)
