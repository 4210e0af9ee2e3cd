"""The verifier of language: how much of a completion is in the language or the script that was asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .completion_parts import completion_part
from .registry import verifier
from .scripts import FOREIGN_LETTERS, OWN_SCRIPT, SCRIPTS, count_scripts
from .verdict import Verdict

RIVALS = ("en", "de", "es", "fr", "it", "pt")
"""The languages that a language without a script of its own is told from by default."""

_LONGEST_SEGMENT = 400
_MOST_DETECTED = 100_000
# A detector's first choice that is not clearly ahead of the target says nothing: short sentences look like any.
_CLEARLY_AHEAD = 2.0
_HAN_WITHOUT_KANA = 8

# Code, formulas, commands, addresses and tags. Every alternative is closed, bounded or ended by the text's end.
_NOT_PROSE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\$\$.*?(?:\$\$|\Z)|\$[^$\n]{1,300}\$|\\\(.*?(?:\\\)|\Z)|\\\[.*?(?:\\\]|\Z)"
    r"|\\(?:begin|end)\{[^{}\n]{0,50}\}|\\[A-Za-z]+|\b(?:https?://|www\.)\S+|<[^<>\n]{1,100}>",
    re.DOTALL,
)
_ASCII = re.compile(r"[\x00-\x09\x0b-\x7f]+")
# A single letter, or capitals such as ABC or DNA, with no letter beside it: a name or a symbol in any language.
_SYMBOL = re.compile(r"(?<![A-Za-zÀ-ɏͰ-ϿḀ-ỿ])(?:[A-Za-zͰ-Ͽ]|[A-Z]{2,4})(?![A-Za-zÀ-ɏͰ-ϿḀ-ỿ])")
_SENTENCE = re.compile(r"[^.!?;:\n。！？；：]+")


@verifier("rlvr/language-v1")
def language(
    completion: str,
    target: str,
    minimum: float = 0.9,
    part: str = "all",
    rivals: Sequence[str] = RIVALS,
    think: str = "generated",
    prompt: object = None,
) -> Verdict:
    """The share, from 0 to 1, of the completion's letters that are in the target language or script.

    It passes from `minimum` on. Digits, punctuation, formulas, code, LaTeX commands, addresses, tags,
    single letters and short words in capitals (x, ABC) count for nothing, but letters beyond ASCII count
    inside code and formulas too, lest they hide there. A completion without letters scores 1: nothing in it
    is in a wrong language.

    - A script ("Latin", "Han", "Cyrillic", "Kana", "Japanese", ...): its letters count.
    - A language with a script of its own ("zh", "ja", "ko", "ru", "ar", ...): likewise, except for sentences
      with a letter that only other languages of the script use, and for "ja" sentences of more than 8 Han
      characters without Kana, which do not count.
    - Any other language ("en", "de", ...): sentence by sentence, by the detector `lingua` (the extra
      `rlvr[language]`), told from `rivals`. A sentence counts with all of its letters unless another language
      is at least twice as likely. Of long texts every k-th sentence is looked at.

    Args:
        completion: what the model wrote.
        target: the name of a script, or the ISO 639-1 code of a language.
        minimum: the least share that passes.
        part: "all", "reasoning" or "answer".
        rivals: the codes of the languages that the target may be confused with; each takes some 30 MB.
        think: the think style, for `part`.
        prompt: the rendered prompt or chat messages, which the think style "auto" looks at.

    Raises:
        UserError: there is no such language or script, an option is not one of the possible values, or
            `lingua` is needed and not installed.
    """
    if isinstance(minimum, bool) or not isinstance(minimum, int | float) or not 0 <= minimum <= 1:
        raise UserError(f"minimum={minimum!r} is no share; pass a number from 0 to 1.")
    measure = _measure_of(target, rivals)
    prose = _prose(completion_part(completion, part, think, prompt))
    right, letters = measure(prose)
    if letters == 0:
        return Verdict(1.0, True, detail="there are no letters")
    share = right / letters
    return Verdict(share, share >= minimum, detail=f"{right} of {letters} letters are in {target}")


def _prose(text: str) -> str:
    """The text without what is no prose; of that, only the letters beyond ASCII are left."""
    text = _NOT_PROSE.sub(lambda found: " " + _ASCII.sub(" ", found.group()) + " ", text)
    return _SYMBOL.sub(" ", text)


Measure = Callable[[str], tuple[int, int]]


def _measure_of(target: object, rivals: Sequence[str]) -> Measure:
    """What counts the letters in the target, and all letters, of a text."""
    name = str(target)
    script = next((known for known in SCRIPTS if known.lower() == name.lower()), None)
    if script is not None:
        scripts = SCRIPTS[script]
        return lambda prose: _count(prose, scripts)
    code = name.lower()
    if code == "ja":
        return _count_japanese
    if code in FOREIGN_LETTERS:
        return lambda prose: _count_without_foreign(prose, OWN_SCRIPT[code], FOREIGN_LETTERS[code])
    if code in OWN_SCRIPT:
        return lambda prose: _count(prose, OWN_SCRIPT[code])
    detector = _Detector(code, tuple(sorted({code, *map(str.lower, rivals)})))
    return detector.count


def _count(prose: str, scripts: Collection[str]) -> tuple[int, int]:
    counts = count_scripts(prose)
    return sum(times for script, times in counts.items() if script in scripts), counts.total()


def _count_without_foreign(prose: str, scripts: Collection[str], foreign: frozenset[str]) -> tuple[int, int]:
    right = letters = 0
    for sentence in _sentences(prose):
        own, size = _count(sentence, scripts)
        right += own if foreign.isdisjoint(sentence) else 0
        letters += size
    return right, letters


def _count_japanese(prose: str) -> tuple[int, int]:
    right = letters = 0
    for sentence in _sentences(prose):
        counts = count_scripts(sentence)
        kana, han = counts["Hiragana"] + counts["Katakana"], counts["Han"]
        right += kana + (han if kana or han <= _HAN_WITHOUT_KANA else 0)
        letters += counts.total()
    return right, letters


class _Detector:
    """Counts the letters of the sentences that are in one of several languages."""

    def __init__(self, code: str, codes: tuple[str, ...]) -> None:
        self.detector, languages = _lingua(codes)
        self.language = languages[code]
        self.others = [language for language in languages.values() if language is not self.language]

    def count(self, prose: str) -> tuple[int, int]:
        """The letters in the language, and all letters."""
        sentences = list(_sentences(prose))
        stride = 1 + len(prose) // _MOST_DETECTED
        right = letters = 0
        for sentence in sentences[::stride]:
            size = count_scripts(sentence).total()
            if size:
                letters += size
                right += self._share(sentence, size)
        return right, letters

    def _share(self, sentence: str, size: int) -> int:
        """How many of a sentence's letters are in the language: those in the scripts it is written in, or none."""
        likely = self.detector.compute_language_confidence_values(sentence)
        own = next((one.value for one in likely if one.language == self.language), 0.0)
        if likely[0].value >= _CLEARLY_AHEAD * own:
            return 0
        return min(size, _count(sentence, _scripts_of(self.language))[0])


