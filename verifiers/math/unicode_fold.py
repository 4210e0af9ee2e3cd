r"""Unicode mathematics as the LaTeX that says the same: `x²` is `x^{2}`, `½` is `\frac{1}{2}`, `√2` is `\usqrt 2`.

`\usqrt` is a name of our own: the sign `√` takes a whole number (`√10`), where TeX's `\sqrt` takes one digit.
"""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₖₗₘₙₚₛₜᵢⱼ", "0123456789+-=()aeoxklmnpstij", strict=True))
_GREEK = {
    chr(code): "\\" + unicodedata.name(chr(code)).rsplit(" ", 1)[-1].lower().replace("lamda", "lambda") + " "
    for code in (*range(0x3B1, 0x3C2), *range(0x3C3, 0x3CA))
} | {
    chr(code): "\\" + unicodedata.name(chr(code)).rsplit(" ", 1)[-1].capitalize() + " "
    for code in map(ord, "ΓΔΘΛΞΠΣΦΨΩ")
}
_SIGNS = {
    "−": "-",
    "‐": "-",
    "‑": "-",
    "–": "-",
    "—": "-",
    "﹣": "-",
    "±": r"\pm ",
    "∓": r"\mp ",
    "×": r"\times ",
    "✕": r"\times ",
    "·": r"\cdot ",
    "⋅": r"\cdot ",
    "∙": r"\cdot ",
    "•": r"\cdot ",
    "÷": r"\div ",
    "⁄": "/",
    "∕": "/",
    "∶": ":",
    "√": r"\usqrt ",
    "∛": r"\ucbrt ",
    "∞": r"\infty ",
    "≤": r"\le ",
    "⩽": r"\le ",
    "≦": r"\le ",
    "≥": r"\ge ",
    "⩾": r"\ge ",
    "≧": r"\ge ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "≡": r"\equiv ",
    "∈": r"\in ",
    "∉": r"\notin ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∖": r"\setminus ",
    "∅": r"\emptyset ",
    "∧": r"\land ",
    "∨": r"\lor ",
    "→": r"\to ",
    "⟶": r"\to ",
    "∣": r"\mid ",
    "∥": r"\parallel ",
    "⊥": r"\perp ",
    "∠": r"\angle ",
    "△": r"\triangle ",
    "∑": r"\sum ",
    "∏": r"\prod ",
    "∫": r"\int ",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "〈": r"\langle ",
    "〉": r"\rangle ",
    "ℝ": r"\mathbb{R}",
    "ℚ": r"\mathbb{Q}",
    "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}",
    "ℂ": r"\mathbb{C}",
    "°": r"^\circ ",
    "º": r"^\circ ",
    "′": "'",
    "’": "'",
    "‘": "'",
    "″": "''",
    "“": '"',
    "”": '"',
    "…": r"\ldots ",
    "⋯": r"\ldots ",
    "、": ",",
    "。": ".",
    "€": r"\euro ",
    "£": r"\pounds ",
    "¥": r"\yen ",
    "￥": r"\yen ",
    "₹": r"\rupee ",
    "¢": r"\cent ",
    "ϕ": r"\phi ",
    "ϵ": r"\epsilon ",
    "ϑ": r"\theta ",
    "\u00a0": r"\,",
    "\u2009": r"\,",
    "\u202f": r"\,",
    "\u2007": r"\,",
    "\u200a": r"\,",
    "\u3000": " ",
    "\u200b": "",
    "\u2060": "",
    "\ufeff": "",
}
# Superscript digits, a slash, subscript digits.
_RAISED_FRACTION = re.compile(r"\^(?:\{([0-9]+)\}|([0-9]))/_(?:\{([0-9]+)\}|([0-9]))")
_SCRIPT_RUNS = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+|[{''.join(_SUBSCRIPTS)}]+")


def fold(text: str) -> str:
    """The text with its mathematical signs as LaTeX and its other compatibility forms (NFKC) resolved."""
    if not text.isascii():
        text = "".join(map(_character, _SCRIPT_RUNS.sub(_script, text)))
    return _RAISED_FRACTION.sub(_fraction, text) if "/" in text else text


def _fraction(raised: re.Match[str]) -> str:
    above, below = raised[1] or raised[2], raised[3] or raised[4]
    return rf"\frac{{{above}}}{{{below}}}"


def _script(run: re.Match[str]) -> str:
    characters = run.group()
    raised = characters[0] in _SUPERSCRIPTS
    table = _SUPERSCRIPTS if raised else _SUBSCRIPTS
    return ("^{" if raised else "_{") + "".join(table[character] for character in characters) + "}"


def _character(character: str) -> str:
    if character < "\x80":
        return character
    known = _SIGNS.get(character) or _GREEK.get(character)
    if known is not None or character in _SIGNS:
        return known or ""
    folded = unicodedata.normalize("NFKC", character)
    if "⁄" in folded:
        above, _, below = folded.partition("⁄")
        return rf"\frac{{{above}}}{{{below}}}" if below else folded
    return folded
