"""Several graders combined into one: gates that must hold, scores that add up, metrics that only watch."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .combinator import Batch, Combinator
from .registry import Grader, Verifier, as_grader
from .verdict import Verdict, failure

Kind = Literal["gate", "score", "metric"]


@dataclass(frozen=True)
class Part:
    """One grader in a rubric or another combinator: make it with `gate`, `score` or `metric`.

    Attributes:
        kind: what its verdict is used for.
        name: its key in `Verdict.parts`.
        grader: who grades.
        weight: the factor of its score in the rubric's, for a score.
        passes: whether its `passed` is asked to be the rubric's, for a score.
        options: arguments that are the same for every completion; they come before fields of the same name.
    """

    kind: Kind
    name: str
    grader: Grader
    weight: float
    passes: bool
    options: Mapping[str, Any]


def gate(what: object, /, *, name: str | None = None, **options: Any) -> Part:
    """A condition: unless it is passed, the rubric scores 0, is not passed, and no part after it runs.

    Args:
        what: a verifier's name, a function, a Verifier, a Rubric or another combinator.
        name: the part's key, by default the stem of the verifier's name ("rlvr/think-v1" is "think").
        options: arguments for the verifier.

    Raises:
        UserError: a name or an option is wrong.
    """
    return make_part("gate", what, name, 1.0, False, options)


def score(
    what: object, /, *, weight: float = 1.0, passes: bool = False, name: str | None = None, **options: Any
) -> Part:
    """A part whose score, times `weight`, is added to the rubric's.

    Args:
        what: a verifier's name, a function, a Verifier, or a Rubric or another combinator (whose total is its score).
        weight: a finite factor; a negative one makes a penalty.
        passes: whether this part decides `passed`; the only score of a rubric does so anyway.
        name: the part's key, by default the stem of the verifier's name ("rlvr/number-v1" is "number").
        options: arguments for the verifier.

    Raises:
        UserError: a name, an option or the weight is wrong.
    """
    return make_part("score", what, name, weight, passes, options)


def metric(what: object, /, *, name: str | None = None, **options: Any) -> Part:
    """A part that is recorded and adds nothing; if its grader fails, only the verdict's detail says so.

    Args:
        what: a verifier's name, a function, a Verifier, a Rubric or another combinator.
        name: the part's key, by default the stem of the verifier's name.
        options: arguments for the verifier.

    Raises:
        UserError: a name or an option is wrong.
    """
    return make_part("metric", what, name, 0.0, False, options)


@dataclass(slots=True)
class Tally:
    """What the parts have said so far about one completion.

    Attributes:
        total: of the scores.
        verdict: once it is settled before all parts have run.
        decisive: the verdict of the part that passes, once it has run.
    """

    total: float
    scores: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    decisive: Verdict | None = None

    def note(self, part: Part, verdict: Verdict) -> None:
        """Log a part's verdict: its detail, its score, and those of its own parts."""
        if verdict.detail:
            self.remarks.append(f"{part.name}: {verdict.detail}")
        if verdict.score is not None:
            self.scores[part.name] = verdict.score
            for inner, value in verdict.parts.items():
                self.scores[f"{part.name}/{inner}"] = value

    @property
    def detail(self) -> str:
        """What the parts remarked."""
        return "; ".join(self.remarks)


