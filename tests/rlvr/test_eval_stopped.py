"""What is said of an evaluation that was stopped."""

from __future__ import annotations

import pytest

from rlvr.eval_command import _say_what_is_kept

ROWS = '{"task": 0, "sample": 0}\n{"task": 4, "sample": 0}\n{"task": 0, "sample": 1}\n'


def test_the_samples_and_the_tasks_are_counted(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROWS)
    _say_what_is_kept(path)
    said = capsys.readouterr().out
    assert said.startswith("stopped with 3 samples of 2 tasks graded; go on with the same command and --out ")
    assert said.endswith("rows.jsonl\n")


@pytest.mark.parametrize("content", [None, b"", b"some notes\n", b"[1]\n", b'{"a": 1}\n', b"\xff\n"])
def test_without_a_file_of_samples_nothing_is_graded(tmp_path, capsys, content):
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_bytes(content)
    _say_what_is_kept(path)
    assert capsys.readouterr().out == "stopped before anything was graded\n"
