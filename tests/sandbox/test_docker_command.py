from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvr.sandbox_command import sandbox_app
from rlvr.verifiers import UserError

docker = pytest.importorskip("rlvr.sandbox.docker")
pytest.importorskip("docker")

TAG = "rlvr-sandbox:test-command"


@pytest.fixture(scope="module")
def built() -> Iterator[str]:
    if not docker.daemon_answers():
        pytest.skip("no Docker daemon answers")
    made = CliRunner().invoke(sandbox_app, ["build-image", "--tag", TAG])
    assert made.exit_code == 0, made.output
    yield TAG
    docker.daemon().client.remove_image(TAG, force=True)


def run(built: str, file: Path, *options: str, stdin: str | None = None) -> tuple[int, str]:
    shown = CliRunner().invoke(sandbox_app, ["run", str(file), "--backend=docker", f"--image={built}", *options], stdin)
    return shown.exit_code, shown.output


def test_a_built_image_runs_a_program(built: str, tmp_path: Path) -> None:
    program, numbers = tmp_path / "program.py", tmp_path / "numbers.txt"
    program.write_text("print(sum(map(int, input().split())))")
    numbers.write_text("20 22\n")
    code, shown = run(built, program, "--stdin", str(numbers))
    assert code == 0
    assert shown.startswith("42\n")
    assert "ok" in shown


def test_a_program_that_fails_is_shown_and_said(built: str) -> None:
    code, shown = run(built, Path("-"), stdin="import sys\nsys.exit('no good')")
    assert code == 1
    assert "no good" in shown
    assert "nonzero_exit" in shown


def test_auto_says_which_backend_it_took_apart_from_the_output(built: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print(6 * 7)")
    shown = CliRunner().invoke(sandbox_app, ["run", str(program), f"--image={built}"])
    assert shown.stderr == "The sandbox backend 'auto' takes 'docker' here.\n"
    assert shown.stdout.startswith("42\n")


def test_mistakes_are_said_in_one_sentence(built: str, tmp_path: Path) -> None:
    for arguments in (["run", str(tmp_path / "missing.py")], ["build-image", "--python", str(tmp_path / "python")]):
        failed = CliRunner().invoke(sandbox_app, arguments)
        assert isinstance(failed.exception, UserError)
        assert str(tmp_path) in str(failed.exception)


def test_a_name_that_docker_refuses_leaves_nothing(built: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = docker.daemon().client.images
    before = {image["Id"] for image in images()}
    for tag in ("", "BAD NAME"):
        failed = CliRunner().invoke(sandbox_app, ["build-image", "--tag", tag])
        assert isinstance(failed.exception, UserError)
        assert f"cannot be called '{tag}'" in str(failed.exception)
    assert {image["Id"] for image in images()} == before
    monkeypatch.setenv("RLVR_SANDBOX_IMAGE", "BAD NAME")
    for option in ([], ["--image", ""]):
        failed = CliRunner().invoke(sandbox_app, ["run", "-", "--backend=docker", *option], "print(1)")
        assert isinstance(failed.exception, UserError)
        assert "which is no name of a Docker image" in str(failed.exception)


def test_a_daemon_that_does_not_answer_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    failed = CliRunner().invoke(sandbox_app, ["build-image"])
    assert isinstance(failed.exception, UserError)
    assert "Docker daemon" in str(failed.exception)
