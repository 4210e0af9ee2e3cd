"""Containers in gVisor: what its kernel has not got must not keep programs from being run, or kept in."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import rlvr
import rlvr.sandbox
from rlvr.sandbox import Box, Call, Limits, Program, TestProgram

docker = pytest.importorskip("rlvr.sandbox.docker")
pytest.importorskip("docker")
from docker.errors import APIError  # noqa: E402 - where it is installed

# It is slow here, where it traces every system call.
LIMITS = Limits(cpu_seconds=10, memory_bytes=128 << 20, output_bytes=64 << 10, processes=16, disk_bytes=8 << 20)
ADD = "def add(a, b):\n    return a + b"


@pytest.fixture(scope="module")
def image() -> str:
    if not docker.daemon_answers():
        pytest.skip("no Docker daemon answers")
    client = docker.daemon().client
    if "runsc" not in client.info()["Runtimes"]:
        pytest.skip("the Docker daemon has no runtime runsc (gVisor)")
    image = docker.available_image()
    if not docker.image_present(image):
        pytest.skip(f"the image {image} is not there")
    plain = client.create_host_config(runtime="runsc", network_mode="none")
    made = client.create_container(image, ["python3", "-c", "pass"], network_disabled=True, host_config=plain)
    try:
        client.start(made["Id"])
    except APIError as error:
        pytest.skip(f"gVisor runs no container at all here: {error}")
    finally:
        client.remove_container(made["Id"], force=True)
    return str(image)


@pytest.fixture(scope="module")
def box(image: str) -> Iterator[Box]:
    with rlvr.sandbox.open("docker", pool=1, image=image, runtime="runsc", limits=LIMITS) as box:
        yield box


def test_its_kernel_is_another(box: Box) -> None:
    here = os.uname()
    said = box.run(Program("import os\nprint(os.uname().release)")).text().strip()
    assert said
    assert said != here.release


def test_programs_calls_and_assertions(box: Box) -> None:
    assert box.run(Program("print(input()[::-1])", stdin="abc\n")).stdout == b"cba\n"
    assert [value.value for value in box.run(Program(ADD, call=[Call("add", (1, n)) for n in range(3)])).values] == [
        1,
        2,
        3,
    ]
    for expected, passed in ((3, 1), (4, 0)):
        source = f"def check(candidate):\n    assert sorted([candidate(1, 2)]) == [{expected}]"
        report = box.run(Program(ADD, test=TestProgram("asserts", source=source, entry_point="add"))).tests
        assert report is not None
        assert report.completed
        assert (report.tests_run, report.tests_passed) == (1, passed)


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("while True: pass", "cpu_limit"),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "memory_limit"),
        ("f = open('x', 'wb')\nwhile True: f.write(b'x' * 65536)", "disk_limit"),
        ("while True: print('x' * 1000)", "output_limit"),
        ("raise SystemExit(3)", "nonzero_exit"),
    ],
)
def test_limits_hold(box: Box, source: str, status: str) -> None:
    limits = LIMITS.with_changes(cpu_seconds=2) if status == "cpu_limit" else LIMITS
    assert box.run(Program(source), limits).status == status


@pytest.mark.parametrize(
    "source",
    [
        "open('/x', 'w')",
        "import os\nos.setuid(0)",
        "import os\nos.kill(1, 9)",
        "import os\nos.mknod('disk', 0o60666, 0x800)",
        "import socket\nsocket.create_connection(('127.0.0.1', 1), 1)",
        "open('/proc/1/mem', 'rb').read(1)",
    ],
)
def test_what_is_refused_elsewhere_is_refused_there(box: Box, source: str) -> None:
    result = box.run(Program(source))
    assert (result.status, result.exit_code) == ("nonzero_exit", 1), result
    assert "Error" in result.text("stderr")


def test_nothing_passes_from_one_program_to_the_next(box: Box) -> None:
    box.run(
        Program("import os\nopen('/tmp/left', 'w').close()\nif os.fork() == 0:\n    os.setsid()\n    while True: pass")
    )
    look = "import os\nprint(os.path.exists('/tmp/left'), [p for p in os.listdir('/proc') if p.isdigit()])"
    found, _, processes = box.run(Program(look)).text().partition(" ")
    assert found == "False"
    assert len(processes.split(",")) == 2


def test_code_is_graded_there(image: str) -> None:
    tests = {"form": "calls", "entry_point": "add", "cases": [{"args": [1, 2], "expected": 3}]}
    for source, score in ((ADD, 1.0), (ADD.replace("+", "-"), 0.0)):
        completion = f"```python\n{source}\n```"
        verdict = rlvr.verify(
            "rlvr/code-v1", completion=completion, tests=tests, backend="docker", image=image, runtime="runsc"
        )
        assert (verdict.status, verdict.score) == ("ok", score)
