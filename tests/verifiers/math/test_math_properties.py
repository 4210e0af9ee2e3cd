"""What holds for every answer: it is itself, however it is spaced, and nothing close to it is."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rlvr
from rlvr.verifiers.math.acceptance import accepts
from rlvr.verifiers.math.conventions import Conventions
from rlvr.verifiers.math.magnitudes import Undecided

quick = settings(
    max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def judged(reference: str, answer: str) -> bool | None:
    """Whether the answer is the reference; None if only symbolic computation could tell."""
    try:
        return accepts(reference, (answer,), "one", Conventions())
    except Undecided:
        return None


# ---- answers of every kind, with `#` in the place of each number

NAMES = st.sampled_from(("x", "y", "n", "a", "t"))
WHOLE = st.integers(2, 999).map(str)
VALUES = (
    "#",
    "-#",
    r"\frac{#}{1009}",
    r"-\frac{1013}{#}",
    r"\sqrt{#}+1",
    r"3\sqrt[3]{#}",
    r"#\pi",
    r"e^{#}",
    r"\ln #",
    r"#+2i",
    r"2^{#}",
    r"5\cdot 7^{-#}",
    r"#.5",
    r"0.\overline{7#}",
    r"1.5\times 10^{#}",
)
FRAMES = (
    "@",
    "(@, @)",
    "(@, @, @)",
    r"\left[@, \infty\right)",
    r"(-\infty, @)",
    r"x \ge @",
    r"\{@, @\}",
    "@, @",
    r"\pm @",
    "x = @",
    "x = @, y = @",
    r"x = @ \text{ or } x = @",
    r"\begin{pmatrix} @ & @ \\ @ & @ \end{pmatrix}",
    r"@ x^2 + @ x + @",
    "y = @ x + @",
    r"x^2 + y^2 = @",
    r"\frac{@ x}{x + @}",
    r"@ \text{ cm}",
    r"@^\circ",
    r"n \equiv @ \pmod{1009}",
    r"f(x) = @ x^3",
    r"\sin(@ x)",
    r"x^{@} + C",
    r"|x - @|",
)
WHOLE_NUMBERS_ONLY = (
    r"\$#.25",
    r"#\%",
    r"#:1009",
    r"\binom{1009}{#}",
    r"#3_7",
    r"8:1# \text{ PM}",
    r"# \text{ remainder } 1",
    r"n \equiv # \pmod{1009}",
    r"\{#, #, \ldots\}",
)
REAL_ONLY = re.compile(r"\\infty|\\ge|\\equiv|\\circ")


@st.composite
def skeletons(draw: st.DrawFn) -> str:
    """An answer whose numbers are still open."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(WHOLE_NUMBERS_ONLY))
    frame = draw(st.sampled_from(FRAMES))
    values = [value for value in VALUES if "i" not in value.replace(r"\pi", "") or not REAL_ONLY.search(frame)]
    if "equiv" in frame or "^{@}" in frame:
        values = ["#"]
    if "begin" in frame or "C" in frame:
        values = values[:11]
    return re.sub("@", lambda _: draw(st.sampled_from(values)), frame)


@st.composite
def filled(draw: st.DrawFn) -> tuple[str, list[int]]:
    """A skeleton with numbers of which no two are equal: in a 1# minute, one digit."""
    skeleton = draw(skeletons())
    high = 6 if "_7" in skeleton else 9 if ":1#" in skeleton else 97
    numbers = draw(
        st.lists(st.integers(2, high), min_size=skeleton.count("#"), max_size=skeleton.count("#"), unique=True)
    )
    return skeleton, numbers


def put(skeleton: str, numbers: list[int]) -> str:
    parts = skeleton.split("#")
    return "".join(part + str(number) for part, number in zip(parts, numbers, strict=False)) + parts[-1]


@quick
@given(filled())
def test_an_answer_is_itself(answer: tuple[str, list[int]]) -> None:
    text = put(*answer)
    assert judged(text, text) is True
    assert rlvr.verify("rlvr/math-v1", completion=rf"\boxed{{{text}}}", answer=text).passed is True


