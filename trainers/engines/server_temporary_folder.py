"""The folder of a server's temporary files, which vLLM itself leaves behind, and what removes it.

A program too, which is started by its path and therefore imports nothing of this package: it waits until a server has
ended, however that and its trainer ended, and removes the folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LONGEST = 107 - 1 - 36  # bytes: of a Unix socket's path, less a slash and the name that vLLM gives it
_POLL = 0.5
_ORPHANED = "orphaned"
_LATE = 60.0  # seconds that processes of a server may outlive the one that answers


def make_server_folder() -> Path:
    """A new folder, for its owner only, with a path that leaves room for sockets."""
    base = os.environ.get("VLLM_RPC_BASE_PATH") or tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="rlvr-", dir=base))
    if len(os.fsencode(folder)) > _LONGEST and Path("/tmp").is_dir():
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="rlvr-", dir="/tmp"))
    return folder


def in_server_folder(folder: Path) -> dict[str, str]:
    """The environment variables by which a server has its temporary files there."""
    # Named twice: Python's own temporary files, and vLLM's sockets.
    return {"TMPDIR": str(folder), "VLLM_RPC_BASE_PATH": str(folder)}


def remove_with(server: int, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that removes the folder when the server, which leads a group, has ended; it survives this one."""
    return _start_remover(server, folder)


def remove_with_this(folder: Path) -> None:
    """As `remove_with`, where this process becomes the server, which is to have no child that it did not start.

    If it leads no group, what it started is not waited for.
    """
    _start_remover(os.getpid(), folder, _ORPHANED).wait()


def _start_remover(server: int, folder: Path, *how: str) -> subprocess.Popen[bytes]:
    import psutil

    created = psutil.Process(server).create_time()
    return subprocess.Popen(
        [sys.executable, "-P", __file__, str(server), str(created), str(folder), *how],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _main(pid: int, created: float, folder: str) -> None:
    # What asks a whole run to end asks the server too, and this ends after it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while _is_running(pid, created):
        time.sleep(_POLL)
    deadline = time.monotonic() + _LATE
    while _group_is_running(pid) and time.monotonic() < deadline:
        time.sleep(_POLL)
    shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int, created: float) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        # The system may have given the number to another process since; its clock may have been set a little, too.
        return abs(process.create_time() - created) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _group_is_running(group: int) -> bool:
    import psutil

    for process in psutil.process_iter(["status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
        except (ProcessLookupError, PermissionError):
            continue
    return False


if __name__ == "__main__":
    if _ORPHANED in sys.argv[4:] and os.fork():
        os._exit(0)
    _main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
