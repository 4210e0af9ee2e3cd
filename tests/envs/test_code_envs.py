from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import rlvr.envs.code
import rlvr.envs.list_ops  # noqa: F401 - registers its environment
from rlvr.envs import make_vec
from rlvr.verifiers import UserError

HUMANEVAL = Path(os.environ.get("RLVR_TASK_FILES", Path(__file__).parents[3] / "shared" / "data")) / "humaneval.jsonl"
ROW: dict[str, Any] = {
    "prompt": "Add two numbers: add(a, b).",
    "tests": {"form": "calls", "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}]},
}
OUTSIDE = {"form": "pytest", "files": {"../test_a.py": "import solution\ndef test_a(): pass"}}
RIGHT = "<think>plus</think>```python\ndef add(a, b):\n    return a + b\n```"
MBPP: dict[str, Any] = {
    "task_id": 2,
    "text": "Write a function to find the shared elements of two tuples.",
    "code": "def similar(a, b):\n    return tuple(set(a) & set(b))",
    "test_list": [
        "assert set(similar((3, 4, 5), (5, 7, 4))) == set((4, 5))",
        "assert set(similar((1, 2), (5, 4))) == set()",
        "assert sorted(similar((11, 12), (12, 11))) == [11, 12]",
    ],
    "test_setup_code": "",
    "challenge_test_list": [],
}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def env_of(id: str, **options: Any) -> Any:
    return gymnasium.make(id, **options).unwrapped


def step(env: Any, completion: str, task: int = 0) -> tuple[float, dict[str, Any]]:
    env.reset(options={"task": task})
    _, reward, terminated, _, info = env.step(completion)
    assert terminated
    return reward, info


def test_a_file_of_ones_own_is_posed_and_graded(tmp_path: Path) -> None:
    text = {**ROW, "tests": json.dumps(ROW["tests"])}
    env = env_of("rlvr/Code-v0", path=written(tmp_path / "a.jsonl", ROW, text))
    for task in (0, 1):
        reward, info = step(env, RIGHT, task)
        assert (reward, info["passed"], info["parts/code"], info["parts/code/hidden"]) == (1.0, 1.0, 1.0, 1.0)
    reward, info = step(env, RIGHT.replace("+", "-"))
    assert (reward, info["passed"], info["status"]) == (0.0, 0.0, "ok")
    assert "expected" not in repr(env.tasks[0])


def test_a_parquet_file_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    stdin = {"form": "stdin", "cases": [{"stdin": "1 2\n", "stdout": "3\n"}]}
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([ROW, {"prompt": "Print the sum.", "tests": stdin}]), path)
    env = env_of("rlvr/Code-v0", path=str(path))
    assert step(env, RIGHT)[0] == 1.0
    assert step(env, "```python\nprint(sum(map(int, input().split())))\n```", 1)[0] == 1.0


def test_options_reach_the_verifier(tmp_path: Path) -> None:
    cases = [{"args": [1, 2], "expected": 3}, {"args": [5, 5], "expected": 10}]
    row = {**ROW, "tests": {"form": "calls", "entry_point": "add", "cases": cases}}
    env = env_of("rlvr/Code-v0", path=written(tmp_path / "a.jsonl", row), partial=True, limits={"cpu_seconds": 1.0})
    assert step(env, "```python\ndef add(a, b): return 3\n```")[0] == 0.5
    assert env.tasks[0].info["limits"] == {"cpu_seconds": 1.0}


def test_mbpp_shows_one_assertion_and_hides_the_others(tmp_path: Path) -> None:
    sanitized = {"task_id": 3, "prompt": MBPP["text"], "test_imports": ["import math"], **MBPP, "text": None}
    path = written(tmp_path / "mbpp.jsonl", MBPP, {**sanitized, "task_id": 3})
    env = env_of("rlvr/MBPP-v0", path=path)
    assert MBPP["test_list"][0] in env.tasks[0].prompt
    assert MBPP["test_list"][1] not in env.tasks[0].prompt
    for task in (0, 1):
        reward, info = step(env, f"```python\n{MBPP['code']}\n```", task)
        assert (reward, info["parts/code/visible"], info["parts/code/hidden"]) == (1.0, 1.0, 1.0)
    _, info = step(env, "```python\ndef similar(a, b): return (4, 5)\n```")
    assert (info["parts/code/visible"], info["parts/code/hidden"]) == (1.0, 0.0)


