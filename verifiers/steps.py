"""A process reward: each step of the reasoning is scored by a verifier of steps, and the scores are combined."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .batch_options import rows_by_options, rows_of
from .completion_parts import completion_part
from .number_options import check_count
from .registry import Grader, as_grader, verifier
from .verdict import Verdict, failure

_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_STEP_HEADING = re.compile(r"^[^\S\n]{0,8}[*#]{0,4}[^\S\n]?Step[^\S\n]{0,4}\d{1,4}\b", re.IGNORECASE | re.MULTILINE)


def _until_failure(scores: Sequence[float], passed: Sequence[bool]) -> float:
    return (passed.index(False) if False in passed else len(passed)) / len(passed)


_COMBINE: dict[str, Callable[[Sequence[float], Sequence[bool]], float]] = {
    "mean": lambda scores, passed: math.fsum(scores) / len(scores),
    "min": lambda scores, passed: min(scores),
    "product": lambda scores, passed: math.prod(scores),
    "last": lambda scores, passed: scores[-1],
    "until_failure": _until_failure,
}


_CHECKED = ("combine", "separator", "max_steps", "options")


def check_options(**options: Any) -> None:
    """Raise UserError if one of these options of `steps` is not one of the possible values."""
    combine = options.get("combine", "min")
    if combine not in _COMBINE:
        raise UserError(f"Steps cannot be combined by {combine!r}; {did_you_mean(str(combine), _COMBINE)}")
    check_count("max_steps", options.get("max_steps", 64))
    more = options.get("options")
    if more is not None and not (isinstance(more, Mapping) and all(isinstance(name, str) for name in more)):
        raise UserError(f"options={more!r} is no mapping of arguments to their values; pass one, or None.")
    separator = options.get("separator")
    if separator is not None and (not isinstance(separator, str) or not separator):
        raise UserError(f"separator={separator!r} separates nothing; pass a text such as '\\n\\n', or None.")


@verifier("rlvr/steps-v1", check=check_options)
def steps(
    completions: Sequence[str],
    step_verifier: Any,
    combine: Any = "min",
    separator: Any = None,
    max_steps: Any = 64,
    options: Any = None,
    part: Any = "reasoning",
    think: Any = "generated",
    prompts: Any = None,
    answer: Any = None,
) -> list[Verdict]:
    """One score a step of the reasoning, combined: a process reward.

    A step begins at each heading "Step k" where there are any, else after each blank line. `step_verifier`
    grades every step with the fields `completion` (the step), `previous` (the text of the steps before it),
    `step` (its number from 1), `prompt`, `answer`, `think` ("none", since a step has no tags) and `options`.
    It grades the steps of all completions together, if it can do that.

    The score is the steps' mean, minimum, product or last one, or with "until_failure" the share of the steps
    before the first that was not passed. It passes where every step passed. `parts` has "step/1",
    "step/2", ..., and `detail` names the first step that was not passed. A completion without a step, or with
    more than `max_steps`, scores 0 and is unparseable. A step whose grading failed is a failed grading of
    the whole.

    Minimum and product are common for process reward models: Lightman et al. 2023, Let's Verify Step by Step
    (arXiv:2305.20050), appendix F. Many easy steps raise a mean, but not those two.

    Args:
        completions: what the model wrote. This and each other argument is a list of one entry a completion;
            what is no list holds for all.
        step_verifier: a verifier's name, a function, a Verifier or a Rubric.
        combine: "mean", "min", "product", "last" or "until_failure".
        separator: the text between two steps, instead of headings and blank lines.
        max_steps: how many steps there may be.
        options: a mapping of further arguments for `step_verifier`.
        part: what is split into steps: "reasoning", "answer" or "all".
        think: the think style, for `part`.
        prompts: handed on.
        answer: handed on.

    Raises:
        UserError: an option is not one of the possible values, or `step_verifier` is no grader or needs more
            fields.
    """
    rows = rows_of(
        len(completions),
        completion=list(completions),
        step_verifier=step_verifier,
        combine=combine,
        separator=separator,
        max_steps=max_steps,
        options=options,
        part=part,
        think=think,
        prompt=prompts,
        answer=answer,
    )
    # All of them before the first step is graded.
    for row in rows:
        check_options(**{name: row[name] for name in _CHECKED})
    verdicts: list[Verdict] = [failure("not graded")] * len(rows)
    for shared, members in rows_by_options(rows, ("step_verifier",)):
        graded = _grade_all(as_grader(shared["step_verifier"]), [rows[index] for index in members])
        for index, verdict in zip(members, graded, strict=True):
            verdicts[index] = verdict
    return verdicts


def _grade_all(grader: Grader, rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    steps_of_rows = [_steps_of(row) for row in rows]
    step_rows = [
        _step_row(row, found, index)
        for row, found in zip(rows, steps_of_rows, strict=True)
        if len(found) <= row["max_steps"]
        for index in range(len(found))
    ]
    graded = iter(grader.grade_many(step_rows) if step_rows else [])
    verdicts = []
    for row, found in zip(rows, steps_of_rows, strict=True):
        if 1 <= len(found) <= row["max_steps"]:
            verdicts.append(_combined([next(graded) for _ in found], row["combine"]))
        else:
            detail = f"there are {len(found)} steps, not 1 to {row['max_steps']}"
            verdicts.append(Verdict(0.0, False, "unparseable", detail=detail))
    return verdicts


def _steps_of(row: Mapping[str, Any]) -> list[str]:
    text = completion_part(row["completion"], row["part"], row["think"], row["prompt"])
    return split_steps(text, row["separator"])


def _step_row(row: Mapping[str, Any], found: Sequence[str], index: int) -> dict[str, Any]:
    return {
        **(row["options"] or {}),
        "completion": found[index],
        "previous": "\n\n".join(found[:index]),
        "step": index + 1,
        "prompt": row["prompt"],
        "answer": row["answer"],
        "think": "none",
    }


def split_steps(text: str, separator: str | None = None) -> list[str]:
    """The steps of a text, stripped, empty ones left out."""
    if separator is not None:
        pieces = text.split(separator)
    elif headings := [found.start() for found in _STEP_HEADING.finditer(text)]:
        # What stands before the first heading introduces the steps and belongs to the first.
        pieces = [text[start:end] for start, end in zip([0, *headings[1:]], [*headings[1:], len(text)], strict=True)]
    else:
        pieces = _BLANK_LINES.split(text)
    return [piece.strip() for piece in pieces if piece.strip()]


def _combined(verdicts: Sequence[Verdict], combine: str) -> Verdict:
    parts = {f"step/{index}": one.score for index, one in enumerate(verdicts, 1) if one.score is not None}
    for index, one in enumerate(verdicts, 1):
        if one.score is None:
            return failure(f"step {index}: {one.detail}", parts)
    scores, passed = list(parts.values()), [bool(one.passed) for one in verdicts]
    score = _COMBINE[combine](scores, passed)
    if not math.isfinite(score):
        return failure(f"the {combine} of the steps is {score}", parts)
    if all(passed):
        return Verdict(score, True, parts=parts, detail=f"all of {len(passed)} steps passed")
    first = passed.index(False)
    detail = f"step {first + 1} of {len(passed)} is the first that was not passed"
    if verdicts[first].detail:
        detail += f": {verdicts[first].detail}"
    return Verdict(score, False, parts=parts, detail=detail)
