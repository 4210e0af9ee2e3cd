"""Which code a completion hands in: its fenced blocks, or its unfenced code, read as a careful reader would.

Everything here takes time linear in the completion's length, which is hostile text of any size.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from .code_context import typing_imports, wanted_lines
from .code_lines import (
    LineReader,
    defined_names,
    functions_and_classes,
    is_statement,
    is_whole,
    lines_of,
    made_names,
    stubs,
    without_last_statement,
    words,
)
from .code_marks import is_session, typed, unquoted, without_commands
from .code_stdin import reading_ranks

PYTHON = frozenset({"python", "python3", "py", "py3", "python2", "ipython", "ipython3", "sage", "cython"})
"""The language tags of Python."""
_WRAPPERS = frozenset({"markdown", "md"})

_FENCE = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)(.*)$")
_LATE_FENCE = re.compile(r"(?<!`)(`{3,}+)[ \t]*+([\w+#.-]++)[ \t]*+$")
_ONE_LINE = re.compile(r"^[ \t]*+(`{3,}+)([^`]++)\1[ \t]*+$")
_TAG = re.compile(r"^[ \t]*(?:\{[ \t]*)?\.?([\w+#-]+)(?:[ \t]*\})?(.*)$")
# Prose is seldom indented so far.
_INDENTED = re.compile(r"(?: {4}|\t)[ \t]*+(?:if|elif|for|while|with|return|raise|assert|import|from|yield)\b")
FUTURE = re.compile(r"^from __future__ import [^\n]*", re.MULTILINE)
"""The imports that have to be the first of a program."""
_TOP_DEF = re.compile(r"^(?:(?:async[ \t]+)?def|class)[ \t]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of code in a text.

    Attributes:
        tag: the language that its fence names, in lower case; "" for none.
        code: its lines.
        closed: whether its fence was closed.
    """

    tag: str
    code: str
    closed: bool = True


def solution_code(text: str, names: Collection[str] = (), *, reads_stdin: bool = False) -> str | None:
    """The program in the text that follows the reasoning; None if there is no code.

    It is the last block of Python that defines all of `names`, not by stubs, and is whole; else, of those that are
    there, the last that is closest to it. So a usage example, an output, a signature or a truncated second attempt
    after the solution does not count. Blocks that define functions or classes which it uses and does not have go
    before it, and so do the imports and constants of earlier blocks that it uses. A program with a class gets the
    names of `typing` that it uses without importing them, as on sites with such exercises; other imports that it
    forgot it goes without. Where no line opens a fence, the lines that read as Python are the code. What breaks off
    at the end of the text, after all of `names`, is left out: a usage example or a test, say. So are the commands of
    a notebook.

    Args:
        text: what the model wrote after its reasoning.
        names: what the tests call.
        reads_stdin: whether the tests feed the standard input, so that a program which reads it is preferred, also to
            functions that only could and to a harness that puts an example in its place.
    """
    blocks = [block for block in fenced_blocks(text) if block.code.strip()]
    if not blocks:
        blocks = unfenced_blocks(text)
    blocks = [_as_meant(block, names) for block in blocks]
    candidates = _of_python([block for block in blocks if block.code.strip()], names)
    if not candidates:
        return None
    reading = reading_ranks([block.code for block in candidates]) if reads_stdin else [0] * len(candidates)
    fitness = [(*_fitness(block, names, reads_stdin), rank) for block, rank in zip(candidates, reading, strict=True)]
    return _with_helpers(candidates, max(range(len(candidates)), key=lambda at: (fitness[at], at)), names)


def _of_python(blocks: Sequence[Block], names: Collection[str]) -> list[Block]:
    """The blocks that are Python by their tag; untagged ones where none is; others only if they define the names."""
    tagged = [block for block in blocks if block.tag in PYTHON]
    plain = [block for block in blocks if not block.tag]
    wanted = frozenset(names)
    if wanted and not any(wanted <= defined_names(block.code) for block in tagged):
        defining = [block for block in blocks if wanted <= defined_names(block.code)]
        if defining:
            return [block for block in blocks if block.tag in PYTHON or not block.tag or block in defining[-1:]]
    if tagged:
        return tagged
    return [block for block in plain if _reads_as_code(block.code)] or plain


