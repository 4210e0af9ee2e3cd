"""Answers that a text announces without a box: by `####`, in `<answer>`, in words, in bold.

Each reader gives the statement that comes last, together with those right before it that nothing but punctuation
separates from it (they contradict it or repeat it). Everything here takes time linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from .tags import tags

# A longer text is no longer the answer of a sentence; of more statements in a row, and of more places where there
# could be one, the last count.
_LONGEST = 2000
_MOST = 100
_MOST_PLACES = 1000

_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Statement:
    """An announced answer.

    Attributes:
        text: what it says, empty if it was cut off.
        start: where in the whole text its announcement begins.
        end: where it ends.
        withdrawn: whether what follows says that it is wrong.
    """

    text: str
    start: int
    end: int
    withdrawn: bool = False


_RETRACTION = re.compile(
    r"""
    [\s$*})\]\\,;.!?"'`-]*+
    (?:(?:but|oh|wait|no|hmm+|actually|sorry|oops|however|hold\son|which|this|that|it|(?:the|my|this|that)\sanswer)
       \b[,.!…]*+\s++)*
    (?:(?:is|was|must\sbe|has\sto\sbe|(?:that|it|this)['’]s)\s(?:(?:clearly|obviously|definitely|just)\s)?
       (?:wrong|incorrect|mistaken|a\smistake|not\s(?:correct|right|the\s(?:correct|right)\sanswer|the\sanswer))
      |(?:isn|wasn)['’]t\s(?:correct|right)
      |(?:cannot|can['’]t)\sbe\s(?:right|correct)
      |scratch\sthat)\b
    (?!\s(?:if|only|unless|for|to)\b|[^.!\n]{0,40}\?)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def retracted(text: str, position: int) -> bool:
    """Whether the text goes on at `position` by saying that what stands before it is wrong."""
    return _RETRACTION.match(text, position, position + 200) is not None


# ---- by a marker

_MARKER = re.compile(r"(?<!#)####(?!#)[ \t]*+([^\n]*+)")
# How an answer begins, in contrast to a heading of Markdown's fourth level: with a number, money, mathematics,
# a bracket, one letter, or as one word.
_VALUE = re.compile(
    r"[-+−±]?\s?(?:\\?[$€£¥]\s?)?\.?\d(?!\d?[.)]\s+[A-Za-z])|\\[A-Za-z(\[{]|[$({\[√π∞∅]|-?[A-Za-z](?:\W|\Z)"
    r"|(?:yes|no|true|false|none)\b\W*\Z|[-+−]\s?[A-Za-z\\√π∞]",
    re.IGNORECASE,
)


def is_value(text: str) -> bool:
    """Whether a text begins as a number, a formula or a choice does, rather than as a sentence."""
    return _VALUE.match(text) is not None


def marked(text: str) -> list[Statement]:
    """What the rest of the line after the last `####` says."""
    if "####" not in text:
        return []
    found = list(_MARKER.finditer(text))[-_MOST_PLACES:]
    end = len(text.rstrip())
    return _latest(text, (_marked(text, line, is_last=line.end() >= end) for line in reversed(found)))


def _marked(text: str, line: re.Match[str], *, is_last: bool) -> Statement | None:
    answer = bare(line.group(1))
    if not (is_last or is_value(answer)) or _ANNOUNCED.search(answer):
        return None
    if not answer and not is_last:
        return None
    return Statement(answer, line.start(), line.end(), retracted(text, line.end()))


# ---- between tags


def tagged(text: str) -> list[Statement]:
    """What the last `<answer>...</answer>` holds; cut off if the last one never closes."""
    found = tags(text, "answer") if "answer>" in text else ()
    if not found:
        return []
    pairs: list[Statement] = []
    for position, tag in enumerate(found):
        if tag.closing:
            continue
        if position + 1 == len(found):
            pairs.append(Statement("", tag.start, len(text)))
        elif found[position + 1].closing:
            close = found[position + 1]
            inside = _inside(text[tag.end : close.start])
            pairs.append(Statement(inside, tag.start, close.end, retracted(text, close.end)))
    return _latest(text, reversed(pairs))


def _inside(text: str) -> str:
    announced = phrased(text)
    # An announcement within mathematics belongs to the formula, which is read as a whole.
    return announced[-1].text if announced and text[announced[-1].start] not in "\\$" else bare(text)


# ---- in words

_ANNOUNCED = re.compile(
    r"""
    \b(?:ans(?:wers?)?|(?:correct|right)\s(?:option|choice))\b
    (?:\s(?:option|choice))?
    (?:\s(?:to|for|of|in)\s[^.\n:;?!$=]{1,60}?)?
    (?:,\s\w{1,12}(?:\s\w{1,12})?,)?
    [*_)}"'`]{0,4}\s?
    (?:\b(?:is|are|was|equals|(?:would|must|should|will|has\sto)\sbe|comes\sout\s(?:to|as))\b|[=:：])
    [\s*_:：]*+
    |
    ^[\#*\ ]{1,8}(?:the\ )?(?:final\ )?answer[*\ \t]*+\n\s*+
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_LEAD = re.compile(
    r"(?:\b(?:the|my|our|your|a|an|so|its?)\s)?"
    r"(?:\b(?:final|correct|right|best|exact|numerical|simplified|desired|required|overall|complete)\s){0,3}\Z",
    re.IGNORECASE,
)
_VERB = r"(?:expect|think|guess|believe|assume|claim|say|suspect|imagine|conclude|argue|hope|doubt|wonder|suppos)"
# What makes of the announcement that follows no statement of the writer's.
_UNCOMMITTED = re.compile(
    rf"(?:\b{_VERB}(?:e|s|es|ed|d|ing)?|\b(?:if|unless|whether|possible|potential|candidate|plausible|wrong|incorrect"
    r"|alternative|another|other|tempting|naive)|(?:\bnot|n['’]t)\s(?:sure|certain|clear)|\w['’]s|s['’])\s(?:that\s)?\Z",
    re.IGNORECASE,
)
_OWN_VIEW = re.compile(
    r"\b(?:i|we)(?:['’](?:d|ll)|\s(?:would|can|will|now|therefore|thus|firmly|do))?\s"
    r"(?:think|guess|believe|say|suspect|conclude|claim)\s(?:that\s)?\Z|\blet['’]s\s\Z",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"(?:not|never|no\s+longer|neither|hardly|unlikely|(?:definitely|certainly)\s+not)\b", re.IGNORECASE
)
# What is said about an answer rather than being one, if another is there.
_REMARK = re.compile(
    r"(?:correct|right|wrong|incorrect|obvious|clear|simple|easy|trivial|unique|consistent|verified|confirmed"
    r"|reasonable|plausible|known|unknown|found|shown|boxed|based|as\s+follows|above|below|in\s+the)\b",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:(?:therefore|thus|hence|then|simply|just|indeed|actually|clearly|exactly|precisely|equal\s+to|given\s+by|now"
    r"|the\s+(?:number|value|integer)(?=\s+\W*\d)|(?:the\s+)?(?:option|choice)(?=\s+\W*[A-Z]\b)),?\s+)+",
    re.IGNORECASE,
)


def phrased(text: str) -> list[Statement]:
    """What the last "the answer is ..." says, up to the end of its sentence or line.

    Denied answers ("is not 42"), those of somebody else or under a condition ("you might expect that the answer
    is 42") and lists of possible ones are no statements.
    """
    found = list(_ANNOUNCED.finditer(text))[-_MOST_PLACES:]
    if not found:
        return []
    # A plain remark ("the answer is correct") counts only where nothing else is said.
    statements = list(_latest(text, _phrases(text, found, remarks=False)))
    return statements or _latest(text, _phrases(text, found, remarks=True))


def _phrases(text: str, found: list[re.Match[str]], *, remarks: bool) -> Iterator[Statement | None]:
    limit = len(text)
    for announced in reversed(found):
        lead = _LEAD.search(text, max(announced.start() - 60, 0), announced.start())
        start = lead.start() if lead else announced.start()
        if command := _TEXT_COMMAND.search(text, max(start - 100, 0), start):
            start, closing = _formula_around(text, command.start())
            yield _formula_phrase(text, start, announced.end(), limit, closing)
            limit = start
            continue
        yield _phrase(text, start, announced.end(), limit, remarks=remarks)
        limit = start


def _phrase(text: str, start: int, begin: int, limit: int, *, remarks: bool) -> Statement | None:
    before = text[max(start - 60, 0) : start]
    if _UNCOMMITTED.search(before) and not _OWN_VIEW.search(before):
        return None
    filler = _FILLER.match(text, begin, limit)
    begin = filler.end() if filler else begin
    if _NEGATED.match(text, begin) or bool(_REMARK.match(text, begin)) > remarks:
        return None
    end = _sentence_end(text, begin, limit)
    if text[end : end + 1] == "?":
        return None
    clause = _main_clause(text[begin:end])
    if begin + len(clause) == end:
        clause = _without_exclamation(clause + text[end : end + 1]) if text[end : end + 1] == "!" else clause
    answer = bare(clause)
    if not answer and (end < len(text) or limit < len(text)):
        return None
    withdrawn = retracted(text, end) or retracted(text, min(begin + len(clause), end))
    return Statement(answer, start, end, withdrawn)


_TEXT_COMMAND = re.compile(r"\\(?:text[a-z]{0,2}|mathrm|mathbf|mbox)\s?\{[^{}$\\\n]*+\Z")
_DELIMITER = re.compile(r"\$\$?|\\[\[\]()]|\n\n")


def _formula_around(text: str, position: int) -> tuple[int, str]:
    """Where the formula that `position` is in begins, and the sign that ends it; `position` and "" if in none."""
    begin, closing = position, ""
    for sign in _DELIMITER.finditer(text, max(position - 200, 0), position):
        if closing:
            closing = "" if sign.group() in (closing, "\n\n") else closing
        elif sign.group() == "$":
            begin, closing = sign.start(), "$"
        else:
            begin, closing = sign.start(), _CLOSING.get(sign.group(), "")
    return (begin, closing) if closing else (position, "")


def _formula_phrase(text: str, start: int, begin: int, limit: int, closing: str) -> Statement | None:
    r"""What is announced inside a `\text{...}`, either there or behind it."""
    last = min(limit, begin + _LONGEST)
    outside = text[begin : begin + 1] == "}" or "}" in text[max(begin - 4, start) : begin]
    begin += text[begin : begin + 1] == "}"
    blank = _BLANK.match(text, begin, last)
    begin = blank.end() if blank else begin
    if _NEGATED.match(text, begin):
        return None
    if not outside:
        end = text.find("}", begin, last)
    elif closing:
        end = text.find(closing, begin, last)
    else:
        end = _sentence_end(text, begin, last)
    end = last if end < 0 else end
    answer = bare(text[begin:end])
    if not answer and end < len(text):
        return None
    after = end + len(closing) if closing and text.startswith(closing, end) else end
    return Statement(answer, start, after, retracted(text, after))


_BLANK = re.compile(r"(?:\s|\\[,;:! ]|\\q?quad\b|~)*+")
_FACTORIAL = re.compile(r"(?:(?<![\w\\])[a-z]|(?<!\\)\((?!\w\))[^(),]{1,60}\))!\Z")


def _without_exclamation(text: str) -> str:
    """The sentence without the exclamation marks at its end, unless they are a factorial's, as in n! or (n-1)!.

    After a number they are taken for an exclamation; a formula's sign stands in mathematics.
    """
    return text if _FACTORIAL.search(text) else text.rstrip("!")


_STOP = re.compile(
    r"\$\$?|\\[\[(]|\\.|[.?](?=[\s*_\"'”`)]|\Z)|!(?=[\s*_\"'”`)]|\Z)(?!\s?[=+/×·<]|\s[a-z])|[\n。]", re.DOTALL
)
_CLOSING = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}


def _sentence_end(text: str, begin: int, limit: int) -> int:
    """Where the sentence that goes on at `begin` ends, mathematics being no place for it to end."""
    last = min(limit, begin + _LONGEST)
    position = begin
    while stop := _STOP.search(text, position, last):
        sign = stop.group()
        if sign in (".", "!", "?", "\n", "。"):
            if text[max(stop.start() - 4, 0) : stop.start()].lower() not in (" a.m", " p.m"):
                return stop.start()
            position = stop.end()
        elif sign == "$":
            position = _dollar_end(text, stop.end(), last)
        elif sign in _CLOSING:
            close = text.find(_CLOSING[sign], stop.end(), last)
            position = stop.end() if close < 0 else close + 2
        else:
            position = stop.end()
    return last


def _dollar_end(text: str, inside: int, last: int) -> int:
    """Where the formula that a dollar sign before `inside` opens ends; `inside` if the sign means money.

    As in Pandoc's Markdown, there is no space inside the signs (or one at both ends), and no digit after them.
    """
    spaced = text[inside : inside + 1].isspace()
    close = text.find("$", inside, last)
    while close >= 0:
        escaped = text[close - 1] == "\\"
        if not escaped and text[close - 1].isspace() == spaced and not text[close + 1 : close + 2].isdigit():
            return close + 1
        if not escaped:
            return inside
        close = text.find("$", close + 1, last)
    return inside


# ---- in bold

_BOLD_END = " \t\r\n.!"
_JOINED = re.compile(r"(?:\bor|\band|[,/|])\s*\Z", re.IGNORECASE)


def emboldened(text: str) -> list[Statement]:
    """What stands between `**` at the very end of the text, unless it is the last of several joined there."""
    end = text.rstrip(_BOLD_END)
    if not end.endswith("**"):
        return []
    begin = end.rfind("**", max(len(end) - 300, 0), len(end) - 2)
    answer = end[begin + 2 : -2]
    answer = _without_exclamation(answer)
    if begin < 0 or "\n" in answer or _JOINED.search(end, max(begin - 20, 0), begin):
        return []
    return [Statement(bare(answer), begin, len(end))] if bare(answer) else []


# ---- what they share

_EMPHASISED = re.compile(r"(?<!\w)\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?!\w)")
_EXCLAIMED_WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}!+\Z")
_ASIDE = re.compile(
    r"\$[^$]*+\$|\\\([^\\]*+\\\)|"
    r"(?P<aside>(?:[,;]?\s+\(?|,)(?:because|since|which|but|so|therefore|hence|not|rather\s+than|instead\s+of|as\s+"
    r"(?:required|desired|shown|expected|claimed|stated|above|before)|and\s+(?:we|so|that|this|not)|I\s+hope)\b)",
    re.IGNORECASE,
)
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("`", "`"), ('"', '"'), ("“", "”"), ("'", "'"))


def bare(text: str) -> str:
    """The text without the emphasis, punctuation, quotes and mathematics delimiters around it.

    An exclamation mark stays after all but a word, since it makes a number a factorial.
    """
    text = _EMPHASISED.sub(r"\1", text)
    while True:
        stripped = text.strip().strip("*").rstrip(",;:.").strip()
        if stripped.endswith("!") and _EXCLAIMED_WORD.search(stripped, max(len(stripped) - 40, 0)):
            stripped = stripped.rstrip("!")
        for left, right in _WRAPPERS:
            inner = stripped[len(left) : -len(right)]
            if len(stripped) >= len(left + right) and stripped == left + inner + right and left not in inner:
                stripped = inner.strip()
        if stripped == text or len(text) > _LONGEST:
            return "" if stripped in ("$", "$$", "\\[", "\\(") else stripped
        text = stripped


def _main_clause(text: str) -> str:
    for match in _ASIDE.finditer(text):
        if match.group("aside") and match.start() > 0:
            return text[: match.start()]
    return text


def _latest(text: str, backwards: Iterator[Statement | None]) -> list[Statement]:
    """The last statement and those that stand right before it, in order; `backwards` gives them from the end."""
    found: list[Statement] = []
    for statement in takewhile(lambda _: len(found) < _MOST, backwards):
        if found and (statement is None or _WORD.search(text, statement.end, found[-1].start)):
            break
        if statement is not None:
            found.append(statement)
            if not statement.text:
                break
    return found[::-1]
