"""Containers as slots: each holds one zygote, spoken to over its attached stream.

A container is created with its streams attached, and the zygote's source is the first thing sent, so any image with a
Python will do, on any daemon: nothing of this machine is mounted. When this process ends, in whatever way, the daemon
closes the container's stdin; the zygote sees that and ends, and the daemon removes what is left. What escapes even
that (the daemon was killed as well) is found by its labels, see `reaper`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .attached import AttachedStream
from .errors import UserError
from .faults import SandboxFault
from .images import BUILT_IMAGE, DEFAULT_IMAGE, IMAGE_VARIABLE, chosen_image
from .limits import MIB, Limits
from .namespace import PACKAGES_AT
from .nearest import did_you_mean
from .protocol import BOOTSTRAP
from .reaper import Owner, Reaper, reap, remove
from .slot import Outcome, Slot

SLOT_SECONDS = 1800.0
"""The longest that a container is used; its lease (see `Owner.labels`) ends some minutes later."""

_LEASE_MARGIN = 600.0
_ASK_LIMIT = 5.0
_CALL_LIMIT = 60.0
"""Seconds for an answer of the daemon, which takes some for a start where the machine is busy."""

# On top of what a job may use.
_ZYGOTE_MEMORY = 64 * MIB
_ZYGOTE_PROCESSES = 8
_ZYGOTE_FILES = 64
# Threads of a runtime that brings a kernel of its own, where each of a job's processes may be one of them besides.
_KERNEL_THREADS = 256
_SHARED_MEMORY = 1 * MIB
_UIDS = 4096


class DockerBackend:
    """Starts slots in containers.

    Args:
        image: the image, which has to have a `python3`; by default what RLVR_SANDBOX_IMAGE says, else
            `python:3.12-slim`, or the one that `rlvr sandbox build-image` made where that is not there.
        runtime: the daemon's runtime, such as `runsc` (gVisor) or `kata`; None for its default.
        packages: a folder of the image with packages to import, besides where its Python looks for them.
        preload: modules of the image that the zygote imports before the first job.
        limits: the most that a job may ask for; the containers are made for it.

    Raises:
        UserError: the package `docker` is not installed.
        SandboxFault: no daemon answers.
    """

    name = "docker"

    def __init__(
        self,
        *,
        image: str | None = None,
        runtime: str | None = None,
        packages: str | None = PACKAGES_AT,
        preload: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        self.image = available_image(image)
        self.runtime = runtime
        self.limits = limits or Limits()
        self._settings = {"mode": "uids", "scratch": "/tmp", "packages": packages, "preload": list(preload)}
        self._daemon = self._entered()

    def _entered(self) -> Daemon:
        here = daemon()
        here.enter(self)
        here.reap()
        return here

    def start(self) -> Slot:
        """A new slot.

        Raises:
            UserError: the image is missing, or the daemon has no such runtime.
            SandboxFault: the daemon does not answer or refuses, or the zygote did not start.
        """
        if self._daemon is not daemon():
            # This is a forked child.
            self._daemon = self._entered()
        container = Container(self.image, self.limits, self.runtime)
        return ContainerSlot(container, self.limits, {**self._settings, "uid_base": self._daemon.first_uid()})

    def close(self) -> None:
        """Let go of the daemon; may be called again."""
        self._daemon.leave(self)


class ContainerSlot(Slot):
    """A slot in a container, which was made for limits of its own."""

    def __init__(self, container: Container, most: Limits, settings: dict[str, Any]) -> None:
        super().__init__(container, settings)
        self.most = most

    def run(self, message: bytes, limits: Limits) -> Outcome:
        """As `Slot.run`.

        Raises:
            UserError: the limits are above what the container was made for.
        """
        for name in ("memory_bytes", "processes", "disk_bytes", "files"):
            asked, most = getattr(limits, name), getattr(self.most, name)
            if asked > most:
                raise UserError(
                    f"The program's limit {name} is {asked}, but the containers were made for {most}; open the "
                    "sandbox with the larger limits."
                )
        return super().run(message, limits)


class Daemon:
    """The Docker daemon, as one process sees it: connections do not survive a fork.

    Raises:
        UserError: the package `docker` is not installed.
        SandboxFault: the daemon does not answer.
    """

    def __init__(self) -> None:
        self.client = _new_client(_CALL_LIMIT)
        self.owner = Owner.this_process()
        # A burst of creations outlasts any time limit, and what is created after one is left over.
        self.creating = threading.BoundedSemaphore(_cores())
        self.names: set[str] = set()
        """The containers of this process that are in use or on their way; others of this owner are left over."""
        self._reaper: Reaper | None = None
        self._mapped: bool | None = None
        self._users: weakref.WeakSet[object] = weakref.WeakSet()

    def reap(self) -> int:
        """Remove the containers of dead owners and those that this process gave up, now and every minute from now on.

        Raises:
            SandboxFault: the daemon does not answer.
        """
        if self._reaper is None:
            self._reaper = Reaper(self._reap)
        with asking("list containers"):
            return self._reap()

    def enter(self, user: object) -> None:
        """Somebody uses it from now on; may be called again."""
        self._users.add(user)

    def leave(self, user: object) -> None:
        """Somebody has done with it; after the last one nothing stays open, until it is used again."""
        self._users.discard(user)
        if self._users:
            return
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None
        self.client.close()

    def _reap(self) -> int:
        return reap(self.client, self.owner, self.names)

    def first_uid(self) -> int:
        """The first of the user numbers of a container; jobs count up from there.

        The kernel counts a user's processes over all containers, so containers that run side by side get different
        numbers, well above those of people; where the daemon maps them there are 65,536 in all.
        """
        if self._mapped is None:
            with asking("describe itself"):
                options = " ".join(self.client.info().get("SecurityOptions") or [])
            self._mapped = "name=userns" in options or "name=rootless" in options
        count = secrets.randbelow(14 if self._mapped else 400_000)
        return (2_000 if self._mapped else 200_000) + count * _UIDS


def daemon() -> Daemon:
    """The daemon that the environment names (DOCKER_HOST), which is connected to when it is first asked for.

    Raises:
        UserError: the package `docker` is not installed.
        SandboxFault: the daemon does not answer.
    """
    host = os.environ.get("DOCKER_HOST", "")
    with _lock:
        if host not in _daemons:
            _daemons[host] = Daemon()
        return _daemons[host]


def daemon_version() -> str:
    """The version of the daemon, asked for now and with little patience.

    Raises:
        UserError: the package `docker` is not installed.
        SandboxFault: no daemon answers.
    """
    client = _new_client(_ASK_LIMIT)
    with asking("tell its version"), contextlib.closing(client):
        return str(client.version()["Version"])


def daemon_answers() -> bool:
    """Whether a daemon answers, and can be spoken to."""
    try:
        daemon_version()
    except (UserError, SandboxFault):
        return False
    return True


def image_present(image: str) -> bool:
    """Whether the daemon has the image.

    Raises:
        UserError: the package `docker` is not installed.
        SandboxFault: no daemon answers.
    """
    from docker.errors import ImageNotFound

    with asking("inspect the image"):
        try:
            daemon().client.inspect_image(image)
        except ImageNotFound:
            return False
    return True


def available_image(image: str | None = None) -> str:
    """The image to use, as `chosen_image` has it; where it is nobody's choice and is not there, one that was built.

    Raises:
        UserError: this is no name of an image, or the package `docker` is not installed.
        SandboxFault: no daemon answers.
    """
    chosen = chosen_image(image)
    if chosen == DEFAULT_IMAGE and not image_present(chosen) and image_present(BUILT_IMAGE):
        return BUILT_IMAGE
    return chosen


def missing_image(image: str | None = None) -> str | None:
    """The image that would be used and is not there, if nobody has named one; None if it is there, or was named.

    Raises:
        UserError: the package `docker` is not installed.
        SandboxFault: no daemon answers.
    """
    chosen = available_image(image)
    return chosen if chosen == DEFAULT_IMAGE and not image and not image_present(chosen) else None


class Container:
    """A container with a zygote in it; the transport of a slot.

    Args:
        image: what to make it from; see `available_image`.
        limits: the most that a job in it may use.
        runtime: the daemon's runtime, such as `runsc` (gVisor) or `kata`; None for its default.

    Raises:
        UserError: the image is missing, the daemon has no such runtime, or the package `docker` is not installed.
        SandboxFault: the daemon does not answer, or refuses.
    """

    def __init__(self, image: str, limits: Limits | None = None, runtime: str | None = None) -> None:
        self.daemon = daemon()
        self.image = image
        self.name = f"rlvr-sandbox-{uuid.uuid4().hex}"
        self._stream: AttachedStream | None = None
        self._open = True
        self.daemon.names.add(self.name)
        try:
            with self.daemon.creating:
                self._start(limits or Limits(), runtime)
        except BaseException:
            self.close()
            raise
        _containers.add(self)

    def send(self, content: bytes, deadline: float) -> None:
        """Write to the zygote; see `slot.Transport`."""
        self._attached().send(content, deadline)

    def receive(self, deadline: float) -> bytes:
        """Read from the zygote; see `slot.Transport`."""
        return self._attached().receive(deadline)

    def quiet(self) -> bool:
        """Whether the zygote stands and has said nothing; see `slot.Transport`."""
        return self._stream is not None and self._stream.quiet()

    def last_words(self) -> str:
        """What the zygote said on stderr."""
        return "" if self._stream is None else self._stream.last_words()

    def interrupt(self) -> None:
        """End the connection, and with it the zygote; see `slot.Transport`."""
        if self._stream is not None:
            self._stream.interrupt()

    def close(self) -> None:
        """Kill the container and remove it; where the daemon does not answer, the reaper does so later."""
        self.disown()
        if not self._open:
            return
        self._open = False
        self.daemon.names.discard(self.name)
        with contextlib.suppress(SandboxFault), asking("remove a container"):
            remove(self.daemon.client, self.name)

    def disown(self) -> None:
        """Let go of the stream alone; in a forked child the container is the parent's."""
        if self._stream is not None:
            self._stream.close()

    def _attached(self) -> AttachedStream:
        if self._stream is None:
            raise ConnectionError("the container was not started")
        return self._stream

    def _start(self, limits: Limits, runtime: str | None) -> None:
        client = self.daemon.client
        with asking("start a container", self.image), _known_runtime(client, runtime):
            made = client.create_container(
                self.image,
                # With the site module, so that what is installed in the image can be imported.
                ["-I", "-c", BOOTSTRAP],
                entrypoint=["python3"],
                name=self.name,
                hostname="sandbox",
                user="0:0",
                working_dir="/",
                stdin_open=True,
                # As first process the zygote gets no other signal, and a daemon that stops would wait for it.
                stop_signal="SIGKILL",
                network_disabled=True,
                healthcheck={"test": ["NONE"]},
                use_config_proxy=False,
                labels=self.daemon.owner.labels(time.time() + SLOT_SECONDS + _LEASE_MARGIN),
                host_config=client.create_host_config(**host_settings(limits, runtime)),
            )
            # Before the start, so that nothing which it says is missed.
            streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._stream = AttachedStream(client.attach_socket(made["Id"], params=streams))
            client.start(made["Id"])


