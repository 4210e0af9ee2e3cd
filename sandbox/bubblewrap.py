"""The set-up of the `namespace` backend by bubblewrap, for ordinary users where it is installed.

Root does not use it: bubblewrap maps one user, and with our own set-up each program is a user of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any


def program() -> str | None:
    """The path of bubblewrap, where it is to be used."""
    return shutil.which("bwrap") if os.geteuid() != 0 else None


def options(view: dict[str, Any]) -> Iterator[str]:
    """What bubblewrap is told, before the program to run: the same world that `inside.enclosure` builds.

    Args:
        view: `binds`, `links`, `masks` and `devices`; see `inside.enclosure.enter`.
    """
    yield from ("--unshare-all", "--uid", "0", "--gid", "0", "--hostname", "sandbox")
    # The zygote is the first process, and makes namespaces for each program.
    yield from ("--cap-add", "ALL", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv")
    for folder in ("/tmp", "/dev", "/etc"):
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