def _sentences(prose: str) -> Iterator[str]:
    for found in _SENTENCE.finditer(prose):
        sentence = found.group()
        for start in range(0, len(sentence), _LONGEST_SEGMENT):
            yield sentence[start : start + _LONGEST_SEGMENT]


@lru_cache(maxsize=8)
def _lingua(codes: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """A detector among languages, and those languages by code."""
    try:
        from lingua import Language, LanguageDetectorBuilder
    except ModuleNotFoundError:
        raise UserError(
            "Telling languages of one script apart needs the package 'lingua-language-detector'; install it with: "
            "pip install 'rlvr[language]'."
        ) from None
    known = {language.iso_code_639_1.name.lower(): language for language in Language.all()}
    for code in codes:
        if code not in known:
            raise UserError(
                f"There is no language or script {code!r}; {did_you_mean(code.title(), {*known, *SCRIPTS})}"
            )
    languages = {code: known[code] for code in codes}
    if len(languages) < 2:
        raise UserError(f"rivals= names no language but {codes[0]!r} itself; name some that it may be confused with.")
    return LanguageDetectorBuilder.from_languages(*languages.values()).build(), languages


@lru_cache(maxsize=128)
def _scripts_of(language: Any) -> frozenset[str]:
    from lingua import Language

    if language in Language.all_with_cyrillic_script():
        return frozenset({"Cyrillic", "Latin"} if language == Language.SERBIAN else {"Cyrillic"})
    if language in Language.all_with_arabic_script():
        return frozenset({"Arabic"})
    if language in Language.all_with_devanagari_script():
        return frozenset({"Devanagari"})
    return frozenset({"Latin"})
