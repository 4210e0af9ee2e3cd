"""Combinators beside the weighted sum: scores that multiply, a score made a yes or no, the first that decides."""

from __future__ import annotations

import math
import numbers
from typing import Any, Literal, get_args

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .combinator import Batch, Combinator
from .rubric import Part, Rubric, Tally, check_parts, make_part, score
from .verdict import Verdict, failure

Decides = Literal["ok", "passed"]


def product(*parts: object) -> Product:
    r"""A rubric whose scores multiply: \(\prod_i s_i\), so that any zero zeroes all.

        product(gate("rlvr/think-v1"), score("rlvr/number-v1", passes=True), score(brevity))

    All else is as in a `Rubric`: gates stop it, metrics watch, a failed grader voids it, and exactly one score
    decides `passed`, `status` and `answer`; a zero of another score leaves those as they are. Once a score is
    0, the scores after it no longer run, except the one that passes: nothing in them could change the product.

    Args:
        parts: made by `gate`, `score` (whose weight stays 1) or `metric`; a grader without these is a score.

    Raises:
        UserError: as for `Rubric`, or a score has a weight.
    """
    return Product(*_parts(parts))


def threshold(what: object, /, *, at_least: float = 0.5, name: str | None = None, **options: Any) -> Threshold:
    r"""A yes or no made of a score \(s\): 1 and passed if \(s \ge\) `at_least`, 0 and not passed otherwise.

        gate(threshold("rlvr/language-v1", at_least=0.9), name="language")

    A completion that could not be graded (status "unparseable" or "timeout") scores 0 whatever the bound.
    Status and answer are those of the part, a failed grader is a failed threshold, and the score \(s\) itself
    is logged under the part's name.

    Args:
        what: a verifier's name, a function, a Verifier, a Rubric or another combinator.
        at_least: the lowest score that passes.
        name: the part's key, by default the stem of the verifier's name.
        options: arguments for the verifier.

    Raises:
        UserError: a name, an option or the bound is wrong.
    """
    return Threshold(make_part("score", what, name, 1.0, False, options), at_least)


def first(*parts: object, decides: Decides = "ok") -> First:
    """Graders tried in order until one decides; its verdict is the whole one, and those after it do not run.

        first("rlvr/exact-v1", "rlvr/number-v1", decides="passed")  # the costly one only where the cheap one said no

    With `decides="ok"` the first verdict of status "ok" decides, whatever its score: a fallback for what the
    graders before it could not read. With `decides="passed"` the first that is passed does, so that the whole is
    passed if any part is. If none decides, the verdict of the last stands.

    A failed grader decides nothing, and the next is tried. Where none after it decides either, the whole has
    failed, since it might have; where one does, only the detail tells. `parts` has each part that was tried.

    Args:
        parts: graders, or `score(grader, name=..., **options)` where one needs a name or options.
        decides: "ok" or "passed".

    Raises:
        UserError: no part is given, two share a name, a part is a gate, a metric, weighted or marked as the one
            that passes, or `decides` is neither word.
    """
    if decides not in get_args(Decides):
        raise UserError(f"first has no rule decides={decides!r}; {did_you_mean(str(decides), get_args(Decides))}")
    return First(_parts(parts), decides)


class Product(Rubric):
    """A rubric whose scores multiply; see `product`."""

    label = "product"
    _start = 1.0

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)
        _check_unweighted(parts, "product")

    def notes(self, part: Part) -> list[str]:
        """Whether it is the one that passes."""
        return ["passes"] if part is self.passing else []

    def _counts(self, part: Part, tally: Tally) -> bool:
        return part.kind != "score" or part is self.passing or tally.total != 0.0

    def _add(self, total: float, part: Part, score: float) -> float:
        return total * score


class Threshold(Combinator):
    """A yes or no made of a score; see `threshold`."""

    label = "threshold"

    def __init__(self, part: Part, at_least: float) -> None:
        if not isinstance(at_least, numbers.Real) or isinstance(at_least, bool) or not math.isfinite(at_least):
            raise UserError(f"A threshold's at_least is {at_least!r}; pass a finite number.")
        self.parts = (part,)
        self.at_least: float = float(at_least)

    def combine(self, batch: Batch) -> list[Verdict]:
        """One verdict a row, of its one part."""
        part = self.parts[0]
        return [self._judge(part, verdict) for verdict in batch.grade(part, range(len(batch)))]

    def title(self) -> str:
        """With its bound."""
        return f"threshold  at_least={self.at_least:g}"

    def notes(self, part: Part) -> list[str]:
        """The score from which on it passes."""
        return [f"passes from {self.at_least:g}"]

    def _judge(self, part: Part, verdict: Verdict) -> Verdict:
        tally = Tally(0.0)
        tally.note(part, verdict)
        if verdict.score is None:
            return failure(tally.detail, tally.scores)
        passed = verdict.status == "ok" and verdict.score >= self.at_least
        return Verdict(float(passed), passed, verdict.status, tally.scores, tally.detail, verdict.answer)


class First(Combinator):
    """Graders tried in order until one decides; see `first`."""

    label = "first"

    def __init__(self, parts: tuple[Part, ...], decides: Decides) -> None:
        if not parts:
            raise UserError("first was given nothing to try; pass it at least one grader.")
        check_parts(parts, "first")
        for part in parts:
            if part.kind != "score" or part.passes:
                raise UserError(
                    f"first tries graders until one decides, so its part {part.name!r} is neither a gate nor a metric "
                    "nor the one that passes; write score(...) or the grader alone."
                )
        _check_unweighted(parts, "first")
        self.parts = parts
        self.decides = decides

    def combine(self, batch: Batch) -> list[Verdict]:
        """One verdict a row, part by part over the rows on which none has decided."""
        tallies = [Tally(0.0) for _ in range(len(batch))]
        failed: set[int] = set()
        for part in self.parts:
            open_rows = [row for row, tally in enumerate(tallies) if tally.verdict is None]
            for row, verdict in zip(open_rows, batch.grade(part, open_rows), strict=True):
                tally = tallies[row]
                tally.note(part, verdict)
                if verdict.score is None:
                    failed.add(row)
                elif self._settles(verdict):
                    tally.verdict = _with_parts(verdict, tally)
                # Until the next part has spoken.
                tally.decisive = verdict
        return [tally.verdict or _undecided(tally, row in failed) for row, tally in enumerate(tallies)]

    def title(self) -> str:
        """With its rule."""
        return f"first  decides={self.decides!r}"

    def notes(self, part: Part) -> list[str]:
        """When the part decides."""
        return ["decides otherwise" if part is self.parts[-1] else f"decides if {self.decides}"]

    def _settles(self, verdict: Verdict) -> bool:
        return verdict.status == "ok" if self.decides == "ok" else bool(verdict.passed)


def _undecided(tally: Tally, failed: bool) -> Verdict:
    assert tally.decisive is not None
    return failure(tally.detail, tally.scores) if failed else _with_parts(tally.decisive, tally)


def _with_parts(verdict: Verdict, tally: Tally) -> Verdict:
    return Verdict(verdict.score, verdict.passed, verdict.status, tally.scores, tally.detail, verdict.answer)


def _parts(parts: tuple[object, ...]) -> tuple[Part, ...]:
    return tuple(part if isinstance(part, Part) else score(part) for part in parts)


def _check_unweighted(parts: tuple[Part, ...], whole: str) -> None:
    for part in parts:
        if part.kind == "score" and part.weight != 1.0:
            raise UserError(
                f"The part {part.name!r} of a {whole} has the weight {part.weight:g}; weights belong to a Rubric's "
                f"scores, such as the {whole} itself."
            )
