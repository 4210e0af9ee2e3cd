"""What tests change around a function before they call it, taken over to the program's process, and what it printed.

`monkeypatch` changes the process that the tests run in, which is not the program's. Its environment, `sys.argv`,
`input`, `sys.stdin` and what `random.seed` and `numpy.random.seed` were told are carried across; what the program
writes to `sys.stdout` and `sys.stderr` comes back, where `capsys` hears it.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import io
import os
import sys
from typing import Any, Callable, Optional

_MOST_TEXT = 1 << 20
_SEEDED = ("random", "numpy.random")


class Around:
    """The surroundings as the tests have them.

    Args:
        hand_over: makes a function of theirs callable from the program.
        tests: the texts of their files.
    """

    def __init__(self, hand_over: Callable[[Any], list], tests: list) -> None:
        self.hand_over = hand_over
        self.environment = _environment()
        self.argv = list(sys.argv)
        self.input = builtins.input
        self.stdin = sys.stdin
        self.told: Optional[tuple] = None
        self.seen: Optional[tuple] = None
        self.seeds: dict = {}
        for module in _SEEDED:
            name = module.partition(".")[0]
            if any(name in text for text in tests) and importlib.util.find_spec(name):
                self.overhear(module)

    def overhear(self, module: str) -> None:
        """Have the program hear what the tests tell `seed` of this module."""
        source: Any = importlib.import_module(module)
        seed = source.seed

        def heard(*given: Any, **named: Any) -> None:
            seed(*given, **named)
            self.seeds[module] = [list(given), named]

        source.seed = heard

    def changes(self) -> Optional[list]:
        """What is to be said about them before the next call; None if nothing has changed."""
        seen = (os.environ._data.copy(), [*sys.argv], builtins.input, sys.stdin)  # type: ignore[attr-defined]
        if seen == self.seen:
            return None
        self.seen = seen
        now = (_environment(), *seen[1:])
        if now == self.told or (self.told is None and now == (self.environment, self.argv, self.input, self.stdin)):
            return None
        if self.told is None and not self.changed(now):
            return None
        environment = {name: now[0].get(name) for name in {*now[0], *self.environment}}
        environment = {name: value for name, value in environment.items() if value != self.environment.get(name)}
        given = None if builtins.input is self.input else self.hand_over(builtins.input)
        text = None
        if _is_text(sys.stdin) and sys.stdin is not self.stdin:
            # Asked for again only if it is another one, for the program reads on where it was.
            text = False if self.told is not None and self.told[3] is sys.stdin else sys.stdin.read()
        self.told = now
        return ["around", environment, list(now[1]) if now[1] != self.argv else None, given, text]

    def changed(self, now: tuple) -> bool:
        """Whether anything is not as it was at first; what pytest puts for stdin is no change."""
        same = now[:3] == (self.environment, self.argv, self.input)
        return not same or (now[3] is not self.stdin and _is_text(now[3]))


def _environment() -> dict:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def _is_text(stream: Any) -> bool:
    """Whether it is a text that the tests made, and no file of the process."""
    if type(stream) is io.StringIO:
        return True
    return type(stream) is io.TextIOWrapper and type(stream.buffer) is io.BytesIO


class Surroundings:
    """The same in the program's process."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self.argv = list(sys.argv)
        self.input = builtins.input
        self.stdin = sys.stdin

    def take_over(self, environment: dict, argv: Optional[list], given: Any, text: Any) -> None:
        """Change them as the tests did, and back what they did not."""
        wanted = {**self.environment, **environment}
        for name in {*os.environ, *wanted}:
            value = wanted.get(name)
            if value is None:
                os.environ.pop(name, None)
            elif os.environ.get(name) != value:
                os.environ[name] = value
        sys.argv[:] = self.argv if argv is None else argv
        builtins.input = self.input if given is None else given
        if text is None:
            sys.stdin = self.stdin
        elif text is not False:
            sys.stdin = io.StringIO(text)


class Heard(io.TextIOWrapper):
    """A stream that also keeps the text that is written to it."""

    def __init__(self, stream: Any) -> None:
        encoding, errors, lines = stream.encoding, stream.errors, stream.line_buffering
        super().__init__(stream.detach(), encoding=encoding, errors=errors, line_buffering=lines)
        self.kept: list = []
        self.room = _MOST_TEXT

    def write(self, text: str) -> int:
        """As any stream's."""
        count = super().write(text)
        if self.room > 0:
            self.kept.append(text[: self.room])
            self.room -= len(text)
        return count

    def taken(self) -> str:
        """The text since the last time."""
        text = "".join(self.kept)
        self.kept.clear()
        self.room = _MOST_TEXT
        return text


def hear() -> None:
    """Keep from here on what the program prints."""
    sys.stdout = sys.__stdout__ = Heard(sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = Heard(sys.stderr)  # type: ignore[misc]


def seed(told: Any) -> None:
    """Seed what the tests have seeded: by the name of the module, the arguments."""
    for module, (given, named) in told.items():
        if module in _SEEDED:
            importlib.import_module(module).seed(*given, **named)


def printed() -> Optional[list]:
    """What the program printed since the last time; None if nothing, or if it has put other streams."""
    texts = [stream.taken() if isinstance(stream, Heard) else "" for stream in (sys.stdout, sys.stderr)]
    return ["printed", *texts] if any(texts) else None


def say(texts: list) -> None:
    """Print here what the program printed there."""
    for stream, text in zip((sys.stdout, sys.stderr), texts):
        if isinstance(text, str):
            stream.write(text.encode("utf-8", "replace").decode())
