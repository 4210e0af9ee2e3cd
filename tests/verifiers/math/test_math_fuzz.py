"""Random bytes and soups of LaTeX tokens: nothing crashes, hangs, leaves a process behind or is taken for an answer."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlvr
from rlvr.verifiers.math.acceptance import accepts, canonical_answer
from rlvr.verifiers.math.conventions import Conventions
from rlvr.verifiers.math.latex import ALIASES, IGNORED, PLAIN_FONTS, TEXT_FONTS
from rlvr.verifiers.math.magnitudes import Undecided
from rlvr.verifiers.math.quantities import MULTIPLIERS
from rlvr.verifiers.math.units import MEASURES, NO_UNITS
from rlvr.verifiers.math.vocabulary import FUNCTIONS, GREEK
from rlvr.verifiers.pool import shared_pool

# Their numbers and names are not in the vocabulary, so that no soup is one of them by chance.
REFERENCES = (
    "7919",
    r"\frac{7919}{4027}",
    "79.19",
    r"7919\text{ furlongs}",
    r"7919\%",
    r"\$79.19",
    r"\sqrt{7919}",
    r"7919\sqrt{4027}+\pi",
    r"\zeta^{7919}+\zeta-1",
    "(4027, 7919)",
    "[4027, 7919)",
    r"\{7919, 4027\}",
    "7919, 4027",
    r"\pm 7919",
    r"\zeta = 7919",
    r"\zeta^2 + 7919 = \zeta^7",
    r"\zeta=7919, \xi=4027",
    r"7919\equiv \zeta \pmod{4027}",
    "7919:4027",
    r"\begin{pmatrix}7919 & 1\\ 0 & 4027\end{pmatrix}",
    "7919+4027i",
    r"\sin 7919",
    r"\ln \zeta + C",
    r"(-\infty, 7919)\cup(7927,\infty)",
    "11:47",
    "7A19_{16}",
    r"\text{quetzalcoatl}",
)
NUMBERS = (
    "0 1 2 3 7 10 12 100 999 1,000 1e5 2E-3 .5 0.25 3.14 1. 0.(3) 0.333... 1{,}000 1\\,000 00 9007199254740993".split()
)
WORDS = (
    "x y z n k a b c e i t m s xy dx mod and or if else R remainder AM pm C P f g AB pi infinity otherwise choose"
).split()
SIGNS = [
    *"+-*/=<>()[]{}{}{}|!%^_,;:.'\"&~$# \n?@`",
    "**", "<=", ">=", "!=", "==", "->", "...", r"\{", r"\}", r"\\", r"\,", r"\;", r"\!", r"\ ", r"\%", r"\$", r"\(",
    r"\)", r"\left(", r"\right)", r"\left.", r"\right|", r"\frac", r"\sqrt", r"\sqrt[", r"\binom", r"\over ",
    r"\pm ", r"\mp ", r"\cdot ", r"\times ", r"\div ", r"\le ", r"\ge ", r"\ne ", r"\not", r"\in ", r"\cup ",
    r"\cap ", r"\setminus ", r"\mid ", r"\infty ", r"\emptyset ", r"\pi ", r"^\circ", r"\degree ", r"\ldots ",
    r"\overline{", r"\dot ", r"\bar ", r"\mathbb{R}", r"\mathbb ", r"\text{", r"\mathrm{", r"\boxed{",
    r"\sum_{k=1}^", r"\prod_{k=1}^{3}", r"\int_0^1 ", r"\int ", r"\lim_{x\to 0}", r"\frac{d}{dx}", r"\pmod{",
    r"\pmod ", r"\bmod ", r"\equiv ", r"\lfloor ", r"\rfloor ", r"\lceil ", r"\rceil ", r"\begin{pmatrix}",
    r"\end{pmatrix}", r"\begin{cases}", r"\end{cases}", r"\begin{vmatrix}", r"\end{vmatrix}", r"\begin{array}{cc}",
    r"\end{array}", r"\begin{align}", r"\end{align}", r"\angle ", r"\triangle ", r"\log_", r"\log_2 ", r"\sin^{-1}",
    r"\operatorname{", r"\|", r"\vec ", r"\hline ", r"\to ", r"\therefore ", r"\choose ", "\\", "^{th}", "½", "²",
    "⁻¹", "₂", "√", "∛", "×", "−", "≤", "∈", "ℝ", "π", "°", "％", "（", "）", "，", "五", "€", "\u00a0", "\u200b",
    "\ud800", "\x00", "٣", "𝟘", "é",
]  # fmt: skip
COMMANDS = sorted({f"\\{name} " for name in (*TEXT_FONTS, *PLAIN_FONTS, *IGNORED, *ALIASES, *FUNCTIONS, *GREEK)})
UNITS = sorted({f" {word}" for word in (*MEASURES, *MULTIPLIERS, *NO_UNITS)})
WELL_FORMED = (
    r"\frac{1}{2}", r"3\frac{1}{2}", r"\sqrt[3]{-8}", r"x^{2n+1}", r"(1,2)", r"[0,\infty)", r"\{1,2\}",
    r"x=1 \text{ or } x=2", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"n\equiv 1\pmod 4", r"5\text{ cm}^2",
    r"30^\circ 15'", r"\$1,234.50", r"\binom{10}{3}", r"\sum_{k=1}^{n}k", r"\int_0^1 x\,dx",
    r"\lim_{x\to 0}\frac{\sin x}{x}", r"e^{i\pi}", r"2A_{16}", r"\mathbb{R}\setminus\{1\}", r"-1<x\le 2",
    r"\begin{cases}1&x>0\\0&x\le0\end{cases}", r"8:15 AM", "50\\%", "2\\pm\\sqrt3", r"|x-1|", r"\lfloor 2.5\rfloor",
    r"f^{-1}(x)=2x", r"5 \text{ remainder } 2", r"\log_2 3", r"x^2+C", r"100!", "2^{100}",
)  # fmt: skip


def bytes_as_text(rng: random.Random) -> str:
    raw = rng.randbytes(rng.randrange(1, 60))
    return raw.decode("latin-1") if rng.random() < 0.5 else raw.decode("utf-8", "replace")


def soup(rng: random.Random) -> str:
    pools = (NUMBERS, WORDS, SIGNS, SIGNS, COMMANDS, UNITS)
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, 25)))


def mutant(rng: random.Random) -> str:
    """A well-formed answer with pieces taken out, doubled, or put in."""
    text = rng.choice(WELL_FORMED)
    for _ in range(rng.randrange(1, 4)):
        at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        piece = rng.choice(("", soup(rng)[:12], rng.choice(WELL_FORMED), text[at:end] * 2))
        text = text[:at] + piece + text[end:]
    return text


def repeated(rng: random.Random) -> str:
    """Some tokens again and again, up to the longest answer that is read and beyond."""
    piece = "".join(rng.choice(rng.choice((NUMBERS, WORDS, SIGNS, SIGNS))) for _ in range(rng.randrange(1, 4))) or "("
    closing = "".join(rng.choice(SIGNS) for _ in range(rng.randrange(2)))
    count = rng.choice((100, 1_000, 8_000)) // len(piece)
    return rng.choice(("", "1", "x=")) + piece * count + closing * count


def strings(seed: int, count: int) -> Iterator[str]:
    rng = random.Random(seed)
    for index in range(count):
        if index % 200 == 0:
            yield repeated(rng)
        else:
            yield rng.choice((bytes_as_text, soup, soup, mutant, mutant))(rng)


def descendants() -> set[int]:
    """The processes that this one has started, and those that they have, without zombies."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    found, more = set[int](), {os.getpid()}
    while more:
        more = {child for child, parent in parents.items() if parent in more}
        found |= more
    return found


