"""The set-up of the `namespace` backend by bubblewrap, where it is installed."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .local import LocalProcess

_START_LIMIT = 60.0


def program() -> str | None:
    """The path of bubblewrap, where it is installed."""
    return shutil.which("bwrap")


def start(program: str, view: dict[str, Any], command: Sequence[str], uid_base: int | None) -> LocalProcess:
    """Start bubblewrap, and in it the command: first process of the same world that `inside.enclosure.enter` builds.

    Left to itself, bubblewrap maps one user, the one who starts it. For root, who may map others, it waits until that
    is done: itself it stays root, to see root's files, and the other uids inside are users that the host has not.

    Args:
        program: its path.
        view: `binds`, `links`, `masks` and `devices`; see `inside.enclosure.enter`.
        command: what it is to run.
        uid_base: the uid of the host that uid 1 inside stands for, and so on to 65,535; None for an ordinary user.

    Raises:
        OSError: it does not say which process is to be mapped, or that cannot be.
    """
    arguments = [*_options(view), *command]
    if uid_base is None:
        return LocalProcess(program, arguments)
    near, far = socket.socketpair()
    with near:
        # Two descriptors of one end, for it closes the first before it waits at the second.
        with far, far.dup() as also_far:
            info, block = far.fileno(), also_far.fileno()
            flags = ["--unshare-user", "--info-fd", str(info), "--userns-block-fd", str(block)]
            process = LocalProcess(program, [*flags, *arguments], (info, block))
        near.settimeout(_START_LIMIT)
        try:
            child = _child(near)
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{child}/{kind}").write_text(f"0 0 1\n1 {uid_base} 65535\n")
            near.sendall(b"+")
        except BaseException:
            process.close()
            raise
        return process


def _child(said: socket.socket) -> int:
    """The process that bubblewrap has started, as it says on its own."""
    content = b""
    while piece := said.recv(1 << 12):
        content += piece
        if content.rstrip().endswith(b"}"):
            return int(json.loads(content)["child-pid"])
    raise OSError("bubblewrap ended")


def _options(view: dict[str, Any]) -> Iterator[str]:
    yield from ("--unshare-all", "--uid", "0", "--gid", "0", "--hostname", "sandbox")
    # The zygote is the first process, and makes namespaces for each program.
    yield from ("--cap-add", "ALL", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv")
    # Folders above what is shown too: left to bubblewrap, they would be as closed to others as they are here.
    above = [str(Path(target).parent) for _, target in view["binds"]]
    for folder in ("/tmp", "/dev", "/etc", *above):
        yield from ("--dir", folder)
    for source, target in view["binds"]:
        yield from ("--ro-bind", source, target)
    for folder in view["masks"]:
        yield from ("--tmpfs", folder, "--remount-ro", folder)
    for device in view["devices"]:
        yield from ("--dev-bind", device, device)
    for path, content in view["links"]:
        yield from ("--symlink", content, path)
    yield from ("--proc", "/proc", "--remount-ro", "/", "--chdir", "/")
