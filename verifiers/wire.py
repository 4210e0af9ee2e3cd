"""Messages over a stream socket: eight bytes of length, then the bytes."""

from __future__ import annotations

import socket
import struct
import time

_LENGTH = struct.Struct("!Q")
_CHUNK = 1 << 20


def send(connection: socket.socket, message: bytes, limit: float | None = None) -> None:
    """Send `message` whole.

    Raises:
        TimeoutError: it was not taken within `limit` seconds.
        OSError: the other end is gone.
    """
    connection.settimeout(limit)
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive(connection: socket.socket, limit: float | None = None) -> bytes:
    """The next message, whole.

    Raises:
        TimeoutError: it was not there within `limit` seconds.
        EOFError: the other end is gone.
    """
    deadline = None if limit is None else time.monotonic() + limit
    header = _exactly(connection, _LENGTH.size, deadline)
    return _exactly(connection, _LENGTH.unpack(header)[0], deadline)


def _exactly(connection: socket.socket, count: int, deadline: float | None) -> bytes:
    pieces = []
    while count:
        if deadline is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            connection.settimeout(remaining)
        else:
            connection.settimeout(None)
        try:
            piece = connection.recv(min(count, _CHUNK))
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise EOFError
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
