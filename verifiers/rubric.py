"""Several graders combined into one: gates that must hold, scores that add up, metrics that only watch."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import UserError
from .nearest import did_you_mean
from .registry import Grader, Verifier, as_grader
from .verdict import Verdict, failure

Kind = Literal["gate", "score", "metric"]


@dataclass(frozen=True)
class Part:
    """One grader in a rubric: make it with `gate`, `score` or `metric`.

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
        what: a verifier's name, a function, a Verifier or a Rubric.
        name: the part's key, by default the stem of the verifier's name ("rlvr/think-v1" is "think").
        options: arguments for the verifier.

    Raises:
        UserError: a name or an option is wrong.
    """
    return _part("gate", what, name, 1.0, False, options)


def score(
    what: object, /, *, weight: float = 1.0, passes: bool = False, name: str | None = None, **options: Any
) -> Part:
    """A part whose score, times `weight`, is added to the rubric's.

    Args:
        what: a verifier's name, a function, a Verifier or a Rubric (whose total is its score).
        weight: a finite factor; a negative one makes a penalty.
        passes: whether this part decides `passed`; the only score of a rubric does so anyway.
        name: the part's key, by default the stem of the verifier's name ("rlvr/number-v1" is "number").
        options: arguments for the verifier.

    Raises:
        UserError: a name, an option or the weight is wrong.
    """
    return _part("score", what, name, weight, passes, options)


def metric(what: object, /, *, name: str | None = None, **options: Any) -> Part:
    """A part that is recorded and adds nothing; if its grader fails, only the verdict's detail says so.

    Args:
        what: a verifier's name, a function, a Verifier or a Rubric.
        name: the part's key, by default the stem of the verifier's name.
        options: arguments for the verifier.

    Raises:
        UserError: a name or an option is wrong.
    """
    return _part("metric", what, name, 0.0, False, options)


class Rubric:
    r"""Graders that run in order and give one verdict together.

        Rubric(
            gate("rlvr/think-v1"),
            score("rlvr/number-v1"),
            metric(lambda completion: len(completion), name="length"),
        )

    - The score is \(\sum_i w_i s_i\) over the scores; `passed`, `status` and `answer` are those of the one
      that passes.
    - A gate that is not passed ends it: score 0, not passed, with the gate's status.
    - A gate or score whose grader failed ends it too: the verdict has no score and status "error".
    - `parts` has each part that ran and was graded, and, under "part/inner", the parts of that part's own
      verdict.

    A rubric may be a part of another. As a gate it holds when it is passed; as a score its total counts, 0
    if one of its own gates failed; a failed grader in it is a failed grader of the outer rubric. Options
    given to it are fields for all of its parts.

    Raises:
        UserError: two parts share a name, there is no score, or it is not clear which score decides `passed`.
    """

    def __init__(self, *parts: Part) -> None:
        for part in parts:
            if not isinstance(part, Part):
                raise UserError(f"A rubric is made of parts, and {part!r} is none; wrap it in gate, score or metric.")
        names = [part.name for part in parts]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"Two parts of the rubric are called {name!r}; give one another name with name=.")
        self.parts = parts
        self.passing = _passing(parts)

    def __call__(self, /, **fields: Any) -> Verdict:
        """The verdict on `fields`; see `grade`."""
        return self.grade(fields)

    def __repr__(self) -> str:
        return self.tree()

    def grade(self, fields: Mapping[str, Any]) -> Verdict:
        """The parts' verdicts on a completion and its task's fields, as one.

        Raises:
            UserError: a part needs a field that is not there (whether or not a gate would have stopped
                before it).
        """
        self.check_fields(fields)
        total = 0.0
        scores: dict[str, float] = {}
        remarks: list[str] = []
        decisive: Verdict | None = None
        for part in self.parts:
            verdict = part.grader.grade({**fields, **part.options})
            if verdict.detail:
                remarks.append(f"{part.name}: {verdict.detail}")
            if verdict.score is None:
                if part.kind == "metric":
                    continue
                return failure("; ".join(remarks), scores)
            scores[part.name] = verdict.score
            scores.update({f"{part.name}/{inner}": value for inner, value in verdict.parts.items()})
            if part.kind == "gate" and not verdict.passed:
                remarks.append(f"gate {part.name!r} stopped the rubric")
                return Verdict(0.0, False, verdict.status, scores, "; ".join(remarks))
            if part.kind == "score":
                total += part.weight * verdict.score
            if part is self.passing:
                decisive = verdict
        assert decisive is not None
        if not math.isfinite(total):
            return failure("; ".join([*remarks, f"the weighted sum is {total}"]), scores)
        return Verdict(total, decisive.passed, decisive.status, scores, "; ".join(remarks), decisive.answer)

    def check_fields(self, fields: Collection[str]) -> None:
        """Raise UserError unless fields of these names, with the parts' options, suffice for every part."""
        for part in self.parts:
            part.grader.check_fields({*fields, *part.options})

    def option_names(self) -> frozenset[str] | None:
        """What some part may be given and has not fixed itself; None if some part takes any name."""
        names: set[str] = set()
        for part in self.parts:
            own = part.grader.option_names()
            if own is None:
                return None
            names |= own - part.options.keys()
        return frozenset(names)

    def tree(self) -> str:
        """The parts as a text tree, one a line."""
        return "\n".join(["Rubric", *self._branches()])

    def _branches(self) -> list[str]:
        lines: list[str] = []
        for part in self.parts:
            last = part is self.parts[-1]
            lines.append(("└─ " if last else "├─ ") + _line(part, part is self.passing))
            if isinstance(part.grader, Rubric):
                lines.extend(("   " if last else "│  ") + line for line in part.grader._branches())
        return lines


def _part(kind: Kind, what: object, name: str | None, weight: float, passes: bool, options: dict[str, Any]) -> Part:
    grader = as_grader(what)
    name = _default_name(grader) if name is None else name
    if not isinstance(name, str) or not name or "/" in name:
        raise UserError(f"A rubric's part cannot be called {name!r}; pass name= with a text that has no '/' in it.")
    if not isinstance(weight, numbers.Real) or not math.isfinite(weight):
        raise UserError(f"The weight of part {name!r} is {weight!r}; pass weight= a finite number.")
    known = grader.option_names()
    for option in options:
        if known is not None and option not in known:
            raise UserError(f"Part {name!r} has no parameter {option!r}; {did_you_mean(option, known)}")
    return Part(kind, name, grader, float(weight), passes, options)


def _default_name(grader: Grader) -> str:
    if isinstance(grader, Rubric):
        return "rubric"
    if not isinstance(grader, Verifier) or grader.name in ("<lambda>", "partial"):
        raise UserError(f"{grader!r} has no name of its own; pass name= to call the part something.")
    stem, _, _ = grader.name.rpartition("/")[2].rpartition("-v")
    return stem or grader.name


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


def _line(part: Part, passes: bool) -> str:
    notes = [f"{part.kind} {part.name}"]
    if isinstance(part.grader, Verifier):
        notes.append(part.grader.name)
    if part.kind == "score":
        notes.append(f"weight={part.weight:g}")
    if passes:
        notes.append("passes")
    notes.extend(f"{option}={value!r}" for option, value in part.options.items())
    return "  ".join(notes)
