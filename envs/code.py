"""Programming problems whose solutions are run: HumanEval, MBPP, and files of one's own."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..sandbox.nearest import did_you_mean
from ..verifiers import Rubric, UserError, metric, score
from ..verifiers.code import Settings, checked_stub
from ..verifiers.code import code as code_verifier
from ..verifiers.code_tests import read_tests
from .registry import register
from .task import Task
from .tasks import Tasks

SYSTEM_PROMPT = (
    "Solve the problem in Python. Think step by step inside <think> and </think>, then give the whole program in one "
    "```python block."
)
"""Asks for the form of completion that the rubric of these environments reads."""

TaskPath = str | Path | Mapping[str, str | Path]

CODE_RUBRIC = Rubric(score(code_verifier, passes=True), metric("rlvr/think-v1"))
"""The tests decide; the form of the reasoning is watched."""


def code_tasks(
    split: str = "train",
    *,
    path: TaskPath | None = None,
    hub: str | None = None,
    hub_config: str | None = None,
    hub_revision: str | None = None,
    prompt_column: str | Sequence[str] = "prompt",
    tests_column: str = "tests",
    stub_column: str | None = None,
    answer_column: str | None = None,
    id_column: str | None = None,
    backend: str = "auto",
    image: str | None = None,
    runtime: str | None = None,
    limits: Mapping[str, Any] | None = None,
    allow_unsafe: bool = False,
    partial: bool = False,
) -> Tasks:
    """Problems with their tests in a column, in any of the forms that `rlvr/code-v1` knows.

    Args:
        split: which tasks. On the hub, "eval" means the split "test", and every other name itself.
        path: a JSONL or Parquet file. One path names exactly the tasks to use, whatever the split, so pass
            a dict of splits, `{"train": ..., "eval": ...}`, where one set of options must serve both.
        hub: the name of a data set on the Hugging Face hub, used where there is no path.
        hub_config: its configuration, where it has several.
        hub_revision: a branch, tag or commit of it.
        prompt_column: the column with the problem; a list of columns is joined with a space.
        tests_column: the column with the tests: an object, or its JSON text, which Parquet takes better.
        stub_column: the column with code that the prompt gave and a solution may leave out.
        answer_column: the column with a reference solution, for the logs.
        id_column: the column with an id; by default problems are numbered.
        backend: the sandbox: "auto", "docker" or "namespace".
        image: the image for Docker.
        runtime: the runtime of Docker's daemon, such as "runsc" for gVisor.
        limits: what one run of a program may use, as the fields of `rlvr.sandbox.Limits`.
        allow_unsafe: whether programs may run without isolation where the system has none to offer.
        partial: whether the score is the share of the tests passed, instead of all or nothing.

    Raises:
        UserError: if neither path nor hub is given, the tasks cannot be read, or tests are not what they have to be.
    """
    options = sandbox_options(backend, image, runtime, limits, allow_unsafe, partial)
    kept = [tests_column] if stub_column is None else [tests_column, stub_column]
    columns = {
        "prompt": prompt_column,
        "answer": _nothing if answer_column is None else answer_column,
        "id": id_column,
        "info": kept,
    }
    if path is None and hub is None:
        raise UserError("rlvr/Code-v0 needs a task file or a data set; pass path= or hub= to say which.")

    def convert(row: Task) -> Task:
        stub = {} if stub_column is None else {"stub": row.info[stub_column]}
        return Task(row.id, row.prompt, row.answer, {"tests": row.info[tests_column], **stub, **options})

    return _converted(_load(split, path, hub, hub_config, hub_revision, columns), convert)


def humaneval_tasks(
    split: str = "test",
    *,
    path: TaskPath | None = None,
    hub: str = "openai/openai_humaneval",
    hub_config: str | None = None,
    hub_revision: str | None = None,
    backend: str = "auto",
    image: str | None = None,
    runtime: str | None = None,
    limits: Mapping[str, Any] | None = None,
    allow_unsafe: bool = False,
    partial: bool = False,
) -> Tasks:
    """HumanEval: 164 functions to write from their header and docstring (Chen et al. 2021, arXiv:2107.03374).

    Imports and helper functions that the prompt shows need not be repeated, and a completion may also go on with the
    prompt's function where the prompt ends.

    Args:
        split: on the hub, "eval" means "test", the only one there is; for a file see `code_tasks`.
        path: a JSONL or Parquet file, or a dict of splits, used instead of the hub; see `code_tasks`.
        hub: the name of the data set on the Hugging Face hub.
        hub_config: its configuration.
        hub_revision: a branch, tag or commit of it.
        backend: see `code_tasks`.
        image: see `code_tasks`.
        runtime: see `code_tasks`.
        limits: see `code_tasks`.
        allow_unsafe: see `code_tasks`.
        partial: see `code_tasks`.

    Raises:
        UserError: if the tasks cannot be read.
    """
    options = sandbox_options(backend, image, runtime, limits, allow_unsafe, partial)
    columns = {
        "prompt": "prompt",
        "answer": "canonical_solution",
        "id": "task_id",
        "info": ["test", "entry_point"],
    }

    def convert(row: Task) -> Task:
        tests = {"form": "asserts", "entry_point": row.info["entry_point"], "source": row.info["test"]}
        prompt = f"Complete this function:\n\n```python\n{row.prompt.strip()}\n```"
        return Task(row.id, prompt, row.answer, {"tests": tests, "stub": row.prompt, **options})

    return _converted(_load(split, path, hub, hub_config, hub_revision, columns), convert)


def mbpp_tasks(
    split: str = "train",
    *,
    path: TaskPath | None = None,
    hub: str = "google-research-datasets/mbpp",
    hub_config: str | None = "full",
    hub_revision: str | None = None,
    shown: int = 1,
    backend: str = "auto",
    image: str | None = None,
    runtime: str | None = None,
    limits: Mapping[str, Any] | None = None,
    allow_unsafe: bool = False,
    partial: bool = False,
) -> Tasks:
    """MBPP: small problems with three assertions each (Austin et al. 2021, arXiv:2108.07732).

    The prompt shows the first assertions, which tell the function's name and are its visible tests; the others
    are hidden. Rows may be those of the configuration "full" or "sanitized".

    Args:
        split: on the hub, "eval" means "test", and every other name itself; for a file see `code_tasks`.
        path: a JSONL or Parquet file, or a dict of splits, used instead of the hub; see `code_tasks`.
        hub: the name of the data set on the Hugging Face hub.
        hub_config: its configuration.
        hub_revision: a branch, tag or commit of it.
        shown: how many assertions the prompt shows, at least one.
        backend: see `code_tasks`.
        image: see `code_tasks`.
        runtime: see `code_tasks`.
        limits: see `code_tasks`.
        allow_unsafe: see `code_tasks`.
        partial: see `code_tasks`.

    Raises:
        UserError: if the tasks cannot be read, or `shown` is no such number.
    """
    if isinstance(shown, bool) or not isinstance(shown, int) or shown < 1:
        raise UserError(f"shown={shown!r} is no number of assertions; pass at least 1, for they tell the name.")
    options = sandbox_options(backend, image, runtime, limits, allow_unsafe, partial)
    columns = {"prompt": _mbpp_text, "answer": dict, "id": "task_id", "info": ()}

    def convert(row: Task) -> Task:
        listed = row.answer.get("test_list")
        if not isinstance(listed, Sequence) or not listed or not all(isinstance(line, str) for line in listed):
            raise UserError("the column 'test_list' holds no assertions; pass an MBPP file.")
        imports = row.answer.get("test_imports") or row.answer.get("test_setup_code") or ""
        setup = imports if isinstance(imports, str) else "\n".join(imports)
        solution = row.answer.get("code")
        name = _tested_function(solution, listed)
        groups = [(listed[:shown], True), (listed[shown:], False)]
        tests = [
            {"form": "asserts", "entry_point": name, "source": "\n".join([setup, *lines]), "visible": visible}
            for lines, visible in groups
            if lines
        ]
        examples = "\n".join(listed[:shown])
        prompt = f"{row.prompt.strip()}\n\nThe function is tested so:\n\n```python\n{examples}\n```"
        return Task(row.id, prompt, solution, {"tests": tests, **options})

    return _converted(_load(split, path, hub, hub_config, hub_revision, columns), convert)


def _mbpp_text(row: Mapping[str, Any]) -> Any:
    return row["text"] if row.get("text") is not None else row["prompt"]


def _tested_function(solution: object, assertions: Sequence[str]) -> str:
    """The function of the reference solution that the assertions call."""
    try:
        defined = {node.name for node in ast.walk(ast.parse(str(solution))) if isinstance(node, ast.FunctionDef)}
        calls = [node for line in assertions for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError) as error:
        raise UserError(f"a solution or an assertion is no Python ({error}); mend it.") from None
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in defined:
            return call.func.id
    raise UserError("no assertion in 'test_list' calls a function that 'code' defines; pass an MBPP file.")


def sandbox_options(
    backend: str,
    image: str | None,
    runtime: str | None,
    limits: Mapping[str, Any] | None,
    allow_unsafe: bool,
    partial: bool,
) -> dict[str, Any]:
    """What the verifier is told beside the tests, where it is not what it does anyway.

    Raises:
        UserError: an option is not what it has to be.
    """
    if not isinstance(partial, bool):
        raise UserError(f"partial={partial!r} has to be true or false.")
    settings = Settings(
        backend=backend,
        image=image,
        runtime=runtime,
        limits=limits,
        allow_unsafe=allow_unsafe,
        score="share" if partial else "all",
    )
    return {
        option.name: getattr(settings, option.name)
        for option in dataclasses.fields(settings)
        if getattr(settings, option.name) != option.default
    }


def _nothing(row: Mapping[str, Any]) -> None:
    return None


def _load(
    split: str,
    path: TaskPath | None,
    hub: str | None,
    config: str | None,
    revision: str | None,
    columns: dict[str, Any],
) -> Tasks:
    if isinstance(path, Mapping):
        if split not in path:
            raise UserError(f"The dict path= has no split {split!r}; {did_you_mean(split, path)}")
        path = path[split]
    if path is not None:
        if not isinstance(path, str | Path):
            raise UserError(f"path={path!r} is no path; pass the name of a file, or a dict of them by split.")
        return Tasks.from_path(path, **columns)
    if not isinstance(hub, str):
        raise UserError(f"hub={hub!r} is no data set's name; pass one such as 'openai/openai_humaneval'.")
    hub_split = "test" if split == "eval" else split
    return Tasks.from_hub(hub, config=config, split=hub_split, revision=revision, **columns)


def _converted(rows: Tasks, convert: Callable[[Task], Task]) -> Tasks:
    """The tasks that the rows become, all of whose tests can be run.

    Raises:
        UserError: one's cannot, and would make every completion wrong.
    """
    tasks = []
    for number, row in enumerate(rows):
        try:
            task = convert(row)
            read_tests(task.info["tests"])
            checked_stub(task.info.get("stub"))
        except UserError as error:
            raise UserError(f"Task {row.id!r} ({rows.source}, row {number}) cannot be graded: {error}") from None
        tasks.append(task)
    return Tasks.from_list(tasks, source=rows.source)


register(
    "rlvr/Code-v0",
    tasks=code_tasks,
    rubric=CODE_RUBRIC,
    system=SYSTEM_PROMPT,
    description="Programming problems with tests, from a JSONL or Parquet file or a data set on the hub",
)
register(
    "rlvr/HumanEval-v0",
    tasks=humaneval_tasks,
    rubric=CODE_RUBRIC,
    system=SYSTEM_PROMPT,
    description="HumanEval, 164 functions to write, from a file or the hub",
)
register(
    "rlvr/MBPP-v0",
    tasks=mbpp_tasks,
    rubric=CODE_RUBRIC,
    system=SYSTEM_PROMPT,
    description="MBPP, small programming problems with three assertions each, from a file or the hub",
)
