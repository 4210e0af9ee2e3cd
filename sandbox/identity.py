"""Tests in which `a is b` asks for one thing also where values come from another process as copies."""

from __future__ import annotations

import ast
import functools
import io
import tokenize

_SAME = "__same__"
_Word = tuple[int, int, int]
"""A line, and where a word begins and ends in it, in bytes."""
_Edit = tuple[int, int, int, bytes]
"""A line, from where to where, and what comes there."""


# A group of completions has the same tests.
@functools.lru_cache(maxsize=512)
def with_identity_asked(source: str) -> str:
    """The source of tests with `__same__(a, b)` in place of `a is b`, but where a side is a constant such as None.

    `a is not b` becomes `(not __same__(a, b, False))`. Chains of comparisons are left as they are, and so is what
    Python cannot read.
    """
    texts = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    try:
        tree = ast.parse(source)
        words = _words(texts)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return source
    in_text = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
    edits = [
        edit
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and _asks(node) and id(node) not in in_text
        for edit in _edits(node, words)
    ]
    if not edits:
        return source
    lines = [text.encode() for text in texts]
    for line, start, end, text in sorted(edits, reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text + lines[line - 1][end:]
    return b"\n".join(lines).decode()


def _asks(node: ast.Compare) -> bool:
    one = len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot)
    return one and not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators))


def _edits(node: ast.Compare, words: list[_Word]) -> list[_Edit]:
    """What makes a call of the comparison; nothing where the words between its sides are not those of the operator."""
    left, right = node.left, node.comparators[0]
    negated = isinstance(node.ops[0], ast.IsNot)
    begins, ends = (left.end_lineno or 0, left.end_col_offset or 0), (right.lineno, right.col_offset)
    between = [word for word in words if begins <= word[:2] < ends]
    if len(between) != 1 + negated or between[0][0] != between[-1][0]:
        return []
    end = node.end_col_offset or 0
    return [
        (node.lineno, node.col_offset, node.col_offset, f"(not {_SAME}(".encode() if negated else f"{_SAME}(".encode()),
        (between[0][0], between[0][1], between[-1][2], b","),
        (node.end_lineno or 0, end, end, b", False))" if negated else b")"),
    ]


def _words(lines: list[str]) -> list[_Word]:
    """Where `is` and `not` stand."""
    found: list[_Word] = []
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.NAME and token.string in ("is", "not"):
            line, column = token.start
            before = len(lines[line - 1][:column].encode())
            found.append((line, before, before + len(token.string)))
    return found
