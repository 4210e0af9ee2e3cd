"""Another language, in an image of its own: C, with the compiler of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlvr.sandbox
from rlvr.sandbox import Box, Limits, Program, SandboxFault
from rlvr.sandbox.images import build_image

docker = pytest.importorskip("rlvr.sandbox.docker")
pytest.importorskip("docker")

IMAGE = "rlvr-sandbox:test-c"
HEADERS = "#include <stdio.h>\n#include <stdlib.h>\n"
SUM = HEADERS + 'int main(void) { long a, b; scanf("%ld %ld", &a, &b); printf("%ld\\n", a + b); return 0; }\n'
COMPILE_AND_RUN = ["sh", "-c", "gcc -O1 -o program program.c && exec ./program"]
# What gcc calls, and what it links a program with.
PROGRAMS = ("cc1", "collect2", "as", "ld")
PARTS = (
    "liblto_plugin.so crtbeginS.o crtendS.o libgcc.a libgcc_s.so libgcc_s.so.1 Scrt1.o crti.o crtn.o libc.so libc.so.6 "
    "libc_nonshared.a ld-linux-x86-64.so.2"
).split()


def told(*options: str, stdin: str = "") -> str:
    return subprocess.run(["gcc", *options], input=stdin, capture_output=True, text=True, check=True).stdout.strip()


def compiler() -> list[Path]:
    programs = [told(f"-print-prog-name={name}") for name in PROGRAMS]
    parts = [told(f"-print-file-name={name}") for name in PARTS]
    headers = told("-M", "-O1", "-x", "c", "-", stdin=HEADERS).replace("\\\n", " ").split()[1:]
    found = ["/bin/sh", "gcc", *programs, *parts, *headers]
    paths = {Path(shutil.which(name) or name) for name in found}
    # Under the names that gcc looks for, which need not be the shortest.
    return sorted(path for path in paths if path.is_file())


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    try:
        docker.daemon_version()
    except SandboxFault as fault:
        pytest.skip(str(fault))
    client = docker.daemon().client
    build_image(client, IMAGE, extra=compiler())
    try:
        with rlvr.sandbox.open("docker", pool=1, limits=Limits(cpu_seconds=10), image=IMAGE) as box:
            yield box
    finally:
        client.remove_image(IMAGE, force=True)


def test_a_program_is_compiled_and_run(box: Box) -> None:
    result = box.run(Program(files={"program.c": SUM}, stdin="20 22\n", command=COMPILE_AND_RUN))
    assert (result.status, result.stdout, result.stderr) == ("ok", b"42\n", b"")


def test_a_program_that_does_not_compile_says_so(box: Box) -> None:
    result = box.run(Program(files={"program.c": "int main(void) { return missing; }"}, command=COMPILE_AND_RUN))
    assert result.status == "nonzero_exit"
    assert b"missing" in result.stderr


def test_a_program_that_crashes_or_runs_on_is_ended(box: Box) -> None:
    crash = "int main(void) { *(volatile int *)0 = 1; return 0; }"
    result = box.run(Program(files={"program.c": crash}, command=COMPILE_AND_RUN))
    assert (result.status, result.signal) == ("signalled", 11)
    endless = "int main(void) { for (;;) ; }"
    limits = Limits(cpu_seconds=1)
    assert box.run(Program(files={"program.c": endless}, command=COMPILE_AND_RUN), limits=limits).status == "cpu_limit"
