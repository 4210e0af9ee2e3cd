"""Reading tasks from lists, files, the hub and functions."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys

import pytest

from rlvr.envs import Task, Tasks
from rlvr.verifiers import UserError

ROWS = [
    {"question": "1 + 1?", "result": "2", "level": 1, "key": "a"},
    {"question": "2 + 3?", "result": "5", "level": 2, "key": "b"},
]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sentence(call) -> str:
    """The message of the UserError that `call` raises."""
    with pytest.raises(UserError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- Task


def test_a_task_hides_its_answer_and_info_from_its_repr():
    task = Task("t/1", "1 + 1?", "SECRET", {"solution": "SECRET"})
    assert "SECRET" not in repr(task)
    assert "t/1" in repr(task)


def test_a_task_is_hashable_comparable_and_copies():
    task = Task("t/1", "1 + 1?", [2], {"level": 1})
    assert task == copy.deepcopy(task) == pickle.loads(pickle.dumps(task))
    assert task != Task("t/1", "1 + 1?", [3], {"level": 1})
    assert len({task, copy.deepcopy(task)}) == 1


def test_a_task_keeps_its_own_copy_of_info():
    info = {"level": 1}
    task = Task("t/1", "1 + 1?", 2, info)
    info["level"] = 2
    assert task.info == {"level": 1}


@pytest.mark.parametrize("name", ["completion", "prompt", "answer", "think"])
def test_info_may_not_shadow_what_verifiers_know(name):
    assert f"'t/1' has a key {name!r}" in sentence(lambda: Task("t/1", "?", 1, {name: 0}))


def test_prompt_and_id_must_be_text():
    assert "'t/1'" in sentence(lambda: Task("t/1", 5, 1))
    assert "int" in sentence(lambda: Task("t/1", 5, 1))
    assert "id of a task" in sentence(lambda: Task(7, "?", 1))


# --- lists


def test_a_list_of_dicts_is_read_by_columns():
    tasks = Tasks.from_list(ROWS, prompt="question", answer="result")
    assert len(tasks) == 2
    assert tasks[1] == Task("list/1", "2 + 3?", "5", {"level": 2, "key": "b"})
    assert tasks[-1] == tasks[1]
    assert [task.id for task in tasks] == ["list/0", "list/1"]


def test_task_objects_and_dicts_mix():
    tasks = Tasks.from_list([Task("x", "?", 1), {"prompt": "!", "answer": 2}])
    assert [task.id for task in tasks] == ["x", "list/1"]


def test_columns_may_be_functions_lists_and_chosen():
    tasks = Tasks.from_list(
        ROWS,
        prompt=["key", "question"],
        answer=lambda row: int(row["result"]),
        id="key",
        info=["level"],
    )
    assert tasks[0] == Task("a", "a 1 + 1?", 2, {"level": 1})


def test_a_slice_is_tasks_again():
    tasks = Tasks.from_list(ROWS, prompt="question", answer="result")[1:]
    assert isinstance(tasks, Tasks)
    assert [task.id for task in tasks] == ["list/1"]


def test_the_repr_of_tasks_shows_no_answer():
    tasks = Tasks.from_list([{"prompt": "?", "answer": "SECRET"}])
    assert "SECRET" not in repr(tasks)


def test_duplicate_ids_are_refused():
    rows = [{**ROWS[0], "key": "same"}, {**ROWS[1], "key": "same"}]
    message = sentence(lambda: Tasks.from_list(rows, prompt="question", answer="result", id="key"))
    assert "'same'" in message
    assert "0 and 1" in message


@pytest.mark.parametrize("value", [None, True, 1.5, ["a"]])
def test_an_id_that_is_no_name_is_refused(value):
    rows = [{"prompt": "?", "answer": 1, "key": value}]
    assert "list, row 0" in sentence(lambda: Tasks.from_list(rows, id="key"))


def test_a_missing_column_is_named_with_those_there_are():
    message = sentence(lambda: Tasks.from_list(ROWS, prompt="qestion", answer="result"))
    assert "list, row 0" in message
    assert "'qestion'" in message
    assert "did you mean 'question'?" in message
    assert "'level'" in message


def test_a_column_missing_inside_a_function_is_named_too():
    message = sentence(lambda: Tasks.from_list(ROWS, prompt="question", answer=lambda row: row["reslt"]))
    assert "did you mean 'result'?" in message


@pytest.mark.parametrize(("key", "value"), [("prompt", 5), ("prompt", ["question", None]), ("answer", None), ("id", 5)])
def test_what_names_no_column_is_one_sentence(key, value):
    columns = {"prompt": "question", "answer": "result", key: value}
    assert f"names no column to read the {key} from" in sentence(lambda: Tasks.from_list(ROWS, **columns))


def test_what_lists_no_columns_for_info_is_one_sentence():
    message = sentence(lambda: Tasks.from_list(ROWS, prompt="question", answer="result", info=5))
    assert "info=5 is not a list of columns" in message


@pytest.mark.parametrize("info", [None, ["level"], "level"])
def test_the_info_of_a_task_is_a_mapping(info):
    assert "info of task 't/1'" in sentence(lambda: Task("t/1", "1 + 1?", 2, info))


def test_a_column_listed_for_info_must_exist():
    message = sentence(lambda: Tasks.from_list(ROWS, prompt="question", answer="result", info=["lvl"]))
    assert "'lvl'" in message


def test_info_must_be_a_list():
    message = sentence(lambda: Tasks.from_list(ROWS, prompt="question", answer="result", info="level"))
    assert "info=['level']" in message


def test_a_prompt_that_is_no_text_is_refused():
    assert "prompt" in sentence(lambda: Tasks.from_list(ROWS, prompt="level", answer="result"))
    assert "'level'" in sentence(lambda: Tasks.from_list(ROWS, prompt=["question", "level"], answer="result"))


def test_a_leftover_column_with_a_taken_name_says_to_list_the_columns():
    rows = [{"problem": "?", "solution": "2", "answer": "because"}]
    message = sentence(lambda: Tasks.from_list(rows, prompt="problem", answer="solution"))
    assert "'answer'" in message
    assert "info=" in message
    assert Tasks.from_list(rows, prompt="problem", answer="solution", info=[])[0].answer == "2"


def test_an_empty_list_and_odd_items_are_refused():
    assert "no tasks" in sentence(lambda: Tasks.from_list([]))
    assert "row 1 is a int" in sentence(lambda: Tasks.from_list([Task("a", "?", 1), 5]))


# --- JSONL


def test_jsonl_rows_become_tasks(tmp_path):
    path = write_jsonl(tmp_path / "sums.jsonl", ROWS)
    tasks = Tasks.from_jsonl(path, prompt="question", answer="result")
    assert tasks[1] == Task("sums/1", "2 + 3?", "5", {"level": 2, "key": "b"})


def test_jsonl_may_have_a_byte_order_mark_blank_lines_crlf_and_line_separators(tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + b'{"prompt": "a", "answer": 1}\r\n\r\n' + '{"prompt": "b\u2028\u0085c", "answer": 2}'.encode()
    )
    assert [(task.id, task.prompt) for task in Tasks.from_jsonl(path)] == [
        ("odd/0", "a"),
        ("odd/1", "b\u2028\u0085c"),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"prompt": "b"', "not valid JSON"),
        ("[1, 2]", "list"),
        ('{"prompt": "b", "answer": ' + "1" * 5000 + "}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_a_malformed_line_is_named_by_its_number(tmp_path, line, words):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"prompt": "a", "answer": 1}\n\n' + line + "\n", encoding="utf-8")
    message = sentence(lambda: Tasks.from_jsonl(path))
    assert f"{path}, line 3" in message
    assert words in message


def test_a_column_missing_on_one_line_names_the_line(tmp_path):
    path = write_jsonl(tmp_path / "gap.jsonl", [{"prompt": "a", "answer": 1}, {"prompt": "b"}])
    assert f"{path}, line 2 has no column 'answer'" in sentence(lambda: Tasks.from_jsonl(path))


def test_files_that_are_missing_empty_folders_or_binary_are_refused(tmp_path):
    assert "There is no task file" in sentence(lambda: Tasks.from_jsonl(tmp_path / "none.jsonl"))
    assert "is a folder" in sentence(lambda: Tasks.from_jsonl(tmp_path))
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    assert "no tasks" in sentence(lambda: Tasks.from_jsonl(empty))
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in sentence(lambda: Tasks.from_jsonl(binary))


# --- Parquet


def test_parquet_rows_become_tasks(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "sums.parquet"
    parquet.write_table(pa.Table.from_pylist(ROWS), path)
    tasks = Tasks.from_parquet(path, prompt="question", answer="result")
    assert tasks[1] == Task("sums/1", "2 + 3?", "5", {"level": 2, "key": "b"})
    assert list(Tasks.from_path(path, prompt="question", answer="result")) == list(tasks)
    assert "row 0 has no column 'answer'" in sentence(lambda: Tasks.from_parquet(path, prompt="question"))


def test_parquet_files_that_are_none_or_empty_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    text = tmp_path / "text.parquet"
    text.write_text("hello")
    assert "not a readable Parquet file" in sentence(lambda: Tasks.from_parquet(text))
    assert "There is no task file" in sentence(lambda: Tasks.from_parquet(tmp_path / "none.parquet"))
    empty = tmp_path / "empty.parquet"
    parquet.write_table(pa.table({"prompt": pa.array([], pa.string())}), empty)
    assert "no tasks" in sentence(lambda: Tasks.from_parquet(empty))


@pytest.mark.parametrize("package", ["pyarrow", "datasets"])
def test_a_missing_package_names_the_extra(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / "any.parquet"
    path.write_text("")
    load = {"pyarrow": lambda: Tasks.from_parquet(path), "datasets": lambda: Tasks.from_hub("a/b")}[package]
    message = sentence(load)
    assert package in message
    assert "pip install 'rlvr[train]'" in message


# --- by ending


def test_a_path_is_read_by_its_ending(tmp_path):
    path = write_jsonl(tmp_path / "sums.JSONL", ROWS)
    assert len(Tasks.from_path(path, prompt="question", answer="result")) == 2
    assert ".jsonl nor .parquet" in sentence(lambda: Tasks.from_path(tmp_path / "sums.csv"))


# --- the hub

HUB = """
import sys
from rlvr.envs import Tasks
from rlvr.verifiers import UserError
try:
    tasks = Tasks.from_hub(sys.argv[1], split=sys.argv[2], prompt="question", answer="result")
    print([(task.id, task.prompt, task.answer) for task in tasks])
