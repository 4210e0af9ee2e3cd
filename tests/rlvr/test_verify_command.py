from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RLVR = Path(sys.executable).with_name("rlvr")
ROWS = [
    {"completion": r"\boxed{4}", "answer": "4", "expected": True},
    {"completion": r"\boxed{5}", "answer": "4", "expected": False},
    {"completion": "four [bold]x[/] \x1b[31m", "answer": "4", "expected": True},
    {"completion": r"\boxed{1}", "answer": "no number", "expected": False},
]


def rlvr(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(cwd)}
    environment.pop("FORCE_COLOR", None)
    command = [str(RLVR), "verify", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def shown(*arguments: object, cwd: Path) -> str:
    done = rlvr(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: object, cwd: Path) -> str:
    done = rlvr(*arguments, cwd=cwd)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]


def summary(out: str) -> dict[str, str]:
    pairs = [cells(line) for line in out.splitlines() if line.startswith("│")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def write(path: Path, rows) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.fixture
def checks(tmp_path):
    path = tmp_path / "my_checks.py"
    path.write_text(
        "import rlvr, os\n"
        "@rlvr.verifier('me/long-v1')\n"
        "def long(completion, least=0):\n    return len(completion) > least\n"
        "@rlvr.verifier('me/batch-v1')\n"
        "def batch(completions):\n    return [len(c) > 9 for c in completions]\n"
        "@rlvr.verifier('me/power-v1', timeout=1)\n"
        "def power(completion):\n    return 9**9**9 if '5' in completion else True\n"
        "@rlvr.verifier('me/short-list-v1')\n"
        "def short_list(completions):\n    return [1.0]\n"
    )
    return path


def test_a_file_is_scored_counted_and_written(tmp_path):
    rows = write(tmp_path / "rows.jsonl", [ROWS[0], "", *ROWS[1:]])
    out = shown("rlvr/number-v1", "--jsonl", rows, "--out", "deep/er/out.jsonl", cwd=tmp_path)
    counted = summary(out)
    assert counted["rows"] == "4"
    assert counted["mean score"] == "0.3333"  # of the three that could be graded
    assert counted["passed"] == "1 of 3 (33.33%)"
    assert (counted["status ok"], counted["status unparseable"], counted["status error"]) == ("2", "1", "1")
    assert counted["as expected"] == "2 of 4 (50.00%)"
    assert float(counted["seconds"]) >= 0
    assert "verdicts a second" in counted
    assert "line" in counted["slowest"]
    written = [json.loads(line) for line in (tmp_path / "deep/er/out.jsonl").read_text().splitlines()]
    assert [row["index"] for row in written] == [0, 1, 2, 3]
    assert [row["score"] for row in written] == [1.0, 0.0, 0.0, None]
    assert [row["passed"] for row in written] == [True, False, False, None]
    assert [row["status"] for row in written] == ["ok", "ok", "unparseable", "error"]
    assert [row["answer"] for row in written] == ["4", "5", None, None]
    assert all(row["detail"] for row in written)
    assert "2 of 4 rows are not as expected" in out
    assert "\x1b" not in out
    assert r"four [bold]x[/] \x1b[31m" in out


def test_columns_are_renamed_at_once(tmp_path):
    swapped = [{"answer": r"\boxed{4}", "gold": "4", "label": True}, {"answer": r"\boxed{5}", "gold": 4, "label": True}]
    rows = write(tmp_path / "rows.jsonl", swapped)
    columns = ["completion=answer", "answer=gold", "expected=label"]
    options = [word for column in columns for word in ("--column", column)]
    counted = summary(shown("rlvr/number-v1", "--jsonl", rows, *options, cwd=tmp_path))
    assert counted["passed"] == "1 of 2 (50.00%)"
    assert counted["as expected"] == "1 of 2 (50.00%)"


def test_options_hold_for_every_row(tmp_path):
    rows = write(tmp_path / "rows.jsonl", [{"completion": "It is 4."}, {"completion": "It is 5."}])
    options = ("--answer", "4", "-o", "fallback=last_number")
    assert summary(shown("rlvr/number-v1", "--jsonl", rows, *options, cwd=tmp_path))["passed"] == "1 of 2 (50.00%)"


def test_two_verifiers_disagree(tmp_path, checks):
    rows = write(tmp_path / "rows.jsonl", ROWS[:3])
    command = ("rlvr/number-v1", "--against", "me/batch-v1", "--jsonl", rows, "--import", checks, "--out", "o.jsonl")
    out = shown(*command, cwd=tmp_path)
    assert "rlvr/number-v1 and me/batch-v1 disagree on 2 of 3 rows" in out
    lines = [cells(line) for line in out.splitlines() if line.startswith("│") and line.count("│") == 6]
    assert lines == [
        ["1", r"\boxed{4}", "4", "1 passed", "0"],
        ["3", r"four [bold]x[/] \x1b[31m", "4", "0, unparseable", "1 passed"],
    ]
    written = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["against"]["score"] for row in written] == [0.0, 0.0, 1.0]
    assert written[0]["against"]["verifier"] == "me/batch-v1"
    few = shown(*command, "--show", "0", cwd=tmp_path)
    assert "disagree on 2 of 3 rows" in few
    assert "1 passed" not in few


