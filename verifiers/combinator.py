"""What all that combines graders has in common: parts, graded one after the other over many rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..sandbox.errors import UserError
from .patience import OutOfPatience, call_with_patience
from .registry import BATCH_PATIENCE, Grader, Verifier
from .verdict import Verdict, failure

if TYPE_CHECKING:
    from .rubric import Part

Key = tuple[Any, ...]


class Combinator(ABC):
    """A grader made of parts, each of which is a grader: a `Rubric`, or what `product`, `first` and `threshold` make.

    Combinators may be parts of each other, and one grader may stand in several places of the graph that they form:
    it grades a completion once, and its verdict is used in all of them (with other options it grades anew).

    Attributes:
        label: what it is called, also as a part where no name is given.
        parts: in the order in which they run.
    """

    label: ClassVar[str]
    parts: tuple[Part, ...]

    def __call__(self, /, **fields: Any) -> Verdict:
        """The verdict on `fields`; see `grade`."""
        return self.grade(fields)

    def __repr__(self) -> str:
        return self.tree()

    def grade(self, fields: Mapping[str, Any]) -> Verdict:
        """The parts' verdicts on a completion and its task's fields, as one.

        Raises:
            UserError: a part needs a field that is not there (whether or not it would have run).
        """
        return self.grade_many([fields])[0]

    def grade_many(self, rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """The verdict of `grade` on each row, in their order.

        Part by part: each grader is called once, with the rows that reached it, so that one which works in
        batches, waits for a server or runs in worker processes has all its work at once.

        Raises:
            UserError: as `grade`, and then no part has run.
        """
        for names in dict.fromkeys(map(frozenset, rows)):
            self.check_fields(names)
        return self.combine(Batch(rows))

    @abstractmethod
    def combine(self, batch: Batch) -> list[Verdict]:
        """One verdict a row of the batch, from the parts' verdicts."""

    def check_fields(self, fields: Collection[str]) -> None:
        """Raise UserError unless fields of these names, with the parts' options, suffice for every part."""
        for part in self.parts:
            part.grader.check_fields({*fields, *part.options} if part.options else fields)

    def option_names(self) -> frozenset[str] | None:
        """What some part may be given and has not fixed itself; None if some part takes any name."""
        names: set[str] = set()
        for part in self.parts:
            own = part.grader.option_names()
            if own is None:
                return None
            names |= own - part.options.keys()
        return frozenset(names)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise UserError if a part cannot use one of these, which are fixed for every completion."""
        for part in self.parts:
            if isinstance(part.grader, Verifier | Combinator):
                known = part.grader.option_names()
                own = {name: value for name, value in options.items() if known is None or name in known}
                part.grader.check_options({name: own[name] for name in own.keys() - part.options.keys()})

    def tree(self) -> str:
        """The graph of parts as a text tree, one a line, in the order in which they run."""
        return "\n".join([self.title(), *self._branches()])

    def title(self) -> str:
        """The combinator and its own settings, for the tree."""
        return self.label

    @abstractmethod
    def notes(self, part: Part) -> list[str]:
        """What the tree says about one of the parts: its weight, whether it decides `passed`."""

    def _branches(self) -> list[str]:
        lines: list[str] = []
        for number, part in enumerate(self.parts, start=1):
            last = number == len(self.parts)
            lines.append(("└─ " if last else "├─ ") + self._line(part))
            if isinstance(part.grader, Combinator):
                lines.extend(("   " if last else "│  ") + line for line in part.grader._branches())
        return lines

    def _line(self, part: Part) -> str:
        grader = part.grader
        if isinstance(grader, Combinator):
            what = grader.title()
        else:
            what = str(getattr(grader, "name", type(grader).__name__))
        options = [f"{option}={value!r}" for option, value in part.options.items()]
        return "  ".join([f"{part.kind} {part.name}", what, *self.notes(part), *options])


class Batch:
    """Rows that are graded together, as one combinator of a graph sees them.

    Args:
        rows: the fields of all completions that the outermost combinator grades.
        at: the indices of those that reached this combinator.
        options: what this combinator was given to put over the fields.
        known: every verdict so far, by grader and options, and then by index.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        at: Sequence[int] | None = None,
        options: Mapping[str, Any] | None = None,
        known: dict[Key, dict[int, Verdict]] | None = None,
    ) -> None:
        self._rows = rows
        self._at = range(len(rows)) if at is None else at
        self._options = {} if options is None else options
        self._known: dict[Key, dict[int, Verdict]] = {} if known is None else known

    def __len__(self) -> int:
        return len(self._at)

    def grade(self, part: Part, positions: Sequence[int]) -> list[Verdict]:
        """The part's verdicts on the rows at these positions, which it grades unless it has already."""
        if not positions:
            return []
        options = {**self._options, **part.options}
        known = self._known.setdefault(_key(part.grader, options), {})
        at = [self._at[position] for position in positions]
        new = [index for index in at if index not in known]
        if new:
            known.update(zip(new, self._verdicts(part.grader, new, options), strict=True))
        return [known[index] for index in at]

    def _verdicts(self, grader: Grader, at: list[int], options: dict[str, Any]) -> list[Verdict]:
        if isinstance(grader, Combinator):
            return grader.combine(Batch(self._rows, at, options, self._known))
        rows = [{**self._rows[index], **options} for index in at]
        try:
            if isinstance(grader, Verifier):
                verdicts = grader.grade_many(rows)
            else:
                verdicts = list(call_with_patience(lambda: grader.grade_many(rows), {}, BATCH_PATIENCE))
        except UserError:
            raise
        except OutOfPatience as error:
            return [failure(f"{grader!r} did not return within {error.limit:g} s")] * len(rows)
        except Exception as error:
            return [failure(f"{grader!r} failed with {type(error).__name__}: {error}"[:500])] * len(rows)
        # Without this, a grader of somebody else's that leaves one out would shift the rest to other completions.
        if len(verdicts) != len(rows):
            return [failure(f"{grader!r} gave {len(verdicts)} verdicts on {len(rows)} completions")] * len(rows)
        return verdicts


def _key(grader: Grader, options: Mapping[str, Any]) -> Key:
    # A plain function is wrapped in a Verifier each time that it is made a part, and is one grader all the same.
    what = (id(grader.function), grader.name) if isinstance(grader, Verifier) else (id(grader),)
    return (*what, *sorted((name, *_token(value)) for name, value in options.items()))


def _token(value: Any) -> tuple[str, str]:
    """What tells an option's value from another: 1, 1.0 and True are equal, but not to every verifier."""
    plain = value is None or isinstance(value, str | int | float)
    return (type(value).__name__, repr(value) if plain else str(id(value)))
