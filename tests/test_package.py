"""The wheel: what is in it, and that it works in a clean environment without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Where each directory of the repository lies in the wheel.
PACKAGES = {
    "rlvr": "rlvr",
    "configs": "rlvr/configs",
    "envs": "rlvr/envs",
    "trainers": "rlvr/trainers",
    "sandbox": "rlvr/sandbox",
    "verifiers": "rlvr/verifiers",
}

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path, code: int = 0) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"COLUMNS": "200", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    words = list(map(str, command))
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the sources, as builds leave files of their own, with strangers that do not belong in a wheel."""
    copy = tmp_path_factory.mktemp("source") / "repository"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for stranger in (
        "runs/one/metrics.py",
        "benchmarks/train_step.py",
        "envs/notes.txt",
        "configs/draft.yml",
        "setup.log",
    ):
        (copy / stranger).parent.mkdir(parents=True, exist_ok=True)
        (copy / stranger).write_text("")
    return copy


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--quiet", "-w", folder, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel, tmp_path_factory) -> Path:
    venv = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=venv.parent)
    python = venv / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=venv.parent)
    return python


def test_the_wheel_holds_the_packages_and_the_recipes_and_nothing_else(wheel):
    modules = {
        f"{PACKAGES[name]}/{path.relative_to(ROOT / name).as_posix()}"
        for name in PACKAGES
        for path in (ROOT / name).rglob("*.py")
    }
    configs = ROOT / "configs"
    recipes = {f"rlvr/configs/{path.relative_to(configs)}" for path in configs.rglob("*.yaml")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = {name for name in names if name.partition("/")[0].endswith(".dist-info")}
    assert names - about == modules | recipes | {"rlvr/py.typed"}
    assert {name.partition("/")[2] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "top_level.txt",
    }


def test_the_top_of_the_wheel_is_rlvr_alone(wheel):
    """On a path of its own, `verifiers` would hide the package of that name."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"rlvr"}


def test_the_base_installation_needs_no_torch_to_make_an_environment(clean_python, tmp_path):
    code = (
        "import importlib.util, pathlib, sys, rlvr, gymnasium\n"
        "env = gymnasium.make('rlvr/Arithmetic-v0')\n"
        "env.reset(seed=0)\n"
        "print(env.step('x')[1])\n"
        "gymnasium.make_vec('rlvr/Arithmetic-v0', num_envs=2).reset(seed=0)\n"
        "assert pathlib.Path(rlvr.__file__).is_relative_to(sys.prefix), rlvr.__file__\n"
        "assert importlib.util.find_spec('torch') is None\n"
        "assert importlib.util.find_spec('verifiers') is None\n"
    )
    assert run(clean_python, "-c", code, cwd=tmp_path) == "0.0\n"


def test_the_command_line_works_without_torch(clean_python, tmp_path):
    rlvr = clean_python.with_name("rlvr")
    assert "rlvr/Arithmetic-v0" in run(rlvr, "envs", cwd=tmp_path)
    verdict = run(rlvr, "verify", "rlvr/number-v1", "--completion", r"\boxed{3}", "--answer", "3", cwd=tmp_path)
    assert "yes" in verdict


def test_training_finds_the_recipe_and_names_the_missing_extra(clean_python, tmp_path):
    rlvr = clean_python.with_name("rlvr")
    said = run(rlvr, "train", "quickstart", cwd=tmp_path, code=2)
    assert said.startswith("error: This needs the package ")
    assert said.endswith("install it with: pip install 'rlvr[train]'.\n")
    assert list(tmp_path.iterdir()) == []
