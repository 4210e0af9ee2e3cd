"""Reading Python source line by line without parsing it: open strings, open brackets, what a line may be.

The source is hostile text of any size, on which `ast.parse` can take exponential time or end the process, so
everything here looks at each character a bounded number of times.
"""

from __future__ import annotations

import re
import sys

_TOKEN = re.compile(
    r"""\\. | \#.* | \"{3} | '{3}
    | "(?:[^"\\]++|\\(?:.|$))*+(?:"|$) | '(?:[^'\\]++|\\(?:.|$))*+(?:'|$)
    | [\[\](){}]""",
    re.VERBOSE,
)
_LONG_END = {quote: re.compile(rf"\\.|{quote}") for quote in ('"""', "'''")}

_STATEMENT = re.compile(
    r"""(?:
      (?:async\s+)?def\s+\w+\s*[(\[] | class\s+\w+\s*[(:\[] | @\w
    | import\s+[\w.]+(?:\s+as\s+\w+)?\s*(?:[,;\#]|$) | from\s+[\w.]+\s+import\b
    | (?:if|elif|while|for|with|match|case|except|async\s+(?:for|with))\b.*:\s*(?:\#.*)?$
    | (?:if|elif|while)\b.*:\s*\w+ (?=[(\s=.\[]) [^:]* [()=]
    | for\s+\w[\w\s,()]*\s+in\b.*:
    | (?:else|try|finally|except)\s*:
    | (?:return|yield|raise|assert|del|global|nonlocal)\s+[\w(\[{'"-].*[\])}'"\w]$
    | (?:pass|break|continue|return)\s*(?:[;\#]|$)
    | [A-Za-z_][\w.]*(?:\[[^\]]*\])?(?:\s*,\s*[A-Za-z_*][\w.]*)*\s*(?::\s*[\w.\[\], |]+)?\s*
      (?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?![=])
    | [A-Za-z_][\w.]*\(.*(?:[\])},({\[:'"\\]|\#.*)$
    | ['"]{3} | [)\]}]
    )""",
    re.VERBOSE,
)
_DEFINITION = re.compile(
    r"""^(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)[^\n]*
      | ^(\w+)[ \t]*(?::[^\n=]*)?=(?!=)[^\n]*
      | ^from[ \t]+\S+[ \t]+import[ \t]([^\n]*)""",
    re.VERBOSE | re.MULTILINE,
)
_FUNCTION_OR_CLASS = re.compile(r"^(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)", re.MULTILINE)
_INNER = re.compile(r"(?:(?:async[ \t]+)?def|class)[ \t]+\w|@")
_NOTHING = re.compile(r"""(?:pass|\.{3}|raise[ \t]++NotImplementedError\b.*)[ \t]*+(?:\#.*)?$|[rR]?["']""")
_NOTHING_AFTER = re.compile(r":[ \t]*+(?:(?:pass|\.{3})[ \t]*+)?(?:\#.*)?$|^@")
# A longer line is judged by its beginning: the pattern may look at a character more than once.
_LONGEST_LINE = 400
_CLAUSE = re.compile(r"(?:elif|else|except|finally)\b")
_GOES_ON = (":", "\\", ",", ".", "=", "+", "-", "*", "/", "%", "&", "|", "^", "<", "(", "[", "{")
_ENDS_EARLY = re.compile(
    r"""(?:^|[^\w.])(?:and|or|not|in|is|if|elif|lambda|import|from|for|while|with|as|def|class|assert|del|await)$
      | ^@ | ^(?!(?:pass|break|continue|return|raise|yield)$)[^\W\d][\w.]*+$
      | ^(?:(?:async[ \t]++)?(?:def|for|with)|class|if|elif|while|else|try|except|finally)\b[^:]*+$""",
    re.VERBOSE,
)
# The rest of a line is a comment, or a text that the line breaks off.
_BEFORE_REST = re.compile(
    r"""(?:[^"'\\\#]++ | \\. | \"{3}(?:[^"\\]++|\\.|"(?!""))*+\"{3} | '{3}(?:[^'\\]++|\\.|'(?!''))*+'{3}
    | "(?:[^"\\]++|\\.)*+" | '(?:[^'\\]++|\\.)*+')*+""",
    re.VERBOSE,
)


