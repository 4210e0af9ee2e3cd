"""What the command line prints: tables and lines in which a model's or a file's text is only text."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

console = Console()


def plain(text: str) -> Text:
    """Text that the terminal shows as it is: what a model or a file wrote is neither markup nor a control code."""
    return Text("".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text))


def say(message: str) -> None:
    """Print a line, however long, without colours."""
    console.print(plain(message), highlight=False, soft_wrap=True)


def sheet(title: str, rows: Mapping[str, str]) -> Table:
    """A table of names and values."""
    table = Table(show_header=False, title=plain(title), title_justify="left")
    for name, value in rows.items():
        table.add_row(plain(name), plain(value))
    return table
