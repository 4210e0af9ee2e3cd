"""Ctrl-C while the package is being imported, by a signal that comes at the import of one of its modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr.loading import _is_command_line

INTERRUPTED = """\
import os, signal, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == os.environ["INTERRUPTED"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize("command", [[Path(sys.executable).with_name("rlvr")], [sys.executable, "-m", "rlvr"]])
@pytest.mark.parametrize("module", ["rlvr.envs", "rlvr.doctor"])
def test_the_command_line_ends_without_a_word(tmp_path, command, module):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPTED": module}
    command = [*command, "envs"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("program", "started", "is_it"),
    [
        ("/bin/rlvr", ["python", "/bin/rlvr", "train"], True),
        ("/bin/rlvr", ["python", "-sE", "/bin/rlvr", "train"], True),
        ("-m", ["python", "-u", "-m", "rlvr", "train"], True),
        ("-m", ["python", "-m", "mine", "train"], False),
        ("train.py", ["python", "train.py", "/my/rlvr"], False),
        # A worker of multiprocessing.
        ("/bin/rlvr", ["python", "-c", "from multiprocessing.spawn import spawn_main"], False),
        (None, [], False),
    ],
)
def test_a_program_that_uses_the_package_is_left_alone(monkeypatch, program, started, is_it):
    monkeypatch.setattr(sys, "argv", [] if program is None else [program, *started[-1:]])
    monkeypatch.setattr(sys, "orig_argv", started)
    assert _is_command_line() == is_it
