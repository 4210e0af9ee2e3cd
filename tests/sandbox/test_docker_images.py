from __future__ import annotations

import io
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from rlvr.sandbox.images import DEFAULT_IMAGE, build_image, chosen_image, write_root
from rlvr.verifiers import UserError


@pytest.fixture(scope="module")
def root() -> tarfile.TarFile:
    file = io.BytesIO()
    write_root(file, sys.executable)
    file.seek(0)
    return tarfile.open(fileobj=file)


def test_the_image_is_the_callers_then_the_environments_then_a_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLVR_SANDBOX_IMAGE", raising=False)
    assert chosen_image() == DEFAULT_IMAGE == "python:3.12-slim"
    monkeypatch.setenv("RLVR_SANDBOX_IMAGE", "theirs:1")
    assert chosen_image() == "theirs:1"
    assert chosen_image("mine:2") == "mine:2"


def test_a_name_that_docker_refuses_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVR_SANDBOX_IMAGE", "BAD NAME")
    with pytest.raises(UserError, match=r"^RLVR_SANDBOX_IMAGE is 'BAD NAME', which is no name of a Docker image"):
        chosen_image()
    with pytest.raises(UserError, match=r"^The image of the sandbox is '', which is no name"):
        chosen_image("")
    for tag in ("", "BAD NAME"):
        # No daemon is asked.
        with pytest.raises(UserError, match=f"^The image cannot be called '{tag}'"):
            build_image(None, tag)


def test_every_file_comes_after_the_directory_it_lies_in(root: tarfile.TarFile) -> None:
    seen = {""}
    for member in root.getmembers():
        assert member.name.rpartition("/")[0] in seen, member.name
        seen.add(member.name)


def test_it_holds_the_interpreter_its_library_and_its_compiled_modules(root: tarfile.TarFile) -> None:
    executable = os.path.realpath(sys.executable).lstrip("/")
    assert root.getmember(executable).mode & stat.S_IXOTH
    assert root.getmember("usr/bin/python3").issym() or root.getmember("usr/bin/python3").isfile()
    source = root.getmember(os.__file__.lstrip("/"))
    assert source.mtime == int(Path(os.__file__).stat().st_mtime)
    assert any(name.endswith(".so") or ".so." in name for name in root.getnames())


def test_it_holds_no_installed_package_and_nothing_that_changes_the_user(root: tarfile.TarFile) -> None:
    members = root.getmembers()
    assert not [member.name for member in members if "/site-packages/" in member.name]
    assert not [member.name for member in members if member.mode & (stat.S_ISUID | stat.S_ISGID)]
    assert {member.name for member in members if member.mode & stat.S_IWOTH and not member.issym()} == {
        "tmp",
        "var/tmp",
    }


def test_the_folders_that_a_tmpfs_covers_are_open_to_everybody(root: tarfile.TarFile) -> None:
    # A tmpfs takes the mode of what it covers.
    assert root.getmember("tmp").mode == 0o1777


def test_extra_paths_come_along_with_what_they_are_linked_to(tmp_path: Path) -> None:
    (tmp_path / "tools" / "deep").mkdir(parents=True)
    (tmp_path / "tools" / "deep" / "data.txt").write_text("data")
    file = io.BytesIO()
    write_root(file, sys.executable, [tmp_path / "tools"])
    file.seek(0)
    with tarfile.open(fileobj=file) as archive:
        content = archive.extractfile(str(tmp_path / "tools/deep/data.txt").lstrip("/"))
        assert content is not None
        assert content.read() == b"data"


def test_what_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing-tool"):
        write_root(io.BytesIO(), sys.executable, [tmp_path / "missing-tool"])
    with pytest.raises(UserError, match=r"no-python"):
        write_root(io.BytesIO(), str(tmp_path / "no-python"))
