"""The other side of `pool`: a fork server that preloads modules once, and the workers that it forks.

The server is a plain `python -c`, so the main module of the program is not imported again, and nothing of
what the program has loaded (torch, threads, locks) is in it. It has one thread and runs no job, so forking
it is safe and takes milliseconds. A worker runs one job at a time and may be killed at any moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle

from .wire import receive, send

REQUEST = struct.Struct("!cq")
"""What the pool asks of the fork server: FORK (with a socket for the worker), or KILL and a process id."""
REPLY = struct.Struct("!q")
"""What it answers: the process id of the new worker, or how the killed one ended (as `os.waitstatus_to_exitcode`)."""

FORK, KILL = b"F", b"K"
LOAD, CALL = b"L", b"C"
DONE, RAISED = b"D", b"R"
SPENT = b"S"
"""Like RAISED, from a worker that is fit for no other job."""

inside_worker = False
"""Whether this process is a worker."""

_PR_SET_PDEATHSIG = 1


class JobFailed(RuntimeError):
    """A job failed with something that cannot be handed over as it is; the message has its type and text."""


def main() -> None:
    """Run the fork server; the arguments are the number of its socket and its settings in JSON."""
    control = socket.socket(fileno=int(sys.argv[1]))
    # What a job starts must not hold the socket open after everybody else is gone.
    control.set_inheritable(False)
    settings = json.loads(sys.argv[2])
    # The terminal sends Ctrl-C to every process of the program; when to stop is the program's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a job prints must not stand between what the program prints.
    os.dup2(2, 1)
    for name in settings["preload"]:
        # A module that cannot be loaded is reported by the job that needs it.
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    control.sendall(REPLY.pack(os.getpid()))
    _serve(control, settings)


def _serve(control: socket.socket, settings: dict[str, Any]) -> None:
    workers: set[int] = set()
    try:
        while True:
            # The end of the program closes the socket, unless a process that it forked still holds a copy.
            if not select.select([control], [], [], 1.0)[0]:
                if os.getppid() != settings["parent"]:
                    return
                continue
            message, descriptors, _, _ = socket.recv_fds(control, REQUEST.size, 1)
            if len(message) < REQUEST.size:
                return
            request, process = REQUEST.unpack(message)
            if request == FORK:
                process = _fork(control, descriptors[0], settings["memory_bytes"])
                workers.add(process)
                control.sendall(REPLY.pack(process))
            elif process in workers:
                workers.remove(process)
                control.sendall(REPLY.pack(_kill(process)))
    except OSError:
        return
    finally:
        for process in workers:
            _kill(process)


def _fork(control: socket.socket, descriptor: int, memory_bytes: int | None) -> int:
    server = os.getpid()
    process = os.fork()
    if process == 0:
        try:
            control.close()
            os.setpgid(0, 0)
            _die_with_parent(server)
            _limit_memory(memory_bytes)
            os.set_inheritable(descriptor, False)
            _work(socket.socket(fileno=descriptor))
        finally:
            os._exit(0)
    os.close(descriptor)
    # Here as well as in the worker, so that its group can be killed from now on.
    with contextlib.suppress(OSError):
        os.setpgid(process, process)
    return process


def _kill(process: int) -> int:
    """Kill a worker with whatever it started, and say how it ended.

    Only the server waits for workers, so until here the number belongs to no other process.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, even by SIGKILL (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _limit_memory(memory_bytes: int | None) -> None:
    if memory_bytes is None:
        return
    import resource

    # Of the data and not of the address space, which some libraries reserve far beyond what they use.
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    # A dump of gigabytes for a worker that ran out of memory would help nobody.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _work(connection: socket.socket) -> None:
    global inside_worker
    inside_worker = True
    functions: list[Callable[..., Any]] = []
    with contextlib.suppress(EOFError, OSError):
        while True:
            answer = _answer(receive(connection), functions)
            _flush()
            send(connection, answer)


def _answer(message: bytes, functions: list[Callable[..., Any]]) -> bytes:
    try:
        if message[:1] == LOAD:
            content = io.BytesIO(message[1:])
            # First, for the function may be found there and nowhere else.
            sys.path[:] = cloudpickle.load(content)
            functions.append(cloudpickle.load(content))
            return DONE
        result = functions[int.from_bytes(message[1:5], "big")](*cloudpickle.loads(message[5:]))
    except MemoryError as error:
        return SPENT + _handed_over(error)
    except BaseException as error:
        return RAISED + _handed_over(error)
    try:
        return DONE + cloudpickle.dumps(result)
    except BaseException as error:
        failed = JobFailed(f"its result, a {type(result).__name__}, cannot be handed over ({_described(error)})")
        return RAISED + _handed_over(failed)


def _handed_over(error: BaseException) -> bytes:
    """The exception itself, where it is one that a program may catch and that survives the way; else its text."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    try:
        if not isinstance(error, Exception):
            raise TypeError
        content = cloudpickle.dumps(error)
        cloudpickle.loads(content)
    except BaseException:
        content = cloudpickle.dumps(JobFailed(_described(error)))
    return content


def _flush() -> None:
    """Show what the job printed, since the worker may be killed at any moment."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {str(error)[:500]}"
    except BaseException:
        return type(error).__name__
