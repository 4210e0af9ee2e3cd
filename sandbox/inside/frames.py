"""Frames over a descriptor: one byte that says the kind, four bytes of length, then the bytes."""

from __future__ import annotations

import os
import struct
from typing import Any, Iterator

HEADER = struct.Struct("!cI")

# From the host: a job (its limits), the program (read by the process that runs it), the tests (likewise).
JOB, PROGRAM, TESTS = b"J", b"P", b"T"
# To the host: ready, pieces of the streams, the end of a job with its numbers, and a fault of the zygote's own.
READY, STDOUT, STDERR, VALUES, REPORT, DONE, FAULT = b"R", b"O", b"E", b"V", b"X", b"D", b"F"
# Inside the value and report channels.
CALL, TEST, END = b"C", b"T", b"Z"

# wall, cpu, memory, output, disk, processes, files, open files, whether there are tests in a process of
# their own, whether the program's process has a channel for values
LIMITS = struct.Struct("!ddQQQIII??")


class HangUp(Exception):
    """The other end is gone."""


def read_exactly(descriptor: int, count: int) -> bytes:
    """So many bytes.

    Raises:
        HangUp: the other end closed before.
    """
    # Mostly all is there at once.
    first = os.read(descriptor, min(count, 1 << 20)) if count else b""
    if len(first) == count:
        return first
    if not first:
        raise HangUp
    content = bytearray(count)
    view = memoryview(content)
    done = len(first)
    view[:done] = first
    while done < count:
        got = os.readv(descriptor, [view[done : done + (1 << 20)]])
        if not got:
            raise HangUp
        done += got
    return bytes(content)


def read_frame(descriptor: int, most: int = 1 << 28) -> tuple[bytes, bytes]:
    """The kind and the content of the next frame.

    Raises:
        HangUp: the other end closed, or says a length above `most`.
    """
    kind, length = HEADER.unpack(read_exactly(descriptor, HEADER.size))
    if length > most:
        raise HangUp
    return kind, read_exactly(descriptor, length)


class Reader:
    """Reads frames from a descriptor that nobody else reads, with one system call where all is there."""

    def __init__(self, descriptor: int, most: int) -> None:
        self.descriptor = descriptor
        self.most = most
        self.rest = b""

    def frame(self) -> bytes:
        """The content of the next frame.

        Raises:
            HangUp: the other end closed, or says a length above `most`.
        """
        while len(self.rest) < HEADER.size:
            self.rest += self._more()
        _, length = HEADER.unpack_from(self.rest)
        if length > self.most:
            raise HangUp
        end = HEADER.size + length
        if len(self.rest) < end:
            parts = [self.rest]
            missing = end - len(self.rest)
            while missing > 0:
                parts.append(self._more())
                missing -= len(parts[-1])
            self.rest = b"".join(parts)
        content, self.rest = self.rest[HEADER.size : end], self.rest[end:]
        return content

    def _more(self) -> bytes:
        content = os.read(self.descriptor, 1 << 16)
        if not content:
            raise HangUp
        return content


def write_frame(descriptor: int, kind: bytes, content: Any = b"") -> None:
    """Write one frame whole."""
    write_all(descriptor, HEADER.pack(kind, len(content)) + bytes(content))


def write_all(descriptor: int, content: Any) -> None:
    """Write all the bytes."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def pieces(content: Any, most: int) -> Iterator[tuple[bytes, memoryview]]:
    """The whole frames in these bytes, one by one and uncopied; ends at one that says a length above `most`."""
    view = memoryview(content)
    start = 0
    while len(view) - start >= HEADER.size:
        kind, length = HEADER.unpack_from(view, start)
        start += HEADER.size
        if length > most or start + length > len(view):
            return
        yield kind, view[start : start + length]
        start += length


class Splitter:
    """Cuts a stream of bytes into frames, as they come in."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rest = bytearray()

    def feed(self, content: Any) -> list[tuple[bytes, bytes]]:
        """The frames that these bytes completed.

        Raises:
            ValueError: a frame says a length above `most`.
        """
        self.rest += content
        frames = []
        start = 0
        while len(self.rest) - start >= HEADER.size:
            kind, length = HEADER.unpack_from(self.rest, start)
            if length > self.most:
                raise ValueError(f"a frame of {length} bytes, where at most {self.most} are allowed")
            end = start + HEADER.size + length
            if len(self.rest) < end:
                break
            frames.append((kind, bytes(self.rest[start + HEADER.size : end])))
            start = end
        del self.rest[:start]
        return frames