def taken_for(reference: str, text: str) -> bool:
    """Whether the text, which is read first, is accepted without symbolic computation."""
    try:
        return accepts(reference, (text,), "one", Conventions())
    except Undecided:
        return False


@pytest.mark.slow
def test_a_hundred_thousand_random_strings_are_read_and_none_is_an_answer() -> None:
    rng = random.Random(7)
    for text in strings(seed=20_240, count=100_000):
        reference = rng.choice(REFERENCES)
        assert not taken_for(reference, text), (reference, text)
        if rng.random() < 0.03:
            assert isinstance(canonical_answer((text,)), str)


@pytest.mark.slow
def test_random_completions_get_a_verdict_and_leave_no_process() -> None:
    shared_pool().run(len, [], timeout=60.0)
    before = descendants()
    rng = random.Random(11)
    for text in strings(seed=4_711, count=1_500):
        reference = rng.choice(REFERENCES)
        completion = text if rng.random() < 0.2 else rf"So it is \boxed{{{text}}}."
        verdict = rlvr.verify("rlvr/math-v1", completion=completion, answer=reference, seconds=0.5)
        assert verdict.score == 0.0, (reference, text, verdict)
        assert verdict.status in ("ok", "unparseable", "timeout"), (reference, text, verdict)
    # The workers and the server that forks them; every worker that was killed is gone.
    assert descendants() - before <= {*shared_pool().process_ids()}