def disturbed(skeleton: str, numbers: list[int], index: int, way: str) -> str | None:
    """The answer with one number changed; None if it is no other answer then, as in -0 or 1009 more modulo 1009."""
    number = numbers[index]
    if way == "digit":
        digits = str(number)
        changed = digits[:-1] + str((int(digits[-1]) + 3) % 10)
        other = str(int(changed))
    else:
        other = {"one more": str(number + 1), "ten times": str(number * 10), "sign": f"(-{number})"}[way]
    if other in ("0", "1") or (way == "sign" and not _has_a_sign(skeleton)):
        return None
    if (":1#" in skeleton or "_7" in skeleton) and (len(other) > 1 or other in "789"):
        return None
    if int(other.strip("()")) in numbers and skeleton.count("#") > 1:
        return None
    parts = skeleton.split("#")
    texts = [other if at == index else str(value) for at, value in enumerate(numbers)]
    return "".join(part + text for part, text in zip(parts, texts, strict=False)) + parts[-1]


def _has_a_sign(skeleton: str) -> bool:
    """Whether minus a number may stand for it, and says something else."""
    return not re.search(r"\\pm|\.#|7#|#\.|:|_7|binom|remainder|ldots|equiv|overline|\\ln|sqrt|x\|", skeleton) and (
        "circ" not in skeleton and r"\sin" not in skeleton
    )


@quick
@given(filled(), st.data())
def test_no_number_may_be_another(answer: tuple[str, list[int]], data: st.DataObject) -> None:
    skeleton, numbers = answer
    index = data.draw(st.integers(0, len(numbers) - 1))
    way = data.draw(st.sampled_from(("one more", "ten times", "sign", "digit")))
    other = disturbed(skeleton, numbers, index, way)
    if other is not None:
        right = put(skeleton, numbers)
        assert judged(right, other) is not True, (right, other)
        assert judged(other, right) is not True, (other, right)


@quick
@given(filled(), filled())
def test_two_answers_of_one_kind_agree_or_not_in_either_direction(
    left: tuple[str, list[int]], right: tuple[str, list[int]]
) -> None:
    first, second = put(*left), put(left[0], list(reversed(left[1])))
    assert judged(first, second) is judged(second, first)
    if left[0] == right[0]:
        assert judged(first, put(*right)) is judged(put(*right), first)


EQUAL_PAIRS = (
    ("0.5", r"\frac{1}{2}"),
    (r"\sqrt{12}", r"2\sqrt{3}"),
    (r"\{1, 2\}", "2, 1"),
    ("[2, 5)", r"2 \le x < 5"),
    (r"x < -1 \text{ or } x > 1", r"(-\infty, -1) \cup (1, \infty)"),
    ("(a+b)^2", "a^2+2ab+b^2"),
    ("y=2x+1", "2x-y+1=0"),
    ("x=1, y=2", r"\begin{cases} y=2 \\ x=1 \end{cases}"),
    ("(1, 2)", "x=1, y=2"),
    (r"50\%", "0.5"),
    (r"2\text{ km}", r"2000\text{ m}"),
    (r"90^\circ", r"\frac{\pi}{2}"),
    (r"\binom{10}{3}", "120"),
    ("1:2", "3:6"),
    (r"\pm 3", "3, -3"),
    ("e^{i\\pi}", "-1"),
    (r"n \equiv 1 \pmod 4", r"n \equiv 5 \pmod{4}"),
    ("1/3", r"0.\overline{3}"),
)


@pytest.mark.parametrize(("left", "right"), EQUAL_PAIRS)
def test_equality_goes_both_ways(left: str, right: str) -> None:
    assert judged(left, right) is True
    assert judged(right, left) is True


# ---- spelling that says nothing

SPACES = (" ", r"\,", r"\;", r"\!", "~", r"\quad ", "  ")
PLACES_FOR_SPACE = re.compile(r"(?<=[,=+(\[&}])(?![}!])|(?=[=+)\]&,])")


