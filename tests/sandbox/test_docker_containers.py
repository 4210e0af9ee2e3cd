from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rlvr.sandbox
from rlvr.sandbox import Limits, Program, SandboxFault
from rlvr.sandbox.reaper import LABEL
from rlvr.verifiers import UserError

docker = pytest.importorskip("rlvr.sandbox.docker")
pytest.importorskip("docker")

# Answers with the same bytes, and with what it can do; "!" ends it with a word on stderr.
ECHO = """
import os
def main(settings):
    status = open("/proc/self/status").read()
    os.write(1, str(int(status.split("CapBnd:")[1].split()[0], 16)).encode() + b"\\n")
    while True:
        content = os.read(0, 65536)
        if not content: break
        if content == b"!":
            os.write(2, b"something broke")
            os._exit(1)
        os.write(1, content)
"""


@pytest.fixture(scope="module")
def image() -> str:
    try:
        docker.daemon_version()
    except SandboxFault as fault:
        pytest.skip(str(fault))
    image = docker.available_image()
    if not docker.image_present(image):
        pytest.skip(f"the image {image} is not there")
    return str(image)


@pytest.fixture
def container(image: str) -> Iterator[Any]:
    container = docker.Container(image)
    content = json.dumps({"modules": [["zygote", ECHO]], "settings": {}}).encode()
    container.send(b"%010d" % len(content) + content, soon())
    yield container
    container.close()


def soon() -> float:
    return time.monotonic() + 30


