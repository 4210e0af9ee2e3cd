"""Evaluation: n samples of every task, one row a sample on disk, pass@k and what goes with it."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ..envs import TextVectorEnv, make_vec
from ..verifiers import UserError
from .engines import Engine, Sampling
from .passk import interval, majority, pass_at_k
from .ranks import Ranks
from .rollout import episodes
from .seeding import derive
from .trajectory import Trajectory

Row = dict[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """What the samples of a set of tasks say about a policy.

    Attributes:
        env: id of the environment.
        tasks: how many tasks were sampled.
        n: samples a task.
        pass_at: pass@k for every k asked for.
        avg: avg@n, the share of samples that passed.
        maj: maj@n; None where the verifier names no answer to vote on.
        mean_length: tokens a completion.
        clipped_ratio: share of completions that were cut off.
        unparseable_ratio: share of completions in which no answer was found.
        ungraded: samples whose grader failed; they are in none of the numbers above but the lengths.
        entropy: mean over generated tokens, in nats; None where the engine cannot tell.
    """

    env: str
    tasks: int
    n: int
    pass_at: dict[int, Estimate]
    avg: Estimate
    maj: Estimate | None
    mean_length: float
    clipped_ratio: float
    unparseable_ratio: float
    ungraded: int
    entropy: float | None

    def metrics(self) -> dict[str, float]:
        """Flat, under `eval/<env>/`; what cannot be told (no sample was graded, say) is left out."""
        numbers: dict[str, float | None] = {
            **{f"pass@{k}": estimate.value for k, estimate in self.pass_at.items()},
            f"avg@{self.n}": self.avg.value,
            f"maj@{self.n}": None if self.maj is None else self.maj.value,
            "mean_length": self.mean_length,
            "clipped_ratio": self.clipped_ratio,
            "unparseable_ratio": self.unparseable_ratio,
            "ungraded": float(self.ungraded),
            "entropy": self.entropy,
        }
        known = {name: value for name, value in numbers.items() if value is not None and not math.isnan(value)}
        return {f"eval/{self.env}/{name}": value for name, value in known.items()}


def evaluate(
    engine: Engine,
    tokenizer: Any,
    eos_ids: Collection[int],
    env: str,
    *,
    rows_path: Path,
    options: dict[str, Any] | None = None,
    n: int = 8,
    ks: Sequence[int] = (1, 8),
    tasks: int | None = None,
    sampling: Sampling,
    seed: int = 0,
    batch_size: int = 256,
    identity: dict[str, Any] | None = None,
    ranks: Ranks | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Sample, grade and write every (task, sample) that `rows_path` does not hold yet, then sum up.

    An evaluation that was interrupted goes on where it stopped, and one that is asked for a larger n draws the
    missing samples only: sample j of task i has a seed of its own. What ends it in the middle of a batch (an
    interrupt, a server that is lost) leaves in the file what was graded of that batch. It stays as it is, and the
    batch is drawn again whole: only in the same company are samples the same to the last bit.

    Args:
        engine: generates with the policy that is evaluated.
        tokenizer: of that policy.
        eos_ids: of that policy.
        env: id of a registered text environment.
        rows_path: JSON lines, one a sample, flushed as they come.
        options: of the environment; its split is `eval` unless they say otherwise.
        n: samples a task.
        ks: which pass@k.
        tasks: the first so many tasks; None for all.
        sampling: how tokens are drawn.
        seed: of the samples.
        batch_size: completions generated at a time.
        identity: what the rows depend on besides the arguments here (the model, say); rows of another identity
            are refused.
        ranks: the processes that share the work: each draws its part of the samples, and the main one writes.
        on_progress: called with (samples done, samples in all).

    Raises:
        UserError: if a k exceeds n, or if `rows_path` holds samples of something else.
    """
    for k in ks:
        pass_at_k(n, 0, k)
    options = {"split": "eval", **(options or {})}
    posed = make_vec(env, 1, **options)
    count = len(posed.tasks) if tasks is None else min(tasks, len(posed.tasks))
    about = _about(env, options, sampling, seed, identity)
    ranks = ranks or Ranks()
    rows = ranks.alone(partial(_begin, rows_path, about, count, n))

    graded: dict[tuple[int, int], Row] = {}

    def draw(pairs: Sequence[tuple[int, int]]) -> list[Row]:
        if not pairs:
            return []
        seeds = [derive(seed, "eval", env, task, sample) for task, sample in pairs]
        # Made of the parts of the first: the tasks are read (from the hub, perhaps) once.
        parts = (posed.tasks, posed.rubric, posed.system, posed.think, posed.turn, posed.max_turns)
        envs = TextVectorEnv(len(pairs), *parts)
        places = [task for task, _ in pairs]
        for row, trajectory in episodes(envs, engine, tokenizer, eos_ids, places, 1, sampling, seeds):
            graded[pairs[row]] = _row(*pairs[row], trajectory)
        return [graded[pair] for pair in pairs]

    for chunk in _chunks(count, n, batch_size * ranks.count):
        if not all(key in rows for key in chunk):
            share = ranks.share(len(chunk))
            graded.clear()
            try:
                drawn = [row for part in ranks.together(partial(draw, chunk[share.start : share.stop])) for row in part]
                missing = {(row["task"], row["sample"]): row for row in drawn}
                missing = {key: row for key, row in missing.items() if key not in rows}
                ranks.alone(partial(_append, rows_path, missing.values()))
            except BaseException:
                if ranks.main:
                    _keep(rows_path, graded, count, n)
                raise
            rows |= missing
        on_progress(min(chunk[-1][1] * count + chunk[-1][0] + 1, count * n), count * n)
    return summarise(env, list(rows.values()), n, ks)


