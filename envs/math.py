"""Mathematical word problems from files and from the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..sandbox.nearest import did_you_mean
from ..verifiers import Rubric, UserError, metric, score
from ..verifiers.math.verdict import check_reference
from .registry import register
from .tasks import Tasks

SYSTEM_PROMPT = (
    "Solve the problem. Think step by step inside <think> and </think>, then give the final answer in \\boxed{}."
)
"""Asks for the form of completion that the rubric of these environments reads."""

TaskPath = str | Path | Mapping[str, str | Path]


def math_tasks(
    split: str = "train",
    *,
    path: TaskPath | None = None,
    hub: str | None = None,
    hub_config: str | None = None,
    hub_revision: str | None = None,
    prompt_column: str | Sequence[str] = "problem",
    answer_column: str = "answer",
    id_column: str | None = None,
    info_columns: Sequence[str] | None = None,
) -> Tasks:
    """Problems with a reference answer in a column of its own.

    Args:
        split: which tasks. On the hub, "eval" means the split "test", and every other name itself.
        path: a JSONL or Parquet file. One path names exactly the tasks to use, whatever the split, so pass
            a dict of splits, `{"train": ..., "eval": ...}`, where one set of options must serve both.
        hub: the name of a data set on the Hugging Face hub, used where there is no path.
        hub_config: its configuration, where it has several.
        hub_revision: a branch, tag or commit of it.
        prompt_column: the column with the problem; a list of columns is joined with a space.
        answer_column: the column with the reference answer.
        id_column: the column with an id; by default problems are numbered.
        info_columns: the columns kept for the verifiers; by default all that are left.

    Raises:
        UserError: if neither path nor hub is given, the tasks cannot be read, or a reference cannot be compared.
    """
    columns: dict[str, Any] = {
        "prompt": prompt_column,
        "answer": answer_column,
        "id": id_column,
        "info": info_columns,
    }
    if path is not None:
        return _with_sound_references(Tasks.from_path(_path_of(split, path), **columns))
    if hub is not None:
        return _with_sound_references(_from_hub(hub, split, hub_config, hub_revision, columns))
    raise UserError("rlvr/Math-v0 needs a task file or a data set; pass path= or hub= to say which.")


def gsm8k_tasks(
    split: str = "train",
    *,
    path: TaskPath | None = None,
    hub: str = "openai/gsm8k",
    hub_config: str | None = "main",
    hub_revision: str | None = None,
) -> Tasks:
    """GSM8K: grade-school word problems (Cobbe et al. 2021, arXiv:2110.14168).

    The reference is what follows the last `####` of the worked solution.

    Args:
        split: which tasks. On the hub, "eval" means the split "test", and every other name itself.
        path: a JSONL or Parquet file, or a dict of splits, used instead of the hub; see `math_tasks`.
        hub: the name of the data set on the Hugging Face hub.
        hub_config: its configuration.
        hub_revision: a branch, tag or commit of it.

    Raises:
        UserError: if the tasks cannot be read, a solution has no `####`, or a reference cannot be compared.
    """
    # No other column is kept: the one called "answer" holds the solution, under a name that is taken.
    columns: dict[str, Any] = {"prompt": "question", "answer": gsm8k_reference, "info": ()}
    if path is not None:
        return _with_sound_references(Tasks.from_path(_path_of(split, path), **columns))
    return _with_sound_references(_from_hub(hub, split, hub_config, hub_revision, columns))


def gsm8k_reference(row: Mapping[str, Any]) -> str:
    """The reference answer of a GSM8K row: what follows the last `####` of its column "answer".

    Raises:
        UserError: if there is no `####`, or nothing after it.
    """
    solution = row["answer"]
    reference = solution.rpartition("####")[2].strip() if isinstance(solution, str) and "####" in solution else ""
    if not reference:
        raise UserError(
            "The column 'answer' has no reference after '####'; pass a GSM8K file, or load other problems "
            "with rlvr/Math-v0."
        )
    return reference


def _with_sound_references(tasks: Tasks) -> Tasks:
    """The tasks, all of whose references can be compared with an answer.

    Raises:
        UserError: one cannot, and would make every completion wrong.
    """
    for task in tasks:
        try:
            check_reference(task.answer)
        except UserError as error:
            raise UserError(f"Task {task.id!r} cannot be graded: {error}") from None
    return tasks


def _path_of(split: str, path: TaskPath) -> str | Path:
    if isinstance(path, Mapping):
        if split not in path:
            raise UserError(f"The dict path= has no split {split!r}; {did_you_mean(split, path)}")
        path = path[split]
    if not isinstance(path, str | Path):
        raise UserError(f"path={path!r} is no path; pass the name of a file, or a dict of them by split.")
    return path


def _from_hub(name: str, split: str, config: str | None, revision: str | None, columns: dict[str, Any]) -> Tasks:
    if not isinstance(name, str):
        raise UserError(f"hub={name!r} is no data set's name; pass one such as 'openai/gsm8k'.")
    hub_split = "test" if split == "eval" else split
    return Tasks.from_hub(name, config=config, split=hub_split, revision=revision, **columns)


_RUBRIC = Rubric(score("rlvr/math-v1", passes=True), metric("rlvr/think-v1"))

register(
    "rlvr/Math-v0",
    tasks=math_tasks,
    rubric=_RUBRIC,
    system=SYSTEM_PROMPT,
    description="Problems with a mathematical answer, from a JSONL or Parquet file or a data set on the hub",
)
register(
    "rlvr/GSM8K-v0",
    tasks=gsm8k_tasks,
    rubric=_RUBRIC,
    system=SYSTEM_PROMPT,
    description="GSM8K, grade-school word problems, from files or the hub",
)