def host_settings(limits: Limits, runtime: str | None = None) -> dict[str, Any]:
    """What keeps the container in: the arguments of `docker.APIClient.create_host_config`.

    The three capabilities are for the zygote alone: it changes to the user of a job (SETUID, SETGID), which has
    none, and kills what that user left running (KILL).
    """
    memory = limits.memory_bytes + limits.disk_bytes + _ZYGOTE_MEMORY
    files = limits.files + _ZYGOTE_FILES
    return {
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": ["SETUID", "SETGID", "KILL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": limits.processes + _ZYGOTE_PROCESSES + (0 if runtime is None else _KERNEL_THREADS),
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": 10**9,
        "tmpfs": {
            "/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={limits.disk_bytes},nr_inodes={files}",
            # Nothing at all where a container has its terminals and queues.
            **dict.fromkeys(("/dev/pts", "/dev/mqueue"), "ro,noexec,nosuid,nodev,mode=555,size=4k,nr_inodes=2"),
        },
        "shm_size": _SHARED_MEMORY,
        "ipc_mode": "private",
        # A log of what the zygote says would grow by as much as is said.
        "log_config": {"type": "none"},
        "auto_remove": True,
        "runtime": runtime,
    }


@contextmanager
def asking(what: str, image: str = "") -> Iterator[None]:
    """Inside, the daemon is asked to do `what`; what it and the way to it raise becomes a fault.

    Raises:
        UserError: the image is missing.
        SandboxFault: the daemon does not answer, or refuses.
    """
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ImageNotFound as error:
        raise UserError(
            f"The Docker image {image!r} is not there; get it with docker pull {image}, or make one from this Python "
            f"with rlvr sandbox build-image and name it ({IMAGE_VARIABLE}={BUILT_IMAGE})."
        ) from error
    except (DockerException, RequestException, HTTPError, OSError) as error:
        raise SandboxFault(f"The Docker daemon failed to {what}: {error}") from error


