"""Worker processes for checks that can hang or grow without bound: they are killed, replaced, and never leak.

    pool = shared_pool()
    pool.run(equal, gold, answer, timeout=2.0)

A call from Python cannot be ended from outside while it holds the interpreter lock, as a big power does for
minutes: neither by a signal, nor by an exception put into its thread, nor by `asyncio.wait_for`. Killing the
process does end it.

Of the libraries for this, pebble 5.2 was tried: it kills for real, its clock starts with the job, and neighbours
survive a killed worker. But its workers are `multiprocessing` processes, which a daemonic process (a worker of a
data loader, say) may not start; which import the program's main module again, torch included; and which, where that
module has no `if __name__ == "__main__"` guard, start again and again without end. So the processes here come from
a fork server of our own (`worker`). A round trip takes about 60 us, a killed worker is replaced in some
milliseconds, and preloaded modules are shared.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - so that its hook is registered before ours
import contextlib
import os
import pkgutil
import queue
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from . import worker as worker_process
from .fork_server import LOAD_LIMIT, ForkServer, Worker
from .handover import packed, portable, unpacked
from .worker import DONE, SPENT, JobFailed

__all__ = ["JobFailed", "Pool", "PoolTimeout", "WorkerDied", "default_preload", "shared_pool"]

DEFAULT_MEMORY_BYTES = 2 << 30
"""The most data that a worker of a default pool may hold, in bytes."""


class PoolTimeout(TimeoutError):
    """A job ran longer than its limit, and its worker was killed."""

    def __init__(self, limit: float, doing: str = "ran") -> None:
        super().__init__(limit, doing)
        self.limit = limit
        self.doing = doing

    def __str__(self) -> str:
        return f"{self.doing} longer than {self.limit:g} s and was killed"


class WorkerDied(RuntimeError):
    """The worker ended while it ran the job: killed from outside, out of memory, crashed, or by `os._exit`.

    Attributes:
        exit_code: its exit status; negative, the signal that killed it; None if unknown.
    """

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        if self.exit_code is None:
            return "the worker process ended"
        if self.exit_code < 0:
            return f"the worker process was killed by signal {-self.exit_code}"
        return f"the worker process ended with exit code {self.exit_code}"


class Pool:
    """Worker processes that run functions, each job with a limit of its own.

    Safe to use from any thread, from several at a time, and in a forked child, where it starts afresh. The
    processes start with the first job. A job is a function and its arguments, handed over by cloudpickle: what
    the worker can import goes by name, anything else (of `__main__`, a closure) by value.

    Args:
        workers: how many jobs run at a time; by default the CPUs that this process may use.
        memory_bytes: the most data a worker may hold; beyond it a job fails with MemoryError. None for no limit.
        preload: modules to import once, before the workers are forked; what is not there is left out.
        max_jobs: after so many jobs a worker is replaced by a fresh one.
        max_queued: how many submitted jobs may wait; then `submit` blocks.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        memory_bytes: int | None = DEFAULT_MEMORY_BYTES,
        preload: Iterable[str] = (),
        max_jobs: int = 1000,
        max_queued: int = 1024,
    ) -> None:
        self.workers = _cpus() if workers is None else workers
        for name, value in (("workers", self.workers), ("max_jobs", max_jobs), ("max_queued", max_queued)):
            if value < 1:
                raise ValueError(f"{name} is {value}, but has to be at least 1")
        self.max_jobs = max_jobs
        self.max_queued = max_queued
        self._settings = {"memory_bytes": memory_bytes, "preload": list(preload)}
        self._closed = False
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._server: ForkServer | None = None
        self._idle: deque[Worker] = deque()
        self._busy: set[Worker] = set()
        self._free = threading.Semaphore(self.workers)
        self._queue: queue.Queue[_Job | None] = queue.Queue(self.max_queued)
        self._dispatchers: list[threading.Thread] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(self, function: Callable[..., Any], /, *args: Any, timeout: float | None) -> Any:
        """What `function(*args)` returns in a worker; blocks until one is free and the job is done.

        Args:
            function: what to run.
            args: its arguments.
            timeout: seconds, counted from when the worker begins; None for no limit.

        Raises:
            PoolTimeout: it took longer; the worker has been killed.
            WorkerDied: the worker ended before the job did.
            JobFailed: what the job raised or returned cannot be handed over.
            Exception: whatever else the job raised.
        """
        return self._run(portable(function), args, timeout)

    def submit(self, function: Callable[..., Any], /, *args: Any, timeout: float | None) -> Future[Any]:
        """The future of `run`; blocks while `max_queued` jobs wait. For asyncio: `asyncio.wrap_future`."""
        return self._submit(portable(function), args, timeout)

    def map(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], /, *, timeout: float | None
    ) -> list[Any]:
        """One entry for each tuple of arguments, in order: the result, or the exception that `run` would raise.

        Args:
            function: what to run on each.
            arguments: the tuples.
            timeout: seconds for each job.
        """
        payload = portable(function)
        if len(arguments) == 1:
            return [_outcome(lambda: self._run(payload, arguments[0], timeout))]
        futures = [self._submit(payload, args, timeout) for args in arguments]
        try:
            return [_outcome(future.result) for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def process_ids(self) -> list[int]:
        """The processes of this pool: the fork server and its workers."""
        with self._lock:
            if self._server is None:
                return []
            return [self._server.process_id, *(worker.process for worker in (*self._idle, *self._busy))]

    def close(self) -> None:
        """End every process at once; jobs that run or wait fail with WorkerDied."""
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._drop_server()
        self._refuse_waiting()
        for _ in self._dispatchers:
            self._queue.put(None)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _submit(self, payload: bytes, args: tuple[Any, ...], timeout: float | None) -> Future[Any]:
        with self._lock:
            self._check_open()
            if len(self._dispatchers) < self.workers:
                thread = threading.Thread(target=self._dispatch, name="rlvr-pool", daemon=True)
                self._dispatchers.append(thread)
                thread.start()
        job = _Job(payload, args, timeout)
        self._queue.put(job)
        if self._closed:
            self._refuse_waiting()
        return job.future

    def _refuse_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._queue.get_nowait()
                if job is None:
                    self._queue.put(None)
                    return
                if job.future.set_running_or_notify_cancel():
                    job.future.set_exception(WorkerDied(None))

    def _dispatch(self) -> None:
        waiting = self._queue
        while (job := waiting.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                result = self._run(job.payload, job.args, job.timeout)
            except BaseException as error:
                job.future.set_exception(error)
            else:
                job.future.set_result(result)

    def _run(self, payload: bytes, args: tuple[Any, ...], timeout: float | None) -> Any:
        content = packed(args)
        with self._free:
            worker = self._take(payload)
            try:
                answer = worker.call(payload, content, timeout)
            except TimeoutError:
                self._discard(worker)
                assert timeout is not None
                raise PoolTimeout(timeout) from None
            except (EOFError, OSError):
                raise WorkerDied(self._discard(worker)) from None
            except BaseException:
                # An interrupt: the answer that is still to come belongs to nobody.
                self._discard(worker)
                raise
            if answer[:1] == SPENT:
                self._discard(worker)
            else:
                self._give_back(worker)
        return unpacked(answer)

    def _take(self, payload: bytes) -> Worker:
        """A worker that has loaded the function."""
        while True:
            worker = self._next()
            try:
                answer = worker.load(payload)
            except TimeoutError:
                self._discard(worker)
                raise PoolTimeout(LOAD_LIMIT, "loaded") from None
            except BrokenPipeError:
                # It ended while it was idle, so the job has not met it yet.
                self._discard(worker)
                continue
            except (EOFError, OSError):
                raise WorkerDied(self._discard(worker)) from None
            except BaseException:
                self._discard(worker)
                raise
            if answer[:1] == DONE:
                return worker
            self._discard(worker)
            unpacked(answer)

    def _next(self) -> Worker:
        with self._lock:
            self._check_open()
            while self._idle:
                worker = self._idle.pop()
                if worker.alive():
                    self._busy.add(worker)
                    return worker
                self._kill(worker)
            try:
                worker = self._live_server().fork()
            except OSError:
                # Somebody ended the server; its workers died with it.
                self._drop_server()
                worker = self._live_server().fork()
            self._busy.add(worker)
            return worker

    def _live_server(self) -> ForkServer:
        if self._server is None:
            self._server = ForkServer(self._settings)
        return self._server

    def _drop_server(self) -> None:
        assert self._server is not None
        self._server.end()
        self._server = None
        for worker in self._idle:
            worker.connection.close()
        self._idle.clear()

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
            if worker.jobs < self.max_jobs and not self._closed and worker.server is self._server:
                self._idle.append(worker)
            else:
                self._kill(worker)

    def _discard(self, worker: Worker) -> int | None:
        """Kill the worker; how it had ended, if it had."""
        with self._lock:
            self._busy.discard(worker)
            return self._kill(worker)

    def _kill(self, worker: Worker) -> int | None:
        worker.connection.close()
        if worker.server is not self._server:
            return None
        try:
            return worker.server.kill(worker.process)
        except OSError:
            self._drop_server()
            return None

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the pool is closed")

    def _after_fork(self) -> None:
        """In a forked child the processes and threads are the parent's: let go of them and start afresh."""
        if self._server is not None:
            self._server.disown()
        for worker in (*self._idle, *self._busy):
            worker.connection.close()
        self._begin()


def shared_pool() -> Pool:
    """The pool of this process, which is made when it is first asked for."""
    global _shared
    with _shared_lock:
        if _ending:
            raise RuntimeError("the program was interrupted and is ending")
        if _shared is None or _shared._closed:
            # A job that asks for a pool of its own gets a small one, or workers would multiply.
            workers = 1 if worker_process.inside_worker else None
            _shared = Pool(workers, preload=default_preload())
        return _shared


def default_preload() -> list[str]:
    """What the shared pool imports before it forks: sympy and the mathematics of this package."""
    from . import math

    return ["sympy", "flint", *(f"{math.__name__}.{module.name}" for module in pkgutil.iter_modules(math.__path__))]


class _Job:
    """A job that waits for a dispatcher."""

    def __init__(self, payload: bytes, args: tuple[Any, ...], timeout: float | None) -> None:
        self.payload = payload
        self.args = args
        self.timeout = timeout
        self.future: Future[Any] = Future()


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return error


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_shared: Pool | None = None
_shared_lock = threading.Lock()
_ending = False


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _forget_all() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for pool in list(_pools):
        pool._after_fork()


def _close_if_interrupted() -> None:
    """Before the threads are joined that an interrupted program left: they would wait for jobs that nobody wants.

    The threads of a program that came to its end are left their pool, for they may have work to finish.
    """
    global _ending
    _ending = issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt)
    if _ending:
        _close_all()


atexit.register(_close_all)
# `atexit` comes only after the threads have been joined. `concurrent.futures` uses this hook to join its own, and the
# last that is registered comes first. It is private, so there may be none.
with contextlib.suppress(AttributeError, RuntimeError):
    threading._register_atexit(_close_if_interrupted)  # type: ignore[attr-defined]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