def check_rows(
    env: str,
    *,
    rows_path: Path,
    options: dict[str, Any],
    n: int,
    tasks: int | None,
    sampling: Sampling,
    seed: int,
    identity: dict[str, Any],
    complete: bool,
) -> None:
    """See whether `evaluate`, called with the same, would take the rows that there are. Nothing is written.

    Args:
        env: see `evaluate`, as for all that is not said here.
        complete: whether all of the rows have to be there, as none can be drawn any more.

    Raises:
        UserError: if there are rows of something else, or too few.
    """
    about = _about(env, {"split": "eval", **options}, sampling, seed, identity)
    found = _kept_about(rows_path)
    changed = [] if found is None else _changes(found, _as_json(about))
    if changed:
        raise UserError(
            f"The samples in {rows_path} were drawn with {'; '.join(changed)}; resume with that as it was, or train in "
            "another run_dir."
        )
    if not complete:
        return
    posed = len(make_vec(env, 1, **{"split": "eval", **options}).tasks)
    count = posed if tasks is None else min(tasks, posed)
    there = len(_rows(rows_path, _whole_lines(rows_path), count, n))
    if there < count * n:
        raise UserError(
            f"{rows_path} holds {there} of the {count * n} samples that the section eval asks for (n {n}, {count} "
            "tasks), and the policy before training can draw no more of them; resume with that section as it was."
        )


def summarise(env: str, rows: Sequence[Row], n: int, ks: Sequence[int]) -> Evaluation:
    """Reduce rows to an `Evaluation`: each estimate is a mean over tasks of a number a task.

    A task of which fewer than k samples were graded says nothing about pass@k and is left out of it.
    """
    graded: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["score"] is not None:
            graded[row["task"]].append(row)
    counts = [(len(group), sum(row["passed"] for row in group)) for group in graded.values()]
    votes = [group for group in graded.values() if any(row["answer"] is not None for row in group)]
    entropies = [row["entropy"] for row in rows if row["entropy"] is not None]
    lengths = [row["length"] for row in rows]
    return Evaluation(
        env=env,
        tasks=len({row["task"] for row in rows}),
        n=n,
        pass_at={
            k: _estimate([pass_at_k(size, passed, k) for size, passed in counts if size >= k]) for k in sorted(ks)
        },
        avg=_estimate([passed / size for size, passed in counts]),
        maj=_estimate([_majority(group) for group in graded.values()]) if votes else None,
        mean_length=fmean(lengths),
        clipped_ratio=fmean(row["finish_reason"] == "length" for row in rows),
        unparseable_ratio=fmean(row["status"] == "unparseable" for row in rows),
        ungraded=sum(row["score"] is None for row in rows),
        entropy=math.fsum(entropies) / sum(lengths) if len(entropies) == len(rows) and sum(lengths) else None,
    )


def _majority(group: list[Row]) -> float:
    return majority([row["answer"] for row in group], [bool(row["passed"]) for row in group])


def _estimate(values: list[float]) -> Estimate:
    low, high = interval(values)
    return Estimate(fmean(values) if values else math.nan, low, high)


def _chunks(count: int, n: int, size: int) -> Iterator[list[tuple[int, int]]]:
    """(task, sample) pairs, sample by sample, in chunks that do not depend on which of them are done.

    So a resumed evaluation generates in the batches of an uninterrupted one, to the same bits.
    """
    pairs = [(task, sample) for sample in range(n) for task in range(count)]
    yield from (pairs[start : start + size] for start in range(0, len(pairs), size))