def test_verifiers_that_hang_or_lose_rows_are_errors(tmp_path, checks):
    rows = write(tmp_path / "rows.jsonl", ROWS)
    counted = summary(shown("me/power-v1", "--jsonl", rows, "--import", checks, cwd=tmp_path))
    assert (counted["status ok"], counted["status error"]) == ("3", "1")
    counted = summary(shown("me/short-list-v1", "--jsonl", rows, "--import", checks, cwd=tmp_path))
    assert counted["status error"] == "4"
    assert counted["mean score"] == "none"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "Line 2 of rows.jsonl is not valid JSON"),
        ("[" * 100_000, "Line 2 of rows.jsonl is not valid JSON"),
        ("[1]", "Line 2 of rows.jsonl is a list"),
        ('{"answer": "4"}', "Line 2 of rows.jsonl has no key 'completion'"),
        ('{"completion": 4, "answer": "4"}', "Line 2 of rows.jsonl has an int as completion"),
        ("null", "Line 2 of rows.jsonl is null and no object"),
        ('{"completion": null, "answer": "4"}', "Line 2 of rows.jsonl has null as completion"),
        ('{"completion": "4"}', "Line 2 of rows.jsonl cannot be graded: Verifier 'rlvr/number-v1' needs 'answer'"),
        ('{"completion": "4", "answer": "4", "expected": "yes"}', "Line 2 of rows.jsonl has 'yes' as expected"),
    ],
)
def test_a_malformed_row_is_named_by_its_line_and_nothing_is_written(tmp_path, line, words):
    write(tmp_path / "rows.jsonl", [ROWS[0], line])
    assert words in refused("rlvr/number-v1", "--jsonl", "rows.jsonl", "--out", "out.jsonl", cwd=tmp_path)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("backend=foo", "no sandbox backend 'foo'"),
        ("limits={cpu: 1}", "no sandbox limit 'cpu'"),
        ("stub=3", "stub='3'"),
    ],
)
def test_an_option_of_the_sandbox_is_checked_where_there_is_no_code(tmp_path, option, words):
    tests = '{"form": "calls", "entry_point": "f", "cases": [{"args": [1], "expected": 1}]}'
    row = {"completion": "I do not know.", "tests": json.loads(tests)}
    write(tmp_path / "rows.jsonl", [row])
    for given in (("--completion", "none", "-o", f"tests={tests}"), ("--jsonl", "rows.jsonl")):
        assert words in refused("rlvr/code-v1", *given, "-o", option, cwd=tmp_path)


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(json.dumps(ROWS[0]).encode() + b'\n{"completion": "\xff"}\n')
    assert "Line 2 of rows.jsonl" in refused("rlvr/number-v1", "--jsonl", "rows.jsonl", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--jsonl", "nowhere.jsonl"), "no file 'nowhere.jsonl'"),
        (("--jsonl", "empty.jsonl"), "empty.jsonl has no rows"),
        (("--jsonl", "rows.jsonl", "--column", "answer=glod"), "no key 'glod' for --column answer=glod"),
        (("--jsonl", "rows.jsonl", "--column", "answer"), "'answer' is no option"),
        (("--jsonl", "rows.jsonl", "--against", "rlvr/nmber-v1"), "did you mean 'rlvr/number-v1'"),
        (("--jsonl", "rows.jsonl", "-o", "fallbck=whole"), "did you mean 'fallback'"),
        (("--jsonl", "rows.jsonl", "-o", "fallback=guess"), "fallback 'guess'"),
        (("--jsonl", "rows.jsonl", "--out", "rows.jsonl"), "is the file that is scored"),
        (("--jsonl", "rows.jsonl", "--out", "rows.jsonl/x"), "rows.jsonl"),
        (("--jsonl", "rows.jsonl", "--out", "/proc/x/y"), "'/proc/x"),
        (("--jsonl", "rows.jsonl", "--out", "/dev/full"), "'/dev/full' cannot be used (No space left"),
        (("--jsonl", "rows.jsonl", "--column", "anwser=answer"), "did you mean 'answer'"),
        (("--jsonl", "rows.jsonl", "--column", "foo=answer"), "'foo'"),
        (("--jsonl", "rows.jsonl", "--import", "raises.py"), "raises.py:2"),
        (("--jsonl", "rows.jsonl", "--import", "raises"), "raises.py:2"),
        (("--jsonl", "rows.jsonl", "--import", "syntax.py"), "syntax.py:3"),
        (("--jsonl", "rows.jsonl", "--import", "exits.py"), "exits.py:1"),
        (("--jsonl", "rows.jsonl", "--import", "lacks.py"), "lacks.py:2"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, arguments, words):
    write(tmp_path / "rows.jsonl", ROWS)
    write(tmp_path / "empty.jsonl", [""])
    write(tmp_path / "raises.py", ["import json", "json.loads('{')"])
    write(tmp_path / "syntax.py", ["", "", "def ("])
    write(tmp_path / "exits.py", ["raise SystemExit"])
    write(tmp_path / "lacks.py", ["import json", "import no_such_module_at_all"])
    assert words in refused("rlvr/number-v1", *arguments, cwd=tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--completion", "x", "--jsonl", "rows.jsonl"),
        ("--completion", "x", "--against", "rlvr/think-v1"),
        ("--completion", "x", "--out", "o.jsonl"),
        ("--completion", "x", "--column", "a=b"),
    ],
)
def test_wrong_use(tmp_path, arguments):
    done = rlvr("rlvr/number-v1", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr


def test_failed_gradings_are_explained(tmp_path, checks):
    rows = write(tmp_path / "rows.jsonl", ["", *[{"completion": f"{number}"} for number in range(9)]])
    out = shown("me/short-list-v1", "--jsonl", rows, "--import", checks, cwd=tmp_path)
    lines = [cells(line) for line in out.splitlines() if line.startswith("│") and "1 values for 9" in line]
    assert [line[0] for line in lines] == ["2", "3", "4", "5", "6"]
    assert "4 more rows could not be graded" in out
    assert "could not be graded" not in shown("rlvr/number-v1", "--jsonl", rows, "--answer", "4", cwd=tmp_path)


def test_a_pipe_is_scored_too(tmp_path):
    text = "".join(json.dumps(row) + "\n" for row in ROWS[:2])
    environment = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    command = [str(RLVR), "verify", "rlvr/number-v1", "--jsonl", "/dev/stdin"]
    done = subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=True)
    assert summary(done.stdout)["passed"] == "1 of 2 (50.00%)"


def test_a_column_of_a_function_that_takes_every_field(tmp_path):
    rows = write(tmp_path / "rows.jsonl", [{"completion": "x", "gold": "x"}])
    write(
        tmp_path / "any.py",
        ["import rlvr", "@rlvr.verifier('me/any-v1')", "def f(completion, **r): return r['g'] == 'x'"],
    )
    out = shown("me/any-v1", "--jsonl", rows, "--column", "g=gold", "--import", "any.py", cwd=tmp_path)
    assert summary(out)["passed"] == "1 of 1 (100.00%)"
