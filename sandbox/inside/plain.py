"""Plain data as JSON with tags: built-in values only, exact types, bounded in size, depth and digits.

None, bool, str, finite floats and ints below 2^63 stand for themselves; everything else is a list whose first entry
is a tag. Reading builds values of built-in and standard types and nothing else, so data from a hostile process can be
read anywhere. Where both sides have objects (`opaque` and `restore`), a list, dict or set that is twice in a value is
one thing on the other side as well.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Callable, Optional
from uuid import UUID

MAX_DEPTH = 64
MAX_NODES = 1_000_000
MAX_BITS = 1 << 20  # of an int: some 300,000 digits
MAX_DIGITS = 20_000  # of a Decimal, and of its exponent's range
MAX_ALIKE = 100  # members of a set or dict whose hash another one has; a table of them takes quadratic time
MAX_BYTES = 16 << 20
MAX_JOB_BYTES = 256 << 20

_SEQUENCES: dict = {list: "l", tuple: "t", set: "s", frozenset: "z"}
_BUILDERS: dict = {"l": list, "t": tuple, "s": set, "z": frozenset}
_MUTABLE = (list, dict, set)
_DICTS: dict = {"d": dict, "C": Counter, "O": OrderedDict}
_FACTORIES: dict = {kind.__name__: kind for kind in (int, float, bool, str, list, tuple, dict, set)}
_MOMENTS: dict = {kind.__name__: kind for kind in (date, datetime, time, timedelta)}


_WRITER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)


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
    content = _WRITER.encode(tree).encode("ascii")
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
    if content.count(b",") + content.count(b"[") > _MOST_MARKS and _is_crowded(content):
        raise NotPlain("the data is too large")
    try:
        return json.loads(str(content, "ascii"))
    except (ValueError, RecursionError):
        raise NotPlain("the data cannot be read") from None


_MOST_MARKS = 3 * MAX_NODES


def _is_crowded(content: bytes) -> bool:
    """Whether the text says more entries than `decode` takes, found before they are built."""
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * _MOST_MARKS:
        return True
    outside = b"".join(bare.split(b'"')[::2])
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{") > _MOST_MARKS


def encode(value: Any, opaque: Optional[Callable[[Any], list]] = None) -> Any:
    """The value as a tree of what JSON knows."""
    return _Encoder(opaque).encode(value, 0)


def decode(tree: Any, restore: Optional[Callable[[list], Any]] = None) -> Any:
    """The value that such a tree says."""
    try:
        return _Decoder(restore).decode(tree, 0)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError):
        raise NotPlain("the data is no plain data") from None


class _Encoder:
    def __init__(self, opaque: Optional[Callable[[Any], list]]) -> None:
        self.opaque = opaque
        self.nodes = 0
        # By what it is, not by what it is like; with the things themselves, so that their ids stay theirs.
        self.places: dict = {}

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
        if self.opaque is not None and kind in _MUTABLE:
            if id(value) not in self.places:
                tree = self.contents(value, depth)
                self.places[id(value)] = (len(self.places), value)
                return tree
            return ["=", self.places[id(value)][0]]
        if kind in _SEQUENCES or kind is dict:
            return self.contents(value, depth)
        return self.standard(value, depth) or self.other(value, depth)

    def contents(self, value: Any, depth: int) -> list:
        """What is in a built-in collection."""
        kind = type(value)
        if kind is dict:
            return self.pairs(["d"], value, depth)
        if kind is set or kind is frozenset:
            _check_hashes(value)
        return [_SEQUENCES[kind], *[self.encode(entry, depth + 1) for entry in value]]

    def pairs(self, tree: list, value: dict, depth: int) -> list:
        """The keys and values of a dict after its tag."""
        _check_hashes(value)
        for key, entry in dict.items(value):
            tree.append(self.encode(key, depth + 1))
            tree.append(self.encode(entry, depth + 1))
        return tree

    def standard(self, value: Any, depth: int) -> Optional[list]:
        """What is exactly of a standard type; None if it is not."""
        kind = type(value)
        if kind is complex:
            return ["c", self.encode(value.real, depth), self.encode(value.imag, depth)]
        if kind is Fraction:
            return ["F", _int(value.numerator), _int(value.denominator)]
        if kind is Decimal:
            return ["D", _checked(value).__str__()]
        if kind is range and not value[MAX_NODES:]:
            return ["r", _int(value.start), _int(value.stop), _int(value.step)]
        if kind is slice:
            return ["S", *[self.encode(part, depth + 1) for part in (value.start, value.stop, value.step)]]
        if value is ...:
            return ["E"]
        if kind is deque:
            return ["q", value.maxlen, *[self.encode(entry, depth + 1) for entry in value]]
        if kind in _MOMENTS.values():
            return _moment(value)
        # Where no tests are near that ask for their fields and methods, they go as what they are besides: named tuples
        # as tuples, bytearrays as bytes, dicts of other kinds as dicts.
        if self.opaque is not None:
            if issubclass(kind, tuple) and _field_names(kind):
                values = [self.encode(entry, depth + 1) for entry in tuple.__iter__(value)]
                return ["N", kind.__name__, _field_names(kind), *values]
            if is_array(value) and value.dtype.kind in "biufc":
                flat = [self.encode(entry, depth + 1) for entry in value.ravel().tolist()]
                return ["A", value.dtype.str, list(value.shape), *flat]
            if isinstance(value, PurePath) and kind.__module__.partition(".")[0] == "pathlib":
                return ["P", isinstance(value, Path), str(value)]
            if kind is UUID:
                return ["U", _int(value.int)]
            if kind is MappingProxyType:
                return self.pairs(["M"], dict(value), depth)
            if kind is bytearray:
                return ["B", value.decode("latin-1")]
            if kind is memoryview and value.format == "B" and value.ndim == 1:
                return ["m", value.tobytes().decode("latin-1")]
            if kind is array:
                return ["G", value.typecode, *[self.encode(entry, depth + 1) for entry in value.tolist()]]
            if kind is Counter or kind is OrderedDict:
                return self.pairs(["C" if kind is Counter else "O"], value, depth)
            if kind is defaultdict:
                made = getattr(value.default_factory, "__name__", None)
                if _FACTORIES.get(made) is value.default_factory:
                    return self.pairs(["Y", made], value, depth)
        return None

    def other(self, value: Any, depth: int) -> Any:
        """What is a built-in value by inheritance (a Counter, a named tuple, an IntEnum) goes as that."""
        for base, exact in _BASES:
            if isinstance(value, base) and issubclass(type(value), base):
                return self.encode(exact(value), depth + 1)
        if _is_scalar_of_numpy(value):
            return self.encode(value.item(), depth + 1)
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


def _checked(value: Decimal) -> Decimal:
    _, digits, exponent = value.as_tuple()
    if exponent in ("n", "F"):
        return value
    if not isinstance(exponent, int) or len(digits) > MAX_DIGITS or abs(exponent) > MAX_DIGITS:
        raise NotPlain(f"a Decimal has more than {MAX_DIGITS} digits")
    return value


def _check_hashes(members: Any) -> None:
    if len(members) - len({hash(member) for member in members}) > MAX_ALIKE:
        raise NotPlain("too many members of a set or dict have the same hash")


def _moment(value: Any) -> Optional[list]:
    """A date, a time or a duration; None with a time zone of another kind than a fixed offset."""
    kind = type(value)
    tree: list = ["w", kind.__name__]
    if kind is timedelta:
        return [*tree, value.days, value.seconds, value.microseconds]
    if kind is not time:
        tree += [value.year, value.month, value.day]
    if kind is not date:
        zone = value.tzinfo
        if zone is not None and type(zone) is not timezone:
            return None
        offset = None if zone is None else zone.utcoffset(None) // timedelta(microseconds=1)
        tree += [value.hour, value.minute, value.second, value.microsecond, offset, value.fold]
    return tree


def _moment_from(name: str, *parts: Any) -> Any:
    """What `_moment` told."""
    kind = _MOMENTS[name]
    if kind is timedelta or kind is date:
        return kind(*map(_exact_int, parts))
    *numbers, offset, fold = parts
    zone = None if offset is None else timezone(timedelta(microseconds=_exact_int(offset)))
    return kind(*map(_exact_int, numbers), tzinfo=zone, fold=_exact_int(fold))


def _exact_int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("an int was expected")
    return value


class _Decoder:
    def __init__(self, restore: Optional[Callable[[list], Any]]) -> None:
        self.restore = restore
        self.nodes = 0
        self.built: list = []

    def decode(self, tree: Any, depth: int) -> Any:
        kind = type(tree)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise NotPlain("the data is too large")
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
        return self.tagged(tree, depth)

    def tagged(self, tree: list, depth: int) -> Any:
        tag = tree[0]
        if tag in ("l", "t", "s", "z"):
            values = self.all(tree[1:], depth)
            if tag in ("s", "z"):
                _check_hashes(values)
            return self.noted(_BUILDERS[tag](values))
        if tag in ("d", "C", "O"):
            return self.noted(_DICTS[tag](self.pairs(tree[1:], depth)))
        if tag == "Y":
            return defaultdict(_FACTORIES[tree[1]], self.pairs(tree[2:], depth))
        if tag == "i":
            return _long_int(tree)
        if tag == "f" and tree[1] in ("inf", "-inf", "nan"):
            return float(tree[1])
        if tag == "b":
            return tree[1].encode("latin-1")
        if tag == "B":
            return bytearray(tree[1].encode("latin-1"))
        if tag in ("c", "F", "D", "r", "S", "E", "q", "w"):
            return self.standard(tag, tree[1:], depth)
        if self.restore is None:
            raise NotPlain("the data has a tag that is not known")
        if tag == "=":
            return self.built[_exact_int(tree[1])]
        if tag == "N":
            return _named_tuple(tree[1], tree[2])(*self.all(tree[3:], depth))
        if tag == "P":
            return (Path if tree[1] else PurePath)(str(tree[2]))
        if tag == "M":
            return MappingProxyType(self.pairs(tree[1:], depth))
        if tag == "m":
            return memoryview(tree[1].encode("latin-1"))
        if tag == "G":
            return array(tree[1], self.all(tree[2:], depth))
        if tag == "U":
            return UUID(int=_exact_int(self.decode(tree[1], depth)))
        if tag == "A":
            return _array(tree[1], tree[2], self.all(tree[3:], depth))
        return self.restore(tree)

    def noted(self, value: Any) -> Any:
        """The value, where it may come again, noted in the order in which it was written."""
        if self.restore is not None and type(value) in _MUTABLE:
            self.built.append(value)
        return value

    def all(self, trees: list, depth: int) -> list:
        return [self.decode(entry, depth + 1) for entry in trees]

    def pairs(self, trees: list, depth: int) -> dict:
        values = self.all(trees, depth)
        _check_hashes(values[::2])
        return dict(zip(values[::2], values[1::2]))

    def standard(self, tag: str, parts: list, depth: int) -> Any:
        if tag == "D":
            if len(parts[0]) > MAX_DIGITS + 20:
                raise NotPlain("a Decimal is too long")
            return _checked(Decimal(str(parts[0])))
        if tag == "w":
            return _moment_from(*parts)
        values = self.all(parts, depth)
        if tag == "c":
            real, imaginary = values
            if type(real) is not float or type(imaginary) is not float:
                raise TypeError("floats were expected")
            return complex(real, imaginary)
        if tag == "F":
            return Fraction(*map(_exact_int, values))
        if tag == "r":
            made = range(*map(_exact_int, values))
            if made and abs(made.stop - made.start) // abs(made.step) > MAX_NODES:
                raise NotPlain("a range is too long")
            return made
        if tag == "S":
            return slice(*values)
        return ... if tag == "E" else deque(values[1:], values[0])


def _field_names(kind: type) -> list:
    """The fields of a class of named tuples; none if it is no such class."""
    names = getattr(kind, "_fields", ())
    sound = isinstance(names, tuple) and all(type(name) is str and len(name) <= 100 for name in names)
    return list(names) if sound and len(names) <= 100 else []


def _named_tuple(name: Any, fields: Any) -> Any:
    """The class of named tuples of this name and these fields; the same each time. Raises ValueError for bad ones."""
    key = (str(name)[:100], *map(str, fields[:100]))
    if key not in _named_tuples:
        if len(_named_tuples) > 1000:
            raise NotPlain("too many classes of named tuples")
        _named_tuples[key] = namedtuple(key[0], key[1:])
    return _named_tuples[key]


_named_tuples: dict = {}
_KIND_OF_NUMBERS = re.compile(r"[<>|=]?[biufc]\d{1,2}")


def is_array(value: Any) -> bool:
    """Whether it is an array of NumPy's, and exactly that."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is getattr(numpy, "ndarray", None)


def _is_scalar_of_numpy(value: Any) -> bool:
    # An array is no list: NumPy itself refuses to say whether they are equal.
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic) and type(value).__module__ == "numpy"


def _array(kind: Any, shape: Any, values: list) -> Any:
    """The array of this kind of numbers and shape."""
    sizes = [_exact_int(size) for size in shape]
    if not _KIND_OF_NUMBERS.fullmatch(kind) or len(sizes) > 32 or math.prod(sizes) != len(values):
        raise NotPlain("this is no array")
    numpy = importlib.import_module("numpy")
    return numpy.array(values, dtype=kind).reshape(sizes)


def _long_int(tree: list) -> int:
    if len(tree[1]) > MAX_BITS // 4 + 4:
        raise NotPlain("an int is too long")
    return int(tree[1], 16)
