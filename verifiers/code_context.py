"""What a piece of code takes from the text around it: imports, constants, and the names of `typing`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from .code_lines import LineReader, defined_names, words

_TYPING = frozenset(
    "Any Callable DefaultDict Deque Dict FrozenSet Generator Iterable Iterator List Literal Mapping NamedTuple "
    "NoReturn Optional Sequence Set Tuple Type TypeVar Union".split()
)
_ALL_OF_TYPING = re.compile(r"^(?:from[ \t]+typing[ \t]+import[ \t]*\*|import[ \t]+typing\b)", re.MULTILINE)
_CLASS = re.compile(r"^class[ \t]", re.MULTILINE)
_IMPORT = re.compile(r"(?:import|from)[ \t]")
_CONSTANT = re.compile(r"([^\W\d]\w*)[ \t]*(?::[^\n=]*)?=(?!=)")
_BINDING = re.compile(r"[ \t]*(?:(?:async[ \t]+)?(?:def|for|with)|import|from|class|global|except)\b")
_LOOP = re.compile(r"\b(?:for|lambda)\b([^:\[\](){}\n]{0,200})")
_MOST_READ = 200_000
# A constant is not made of what runs or waits.
_EFFECTS = frozenset({"input", "open", "print", "exit", "quit", "eval", "exec", "stdin", "await", "yield"})


def typing_imports(program: str) -> list[str]:
    """The import, if any, of what a program with classes takes from `typing` without saying so."""
    if not _CLASS.search(program):
        return []
    names = _TYPING & words(program)
    if not names or _ALL_OF_TYPING.search(program):
        return []
    missing = sorted(names - defined_names(program) - imported_names(program))
    return [f"from typing import {', '.join(missing)}"] if missing else []


def imported_names(code: str) -> frozenset[str]:
    """The names that imports without indentation make, of all lines of each."""
    return frozenset(
        name for statement in statements(code) if _IMPORT.match(statement) for name in _names_of_import(statement)
    )


def wanted_lines(before: str, program: str, names: Collection[str]) -> list[str]:
    """The imports and constants in earlier code that a program uses and does not have.

    A constant counts as had where the program makes anything of its name: an argument or a loop's variable, say.

    Args:
        before: the earlier code.
        program: the program.
        names: what the tests call, of which constants cannot be made.
    """
    if not before:
        return []
    used, had = set(words(program)), set(defined_names(program) | imported_names(program))
    bound: frozenset[str] | None = None
    taken: list[str] = []
    # From the end, for a constant may need what stands before it, and the last word counts.
    for statement in reversed(list(statements(before[-_MOST_READ:]))):
        if _IMPORT.match(statement):
            offered = _names_of_import(statement)
        else:
            offered = _constant(statement, names)
            if (offered & used) - had:
                bound = bound_names(program) if bound is None else bound
                offered -= bound
        if (offered & used) - had and "__future__" not in statement:
            taken.append(statement)
            used |= words(statement)
            had |= offered
    return taken[::-1]


def statements(code: str) -> Iterator[str]:
    """The statements without indentation that stand alone, each with all its lines."""
    reader, lines = LineReader(), list[str]()
    for line in code.split("\n"):
        if not reader.inside:
            if lines:
                yield "\n".join(lines)
            lines = []
        fresh = not reader.inside
        reader.feed(line)
        if (not fresh and lines) or (fresh and line[:1] not in ("", " ", "\t", "#")):
            lines.append(line)
    if lines and not reader.inside:
        yield "\n".join(lines)


def _names_of_import(statement: str) -> frozenset[str]:
    text = re.sub(r"#[^\n]*|[()\\\n]", " ", statement).strip()
    module, imported, names = text.partition(" import ")
    if not imported or not module.startswith("from"):
        names = text.removeprefix("import")
    parts = [part.split() for part in names.split(",")]
    return frozenset(part[-1].partition(".")[0] for part in parts if part and part[-1] != ";")


def _constant(statement: str, names: Collection[str]) -> frozenset[str]:
    match = _CONSTANT.match(statement)
    if match is None or match.group(1) in names:
        return frozenset()
    value = words(statement[match.end() :])
    return frozenset() if value & _EFFECTS or not value.isdisjoint(names) else frozenset({match.group(1)})


def bound_names(code: str) -> frozenset[str]:
    """At the least the names that the code makes at any depth; some others that stand on the same lines too."""
    names: set[str] = set()
    reader, binding = LineReader(), False
    for line in code.split("\n"):
        binding = (binding and reader.inside) or _BINDING.match(line) is not None
        reader.feed(line)
        if binding:
            names |= words(line.rpartition(":")[0] or line)
        left, assigned, _ = line.partition("=")
        if assigned and "(" not in left:
            names |= words(left)
        for match in _LOOP.finditer(line):
            names |= words(match.group(1).partition(" in ")[0])
    return frozenset(names)
