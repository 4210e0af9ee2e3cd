"""The stream of an attached container: its stdin one way; the other way stdout and stderr, in pieces with a header."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

_HEADER = struct.Struct("!BxxxL")
_STDERR = 2
_KEPT_STDERR = 4096
_CHUNK = 1 << 18
_END_LIMIT = 5.0


class _InUse(TimeoutError):
    """Another thread sends or receives."""


class AttachedStream:
    """What `docker.APIClient.attach_socket` returned, as a stream that tells stdout and stderr apart."""

    def __init__(self, attached: Any) -> None:
        self._attached = attached
        # Over a unix or TCP socket this is a file around it, which would block without a limit.
        self._socket = getattr(attached, "_sock", attached)
        self._raw = bytearray()
        self._stderr = bytearray()
        self._owner = os.getpid()
        # Held while the socket is in use, so that no other thread closes it then: one that waits for a number which
        # was closed, and given to another connection, would not wake.
        self._in_use = threading.Lock()

    def send(self, content: bytes, deadline: float) -> None:
        """Write all of it to the container's stdin by `deadline` (of `time.monotonic()`).

        Raises:
            TimeoutError: it was not taken by then.
            OSError: the container or the daemon is gone.
        """
        with self._using(deadline):
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(content)

    def receive(self, deadline: float) -> bytes:
        """Some bytes of the container's stdout; b"" when the container or the daemon is gone.

        Raises:
            TimeoutError: there were none by `deadline`.
            OSError: the connection broke.
        """
        with self._using(deadline):
            while True:
                self._socket.settimeout(_left(deadline))
                piece = self._socket.recv(_CHUNK)
                self._raw += piece
                if (content := self._sorted()) or not piece:
                    return content

    def quiet(self) -> bool:
        """Whether it stands and there is nothing to read."""
        try:
            with self._using(time.monotonic()):
                self._socket.settimeout(0)
                self._raw += self._socket.recv(1)
        except _InUse:
            return False
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            return not self._raw
        except OSError:
            pass
        return False

    def last_words(self) -> str:
        """The end of what the container wrote to stderr."""
        return self._stderr.decode("utf-8", "replace").strip()

    def interrupt(self) -> None:
        """End the connection; who waits for it in another thread sees the end."""
        # In a forked child it is the parent's, which may go on with it.
        if os.getpid() == self._owner:
            with contextlib.suppress(Exception):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, and with it the container's stdin; in a forked child only the child's copy."""
        if os.getpid() != self._owner:
            self._close_parts()
            return
        self.interrupt()
        # A thread that does not see the end closes it itself, when its time is over.
        with contextlib.suppress(_InUse), self._using(time.monotonic() + _END_LIMIT):
            self._close_parts()

    @contextlib.contextmanager
    def _using(self, deadline: float) -> Iterator[None]:
        """Holding the socket; raises a TimeoutError if another thread has it until `deadline`."""
        if not self._in_use.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise _InUse("the stream is in use")
        try:
            yield
        finally:
            self._in_use.release()

    def _close_parts(self) -> None:
        # The response holds the file of the socket too, and would let go of it only when it is collected.
        for part in (self._attached, getattr(self._attached, "_response", None), self._socket):
            if part is not None:
                with contextlib.suppress(Exception):
                    part.close()

    def _sorted(self) -> bytes:
        """The stdout of the whole pieces that are there."""
        content, start = bytearray(), 0
        while len(self._raw) >= start + _HEADER.size:
            kind, count = _HEADER.unpack_from(self._raw, start)
            end = start + _HEADER.size + count
            if len(self._raw) < end:
                break
            piece = self._raw[start + _HEADER.size : end]
            if kind == _STDERR:
                self._stderr += piece
                del self._stderr[:-_KEPT_STDERR]
            else:
                content += piece
            start = end
        del self._raw[:start]
        return bytes(content)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the container is silent")
    return left
