"""The near ends of the fork server and of the workers that it forks (`worker` has the far ends)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

from .handover import search_path
from .wire import receive, send
from .worker import CALL, DONE, FORK, KILL, LOAD, REPLY, REQUEST

LOAD_LIMIT = 120.0
"""Seconds to load a function, which may import its module and whatever that imports; a job's clock starts after."""

_START_LIMIT = 120.0
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2])['path']; from rlvr.verifiers.worker import main; main()"
)


class Worker:
    """The near end of a worker process."""

    def __init__(self, server: ForkServer, process: int, connection: socket.socket) -> None:
        self.server = server
        self.process = process
        self.connection = connection
        self.jobs = 0
        self.loaded: dict[bytes, int] = {}

    def alive(self) -> bool:
        """Whether it still holds its end; since it never speaks first, only an end can be read."""
        self.connection.settimeout(0)
        try:
            self.connection.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def load(self, payload: bytes) -> bytes:
        """Have it load a function, unless it has; its answer."""
        if payload in self.loaded:
            return DONE
        send(self.connection, LOAD + payload, LOAD_LIMIT)
        answer = receive(self.connection, LOAD_LIMIT)
        if answer[:1] == DONE:
            self.loaded[payload] = len(self.loaded)
        return answer

    def call(self, payload: bytes, content: bytes, timeout: float | None) -> bytes:
        """Have it call a function that it has loaded; its answer."""
        self.jobs += 1
        number = self.loaded[payload]
        send(self.connection, CALL + number.to_bytes(4, "big") + content, timeout)
        return receive(self.connection, timeout)


class ForkServer:
    """The near end of the fork server."""

    def __init__(self, settings: dict[str, Any]) -> None:
        content = json.dumps({**settings, "path": search_path(), "parent": os.getpid()})
        self.connection, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, str(theirs.fileno()), content],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **_ENVIRONMENT},
            )
        self.process_id = self.process.pid
        self.connection.settimeout(_START_LIMIT)
        try:
            self._reply()
        except OSError as error:
            self.end()
            raise RuntimeError("the server of worker processes did not start; its output says why") from error
        except BaseException:
            self.end()
            raise

    def fork(self) -> Worker:
        """A new worker.

        Raises:
            OSError: the server is gone.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                return Worker(self, self._ask(REQUEST.pack(FORK, 0), theirs.fileno()), ours)
            except BaseException:
                ours.close()
                raise

    def kill(self, process: int) -> int:
        """Kill a worker; how it ended, as `os.waitstatus_to_exitcode` has it."""
        return self._ask(REQUEST.pack(KILL, process))

    def _ask(self, request: bytes, *descriptors: int) -> int:
        try:
            socket.send_fds(self.connection, [request], descriptors)
            return self._reply()
        except BaseException:
            # After an interrupt the next reply would be taken for another's.
            self.connection.close()
            raise

    def end(self) -> None:
        """Let it kill its workers and go; returns when it is gone."""
        self.connection.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def disown(self) -> None:
        """In a forked child: it is the parent's."""
        self.connection.close()
        self.process.returncode = 0

    def _reply(self) -> int:
        content = b""
        while len(content) < REPLY.size:
            piece = self.connection.recv(REPLY.size - len(content))
            if not piece:
                raise ConnectionResetError("the server of worker processes is gone")
            content += piece
        return int(REPLY.unpack(content)[0])


# Sets are walked in the same order in every worker and every run, so a verdict does not depend on which; and the
# libraries of linear algebra start no threads, which a fork would not survive.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
