"""The wire: what real sockets bring that a test client does not. No hang, no 5xx, nothing stored.

What the server itself answers before the service sees the request may be plain
text or a problem document, by which worker serves; the status is the same.
"""

import contextlib
import gzip
import http.client
import io
import json
import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.acceptance.clients import Client
from tests.acceptance.server import Server, running

MOST = 1 << 20  # the largest body by default, in bytes
PATIENCE = 20.0  # seconds within which everything must have been answered
BIG = json.dumps({"from": "alice", "type": "request", "content": "x" * (3 << 20)}).encode()
SMALL = b'{"from": "alice", "type": "request", "content": "hello"}'


class Answer(NamedTuple):
    """One response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def problem(self) -> Any:
        """The problem document that it is."""
        assert self.headers["Content-Type"] == "application/problem+json", self
        return json.loads(self.body)


class Stream(io.BytesIO):
    """Bytes from which ``http.client`` reads one response after the other."""

    def makefile(self, mode: str) -> "Stream":
        """Itself, as a socket would give a file."""
        return self

    def close(self) -> None:
        """Stay open for the next response."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service on SQLite for all tests of this file, which must not have died at its end."""
    folder = tmp_path_factory.mktemp("wire")
    with running(f"sqlite:///{folder}/a.db") as server:
        workers = server.workers()
        yield server
        assert server.workers() == workers
        assert "Traceback" not in server.log()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The inbox of this test, which nobody else writes to."""
    return "box-" + "".join(c if c.isalnum() else "-" for c in request.node.name)[-50:]


def exchange(
    server: Server, *parts: bytes, methods: tuple[str, ...] = ("POST",), end: bool = True
) -> list[Answer]:
    """Send the parts as they are; the answers until the server closes the connection.

    ``methods`` are of the requests that must be answered. With ``end`` nothing
    more comes from the client; without, it stays silent.
    """
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        sending = threading.Thread(target=send, args=(connection, parts, end))
        sending.start()
        answers = list(received(connection, methods))
        connection.shutdown(socket.SHUT_RDWR) if not end else None
        sending.join(PATIENCE)
    return answers


def send(connection: socket.socket, parts: tuple[bytes, ...], end: bool) -> None:
    """Send until the server wants no more."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for part in parts:
            connection.sendall(part)
        if end:
            connection.shutdown(socket.SHUT_WR)
