"""Tests in which `a is b` asks for one thing also where values come from another process as copies."""

from __future__ import annotations

import ast
import functools
import io
import tokenize

SAME = "__same__"


# A group of completions has the same tests.
@functools.lru_cache(maxsize=512)
def with_identity_asked(source: str) -> str:
    """The source of tests with `__same__(a, b)` in place of `a is b`, but where a side is a constant such as None.

    `a is not b` becomes `(not __same__(a, b, False))`.

    Chains of comparisons are left as they are, and so is what Python cannot read.
    """
    texts = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = [text.encode() for text in texts]
    edits: list[tuple[int, int, int, bytes]] = []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    in_text = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
    asked = [node for node in ast.walk(tree) if id(node) not in in_text and _asks(node)]
    if not asked:
        return source
    words = _words(texts)
    for node in asked:
        assert isinstance(node, ast.Compare)
        left, right = node.left, node.comparators[0]
        between = [
            w for w in words if (left.end_lineno, left.end_col_offset) <= w[:2] < (right.lineno, right.col_offset)
        ]
        if len(between) != (2 if isinstance(node.ops[0], ast.IsNot) else 1) or between[0][0] != between[-1][0]:
            continue
        line, start, end = between[0][0], between[0][1], between[-1][2]
        begin = f"(not {SAME}(" if isinstance(node.ops[0], ast.IsNot) else f"{SAME}("
        edits.append((node.lineno, node.col_offset, node.col_offset, begin.encode()))
        edits.append((line, start, end, b","))
        close = b", False))" if isinstance(node.ops[0], ast.IsNot) else b")"
        edits.append((node.end_lineno or 0, node.end_col_offset or 0, node.end_col_offset or 0, close))
    for line, start, end, text in sorted(edits, reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text + lines[line - 1][end:]
    asking = b"\n".join(lines).decode()
    try:
        ast.parse(asking)
    except SyntaxError:
        return source
    return asking


def _asks(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
        return False
    return not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators))


def _words(lines: list[str]) -> list[tuple[int, int, int]]:
    """Where the words `is` and `not` stand: line, and first and last byte in it."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.NAME and token.string in ("is", "not"):
            line, column = token.start
            before = len(lines[line - 1][:column].encode())
            found.append((line, before, before + len(token.string)))
    return found