@contextmanager
def _known_runtime(client: Any, runtime: str | None) -> Iterator[None]:
    """Inside, containers are made for a runtime.

    The daemon decides whether it has it, for it may find one by its name alone.

    Raises:
        UserError: the daemon has no such runtime.
    """
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        if runtime is None or not error.is_client_error() or "runtime" not in str(error.explanation).lower():
            raise
        names = client.info().get("Runtimes") or {}
        if runtime in names:
            raise
        raise UserError(f"The Docker daemon has no runtime {runtime!r}; {did_you_mean(runtime, names)}") from error


def _new_client(limit: float) -> Any:
    try:
        from docker import APIClient
        from docker.utils import kwargs_from_env
    except ModuleNotFoundError as error:
        raise UserError(
            f"Docker sandboxes need the package {error.name!r}; install it with: pip install 'rlvr[code]'."
        ) from None
    with asking("answer"):
        client = APIClient(version="auto", timeout=limit, **kwargs_from_env())
    # The SDK keeps a connection for each of the last 25 addresses, and each container has some of its own.
    client.headers["Connection"] = "close"
    # As it did for the version.
    client.close()
    return client


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_daemons: dict[str, Daemon] = {}
_lock = threading.Lock()
_containers: weakref.WeakSet[Container] = weakref.WeakSet()


def _forget_all() -> None:
    """In a forked child: the connections are the parent's, and open copies would keep its containers running."""
    global _lock
    _lock = threading.Lock()
    _daemons.clear()
    for container in list(_containers):
        container.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
