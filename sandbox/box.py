"""The sandbox as users see it."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .batch import Batch
from .errors import UserError
from .faults import SandboxFault
from .inside.plain import NotPlain
from .limits import Limits
from .nearest import did_you_mean
from .pool import Backend, SlotPool
from .program import Program
from .result import Result

BACKENDS = ("auto", "docker", "namespace")
_log = logging.getLogger("rlvr.sandbox")


def open(backend: str = "auto", *, pool: int | None = None, limits: Limits | None = None, **options: Any) -> Box:
    """A sandbox, to be used in a `with` statement or closed.

    Args:
        backend: `docker`, `namespace`, or `auto`: Docker where a daemon answers and has an image, else namespaces. An
            image that was named and is not there is a mistake, with `auto` too.
        pool: how many programs run at a time; by default the CPUs that this process may use.
        limits: what a program may use where `run` does not say otherwise.
        options: the backend's own: for `docker` `image`, `runtime` and more, for `namespace` `packages`, `readable`,
            `preload` and `allow_unsafe`. `auto` takes those of both.

    Raises:
        UserError: the backend or an option is not known, or the backend cannot be used here.
        SandboxFault: no slot could be started.
    """
    if backend not in BACKENDS:
        raise UserError(f"There is no sandbox backend {backend!r}; {did_you_mean(backend, BACKENDS)}")
    size = len(os.sched_getaffinity(0)) if pool is None else pool
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise UserError(f"The pool of a sandbox is {pool!r}, but has to be a whole number above 0.")
    if backend == "auto":
        backend, options = _chosen(options)
        _log.info("The sandbox backend 'auto' takes %r here.", backend)
    limits = Limits() if limits is None else Limits.checked(limits)
    if backend == "docker":
        # Containers are made for them.
        options = {**options, "limits": limits}
    return Box(_backend(backend, options), size, limits)


_NAMESPACE_OPTIONS = ("allow_unsafe", "packages", "readable", "preload")


def _chosen(options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    from .docker import daemon_answers, missing_image

    inside = {name: value for name, value in options.items() if name in _NAMESPACE_OPTIONS}
    outside = {name: value for name, value in options.items() if name not in _NAMESPACE_OPTIONS}
    if not daemon_answers():
        if outside.get("runtime") is not None:
            raise UserError(
                f"The sandbox was to use Docker's runtime {outside['runtime']!r}, but no Docker daemon answers; start "
                "one, or leave the runtime out."
            )
        return "namespace", inside
    missing = missing_image(outside.get("image"))
    if missing is None:
        return "docker", outside
    if outside.get("runtime") is not None:
        raise UserError(
            f"The sandbox was to use Docker's runtime {outside['runtime']!r}, but the daemon has no image {missing}; "
            f"get it with docker pull {missing}, make one with rlvr sandbox build-image, or leave the runtime out."
        )
    _log.warning(
        "A Docker daemon answers, but has no image %s (docker pull %s, or rlvr sandbox build-image).", missing, missing
    )
    return "namespace", inside


def _backend(name: str, options: dict[str, Any]) -> Backend:
    kind: Any
    if name == "docker":
        from .docker import DockerBackend

        kind = DockerBackend
    else:
        from .namespace import NamespaceBackend

        kind = NamespaceBackend
    known = set(kind.__init__.__kwdefaults__ or {})
    for option in options:
        if option not in known:
            raise UserError(f"The sandbox backend {name!r} has no option {option!r}; {did_you_mean(option, known)}")
    backend: Backend = kind(**options)
    return backend


class Box:
    """Runs programs in a sandbox. Safe to use from several threads, and in a forked child, where it starts afresh."""

    def __init__(self, backend: Backend, size: int, limits: Limits) -> None:
        self.backend = backend.name
        self.size = size
        self.limits = limits
        self._pool = SlotPool(backend, size)
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._owner = os.getpid()
        _open_boxes.add(self)
        try:
            self._pool.warm()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(self, program: Program, limits: Limits | None = None) -> Result:
        """What came of the program; waits for a free slot, and for its end.

        Args:
            program: what to run.
            limits: what it may use; by default the sandbox's.

        Raises:
            UserError: an argument of a call is no plain data, or this is no program, or these are no limits.
            SandboxFault: the infrastructure failed; nothing is known about the program.
        """
        return self._run(*self._checked(program, limits), None)

    def _checked(self, program: object, limits: object) -> tuple[Program, Limits]:
        if not isinstance(program, Program):
            raise UserError(f"The sandbox was to run {program!r:.80}, but runs a Program, such as Program('print(1)').")
        return program, self.limits if limits is None else Limits.checked(limits)

    def _run(self, program: Program, limits: Limits, batch: Batch | None) -> Result:
        try:
            return self._pool.run(program, limits, batch)
        except NotPlain as error:
            raise UserError(f"The program cannot be handed over, because {error}.") from error

    def map(self, programs: Iterable[Program], limits: Limits | None = None) -> list[Result | SandboxFault]:
        """One entry for each program, in order: its result, or the fault that `run` would raise.

        When it is interrupted, the programs end.
        """
        with Batch() as batch:
            futures = [self._submit(program, limits, batch) for program in programs]
            return [_result_or_fault(future) for future in futures]

    async def arun(self, program: Program, limits: Limits | None = None) -> Result:
        """`run` for asyncio; the event loop goes on meanwhile. When it is cancelled, the program ends."""
        with Batch() as batch:
            return await asyncio.wrap_future(self._submit(program, limits, batch))

    def submit(self, program: Program, limits: Limits | None = None) -> Future[Result]:
        """The future of `run`."""
        return self._submit(program, limits, None)

    def _submit(self, program: Program, limits: Limits | None, batch: Batch | None) -> Future[Result]:
        asked = self._checked(program, limits)
        with self._lock:
            if self._threads is None or os.getpid() != self._owner:
                self._owner = os.getpid()
                self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="rlvr-sandbox")
            return self._threads.submit(self._run, *asked, batch)

    def close(self) -> None:
        """End everything, programs at work too; may be called again."""
        self._pool.close()
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None and os.getpid() == self._owner:
            threads.shutdown(wait=False, cancel_futures=True)


def _result_or_fault(future: Future[Result]) -> Result | SandboxFault:
    try:
        return future.result()
    except SandboxFault as fault:
        return fault


_open_boxes: weakref.WeakSet[Box] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for box in list(_open_boxes):
        box.close()