def spaced(text: str, rng: random.Random) -> str:
    r"""The text with more spaces beside its signs, where LaTeX sees none (not within numbers, words and commands)."""
    pieces: list[str] = []
    last = 0
    for place in PLACES_FOR_SPACE.finditer(text):
        pieces.append(text[last : place.start()])
        last = place.start()
        before, after = text[:last], text[last:]
        within_number = before[-1:].isdigit() and after[:1].isdigit()
        # `\ ` and `\%` are one command, and braces that hold text keep their spaces.
        if not before.endswith("\\") and not within_number and not after.startswith((",\\!",)):
            pieces.append(rng.choice((*SPACES, "")))
    return "".join([*pieces, text[last:]])


def resized(text: str) -> str:
    r"""The text with \left and \right before its brackets, where both of a pair are there."""
    text = re.sub(r"\\left\b|\\right\b", "", text)
    text = re.sub(r"(?<!\\)\(", r"\\left( ", text).replace(")", r" \right)")
    return re.sub(r"\\\{", r"\\left\\{ ", text).replace(r"\}", r"\right\}")


def respelled(text: str, seed: int) -> list[str]:
    rng = random.Random(seed)
    forms = [
        spaced(text, rng),
        f"  {text}\n",
        f"${text}$",
        rf"\({text}\)",
        rf"\displaystyle {text}",
        text.replace(r"\frac", r"\dfrac"),
        text.replace(r"\frac", r"\tfrac"),
        f"{{{text}}}",
    ]
    return forms if "[" in text or r"\pmod" in text else [*forms, resized(text)]


@quick
@given(filled(), st.integers(0, 2**32))
def test_spelling_does_not_matter(answer: tuple[str, list[int]], seed: int) -> None:
    text = put(*answer)
    for other in respelled(text, seed):
        assert judged(text, other) is True, (text, other)
        assert judged(other, text) is True, (other, text)


# ---- the same verdict from everywhere

CALLS = (
    ("42", r"\boxed{42}"),
    ("42", r"\boxed{43}"),
    (r"\frac{1}{2}", r"\boxed{0.5}"),
    (r"\sin 2x", r"\boxed{2\sin x\cos x}"),
    (r"\sqrt{2}+\sqrt{3}", r"\boxed{\sqrt{5+2\sqrt{6}}}"),
    ("9", r"\boxed{\int_0^3 x^2\,dx}"),
    ("8", r"\boxed{\int_0^3 x^2\,dx}"),
    ("5", r"\boxed{2^{2^{2^{2^{2^{2}}}}}}"),
    ("5", r"\boxed{" + "(" * 2000 + "5" + ")" * 2000 + "}"),
    (r"\text{yes}", "The answer is yes."),
    ("[0, 1)", r"\boxed{0 \le x < 1}"),
    ("5", "nothing"),
)


def verdict(call: tuple[str, str]) -> tuple[float | None, bool | None, str]:
    found = rlvr.verify("rlvr/math-v1", completion=call[1], answer=call[0], seconds=60.0)
    return found.score, found.passed, found.status


@pytest.mark.slow
def test_the_verdict_does_not_depend_on_where_it_is_asked_for() -> None:
    here = [verdict(call) for call in CALLS]
    assert [passed for _, passed, _ in here] == [
        True, False, True, True, True, True, False, False, False, True, True, False,
    ]  # fmt: skip
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(verdict, CALLS)) == here

    async def in_threads() -> list[tuple[float | None, bool | None, str]]:
        return list(await asyncio.gather(*(asyncio.to_thread(verdict, call) for call in CALLS)))

    assert asyncio.run(in_threads()) == here
    assert _in_a_process_of_its_own() == here


_SCRIPT = """
import json, sys
import rlvr

found = [
    rlvr.verify("rlvr/math-v1", completion=completion, answer=answer, seconds=60.0)
    for answer, completion in json.load(sys.stdin)
]
print(json.dumps([[one.score, one.passed, one.status] for one in found]))
"""


def _in_a_process_of_its_own() -> list[tuple[float | None, bool | None, str]]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    return [(score, passed, status) for score, passed, status in json.loads(done.stdout)]