def test_humaneval_takes_whole_functions_and_bodies() -> None:
    if not HUMANEVAL.is_file():
        pytest.skip(f"no file {HUMANEVAL}")
    env = env_of("rlvr/HumanEval-v0", path=HUMANEVAL)
    assert len(env.tasks) == 164
    task = env.tasks[0]
    stub, body = task.info["stub"], task.answer
    assert stub.strip() in task.prompt
    assert step(env, f"```python\n{stub}{body}\n```")[0] == 1.0
    assert step(env, body)[0] == 1.0
    assert step(env, "    pass\n")[0] == 0.0
    without_imports = stub.replace("from typing import List", "") + body
    assert step(env, f"```python\n{without_imports}\n```")[0] == 1.0


def test_every_body_of_humaneval_goes_on_with_its_prompt() -> None:
    if not HUMANEVAL.is_file():
        pytest.skip(f"no file {HUMANEVAL}")
    env: Any = make_vec("rlvr/HumanEval-v0", 164, path=HUMANEVAL)
    rows = [task.fields(completion=task.answer, think="none") for task in env.tasks]
    verdicts = env.rubric.grade_many(rows)
    assert [row["task_id"] for row, v in zip(rows, verdicts, strict=True) if not v.passed] == []


@pytest.mark.parametrize("id", ["rlvr/Code-v0", "rlvr/HumanEval-v0", "rlvr/MBPP-v0", "rlvr/ListOps-v0"])
def test_gymnasium_accepts_the_environments(id: str, tmp_path: Path) -> None:
    human = {
        "task_id": "H/0",
        "prompt": 'def add(a, b):\n    """Add."""\n',
        "entry_point": "add",
        "canonical_solution": "    return a + b\n",
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    }
    rows: dict[str, dict[str, Any]] = {"rlvr/Code-v0": ROW, "rlvr/HumanEval-v0": human, "rlvr/MBPP-v0": MBPP}
    options = {"path": written(tmp_path / "a.jsonl", rows[id])} if id in rows else {}
    check_env(env_of(id, **options), skip_render_check=True)


@pytest.mark.parametrize(
    ("id", "row", "options", "message"),
    [
        ("rlvr/Code-v0", None, {}, "pass path= or hub="),
        ("rlvr/Code-v0", {**ROW, "tests": {"form": "calls"}}, {}, "cannot be graded: tests has no 'entry_point'"),
        ("rlvr/Code-v0", {"prompt": "a", "test": 1}, {}, "no column 'tests'"),
        ("rlvr/Code-v0", {**ROW, "tests": OUTSIDE}, {}, r"Task 'a/0' \(.*a.jsonl, row 0\) cannot .*to be relative"),
        ("rlvr/Code-v0", {**ROW, "stub": 3}, {"stub_column": "stub"}, "cannot be graded: stub='3'"),
        ("rlvr/Code-v0", ROW, {"backend": "dokcer"}, "did you mean 'docker'"),
        ("rlvr/Code-v0", ROW, {"partial": 1}, "partial=1"),
        ("rlvr/Code-v0", ROW, {"allow_unsafe": 1}, "allow_unsafe=1"),
        ("rlvr/Code-v0", ROW, {"image": 1}, "image=1"),
        ("rlvr/Code-v0", ROW, {"limits": {"cpu": 1}}, "no sandbox limit 'cpu'"),
        ("rlvr/MBPP-v0", MBPP, {"limits": {"cpu_seconds": -1}}, "cpu_seconds is -1"),
        ("rlvr/MBPP-v0", {**MBPP, "test_list": []}, {}, "holds no assertions"),
        ("rlvr/MBPP-v0", {**MBPP, "code": "x = 1"}, {}, "no assertion in 'test_list' calls a function"),
        ("rlvr/MBPP-v0", MBPP, {"shown": 0}, "shown=0"),
    ],
)
def test_mistakes_are_named(id: str, row: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = {} if row is None else {"path": written(tmp_path / "a.jsonl", row)}
    with pytest.raises(UserError, match=message):
        env_of(id, **path, **options)
