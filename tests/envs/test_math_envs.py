"""rlvr/Math-v0 and rlvr/GSM8K-v0, on small files and, where they are there, on the real ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gymnasium
import pytest

import rlvr.envs
from rlvr.verifiers import UserError

DATA = Path(os.environ.get("RLVR_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def real(name: str) -> Path:
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not in {DATA}; set RLVR_DATA")
    return DATA / name


def write(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def refusal(id: str, **options) -> str:
    with pytest.raises(UserError) as caught:
        gymnasium.make(id, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def answered(env, index: int, completion: str) -> dict:
    env.reset(options={"task": index})
    return env.step(completion)[4]


GSM8K = [
    {"question": "Cost?", "answer": "It is #### or so.\n#### 1,234"},
    {"question": "Apples?", "answer": "2 + 3 = 5\n#### 5."},
]


def test_gsm8k_reads_the_reference_after_the_last_marker(tmp_path):
    env = gymnasium.make("rlvr/GSM8K-v0", path=write(tmp_path / "g.jsonl", *GSM8K))
    assert [(task.prompt, task.answer) for task in env.unwrapped.tasks] == [("Cost?", "1,234"), ("Apples?", "5.")]
    assert answered(env, 0, r"<think>x</think>\boxed{1234}") == {
        "task_id": "g/0",
        "status": "ok",
        "passed": 1.0,
        "parts/math": 1.0,
        "parts/think": 1.0,
    }
    assert answered(env, 1, r"<think>x</think>\boxed{5}")["passed"] == 1.0
    assert answered(env, 1, r"<think>x</think>\boxed{6}")["passed"] == 0.0
    unparsed = answered(env, 1, "no idea")
    assert (unparsed["passed"], unparsed["status"]) == (0.0, "unparseable")


def test_gsm8k_keeps_the_solution_out_of_everything(tmp_path):
    env = gymnasium.make("rlvr/GSM8K-v0", path=write(tmp_path / "g.jsonl", GSM8K[0])).unwrapped
    seen = [env.reset(seed=0), env.step(r"\boxed{1}"), env, env.tasks, env.tasks[0], env.tasks[0].info]
    assert "1,234" not in repr(seen)
    assert "1234" not in repr(seen)


@pytest.mark.parametrize("answer", ["It is 5.", "####", "#### \n", 5, None])
def test_a_gsm8k_row_without_a_reference_is_refused(tmp_path, answer):
    path = write(tmp_path / "g.jsonl", GSM8K[0], {"question": "?", "answer": answer})
    message = refusal("rlvr/GSM8K-v0", path=path)
    assert f"{path}, line 2" in message
    assert "####" in message


def test_the_system_prompt_asks_for_the_form_that_is_scored(tmp_path):
    env = gymnasium.make("rlvr/GSM8K-v0", path=write(tmp_path / "g.jsonl", *GSM8K)).unwrapped
    system = env.messages("?")[0]
    assert system["role"] == "system"
    for words in ("<think>", "</think>", "\\boxed{}"):
        assert words in system["content"]


def test_math_reads_the_columns_it_is_told(tmp_path):
    path = write(tmp_path / "m.jsonl", {"problem": "2 + 3?", "answer": "5", "level": 1})
    env = gymnasium.make("rlvr/Math-v0", path=path)
    assert env.unwrapped.tasks[0].info == {"level": 1}
    assert answered(env, 0, r"<think>x</think>\boxed{5}")["passed"] == 1.0
    path = write(tmp_path / "o.jsonl", {"Body": "Two apples.", "Question": "How many?", "Answer": 2.0, "Key": "k"})
    env = gymnasium.make(
        "rlvr/Math-v0",
        path=path,
        prompt_column=["Body", "Question"],
        answer_column="Answer",
        id_column="Key",
        info_columns=[],
    )
    task = env.unwrapped.tasks[0]
    assert (task.id, task.prompt, task.answer, task.info) == ("k", "Two apples. How many?", 2.0, {})
    assert answered(env, 0, r"<think>x</think>\boxed{2}")["passed"] == 1.0


def test_math_needs_a_source(tmp_path):
    message = refusal("rlvr/Math-v0")
    assert "path=" in message
    assert "hub=" in message


def test_one_path_serves_whatever_split_and_a_dict_tells_them_apart(tmp_path):
    a = write(tmp_path / "a.jsonl", {"problem": "a?", "answer": 1})
    b = write(tmp_path / "b.jsonl", {"problem": "b?", "answer": 1})

    def prompt(**options) -> str:
        return gymnasium.make("rlvr/Math-v0", **options).reset()[0]

    assert prompt(path=a) == prompt(path=a, split="eval") == "a?"
    both = {"train": a, "eval": b}
    assert (prompt(path=both), prompt(path=both, split="eval")) == ("a?", "b?")
    assert "'eval'" in refusal("rlvr/Math-v0", path=both, split="evall")


@pytest.mark.parametrize("path", [5, ["a.jsonl"], {"train": None}])
def test_what_is_no_path_is_one_sentence(path):
    assert "is no path" in refusal("rlvr/GSM8K-v0", path=path)


def test_what_is_no_hub_name_is_one_sentence():
    assert "hub=5" in refusal("rlvr/GSM8K-v0", hub=5)


def test_a_wrong_column_names_those_there_are(tmp_path):
    message = refusal("rlvr/Math-v0", path=write(tmp_path / "m.jsonl", {"Problem": "?", "answer": 1}))
    assert "'problem'" in message
    assert "did you mean 'Problem'" in message


def test_parquet_is_read_too(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(GSM8K), tmp_path / "g.parquet")
    env = gymnasium.make("rlvr/GSM8K-v0", path=tmp_path / "g.parquet")
    assert answered(env, 0, r"<think>x</think>\boxed{1234}")["passed"] == 1.0


@pytest.mark.parametrize(("name", "size"), [("gsm8k_test.jsonl", 1319), ("gsm8k_train.jsonl", 7473)])
def test_every_reference_of_the_real_gsm8k_is_a_number_that_passes(name, size):
    env = rlvr.envs.make_vec("rlvr/GSM8K-v0", 64, path=real(name))
    assert len(env.tasks) == size
    for start in range(0, size, 64):
        indices = [index % size for index in range(start, start + 64)]
        env.reset(options={"task": indices})
        answers = [env.tasks[index].answer for index in indices]
        _, rewards, _, _, infos = env.step([f"<think>x</think> \\boxed{{{answer}}}" for answer in answers])
        assert rewards.tolist() == [1.0] * 64, start
        assert infos["passed"].all()


def test_the_real_svamp_loads_through_math():
    options = {"prompt_column": ["Body", "Question"], "answer_column": "Answer", "id_column": "ID"}
    env = gymnasium.make("rlvr/Math-v0", path=real("svamp.jsonl"), **options)
    tasks = env.unwrapped.tasks
    assert len(tasks) == 1000
    assert tasks[0].id == "chal-777"
    assert tasks[0].answer == 145.0
    assert answered(env, 0, r"<think>x</think>\boxed{145}")["passed"] == 1.0
