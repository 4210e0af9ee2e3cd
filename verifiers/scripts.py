"""Scripts (writing systems): which one a letter belongs to, and which ones a language is written in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache

# The first word of a letter's Unicode name says its script; these have other names there.
_BY_FIRST_WORD = {
    "CJK": "Han",
    "IDEOGRAPHIC": "Han",
    "VERTICAL": "Han",
    "KATAKANA-HIRAGANA": "Katakana",
    "ETHIOPIC": "Ethiopic",
    "MYANMAR": "Myanmar",
}

SCRIPTS: dict[str, frozenset[str]] = {
    **{
        name: frozenset({name})
        for name in (
            "Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul "
            "Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Tamil Telugu "
            "Thai Tibetan"
        ).split()
    },
    "Kana": frozenset({"Hiragana", "Katakana"}),
    "Japanese": frozenset({"Han", "Hiragana", "Katakana"}),
    "Korean": frozenset({"Hangul", "Han"}),
}
"""What may be asked for by name: single scripts, and the mixtures that are written together."""

OWN_SCRIPT: dict[str, frozenset[str]] = {
    "am": frozenset({"Ethiopic"}),
    "ar": frozenset({"Arabic"}),
    "bn": frozenset({"Bengali"}),
    "el": frozenset({"Greek"}),
    "gu": frozenset({"Gujarati"}),
    "he": frozenset({"Hebrew"}),
    "hi": frozenset({"Devanagari"}),
    "hy": frozenset({"Armenian"}),
    "ja": SCRIPTS["Japanese"],
    "ka": frozenset({"Georgian"}),
    "km": frozenset({"Khmer"}),
    "kn": frozenset({"Kannada"}),
    "ko": SCRIPTS["Korean"],
    "lo": frozenset({"Lao"}),
    "ml": frozenset({"Malayalam"}),
    "my": frozenset({"Myanmar"}),
    "pa": frozenset({"Gurmukhi"}),
    "ru": frozenset({"Cyrillic"}),
    "si": frozenset({"Sinhala"}),
    "ta": frozenset({"Tamil"}),
    "te": frozenset({"Telugu"}),
    "th": frozenset({"Thai"}),
    "zh": frozenset({"Han", "Bopomofo"}),
}
"""Languages (ISO 639-1) that are told by their script, or are by far the most written in it."""

FOREIGN_LETTERS: dict[str, frozenset[str]] = {
    "ru": frozenset("іїєґўђјљњћџѓќѕәғқңөұүһӣӯІЇЄҐЎЂЈЉЊЋЏЃЌЅӘҒҚҢӨҰҮҺ"),
    "ar": frozenset("پچژگکیٹڈڑںےہھ"),
}
"""Letters of a language's script that other languages write and it does not."""


@lru_cache(maxsize=None)  # noqa: UP033 - bounded by the number of characters there are
def script_of(character: str) -> str | None:
    """The script of a letter, such as "Latin" or "Han"; None for what is no letter."""
    if not unicodedata.category(character).startswith("L"):
        return None
    # Full-width and mathematical letters are the letters that they are forms of.
    plain = unicodedata.normalize("NFKC", character)[0]
    word = unicodedata.name(plain, "UNKNOWN").split(" ", 1)[0]
    return _BY_FIRST_WORD.get(word, word.capitalize())


def count_scripts(text: str) -> Counter[str]:
    """How many letters of each script a text has."""
    counts: Counter[str] = Counter()
    for character, times in Counter(text).items():
        script = script_of(character)
        if script is not None:
            counts[script] += times
    return counts