class Rubric(Combinator):
    r"""Graders that run in order and give one verdict together.

        Rubric(
            gate("rlvr/think-v1"),
            score("rlvr/number-v1"),
            metric(lambda completion: len(completion), name="length"),
        )

    - The score is \(\sum_i w_i s_i\) over the scores; `passed`, `status` and `answer` are those of the one
      that passes.
    - A gate that is not passed ends it: score 0, not passed, with the gate's status. So what costs belongs
      after the gates that are cheap.
    - A gate or score whose grader failed ends it too: the verdict has no score and status "error".
    - `parts` has each part that ran and was graded, and, under "part/inner", the parts of that part's own
      verdict.

    A rubric may be a part of another, and so may what `product`, `first` and `threshold` make. As a gate it
    holds when it is passed; as a score its total counts, 0 if one of its own gates failed; a failed grader
    in it is a failed grader of the outer rubric. Options given to it are fields for all of its parts.

    Raises:
        UserError: two parts share a name, there is no score, or it is not clear which score decides `passed`.
    """

    label = "Rubric"
    _start = 0.0

    def __init__(self, *parts: Part) -> None:
        check_parts(parts, "rubric")
        self.parts = parts
        self.passing = _passing(parts)

    def combine(self, batch: Batch) -> list[Verdict]:
        """One verdict a row, part by part over the rows that no gate has stopped."""
        tallies = [Tally(self._start) for _ in range(len(batch))]
        for part in self.parts:
            reached = [row for row, tally in enumerate(tallies) if tally.verdict is None and self._counts(part, tally)]
            for row, verdict in zip(reached, batch.grade(part, reached), strict=True):
                self._take(part, verdict, tallies[row])
        return [tally.verdict or self._sum_up(tally) for tally in tallies]

    def notes(self, part: Part) -> list[str]:
        """The weight of a score, and whether it is the one that passes."""
        weight = [f"weight={part.weight:g}"] if part.kind == "score" else []
        return [*weight, "passes"] if part is self.passing else weight

    def _counts(self, part: Part, tally: Tally) -> bool:
        """Whether the part could still change anything."""
        return True

    def _add(self, total: float, part: Part, score: float) -> float:
        return total + part.weight * score

    def _take(self, part: Part, verdict: Verdict, tally: Tally) -> None:
        tally.note(part, verdict)
        if verdict.score is None:
            if part.kind != "metric":
                tally.verdict = failure(tally.detail, tally.scores)
            return
        if part.kind == "gate" and not verdict.passed:
            tally.remarks.append(f"gate {part.name!r} stopped the rubric")
            tally.verdict = Verdict(0.0, False, verdict.status, tally.scores, tally.detail)
        if part.kind == "score":
            tally.total = self._add(tally.total, part, verdict.score)
        if part is self.passing:
            tally.decisive = verdict

    def _sum_up(self, tally: Tally) -> Verdict:
        decisive = tally.decisive
        assert decisive is not None
        if not math.isfinite(tally.total):
            return failure("; ".join([*tally.remarks, f"the total of the scores is {tally.total}"]), tally.scores)
        return Verdict(tally.total, decisive.passed, decisive.status, tally.scores, tally.detail, decisive.answer)


def make_part(
    kind: Kind, what: object, name: str | None, weight: float, passes: bool, options: Mapping[str, Any]
) -> Part:
    """A part, checked.

    Raises:
        UserError: a name, an option or the weight is wrong.
    """
    grader = as_grader(what)
    name = _default_name(grader) if name is None else name
    if not isinstance(name, str) or not name or "/" in name:
        raise UserError(f"A rubric's part cannot be called {name!r}; pass name= with a text that has no '/' in it.")
    if not isinstance(weight, numbers.Real) or isinstance(weight, bool) or not math.isfinite(weight):
        raise UserError(f"The weight of part {name!r} is {weight!r}; pass weight= a finite number.")
    if not isinstance(passes, bool):
        raise UserError(f"passes is {passes!r} for part {name!r}; pass True or False.")
    known = grader.option_names()
    for option in options:
        if known is not None and option not in known:
            raise UserError(f"Part {name!r} has no parameter {option!r}; {did_you_mean(option, known)}")
    if isinstance(grader, Verifier | Combinator):
        grader.check_options(options)
    return Part(kind, name, grader, float(weight), passes, options)


def check_parts(parts: tuple[Part, ...], whole: str) -> None:
    """Raise UserError unless all are parts, and each has a name of its own."""
    for part in parts:
        if not isinstance(part, Part):
            raise UserError(f"A {whole} is made of parts, and {part!r} is none; wrap it in gate, score or metric.")
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"Two parts of the {whole} are called {name!r}; give one another name with name=.")


def _default_name(grader: Grader) -> str:
    if isinstance(grader, Combinator):
        return grader.label.lower()
    name = getattr(grader, "name", None)
    if not isinstance(name, str) or name in ("<lambda>", "partial"):
        raise UserError(f"{grader!r} has no name of its own; pass name= to call the part something.")
    stem, _, _ = name.rpartition("/")[2].rpartition("-v")
    return stem or name


def _passing(parts: tuple[Part, ...]) -> Part:
    """The score whose `passed` is the rubric's."""
    scores = [part for part in parts if part.kind == "score"]
    if not scores:
        raise UserError("The rubric has no score; add score(...), since gates and metrics give no reward.")
    marked = [part for part in scores if part.passes] or scores
    if len(marked) > 1:
        names = ", ".join(repr(part.name) for part in marked)
        raise UserError(
            f"It is not clear which of the scores {names} decides whether a completion passed; "
            "give passes=True to exactly one."
        )
    return marked[0]
