from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import rlvr.sandbox
from rlvr.sandbox import Box, Limits, Program, TestProgram, TestReport
from rlvr.verifiers import UserError

MIB = 1 << 20
SMALL = Limits(
    cpu_seconds=3,
    wall_seconds=10,
    memory_bytes=128 * MIB,
    output_bytes=64 << 10,
    processes=32,
    disk_bytes=8 * MIB,
    files=200,
    open_files=64,
)


def opened(backend: str, pool: int = 2) -> Box:
    try:
        with pytest.MonkeyPatch.context() as patch:
            if backend == "namespace without bubblewrap":
                patch.setenv("PATH", "/nowhere")
            return rlvr.sandbox.open(backend.partition(" ")[0], pool=pool, limits=SMALL)
    except UserError as error:
        pytest.skip(f"{backend}: {error}")


def skip_without(backend: str) -> None:
    if backend == "docker":
        docker = pytest.importorskip("rlvr.sandbox.docker")
        pytest.importorskip("docker")
        if not docker.daemon_answers():
            pytest.skip("no Docker daemon answers")


@pytest.fixture(scope="session", params=["namespace", "docker"])
def backend(request: pytest.FixtureRequest) -> str:
    skip_without(request.param)
    return str(request.param)


@pytest.fixture(scope="session")
def box(backend: str) -> Iterator[Box]:
    """One sandbox for all tests of a backend: what one program leaves behind would show in the next."""
    with opened(backend) as box:
        yield box


@pytest.fixture
def report(box: Box) -> Callable[[str, TestProgram], TestReport]:
    """Runs tests beside the source of a program; gives what they report."""

    def run(source: str, test: TestProgram) -> TestReport:
        tests = box.run(Program(source, test=test)).tests
        assert tests is not None
        return tests

    return run
