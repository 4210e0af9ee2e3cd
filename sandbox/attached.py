"""The stream of an attached container: its stdin one way; the other way stdout and stderr, in pieces with a header."""

from __future__ import annotations

import contextlib
import ssl
import struct
import time
from typing import Any

_HEADER = struct.Struct("!BxxxL")
_STDERR = 2
_KEPT_STDERR = 4096
_CHUNK = 1 << 18


class AttachedStream:
    """What `docker.APIClient.attach_socket` returned, as a stream that tells stdout and stderr apart."""

    def __init__(self, attached: Any) -> None:
        self._attached = attached
        # Over a unix or TCP socket this is a file around it, which would block without a limit.
        self._socket = getattr(attached, "_sock", attached)
        self._raw = bytearray()
        self._stderr = bytearray()

    def send(self, content: bytes, deadline: float) -> None:
        """Write all of it to the container's stdin by `deadline` (of `time.monotonic()`).

        Raises:
            TimeoutError: it was not taken by then.
            OSError: the container or the daemon is gone.
        """
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(content)

    def receive(self, deadline: float) -> bytes:
        """Some bytes of the container's stdout; b"" when the container or the daemon is gone.

        Raises:
            TimeoutError: there were none by `deadline`.
            OSError: the connection broke.
        """
        while True:
            self._socket.settimeout(_left(deadline))
            piece = self._socket.recv(_CHUNK)
            self._raw += piece
            if (content := self._sorted()) or not piece:
                return content

    def quiet(self) -> bool:
        """Whether it stands and there is nothing to read."""
        try:
            self._socket.settimeout(0)
            self._raw += self._socket.recv(1)
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            return not self._raw
        except OSError:
            pass
        return False

    def last_words(self) -> str:
        """The end of what the container wrote to stderr."""
        return self._stderr.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Close it; the container's stdin ends with it, unless a forked process holds a copy."""
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