except UserError as error:
    print("UserError", error)
"""


def from_hub(tmp_path, name, split) -> str:
    # In a process of its own: datasets reads its cache folder and whether it is offline when imported.
    env = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", HUB, str(name), split]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=tmp_path)
    return done.stdout.strip()


def test_datasets_loads_a_data_set(tmp_path):
    pytest.importorskip("datasets")
    folder = tmp_path / "sums"
    folder.mkdir()
    write_jsonl(folder / "test.jsonl", ROWS)
    assert from_hub(tmp_path, folder, "test") == str([("sums_test/0", "1 + 1?", "2"), ("sums_test/1", "2 + 3?", "5")])


def test_a_data_set_that_cannot_be_reached_is_one_sentence(tmp_path):
    pytest.importorskip("datasets")
    output = from_hub(tmp_path, "nobody/nothing", "train")
    assert output.startswith("UserError")
    assert "'nobody/nothing'" in output
    assert "path=" in output
    assert "\n" not in output


# --- functions


def test_a_function_is_called_only_for_what_is_asked():
    asked = []

    def make(index):
        asked.append(index)
        return Task(f"made/{index}", str(index), index)

    tasks = Tasks.from_function(make, 10**12)
    assert len(tasks) == 10**12
    assert tasks[-1].id == f"made/{10**12 - 1}"
    assert tasks[5:7][1].id == "made/6"
    assert asked == [10**12 - 1, 6]
    with pytest.raises(IndexError):
        tasks[10**12]


def test_a_function_must_return_tasks_and_have_a_size():
    assert "for index 3" in sentence(lambda: Tasks.from_function(lambda index: "task", 5)[3])
    assert "size=0" in sentence(lambda: Tasks.from_function(lambda index: Task("a", "?", 1), 0))


# --- imports


def test_importing_envs_loads_no_heavy_package():
    code = (
        "import sys, rlvr.envs;"
        "print([m for m in ('torch','transformers','datasets','docker','pyarrow','pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
