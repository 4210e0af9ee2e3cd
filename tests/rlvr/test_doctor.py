from __future__ import annotations

import sys

import pytest

from rlvr import doctor


def test_every_thing_is_looked_at_and_nothing_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    found = dict(doctor.findings())
    assert {"Docker daemon", "Docker image", "sandbox docker", "sandbox namespace", "seccomp", "GPU", "vLLM"} <= set(
        found
    )
    assert {"extra train", "extra code", "extra vllm"} <= set(found)
    assert not found["Docker daemon"].usable
    assert not found["sandbox docker"].usable
    assert found["Docker daemon"].detail


def test_a_check_that_fails_says_why() -> None:
    def check() -> doctor.Finding:
        raise OSError("the disk is full")

    assert doctor.carefully(check) == doctor.Finding(False, "the disk is full")


def test_an_extra_is_usable_when_all_its_packages_are_installed() -> None:
    assert doctor.extra("some", ["pytest"]).usable
    missing = doctor.extra("some", ["pytest", "no-such-package-here"])
    assert missing == doctor.Finding(False, "without no-such-package-here: pip install 'rlvr[some]'")


def test_the_extras_are_those_of_the_package() -> None:
    extras = doctor.extras()
    assert extras["code"] == ["docker"]
    assert "torch" in extras["train"]


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor()
    shown = capsys.readouterr().out
    assert "seccomp" in shown
    assert ".".join(map(str, sys.version_info[:3])) in shown