def _fitness(block: Block, names: Collection[str], reads_stdin: bool) -> tuple[int, ...]:
    defined = defined_names(block.code)
    made = made_names(block.code)
    return (
        sum((name in defined) + (name in made) for name in names),
        not stubs(block.code).intersection(names),
        block.closed or is_whole(block.code),
        not is_session(block.code),
        bool(not names and not reads_stdin and _TOP_DEF.search(block.code)),
    )


def _with_helpers(blocks: Sequence[Block], chosen: int, names: Collection[str]) -> str:
    """The chosen block after the other ones that define functions or classes which it needs."""
    pieces = [blocks[chosen].code]
    defined, used = set(defined_names(pieces[0])), set(words(pieces[0]))
    for block in [*reversed(blocks[:chosen]), *blocks[chosen + 1 :]]:
        offered = functions_and_classes(block.code)
        again = any(name in defined for name in names if name in offered)
        if not again and any((name in used or name in names) and name not in defined for name in offered):
            pieces.append(block.code)
            defined |= defined_names(block.code)
            used |= words(block.code)
    taken = set(pieces)
    before = "\n".join(block.code for block in blocks[:chosen] if block.code not in taken)
    program = "\n\n".join(reversed(pieces))
    if program.lstrip("\n")[:1] in (" ", "\t"):
        # The body of a function goes on with its header.
        return program
    lines = wanted_lines(before, program, names)
    lines = [*typing_imports("\n".join([*lines, program])), *lines]
    if not lines:
        return program
    futures = "".join(f"{line}\n" for line in FUTURE.findall(program))
    return f"{futures}{chr(10).join(lines)}\n\n{FUTURE.sub('', program) if futures else program}"


def fenced_blocks(text: str) -> list[Block]:
    """The blocks between fences of backticks or tildes, in order.

    A fence inside a triple-quoted string is text of that string, unless the string never ends. One that names a
    language ends the block before it, since no line of Python begins so. A fence may be indented, may stand at the
    end of a line, be quoted, and may hold a single line of code between two marks. A block of Markdown is looked into.
    """
    lines = unquoted(lines_of(text))
    reader = _FenceReader(lines, minds_strings=True)
    blocks = reader.read()
    if reader.open_string:
        blocks = _FenceReader(lines, minds_strings=False).read()
    return blocks


class _FenceReader:
    """Goes through the lines of a text once."""

    def __init__(self, lines: Sequence[str], minds_strings: bool) -> None:
        self._lines = lines
        self._minds_strings = minds_strings
        self._blocks: list[Block] = []
        self._mark = ""
        self._tag = ""
        self._indent = 0
        self._code: list[str] = []
        self._strings = LineReader()
        self._wrapped = ""
        self.open_string = False
        """Whether a fence was passed over in a string that did not end."""

    def read(self) -> list[Block]:
        passed_over = False
        for line in self._lines:
            if not self._mark:
                passed_over = False
                self._outside(line)
            elif self._minds_strings and self._strings.quote and self._tag in (*PYTHON, ""):
                passed_over = passed_over or _FENCE.match(line) is not None
                self._keep(line)
            else:
                passed_over = False
                self._inside(line)
        if self._mark:
            self.open_string = bool(passed_over and self._strings.quote)
            self._end(closed=False)
        return self._blocks

    def _outside(self, line: str) -> None:
        one = _ONE_LINE.match(line)
        if one is not None:
            tag, code = _tag_and_code(one.group(2))
            if tag or is_statement(code.strip()):
                self._blocks.append(Block(tag, code.strip()))
            return
        fence = _FENCE.match(line)
        if fence is None:
            late = _LATE_FENCE.search(line)
            if late is not None and "`" not in line[: late.start()]:
                self._begin(0, late.group(1), late.group(2))
            return
        indent, mark, info = fence.groups()
        if self._wrapped and not info.strip() and mark.startswith(self._wrapped):
            self._wrapped = ""
        elif "`" not in info or mark[0] == "~":
            self._begin(len(indent), mark, info)

    def _begin(self, indent: int, mark: str, info: str) -> None:
        tag, first = _tag_and_code(info)
        if tag in _WRAPPERS:
            self._wrapped = mark
            return
        self._mark, self._tag, self._indent, self._code = mark, tag, indent, []
        self._strings = LineReader()
        if first.strip() and is_statement(first.strip()):
            self._keep(first.strip())

    def _inside(self, line: str) -> None:
        fence = _FENCE.match(line)
        if fence is not None and fence.group(2)[0] == self._mark[0]:
            indent, mark, info = fence.groups()
            if not info.strip() and len(mark) >= len(self._mark):
                self._end(closed=True)
                return
            if info.strip() and "`" not in info and len(mark) == len(self._mark):
                self._end(closed=True)
                self._begin(len(indent), mark, info)
                return
        if fence is None and self._mark[0] == "`" and line.rstrip().endswith(self._mark):
            code = line.rstrip().rstrip("`")
            if _is_remark(code):
                self._keep(line)
                return
            self._keep(code)
            self._end(closed=True)
            return
        self._keep(line)

    def _keep(self, line: str) -> None:
        blank = len(line) - len(line.lstrip(" \t"))
        line = line[min(blank, self._indent) :]
        self._strings.feed(line)
        self._code.append(line)

    def _end(self, closed: bool) -> None:
        self._blocks.append(Block(self._tag, "\n".join(self._code), closed))
        self._mark = ""


