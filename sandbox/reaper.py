"""Who owns a container, and removing those whose owner is dead: what a killed process left behind."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = "rlvr.sandbox"
"""The label that every container of this package has; the labels of its owner begin with it too."""
INTERVAL = 60.0
"""Seconds between two searches for leftovers."""


@dataclass(frozen=True)
class Owner:
    """The process that a container belongs to.

    Attributes:
        host: the name of its machine, for people: several may be called the same.
        boot: the id of its machine's run; it changes with every start of the machine.
        space: the process-number space that `process` counts in, for containers may share a machine and a daemon.
        process: its process id.
        started: when it started, in clock ticks of its machine; process ids are used again.
    """

    host: str
    boot: str
    space: str
    process: int
    started: int

    @classmethod
    def this_process(cls) -> Owner:
        """The owner of what this process creates."""
        process = os.getpid()
        return cls(*_machine(), process, _start_time(process) or 0)

    def labels(self, lease: float) -> dict[str, str]:
        """The labels of a container of this owner; `lease` is the time (as `time.time`) at which it is no longer used.

        Of an owner on another machine, or before a restart of this one, nothing but the lease can be known.
        """
        values = {**vars(self), "lease": f"{lease:.0f}"}
        return {LABEL: "slot", **{f"{LABEL}.{name}": str(value) for name, value in values.items()}}

    def alive(self) -> bool | None:
        """Whether the process still runs; None where that cannot be seen from here."""
        _, boot, space = _machine()
        if not boot or (boot, space) != (self.boot, self.space):
            return None
        return _start_time(self.process) == self.started


def owned_by(labels: Mapping[str, str]) -> Owner | None:
    """Whose the container with such labels is; None if they cannot be read."""
    try:
        host, boot, space, process, started = (
            labels[f"{LABEL}.{name}"] for name in ("host", "boot", "space", "process", "started")
        )
        return Owner(host, boot, space, int(process), int(started))
    except (KeyError, ValueError):
        return None


def abandoned(labels: Mapping[str, str], now: float) -> bool:
    """Whether a container with such labels is nobody's any more; one whose labels cannot be read is let be."""
    owner = owned_by(labels)
    alive = None if owner is None else owner.alive()
    if alive is not None:
        return not alive
    try:
        return now > float(labels[f"{LABEL}.lease"])
    except (KeyError, ValueError):
        return False


def reap(client: Any, owner: Owner, used: Container[str]) -> int:
    """Remove what is left over: the containers of dead owners, and of `owner` those that are not `used`.

    Args:
        client: a `docker.APIClient`.
        owner: who asks.
        used: the names of its containers that are in use or about to be created.

    Returns:
        How many there were.

    Raises:
        docker.errors.DockerException, requests.exceptions.RequestException: the daemon does not answer.
    """
    count = 0
    for found in client.containers(all=True, filters={"label": LABEL}):
        labels, names = found.get("Labels") or {}, [name.lstrip("/") for name in found.get("Names") or []]
        given_up = owned_by(labels) == owner and not any(name in used for name in names)
        if given_up or abandoned(labels, time.time()):
            count += remove(client, found["Id"])
    return count


def remove(client: Any, container: str) -> bool:
    """Kill and remove a container; whether there was one to remove that nobody else was removing."""
    from docker.errors import APIError

    try:
        client.remove_container(container, force=True, v=True)
    except APIError as error:
        # 404: it is gone; 409: its own end or another reaper is removing it.
        if error.status_code not in (404, 409):
            raise
        return False
    return True


class Reaper:
    """A thread that calls `search` every minute until it is closed."""

    def __init__(self, search: Callable[[], object]) -> None:
        self._search = search
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="rlvr-reaper", daemon=True).start()

    def close(self) -> None:
        """Stop; a search that is under way ends by itself."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL):
            # A daemon that is away is met by the jobs, which say so; the next search may find it again.
            with contextlib.suppress(Exception):
                self._search()


def _machine() -> tuple[str, str, str]:
    return socket.gethostname(), _content("/proc/sys/kernel/random/boot_id").strip(), _number_space()


def _number_space() -> str:
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _start_time(process: int) -> int | None:
    """When a process started, in clock ticks since the machine's start; None if there is none, or only its remains."""
    # The name of the program stands in brackets and may hold anything; the state is the next field.
    fields = _content(f"/proc/{process}/stat").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    return int(fields[19])


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
