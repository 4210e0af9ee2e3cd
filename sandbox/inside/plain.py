"""Plain data as JSON with tags: built-in values only, exact types, bounded in size, depth and digits.

None, bool, str, finite floats and ints below 2^63 stand for themselves; everything else is a list whose first entry
is a tag. Reading builds built-in values and nothing else, so data from a hostile process can be read anywhere.
"""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Optional

MAX_DEPTH = 64
MAX_NODES = 1_000_000
MAX_BITS = 1 << 16  # of an int: some 20,000 digits
MAX_BYTES = 16 << 20
MAX_JOB_BYTES = 256 << 20

_SEQUENCES: dict = {list: "l", tuple: "t", set: "s", frozenset: "z"}
_BUILDERS: dict = {"l": list, "t": tuple, "s": set, "z": frozenset}


class NotPlain(Exception):
    """The value is no plain data, or is too large."""


def dump(value: Any, opaque: Optional[Callable[[Any], list]] = None, most: int = MAX_BYTES) -> bytes:
    """The value as bytes; `opaque` turns what is no plain data into a tagged list of its own.

    Raises:
        NotPlain: it cannot be said in plain data.
    """
    return to_bytes(encode(value, opaque), most)


def to_bytes(tree: Any, most: int = MAX_BYTES) -> bytes:
    """An encoded tree as bytes."""
    content = json.dumps(tree, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(content) > most:
        raise NotPlain(f"the data takes more than {most} bytes")
    return content


def load(content: bytes, restore: Optional[Callable[[list], Any]] = None, most: int = MAX_BYTES) -> Any:
    """The value that `dump` wrote; `restore` rebuilds the tagged lists of `opaque`.

    Raises:
        NotPlain: the bytes say no such value, whoever wrote them.
    """
    return decode(from_bytes(content, most), restore)


def from_bytes(content: bytes, most: int = MAX_BYTES) -> Any:
    """An encoded tree from bytes; its depth is bounded by `decode`.

    Raises:
        NotPlain: it is none.
    """
    if len(content) > most:
        raise NotPlain(f"the data takes more than {most} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise NotPlain("the data cannot be read") from None


def encode(value: Any, opaque: Optional[Callable[[Any], list]] = None) -> Any:
    """The value as a tree of what JSON knows."""
    return _Encoder(opaque).encode(value, 0)


def decode(tree: Any, restore: Optional[Callable[[list], Any]] = None) -> Any:
    """The value that such a tree says."""
    try:
        return _decode(tree, 0, restore)
    except (TypeError, ValueError, IndexError, AttributeError, RecursionError):
        raise NotPlain("the data is no plain data") from None


class _Encoder:
    def __init__(self, opaque: Optional[Callable[[Any], list]]) -> None:
        self.opaque = opaque
        self.nodes = 0

    def encode(self, value: Any, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise NotPlain("the data is too deep or too large")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return _int(value)
        if kind is float:
            return value if math.isfinite(value) else ["f", repr(value)]
        if kind is bytes:
            return ["b", value.decode("latin-1")]
        if kind in _SEQUENCES:
            return [_SEQUENCES[kind], *[self.encode(entry, depth + 1) for entry in value]]
        if kind is dict:
            tree: list = ["d"]
            for key, entry in value.items():
                tree.append(self.encode(key, depth + 1))
                tree.append(self.encode(entry, depth + 1))
            return tree
        return self.other(value, depth)

    def other(self, value: Any, depth: int) -> Any:
        """What is a built-in value by inheritance (a Counter, a named tuple, an IntEnum) goes as that."""
        for base, exact in _BASES:
            if isinstance(value, base) and issubclass(type(value), base):
                return self.encode(exact(value), depth + 1)
        if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
            return self.encode(value.tolist(), depth + 1)
        if self.opaque is not None:
            return self.opaque(value)
        raise NotPlain(f"a value of type {type(value).__name__} is no plain data")


# Each goes through the base class's own methods, so that a subclass cannot show one value now and another later.
_BASES: list = [
    (int, lambda value: int.__index__(value) if type(int.__index__(value)) is int else int.__add__(value, 0)),
    (float, lambda value: float.__float__(value)),
    (str, lambda value: str.__getitem__(value, slice(None))),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (bytearray, lambda value: bytes(value)),
    (list, lambda value: list.__getitem__(value, slice(None))),
    (tuple, lambda value: tuple.__getitem__(value, slice(None))),
    (set, lambda value: {*set.__iter__(value)}),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
]


def _int(value: int) -> Any:
    if -(1 << 63) <= value < 1 << 63:
        return value
    if value.bit_length() > MAX_BITS:
        raise NotPlain(f"an int has more than {MAX_BITS} bits")
    return ["i", hex(value)]


def _decode(tree: Any, depth: int, restore: Optional[Callable[[list], Any]]) -> Any:
    kind = type(tree)
    if tree is None or kind is bool or kind is str:
        return tree
    if kind is int:
        if tree.bit_length() > MAX_BITS:
            raise NotPlain("an int is too long")
        return tree
    if kind is float:
        if not math.isfinite(tree):
            raise NotPlain("a float is not finite")
        return tree
    if kind is not list or depth > MAX_DEPTH:
        raise NotPlain("the data is no plain data, or too deep")
    tag = tree[0]
    if tag in ("l", "t", "s", "z"):
        return _BUILDERS[tag]([_decode(entry, depth + 1, restore) for entry in tree[1:]])
    if tag == "d":
        values = [_decode(entry, depth + 1, restore) for entry in tree[1:]]
        return dict(zip(values[::2], values[1::2]))
    if tag == "i" and len(tree[1]) <= MAX_BITS // 4 + 4:
        return int(tree[1], 16)
    if tag == "f" and tree[1] in ("inf", "-inf", "nan"):
        return float(tree[1])
    if tag == "b":
        return tree[1].encode("latin-1")
    if restore is None:
        raise NotPlain("the data has a tag that is not known")
    return restore(tree)
