"""A zygote that is a process of this machine."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO

from .protocol import PYTHON_FLAGS

_END_LIMIT = 5.0


class LocalProcess:
    """The transport to a zygote started here, with an empty environment and in a session of its own.

    When this process ends, even by SIGKILL, the zygote's stdin hangs up, and it ends as well.

    Args:
        python: the interpreter to start.
        flags: its arguments.
        inherited: further descriptors that it gets.
    """

    def __init__(self, python: str, flags: Sequence[str] = PYTHON_FLAGS, inherited: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            [python, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
            bufsize=0,
            pass_fds=inherited,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._in, self._out, self._err = self._process.stdin, self._process.stdout, self._process.stderr
        for stream in (self._in, self._out, self._err):
            os.set_blocking(stream.fileno(), False)
        self._owner = os.getpid()
        # Held while a pipe is in use, so that no other thread closes it then.
        self._in_use = threading.Lock()
        self._closing = threading.Lock()

    def send(self, content: bytes, deadline: float) -> None:
        """Write all of it by `deadline`; raises OSError."""
        view = memoryview(content)
        with self._using(deadline):
            while view:
                _wait(self._open(self._in), select.POLLOUT, deadline)
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(self._in.fileno(), view) :]

    def receive(self, deadline: float) -> bytes:
        """Some bytes, b"" at the end; raises OSError."""
        with self._using(deadline):
            while True:
                _wait(self._open(self._out), select.POLLIN, deadline)
                with contextlib.suppress(BlockingIOError):
                    return os.read(self._out.fileno(), 1 << 17)

    @contextlib.contextmanager
    def _using(self, deadline: float) -> Iterator[None]:
        """Holding the pipes; raises TimeoutError if another thread has them until `deadline`."""
        if not self._in_use.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise TimeoutError("its pipes are in use")
        try:
            yield
        finally:
            self._in_use.release()

    def _open(self, stream: IO[bytes]) -> int:
        if stream.closed:
            raise OSError("the sandbox was closed")
        return stream.fileno()

    def quiet(self) -> bool:
        """Whether it runs and has said nothing."""
        poll = select.poll()
        try:
            poll.register(self._open(self._out), select.POLLIN)
        except (OSError, ValueError):
            # Another thread closes it.
            return False
        return not poll.poll(0)

    def last_words(self) -> str:
        """What it said on stderr so far."""
        try:
            return (os.read(self._err.fileno(), 1 << 14)).decode("utf-8", "replace").strip()[-1000:]
        except (OSError, ValueError):
            return ""

    def interrupt(self) -> None:
        """Kill it, so that who waits for it in another thread sees its end."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Kill it and wait until everything that it started is gone, for some seconds at most."""
        if os.getpid() != self._owner:
            # A forked child has copies of the pipes alone, and perhaps of a lock that nobody there lets go.
            self._process.returncode = 0
            self._close_pipes()
            return
        with self._closing:
            if self._out.closed:
                return
            self._process.kill()
            self._process.wait()
            deadline = time.monotonic() + _END_LIMIT
            # The last process inside holds the last copy of the other end.
            with contextlib.suppress(OSError):
                while self.receive(deadline):
                    pass
            # A thread that still waits for what does not end closes them itself, when its time is over.
            with contextlib.suppress(TimeoutError), self._using(deadline):
                self._close_pipes()

    def _close_pipes(self) -> None:
        for stream in (self._in, self._out, self._err):
            stream.close()


def _wait(descriptor: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError("it was silent for too long")
