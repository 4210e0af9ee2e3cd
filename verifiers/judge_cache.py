"""Judgements that were paid for once: in memory and, where a path is given, in a file that outlives the process."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from ..sandbox.errors import UserError
from .judge_prompt import Judgement

_MOST_IN_MEMORY = 50_000
_memory: OrderedDict[str, Judgement] = OrderedDict()
_lock = Lock()


def cache_key(**question: Any) -> str:
    """A digest of everything that a judgement depends on."""
    return hashlib.sha256(
        json.dumps(question, sort_keys=True, default=repr).encode("utf-8", "surrogatepass")
    ).hexdigest()


def recall(key: str, path: Path | None) -> Judgement | None:
    """The judgement that was remembered under `key`; None if there is none.

    Raises:
        UserError: the file at `path` cannot be used.
    """
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
            return _memory[key]
    if path is None:
        return None
    rows = _query(path, "SELECT score, reason FROM judgements WHERE key = ?", (key,))
    return Judgement(float(rows[0][0]), str(rows[0][1])) if rows else None


def remember(key: str, judgement: Judgement, path: Path | None) -> None:
    """Keep a judgement, in the file at `path` too if there is one.

    Raises:
        UserError: the file at `path` cannot be used.
    """
    with _lock:
        _memory[key] = judgement
        while len(_memory) > _MOST_IN_MEMORY:
            _memory.popitem(last=False)
    if path is not None:
        row = (key, judgement.score, judgement.reason.encode("utf-8", "replace").decode("utf-8"))
        _query(path, "INSERT OR REPLACE INTO judgements VALUES (?, ?, ?)", row)


def forget_memory() -> None:
    """Drop what is kept in memory; files stay."""
    with _lock:
        _memory.clear()


def _query(path: Path, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    import sqlite3

    # A connection each time: several threads and processes may share the file, and a judge's reply takes far longer.
    try:
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS judgements (key TEXT PRIMARY KEY, score REAL, reason TEXT)")
            return connection.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise UserError(f"The judge's cache {str(path)!r} cannot be used ({error}); pass another cache_path.") from None
