from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr.sandbox.attached import AttachedStream

Ends = tuple[socket.socket, socket.socket]


def piece(content: bytes, kind: int = 1) -> bytes:
    """As Docker's API frames the output of a container without a terminal."""
    return struct.pack("!BxxxL", kind, len(content)) + content


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=daemon -keyout".split()
    subprocess.run([*make, str(path), "-out", str(path) + ".crt"], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(str(path) + ".crt").read_bytes())
    return path


@pytest.fixture(params=["plain", "TLS"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Our end of the connection, and the daemon's."""
    ours, daemons = socket.socketpair()
    with contextlib.ExitStack() as stack:
        if request.param == "TLS":
            ours, daemons = wrapped(ours, daemons, request.getfixturevalue("certificate"))
        stack.enter_context(ours)
        stack.enter_context(daemons)
        yield ours, daemons


def wrapped(ours: socket.socket, daemons: socket.socket, certificate: Path) -> Ends:
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(certificate)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    made: list[socket.socket] = []
    thread = threading.Thread(target=lambda: made.append(server.wrap_socket(daemons, server_side=True)))
    thread.start()
    secured = client.wrap_socket(ours)
    thread.join()
    return secured, made[0]


def test_it_is_quiet_until_something_is_said(ends: Ends) -> None:
    ours, daemons = ends
    stream = AttachedStream(ours)
    daemons.sendall(piece(b"ready"))
    assert stream.receive(time.monotonic() + 30) == b"ready"
    for _ in range(3):
        assert stream.quiet()
    daemons.sendall(piece(b"more"))
    while stream.quiet():
        pass
    assert stream.receive(time.monotonic() + 30) == b"more"
    assert stream.quiet()


def test_it_is_not_quiet_once_the_other_end_is_gone(ends: Ends) -> None:
    ours, daemons = ends
    stream = AttachedStream(ours)
    assert stream.quiet()
    daemons.shutdown(socket.SHUT_RDWR)
    daemons.close()
    while stream.quiet():
        pass


def test_stdout_and_stderr_are_told_apart(ends: Ends) -> None:
    ours, daemons = ends
    stream = AttachedStream(ours)
    daemons.sendall(piece(b"oh", kind=2) + piece(b"said") + piece(b"!", kind=2))
    assert stream.receive(time.monotonic() + 30) == b"said"
    assert stream.last_words() == "oh!"


def test_who_waits_sees_an_interruption_at_once(ends: Ends) -> None:
    stream, ended = AttachedStream(ends[0]), threading.Event()

    def wait() -> None:
        with contextlib.suppress(OSError):
            assert stream.receive(time.monotonic() + 600) == b""
        ended.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while sys._current_frames()[thread.ident or 0].f_code.co_name not in ("receive", "recv", "read"):
        time.sleep(0.01)
    stream.interrupt()
    assert ended.wait(60)
