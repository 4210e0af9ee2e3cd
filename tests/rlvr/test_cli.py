from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

RLVR = Path(sys.executable).with_name("rlvr")
TINY = {
    "model": {"name": "tiny", "warm_start": {"level": 1, "steps": 2, "batch_size": 4}},
    "env": {"id": "rlvr/Arithmetic-v0", "options": {"level": 1, "template": "{expression}=", "system": None}},
    "sampling": {"max_tokens": 6},
    "train": {"steps": 2, "prompts_per_step": 2, "group_size": 2},
    "eval": {"n": 2, "k": [1, 2], "tasks": 4},
    "log": {"samples_every": 1},
}


def rlvr(*arguments: object, cwd: Path, given: str | bytes = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "RLVR_CACHE": str(cwd / "cache"), "OMP_NUM_THREADS": "1"}
    environment |= {"HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    environment.pop("FORCE_COLOR", None)
    command = [str(RLVR), *map(str, arguments)]
    given = given if isinstance(given, bytes) else given.encode()
    done = subprocess.run(command, cwd=cwd, env=environment, input=given, capture_output=True, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def shown(*arguments: object, cwd: Path, **options) -> str:
    done = rlvr(*arguments, cwd=cwd, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: object, cwd: Path) -> str:
    """The one sentence that a mistake of the user's is worth."""
    done = rlvr(*arguments, cwd=cwd)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    sentence = done.stderr.removeprefix("error: ").removesuffix("\n")
    assert sentence[-1] in ".?"
    return sentence


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


@pytest.fixture
def extension(tmp_path):
    path = tmp_path / "my_envs.py"
    path.write_text(
        "import rlvr\n"
        "@rlvr.verifier('me/echo-v1')\n"
        "def echo(completion: str) -> rlvr.Verdict:\n"
        "    return rlvr.Verdict(1.0, True, detail=f'said {completion}', answer=completion)\n"
        "tasks = [{'id': str(i), 'prompt': f'{i}+{i}=', 'answer': 2 * i} for i in range(4)]\n"
        "rlvr.register('me/Sums-v0', tasks={'train': tasks, 'eval': tasks}, rubric='rlvr/number-v1',\n"
        "              system='Be [bold]brief[/] :bug:', description='sums [of] mine')\n"
    )
    return path


def test_envs_lists_what_is_registered(tmp_path):
    listed = shown("envs", cwd=tmp_path)
    for id in ("rlvr/Arithmetic-v0", "rlvr/GSM8K-v0", "rlvr/Math-v0"):
        assert id in listed
    assert "train, eval" in listed


def test_envs_shows_one(tmp_path):
    one = shown("envs", "rlvr/Arithmetic-v0", cwd=tmp_path)
    for word in ("option level", "rlvr/number-v1", r"\boxed{}", "generated"):
        assert word in one
    assert re.search(r"max_turns\W+1\W", one)
    assert re.search(r"max_turns\W+4\W", shown("envs", "rlvr/Calculator-v0", cwd=tmp_path))


def test_a_misspelt_environment_is_corrected(tmp_path):
    sentence = refused("envs", "rlvr/Arithmtic-v0", cwd=tmp_path)
    assert sentence.startswith("No environment is registered as 'rlvr/Arithmtic-v0'; did you mean 'rlvr/Arithmetic-v0'")


def test_an_imported_file_registers_and_its_words_are_no_markup(tmp_path, extension):
    assert "sums [of] mine" in shown("envs", "--import", extension, cwd=tmp_path)
    assert "Be [bold]brief[/] :bug:" in shown("envs", "me/Sums-v0", "--import", "my_envs.py", cwd=tmp_path)
    assert "nowhere.py" in refused("envs", "--import", "nowhere.py", cwd=tmp_path)


@pytest.mark.parametrize(
    ("completion", "rows"),
    [
        (r"<think>a</think>\boxed{3}", ["score", "1", "passed", "yes", "status", "ok", "answer read", "3"]),
        (r"\boxed{4}", ["passed", "no", "read 4, reference 3"]),
        (r"\boxed{[bold]x[/y] :bug:}", ["unparseable", "'[bold]x[/y] :bug:'"]),
    ],
)
def test_verify_shows_the_verdict(tmp_path, completion, rows):
    verdict = shown("verify", "rlvr/number-v1", "--completion", completion, "--answer", "3", cwd=tmp_path)
    for row in rows:
        assert row in verdict


def test_verify_takes_options_and_standard_input(tmp_path):
    arguments = ("verify", "rlvr/number-v1", "--completion", "-", "-o", "answer=3", "-o", "fallback=last_number")
    assert "yes" in shown(*arguments, cwd=tmp_path, given="It is 3.")
    assert "yes" in shown(*arguments, cwd=tmp_path, given=b"\xff\xfe It is 3.")


def test_what_a_model_wrote_reaches_the_terminal_as_text_only(tmp_path, extension):
    completion = "[red]a[/red] [/x] :bug: \x1b[31m\x07 \\"
    verdict = shown("verify", "me/echo-v1", "--completion", completion, "--import", extension, cwd=tmp_path)
    assert r"said [red]a[/red] [/x] :bug: \x1b[31m\x07 \ " in verdict
    assert "\x1b" not in verdict
    assert "\x07" not in verdict


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rlvr/nmber-v1", "--completion", "3"), "'rlvr/nmber-v1'; did you mean 'rlvr/number-v1'"),
        (("[/x]", "--completion", "3"), "'[/x]'"),
        (("rlvr/number-v1", "--completion", "3"), "needs 'answer'"),
        (("rlvr/number-v1", "--completion", "3", "-o", "answer"), "'answer' is no option; write key=value."),
        (("rlvr/number-v1", "--completion", "3", "-o", "answer=[3"), "not valid YAML"),
        (("rlvr/number-v1", "--completion", "3", "-o", "answer=3", "-o", "fallback=guess"), "fallback 'guess'"),
        (("rlvr/number-v1", "--completion", "3", "-o", "fallbck=whole"), "'fallbck'; did you mean 'fallback'?"),
    ],
)
def test_a_wrong_question_to_verify_is_one_sentence(tmp_path, arguments, words):
    assert words in refused("verify", *arguments, cwd=tmp_path)


