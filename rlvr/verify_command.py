"""`rlvr verify`: the verdict on one completion, or on every line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import tee
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.table import Table

from .arguments import ImportOption, key_texts, key_values
from .config import import_extensions
from .rows_file import Lines, Row, read_rows
from .sandbox.nearest import did_you_mean
from .scoring import Tally, differ, graded
from .terminal import console, plain, say, sheet
from .verifiers import UserError, Verdict, Verifier, get_verifier, verify
from .writing import writing

_LONGEST_EXCERPT = 60
_LONGEST_DETAIL = 300
_FIELDS = ("completion", "prompt", "answer", "think", "expected", "task_id", "id")


def verify_command(
    name: Annotated[str, typer.Argument(help="Name of a verifier, such as rlvr/number-v1.")],
    completion: Annotated[str | None, typer.Option(help="What the model wrote; '-' reads standard input.")] = None,
    jsonl: Annotated[
        Path | None, typer.Option(help="Score every line of this file: objects with completion, answer, ...")
    ] = None,
    answer: Annotated[str | None, typer.Option(help="The reference answer.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Another argument.", metavar="KEY=VALUE")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="The file's key for a field, as in answer=gold.", metavar="FIELD=KEY")
    ] = None,
    against: Annotated[str | None, typer.Option(help="Show where this verifier disagrees.", metavar="NAME")] = None,
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the verdicts to this file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="The most disagreements to show.")] = 20,
    imports: ImportOption = None,
) -> None:
    """Score one completion and show the verdict; or score a file, and count."""
    if (completion is None) == (jsonl is None):
        raise typer.BadParameter("give either --completion or --jsonl.")
    for option_name, given in (("--column", column), ("--against", against), ("--out", out)):
        if given and jsonl is None:
            raise typer.BadParameter(f"{option_name} goes with --jsonl.")
    import_extensions(imports or [])
    options = key_values(option or [])
    if answer is not None:
        options["answer"] = answer
    graders = [get_verifier(each) for each in (name, against) if each is not None]
    _check_options(graders, options, answer is not None)
    if jsonl is not None:
        columns = key_texts(column or [])
        _check_columns(graders, columns)
        _score_file(jsonl, columns, graders, options, out, show)
        return
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if completion == "-" else completion
    console.print(_verdict_table(name, verify(name, **{**options, "completion": text})))


def _check_options(graders: Sequence[Verifier[..., Any]], options: Mapping[str, Any], has_answer: bool) -> None:
    known = _arguments(graders)
    for key in options:
        if known is not None and key not in known and not (key == "answer" and has_answer):
            raise UserError(f"Verifier {_names(graders)} has no argument {key!r}; {did_you_mean(key, known)}")


def _check_columns(graders: Sequence[Verifier[..., Any]], columns: Mapping[str, str]) -> None:
    known = _arguments(graders)
    # verl's functions get what is known of a row as their extra_info.
    if known is None or "extra_info" in known:
        return
    for field, key in columns.items():
        if field not in known and field not in _FIELDS:
            cure = did_you_mean(field, known.union(_FIELDS))
            raise UserError(f"--column {field}={key} names {field!r}, no argument of {_names(graders)}; {cure}")


def _arguments(graders: Sequence[Verifier[..., Any]]) -> set[str] | None:
    """What some of the graders may be given; None if one of them takes any name."""
    known: set[str] = set()
    for grader in graders:
        names = grader.option_names()
        if names is None:
            return None
        known |= names
    return known


def _names(graders: Sequence[Verifier[..., Any]]) -> str:
    return " and ".join(repr(grader.name) for grader in graders)


def _score_file(
    path: Path,
    columns: Mapping[str, str],
    graders: Sequence[Verifier[..., Any]],
    options: dict[str, Any],
    out: Path | None,
    show: int,
) -> None:
    if out is not None and out.exists() and path.exists() and out.samefile(path):
        raise UserError(f"--out {out} is the file that is scored; name another one.")
    # All lines are read once before any is scored, so that a mistake in the last costs no grading.
    lines = Lines(path)
    count = sum(1 for row in read_rows(lines, columns) if _fits(row, path, graders, options))
    if not count:
        raise UserError(f"{path} has no rows to score; give a file with a JSON object a line.")
    tallies = [Tally() for _ in graders]
    streams = tee(read_rows(lines, columns), len(graders) + 1)
    verdicts = [graded(*each) for each in zip(graders, streams, [options] * len(graders), tallies, strict=False)]
    table, disagreements, wrong = _disagreement_table(graders), 0, 0
    with _written(out) as file:
        for index, (row, *given) in enumerate(zip(streams[-1], *verdicts, strict=True)):
            if file is not None:
                file.write(json.dumps(_record(index, given, graders)) + "\n")
            disagree = len(given) == 2 and differ(*given)
            unexpected = len(given) == 1 and row.expected is not None and given[0].passed is not row.expected
            disagreements += disagree
            wrong += unexpected
            if (disagree or unexpected) and table.row_count < show:
                table.add_row(*map(plain, _disagreement(row, given)))
    for grader, tally in zip(graders, tallies, strict=True):
        console.print(sheet(grader.name, tally.lines()))
        _explain_failures(tally)
    if table.row_count:
        console.print(table)
    if len(graders) == 2:
        say(f"{graders[0].name} and {graders[1].name} disagree on {disagreements} of {count} rows")
    elif wrong:
        say(f"{wrong} of {count} rows are not as expected")
    if out is not None:
        say(f"verdicts in {out}")


def _fits(row: Row, path: Path, graders: Sequence[Verifier[..., Any]], options: Mapping[str, Any]) -> bool:
    for grader in graders:
        try:
            grader.check_fields({*row.fields, *options})
        except UserError as error:
            raise UserError(f"Line {row.line} of {path} cannot be graded: {error}") from None
    return True


@contextmanager
def _written(out: Path | None) -> Iterator[IO[str] | None]:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with writing(out), out.open("w", encoding="utf-8") as file:
            yield file
    else:
        yield None


def _explain_failures(tally: Tally) -> None:
    if not tally.failures:
        return
    table = Table("line", "why it could not be graded", title="failed gradings", title_justify="left")
    for line, detail in tally.failures:
        table.add_row(str(line), plain(detail[:_LONGEST_DETAIL]))
    console.print(table)
    more = tally.statuses["error"] - len(tally.failures)
    if more:
        say(f"{more} more rows could not be graded" if more > 1 else "1 more row could not be graded")


def _record(index: int, verdicts: Sequence[Verdict], graders: Sequence[Verifier[..., Any]]) -> dict[str, Any]:
    record = {"index": index, **_as_json(verdicts[0])}
    if len(verdicts) == 2:
        record["against"] = {"verifier": graders[1].name, **_as_json(verdicts[1])}
    return record


def _as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "passed": verdict.passed,
        "status": verdict.status,
        "detail": verdict.detail,
        "answer": verdict.answer,
        **({"parts": dict(verdict.parts)} if verdict.parts else {}),
    }


def _disagreement_table(graders: Sequence[Verifier[..., Any]]) -> Table:
    table = Table(title="disagreements", title_justify="left")
    for header in ("line", "completion", "answer", *(grader.name for grader in graders)):
        table.add_column(plain(header), overflow="fold")
    if len(graders) == 1:
        table.add_column("expected")
        table.add_column("detail", overflow="fold")
    return table


def _disagreement(row: Row, verdicts: Sequence[Verdict]) -> list[str]:
    cells = [str(row.line), _excerpt(row.fields["completion"]), _excerpt(str(row.fields.get("answer", "")))]
    cells.extend(_brief(verdict) for verdict in verdicts)
    if len(verdicts) == 1:
        cells.extend(["right" if row.expected else "wrong", verdicts[0].detail[:200]])
    return cells


def _brief(verdict: Verdict) -> str:
    if verdict.score is None:
        return "error"
    status = "" if verdict.status == "ok" else f", {verdict.status}"
    return f"{verdict.score:g}{' passed' if verdict.passed else ''}{status}"


def _excerpt(text: str) -> str:
    """The end of a text, where answers stand, on one line."""
    tail = text[-10 * _LONGEST_EXCERPT :]
    line = " ".join(tail.split())
    if len(line) <= _LONGEST_EXCERPT and tail == text:
        return line
    return f"...{line[-_LONGEST_EXCERPT:]}"


def _verdict_table(name: str, verdict: Verdict) -> Table:
    shown = {
        "score": "none: the grader failed" if verdict.score is None else f"{verdict.score:g}",
        "passed": {True: "yes", False: "no", None: "unknown"}[verdict.passed],
        "status": verdict.status,
        **{f"part {part}": f"{value:g}" for part, value in verdict.parts.items()},
    }
    if verdict.answer is not None:
        shown["answer read"] = verdict.answer
    return sheet(name, {**shown, "detail": verdict.detail})