def exactly(container: Any, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = container.receive(soon())
        assert piece
        content += piece
    return content


def listed(name: str) -> list[dict[str, Any]]:
    return list(docker.daemon().client.containers(all=True, filters={"name": name}))


def gone(name: str) -> bool:
    deadline = soon()
    while time.monotonic() < deadline:
        if not listed(name):
            return True
    return False


def test_bytes_go_in_and_come_out_in_order(container: Any) -> None:
    first = container.receive(soon())
    assert first.endswith(b"\n")
    sent = os.urandom(300_000)
    for start in range(0, len(sent), 50_000):
        container.send(sent[start : start + 50_000], soon())
        assert exactly(container, 50_000) == sent[start : start + 50_000]


def test_the_zygote_has_three_capabilities_and_no_job_can_have_more(container: Any) -> None:
    kill, setgid, setuid = 5, 6, 7
    assert int(container.receive(soon())) == 1 << kill | 1 << setgid | 1 << setuid


def test_a_silent_container_is_late_and_an_ended_one_says_its_last_words(container: Any) -> None:
    container.receive(soon())
    with pytest.raises(TimeoutError):
        container.receive(time.monotonic() + 0.01)
    container.send(b"!", soon())
    assert container.receive(soon()) == b""
    assert container.last_words() == "something broke"


def test_the_daemon_was_asked_for_every_wall(container: Any) -> None:
    shown = docker.daemon().client.inspect_container(container.name)
    host = shown["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == {"SETUID", "SETGID", "KILL"}
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert not host["Privileged"]
    assert not host["Binds"]
    assert not shown["Mounts"]
    assert host["LogConfig"]["Type"] == "none"
    assert host["AutoRemove"] is True
    assert host["Memory"] == host["MemorySwap"] >= Limits().memory_bytes
    assert host["PidsLimit"] >= Limits().processes
    assert host["NanoCpus"] == 10**9
    assert all("size=" in options and "nr_inodes=" in options for options in host["Tmpfs"].values())
    labels = shown["Config"]["Labels"]
    assert labels[f"{LABEL}.process"] == str(os.getpid())
    assert float(labels[f"{LABEL}.lease"]) > time.time() + docker.SLOT_SECONDS


def test_a_closed_container_is_gone_and_may_be_closed_again(container: Any) -> None:
    assert listed(container.name)
    container.close()
    container.close()
    assert gone(container.name)


def test_a_zygote_that_ends_leaves_no_container(container: Any) -> None:
    container.receive(soon())
    container.send(b"!", soon())
    assert gone(container.name)


def test_reaping_removes_what_was_given_up_and_spares_what_is_in_use(image: str, container: Any) -> None:
    lost = docker.Container(image)
    docker.daemon().names.discard(lost.name)
    docker.daemon().reap()
    assert gone(lost.name)
    assert listed(container.name)
    lost.close()


PARENT = """
import sys, time
from rlvr.sandbox import docker
daemon = docker.daemon()
running = docker.Container(sys.argv[1])
# As if killed between creation and start.
labels = daemon.owner.labels(time.time() + 3600)
made = daemon.client.create_container(sys.argv[1], ["python3"], name=running.name + "-created", labels=labels)
print(running.name, flush=True)
sys.stdin.read()
"""


def test_a_killed_parent_leaves_nothing_that_the_next_one_does_not_reap(image: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, image], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    name = parent.stdout.readline().strip()
    assert len(listed(name)) == 2
    docker.daemon().reap()
    assert len(listed(name)) == 2
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    docker.daemon().reap()
    assert gone(name)


def test_a_forked_child_does_not_keep_the_container(image: str) -> None:
    container = docker.Container(image)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        # Only the stream ends: without a copy of it in the child, the container does too.
        container.disown()
        assert gone(container.name)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        container.close()


def test_a_missing_image_says_how_to_get_one(image: str) -> None:
    with pytest.raises(UserError, match=r"docker pull no-such:image.*rlvr sandbox build-image"):
        docker.Container("no-such:image")
    assert not docker.image_present("no-such:image")


def test_a_daemon_that_is_not_there_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(SandboxFault):
        docker.daemon_version()
    with pytest.raises(SandboxFault):
        docker.Container("any:image")


@pytest.mark.parametrize("backend", ["docker", "auto"])
def test_an_unknown_runtime_is_a_mistake_and_leaves_nothing(image: str, backend: str) -> None:
    before = {each["Id"] for each in listed("rlvr-sandbox")}
    with pytest.raises(UserError, match=r"^The Docker daemon has no runtime 'nope'; the known ones are .*'runc'.*\.$"):
        rlvr.sandbox.open(backend, image=image, runtime="nope")
    with pytest.raises(UserError, match=r"has no runtime 'runcc'; did you mean .*'runc'"):
        rlvr.sandbox.open(backend, image=image, runtime="runcc")
    assert {each["Id"] for each in listed("rlvr-sandbox")} <= before


def test_containers_that_run_side_by_side_get_different_users(image: str) -> None:
    assert len({docker.daemon().first_uid() for _ in range(8)}) > 1


def test_nothing_stays_open_and_a_forked_child_starts_containers_of_its_own(image: str) -> None:
    before, reapers_before = descriptors(), reapers()
    with rlvr.sandbox.open("docker", pool=1, image=image) as box:
        answer = box.run(Program("print(6 * 7)")).stdout
        child = os.fork()
        if child == 0:
            try:
                code = int(box.run(Program("print(6 * 7)")).stdout == b"42\n")
                box.close()
                os._exit(40 + code)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
        assert box.run(Program("print(6 * 7)")).stdout == answer == b"42\n"
    # It was told to end, and may still be about it.
    for thread in reapers() - reapers_before:
        thread.join(60.0)
    assert descriptors() == before
    assert reapers() <= reapers_before


def reapers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "rlvr-reaper"}


def descriptors() -> int:
    docker.daemon().client.close()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_limits_above_those_of_the_container_are_a_mistake(image: str) -> None:
    with rlvr.sandbox.open("docker", pool=1, image=image, limits=Limits(memory_bytes=64 << 20)) as box:
        with pytest.raises(UserError, match="memory_bytes"):
            box.run(Program("print(1)"), limits=Limits())
        assert box.run(Program("print(1)")).stdout == b"1\n"


def test_auto_takes_namespaces_where_the_daemon_has_no_image(
    image: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("RLVR_SANDBOX_IMAGE", raising=False)
    for name in ("docker.DEFAULT_IMAGE", "images.DEFAULT_IMAGE", "docker.BUILT_IMAGE"):
        monkeypatch.setattr(f"rlvr.sandbox.{name}", "no-such:image")
    with caplog.at_level("INFO", "rlvr.sandbox"), rlvr.sandbox.open("auto", pool=1) as box:
        assert box.backend == "namespace"
        assert box.run(Program("print(1)")).stdout == b"1\n"
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "A Docker daemon answers, but has no image no-such:image (docker pull no-such:image, or rlvr sandbox "
        "build-image).",
        "The sandbox backend 'auto' takes 'namespace' here.",
    ]
    with pytest.raises(UserError, match="other:image"):
        rlvr.sandbox.open("auto", pool=1, image="other:image")
    with pytest.raises(UserError, match="Docker's runtime 'runc', but the daemon has no image no-such:image; get it"):
        rlvr.sandbox.open("auto", pool=1, runtime="runc")