def test_of_several_processes_the_one_that_speaks_ends_first(tmp_path):
    environment = {**os.environ, "WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
    silent = subprocess.Popen(
        [str(RLVR), "train", "nowhere"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    with silent:
        try:
            # The launcher would end the other one with it.
            with pytest.raises(subprocess.TimeoutExpired):
                silent.wait(8)
        finally:
            silent.terminate()
        assert silent.stdout.read() == b""


@pytest.mark.parametrize(
    "arguments", [("trian",), ("verify", "rlvr/number-v1"), ("eval", "rlvr/Arithmetic-v0"), ("envs", "--all")]
)
def test_a_wrong_use_of_the_command_line_exits_with_2(tmp_path, arguments):
    done = rlvr(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "No configuration was named"),
        (("nowhere.yaml",), "no configuration 'nowhere.yaml'"),
        (("tiny.yaml", "train.learning_rte=1"), "did you mean 'learning_rate'?"),
        (("tiny.yaml", "train.steps"), "is no override"),
        (("tiny.yaml", "imports=[no_such_module]"), "no module 'no_such_module' to import"),
        (("tiny.yaml", "env.id=rlvr/Arithmtic-v0"), "did you mean 'rlvr/Arithmetic-v0'"),
        (("tiny.yaml", "env.options.levl=1"), "no option 'levl'; did you mean 'level'?"),
        (("tiny.yaml", "model={name: './no[/x]where'}"), "no folder './no[/x]where'"),
        (("--resume", "nowhere"), "no run to resume in 'nowhere'"),
        (("tiny.yaml", "--resume", "nowhere"), "no folder nowhere to resume a run in"),
        (("tiny.yaml", "--resume", "here", "run_dir=there"), "run_dir=there names another folder than --resume here"),
        (("tiny.yaml", "run_dir=tiny.yaml"), "folder tiny.yaml cannot be made"),
    ],
)
def test_a_mistake_in_a_run_is_one_sentence(tmp_path, recipe, arguments, words):
    assert words in refused("train", *arguments, cwd=tmp_path)
    assert not any((tmp_path / name).exists() for name in ("nowhere", "here", "there"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-n", "2", "-k", "4"), "pass@4 cannot be estimated from n=2"),
        (("-n", "2", "-k", "0"), "pass@0"),
        (("-k", "many"), "-k 'many' is no list of numbers"),
        (("-o", "level"), "'level' is no option"),
        (("--import", "no_such_module"), "no module 'no_such_module'"),
        (("-o", "levl=1"), "no option 'levl'; did you mean 'level'?"),
        (("-o", "split=evl"), "no split 'evl'; did you mean 'eval'?"),
        (
            ("--engine", "vllm", "--engine-option", "dtyp=auto"),
            "'engine.dtyp' on the command line; did you mean 'dtype'?",
        ),
        ((), "no folder './nowhere'"),
    ],
)
def test_a_mistake_in_an_evaluation_is_one_sentence(tmp_path, arguments, words):
    assert words in refused("eval", "rlvr/Arithmetic-v0", "--model", "./nowhere", *arguments, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


WITHOUT_TORCH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == 'torch':
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


@pytest.mark.parametrize("arguments", [["train", "quickstart"], ["eval", "rlvr/Arithmetic-v0", "--model", "x"]])
def test_a_missing_extra_is_named(tmp_path, arguments):
    code = f"{WITHOUT_TORCH}\nsys.argv = ['rlvr', *{arguments}]\nfrom rlvr.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: This needs the package 'torch'; install it with: pip install 'rlvr[train]'.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named_in_python_too(tmp_path):
    code = f"{WITHOUT_TORCH}\nimport rlvr\nrlvr.TrainConfig\ntry: rlvr.Trainer\nexcept rlvr.UserError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "pip install 'rlvr[train]'" in done.stdout


def json_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_a_run_from_training_over_resuming_to_an_extended_evaluation(tmp_path, recipe):
    run = tmp_path / "run"
    printed = shown("train", recipe, f"run_dir={run}", cwd=tmp_path)
    for word in ("step 2/2", "before", "after", "pass@2", str(run / "final")):
        assert word in printed
    assert [line["step"] for line in json_lines(run / "metrics.jsonl")] == [1, 2]
    assert len(json_lines(run / "eval" / "step-000002.jsonl")) == 8
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert (saved["train"]["steps"], saved["run_dir"]) == (2, str(run))

    again = rlvr("train", recipe, f"run_dir={run}", cwd=tmp_path)
    assert again.returncode == 2
    assert "already holds a run" in again.stderr
    assert "Traceback" not in again.stderr
    shown("train", "--resume", run, "train.steps=3", cwd=tmp_path)
    assert [line["step"] for line in json_lines(run / "metrics.jsonl")] == [1, 2, 3]
    assert yaml.safe_load((run / "config.yaml").read_text())["train"]["steps"] == 3
    assert set(json.loads((run / "summary.json").read_text())) == {"steps", "before", "after"}

    out = tmp_path / "rows.jsonl"
    options = ["-o", "level=1", "-o", "template='{expression}='", "-o", "system=null"]
    command = ["eval", "rlvr/Arithmetic-v0", "--model", run / "final", *options, "--tasks", 3, "--max-tokens", 6]
    printed = shown(*command, "-n", 2, "-k", "1,2", "--out", out, cwd=tmp_path)
    assert "pass@2" in printed
    assert "3 tasks" in printed
    first = json_lines(out)
    assert len(first) == 6
    shown(*command, "-n", 4, "-k", "1,4", "--out", out, cwd=tmp_path)
    assert json_lines(out)[:6] == first
    assert len(json_lines(out)) == 12
    summary = json.loads((tmp_path / "rows.summary.json").read_text())
    assert "eval/rlvr/Arithmetic-v0/pass@4" in summary
    assert "temperature" in refused(*command, "-n", 2, "--temperature", 0.5, "--out", out, cwd=tmp_path)
    assert len(json_lines(out)) == 12


@pytest.mark.slow
def test_an_environment_of_ones_own_trains_from_a_file(tmp_path, recipe, extension):
    overrides = ["imports=[my_envs.py]", "env={id: me/Sums-v0}", "train.steps=1", "run_dir=own"]
    shown("train", recipe, *overrides, cwd=tmp_path)
    rows = json_lines(tmp_path / "own" / "eval" / "step-000000.jsonl")
    assert {row["prompt"] for row in rows} == {"0+0=", "1+1=", "2+2=", "3+3="}