class LineReader:
    """What is open after the lines that were fed to it.

    Attributes:
        quote: the delimiter of an open triple-quoted string, or "".
        depth: how many brackets are open.
    """

    def __init__(self) -> None:
        self.quote = ""
        self.depth = 0

    @property
    def inside(self) -> bool:
        """Whether the next line goes on with a string or a bracket."""
        return bool(self.quote) or self.depth > 0

    def feed(self, line: str) -> None:
        """Take in one line."""
        position = 0
        while position < len(line):
            pattern = _LONG_END[self.quote] if self.quote else _TOKEN
            match = pattern.search(line, position)
            if match is None:
                return
            position = match.end()
            token = match.group()
            if token == self.quote:
                self.quote = ""
            elif self.quote:
                continue
            elif token in _LONG_END:
                self.quote = token
            elif token in ("(", "[", "{"):
                self.depth += 1
            elif token in (")", "]", "}"):
                self.depth = max(0, self.depth - 1)


def is_statement(line: str) -> bool:
    """Whether a line without indentation reads as Python rather than as prose."""
    return _STATEMENT.match(line[:_LONGEST_LINE]) is not None


def is_whole(code: str) -> bool:
    """Whether the code does not end in the middle of a statement, as far as its marks and its last word tell."""
    reader = LineReader()
    last, alone = "", True
    for line in code.split("\n"):
        continued = reader.inside or last.endswith("\\")
        reader.feed(line)
        if line.strip() and not line.lstrip().startswith("#"):
            last, alone = line.strip(), not continued
    rest = ""
    if alone and (match := _BEFORE_REST.match(last)):
        last, rest = match.group().rstrip(), last[match.end() :]
    if reader.inside or rest[:1] in ("'", '"', "\\") or (last.endswith(_GOES_ON) and not last.endswith("...")):
        return False
    return not alone or _ENDS_EARLY.search(last) is None


def without_last_statement(code: str) -> str:
    """The code before the last of its statements without indentation, with the decorators and all lines of that."""
    reader = LineReader()
    lines = code.split("\n")
    start, decorated = 0, False
    for at, line in enumerate(lines):
        if not reader.inside and line[:1] not in ("", " ", "\t", "#") and not _CLAUSE.match(line):
            start = start if decorated else at
            decorated = line[0] == "@"
        reader.feed(line)
    return "\n".join(lines[:start]).rstrip()


def defined_names(code: str) -> frozenset[str]:
    """The names that the code's lines without indentation define, assign or import from elsewhere."""
    names: set[str] = set()
    for match in _DEFINITION.finditer(code):
        function, assigned, imported = match.groups()
        if imported is not None:
            parts = [part.strip("() \t").split() for part in imported.split(",")]
            names.update(part[-1] for part in parts if part)
        else:
            names.add(function or assigned)
    return frozenset(names)


def made_names(code: str) -> frozenset[str]:
    """The names that these lines make themselves, or import from what comes with Python; see `defined_names`.

    A name from elsewhere (`from solution import f`) is that of another piece of code.
    """
    names: set[str] = set()
    for match in _DEFINITION.finditer(code):
        function, assigned, imported = match.groups()
        if imported is None:
            names.add(function or assigned)
        elif match.group().split()[1].partition(".")[0] in sys.stdlib_module_names:
            names |= defined_names(match.group())
    return frozenset(names)


def functions_and_classes(code: str) -> frozenset[str]:
    """The names of the functions and classes that stand without indentation."""
    return frozenset(_FUNCTION_OR_CLASS.findall(code))


def stubs(code: str) -> frozenset[str]:
    """The names of those of them that do nothing: their bodies are `...`, `pass`, a docstring, or not implemented."""
    found: set[str] = set()
    name, in_header = "", False
    reader = LineReader()
    for line in code.split("\n"):
        continued = reader.inside
        reader.feed(line)
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        if not continued:
            begun = _FUNCTION_OR_CLASS.match(line)
            if line[0] not in " \t":
                name = begun.group(1) if begun else ""
                found.update({name} if begun else ())
            in_header = begun is not None or _INNER.match(content) is not None
        if in_header and not reader.inside:
            in_header = False
            if not _NOTHING_AFTER.search(content):
                found.discard(name)
        elif not continued and not in_header and not _NOTHING.match(content):
            found.discard(name)
    return frozenset(found)


def words(code: str) -> frozenset[str]:
    """Every identifier-like word."""
    return frozenset(re.findall(r"[^\W\d]\w*", code))


def lines_of(text: str) -> list[str]:
    """The lines of a text, whichever way they end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [_plain_spaces(line) for line in lines] if "\xa0" in text or "\ufeff" in text else lines


def _plain_spaces(line: str) -> str:
    """The line without a mark of byte order at its start, and with spaces for those that do not break.

    They are no part of Python, but may be of a string.
    """
    line = line.lstrip("\ufeff")
    rest = line.lstrip(" \t\xa0")
    indentation = line[: len(line) - len(rest)].replace("\xa0", " ")
    return indentation + (rest if '"' in rest or "'" in rest else rest.replace("\xa0", " "))