def _row(task: int, sample: int, trajectory: Trajectory) -> Row:
    verdict = trajectory.verdict
    return {
        "task": task,
        "task_id": trajectory.task_id,
        "sample": sample,
        "prompt": trajectory.prompt,
        "completion": trajectory.completion,
        "answer": verdict.answer,
        "score": verdict.score,
        "passed": verdict.passed,
        "status": verdict.status,
        "parts": dict(verdict.parts),
        "detail": verdict.detail,
        "length": trajectory.length,
        "finish_reason": trajectory.finish_reason,
        "entropy": None if trajectory.entropies is None else math.fsum(trajectory.entropies),
    }


def _begin(rows_path: Path, about: dict[str, Any], count: int, n: int) -> dict[tuple[int, int], Row]:
    _claim(rows_path, about)
    return _read_rows(rows_path, count, n)


def _append(rows_path: Path, rows: Iterable[Row]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if text:
        with rows_path.open("a", encoding="utf-8") as file:
            file.write(text)


def _keep(rows_path: Path, graded: Mapping[tuple[int, int], Row], count: int, n: int) -> None:
    """Append what is not in the file yet, wherever the writing of it was interrupted."""
    there = _read_rows(rows_path, count, n)
    new = sorted(graded.keys() - there.keys(), key=lambda pair: (pair[1], pair[0]))
    _append(rows_path, [graded[pair] for pair in new])


def _about(
    env: str, options: dict[str, Any], sampling: Sampling, seed: int, identity: dict[str, Any] | None
) -> dict[str, Any]:
    return {"env": env, "options": options, "sampling": vars(sampling), "seed": seed, **(identity or {})}


def _as_json(about: dict[str, Any]) -> Any:
    return json.loads(json.dumps(about, default=str))


def _claim(rows_path: Path, about: dict[str, Any]) -> None:
    """Note beside the rows what they are samples of, or refuse rows of something else."""
    rows_path.parent.mkdir(parents=True, exist_ok=True)
    found = _kept_about(rows_path)
    if found is None:
        _note(rows_path).write_text(json.dumps(about, sort_keys=True, default=str), encoding="utf-8")
        return
    changed = _changes(found, _as_json(about))
    if changed:
        raise UserError(f"{rows_path} holds samples with {'; '.join(changed)}; name another file.")


def _kept_about(rows_path: Path) -> dict[str, Any] | None:
    """What the rows are samples of; None where there are none yet."""
    if not rows_path.exists() or rows_path.stat().st_size == 0:
        return None
    note = _note(rows_path)
    if not note.exists():
        # It may be a file of the user's that has nothing to do with us, so it is left as it is.
        raise UserError(f"{rows_path} exists, but no {note.name} says of what it holds samples; name another file.")
    about: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
    return about


def _note(rows_path: Path) -> Path:
    return rows_path.with_suffix(".about.json")


def _changes(found: Any, now: Any, key: str = "") -> list[str]:
    """What differs, setting by setting, by its name with dots."""
    if isinstance(found, dict) and isinstance(now, dict):
        names = sorted({*found, *now})
        return [
            change
            for name in names
            for change in _changes(found.get(name), now.get(name), f"{key}.{name}" if key else name)
        ]
    return [] if found == now else [f"{key} = {found!r}, not {now!r}"]


def _read_rows(rows_path: Path, count: int, n: int) -> dict[tuple[int, int], Row]:
    """The rows that are asked for and there already; a last line that was cut off is taken out of the file."""
    whole = _whole_lines(rows_path)
    if rows_path.exists() and rows_path.stat().st_size != len(whole.encode()):
        rows_path.write_text(whole, encoding="utf-8")
    return _rows(rows_path, whole, count, n)


def _whole_lines(rows_path: Path) -> str:
    """What there is but for a last line that was cut off."""
    text = rows_path.read_text(encoding="utf-8") if rows_path.exists() else ""
    return text[: text.rfind("\n") + 1]


def _rows(rows_path: Path, lines: str, count: int, n: int) -> dict[tuple[int, int], Row]:
    try:
        rows = [json.loads(line) for line in lines.splitlines()]
    except json.JSONDecodeError as error:
        raise UserError(f"{rows_path} has a line that is no JSON ({error}); mend it, or name another file.") from None
    return {(row["task"], row["sample"]): row for row in rows if row["task"] < count and row["sample"] < n}
