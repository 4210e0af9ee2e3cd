"""What happens when the daemon goes away; with a daemon of the test's own, which it may stop."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rlvr.sandbox
from rlvr.sandbox import Limits, Program, SandboxFault

pytest.importorskip("docker")

IMAGE = "rlvr-sandbox:test"
ANSWER = Program("print(6 * 7)")
WAITING = Program("print('begun', flush=True)\nimport time\ntime.sleep(60)")
LIMITS = Limits(cpu_seconds=5, wall_seconds=90)


class OwnDaemon:
    """A daemon with its own socket, images and containers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/d.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        from rlvr.sandbox.docker import daemon_version

        folders = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
        options = [f"--{option}={self.folder / name}" for option, name in folders.items()]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["dockerd", f"--host={self.host}", "--iptables=false", "--bridge=none", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while self.process.poll() is None:
            try:
                daemon_version()
                return
            except SandboxFault:
                time.sleep(0.1)
        pytest.skip(f"dockerd does not start: {self.last_line()}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait()
        # Its containerd dies with it, but may stay a zombie and be taken for alive.
        (self.folder / "exec/containerd/containerd.pid").unlink(missing_ok=True)

    def last_line(self) -> str:
        return ((self.folder / "log").read_text(errors="replace").splitlines() or [""])[-1]


@pytest.fixture(scope="module")
def own_daemon() -> Iterator[OwnDaemon]:
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("needs root and dockerd")
    from rlvr.sandbox.docker import daemon
    from rlvr.sandbox.images import build_image

    # Not pytest's folder: the path of a socket may be 107 bytes long.
    folder = Path(tempfile.mkdtemp(prefix="rlvr-"))
    own = OwnDaemon(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", own.host)
        own.start()
        build_image(daemon().client, IMAGE)
        yield own
        own.stop()
    # A daemon that was killed leaves its own mounts.
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if mount.startswith(str(folder))]):
        subprocess.run(["umount", "--lazy", mount], check=True)
    shutil.rmtree(folder)


def left_over() -> int:
    """The containers that are left once the daemon has had time to remove those that ended with it."""
    from rlvr.sandbox.docker import daemon

    deadline = time.monotonic() + 30
    while True:
        daemon().reap()
        left = len(daemon().client.containers(all=True))
        if left == 0 or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


@pytest.mark.slow
def test_slots_that_ended_while_they_were_idle_are_no_programs_fault(own_daemon: OwnDaemon) -> None:
    with rlvr.sandbox.open("docker", pool=5, limits=LIMITS, image=IMAGE) as box:
        waiting = Program("import time; time.sleep(1)")
        assert all(result.status == "ok" for result in box.map([waiting] * 5))
        own_daemon.stop()
        own_daemon.start()
        assert box.run(ANSWER).stdout == b"42\n"
    assert left_over() == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_jobs_in_flight_get_a_fault_and_work_goes_on_when_it_is_back(
    own_daemon: OwnDaemon, how: signal.Signals
) -> None:
    with rlvr.sandbox.open("docker", pool=2, limits=LIMITS, image=IMAGE) as box, ThreadPoolExecutor(2) as threads:
        assert box.run(ANSWER).stdout == b"42\n"
        waiting = [threads.submit(box.run, WAITING) for _ in range(2)]
        while sum(slot.jobs for slot in list(box._pool._all)) < 3:
            time.sleep(0.01)
        own_daemon.stop(how)
        for future in waiting:
            assert isinstance(future.exception(60), SandboxFault)
        with pytest.raises(SandboxFault):
            box.run(ANSWER)
        own_daemon.start()
        assert [result.stdout for result in box.map([ANSWER] * 8)] == [b"42\n"] * 8
    assert left_over() == 0