def _is_remark(code: str) -> bool:
    """Whether what stands before a fence is a comment that speaks of it, rather than the last line of the code."""
    return code.lstrip().startswith("#") or (code[-1:] in (" ", "\t") and " #" in code)


def _tag_and_code(info: str) -> tuple[str, str]:
    """The language that the text after a fence names, and what follows it on the line."""
    match = _TAG.match(info)
    if match is None or is_statement(info.strip()):
        return "", info
    tag = match.group(1).lower()
    return tag, match.group(2)


def _as_meant(block: Block, names: Collection[str]) -> Block:
    code = without_commands(_as_written(block.code, names))
    return replace(block, code=code if block.closed else _without_cut_end(code, names))


def _without_cut_end(code: str, names: Collection[str]) -> str:
    """The code without a last statement that breaks off, if what the tests call is there without it."""
    if not names or is_whole(code):
        return code
    kept = without_last_statement(code)
    wanted = defined_names(code).intersection(names)
    is_body = kept.lstrip("\n")[:1] in (" ", "\t")
    return kept if is_body or (wanted and wanted <= defined_names(kept)) else code


def _as_written(code: str, names: Collection[str]) -> str:
    """The code without the indentation of all its lines, unless it is the body of a function.

    Where an interactive session defines something, what was typed is the code; else it shows how that is used.
    """
    session = typed(code)
    if session is not code and functions_and_classes(session).intersection(names or functions_and_classes(session)):
        return session
    first = next((line for line in code.split("\n") if line.strip()), "")
    if first[:1] not in (" ", "\t"):
        return code
    plain = textwrap.dedent(code)
    defined = functions_and_classes(plain)
    return plain if (defined.intersection(names) if names else defined) else code


def _reads_as_code(code: str) -> bool:
    return any(is_statement(line) for line in code.split("\n"))


def unfenced_blocks(text: str) -> list[Block]:
    """The runs of lines that read as Python, where nothing is fenced.

    A run begins with a statement and goes on over what is indented, blank or a comment, and over strings and
    brackets that are open; a line of prose ends it.
    """
    blocks: list[Block] = []
    run: list[str] = []
    reader = LineReader()
    for line in lines_of(text):
        if _belongs(line, bool(run), reader.inside):
            reader.feed(line)
            run.append(line)
        elif run:
            blocks.append(Block("", "\n".join(run).rstrip()))
            run, reader = [], LineReader()
    if run:
        blocks.append(Block("", "\n".join(run).rstrip(), closed=False))
    return blocks


def _belongs(line: str, running: bool, inside: bool) -> bool:
    if running and inside:
        return True
    if not line.strip() or line.startswith("#"):
        return running
    if line[0] in " \t":
        return running or is_statement(line.strip()) or _INDENTED.match(line) is not None
    return is_statement(line)
