"""The worker over raw sockets: who is too slow."""

import time
from collections.abc import Iterator

import pytest

from tests.api.rawhttp import Client, Server, serving, until

# The worker looks at deadlines once a second, or every quarter of gunicorn's timeout.
SETTINGS = """
timeout = 2
keepalive = 1
LoopWorker.header_deadline = 0.5
LoopWorker.body_deadline = 0.5
LoopWorker.write_deadline = 0.5
"""
POST = "POST / HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), SETTINGS) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def timed_out(client: Client) -> None:
    """The next answer says so, and is the last."""
    answer = client.answer()
    assert (answer.status, answer.json["code"]) == (408, "request_timeout")
    assert answer.json["retryable"]
    client.socket.shutdown(1)
    assert client.ended()


def test_a_silent_connection_is_closed(client: Client) -> None:
    assert client.ended()


def test_an_idle_connection_is_closed(client: Client) -> None:
    assert client.get("/").status == 200
    assert client.ended()


def test_a_head_that_does_not_end_is_refused(client: Client) -> None:
    client.get("/")
    client.send("GET / HTTP/1.1\r\nX-A: ")
    timed_out(client)


def test_a_body_that_does_not_come_is_refused(client: Client) -> None:
    client.send(POST, "Content-Length: 10\r\n\r\nhalf")
    timed_out(client)


@pytest.mark.parametrize("start", ["GET /", POST + "Content-Length: 9999\r\n\r\n", "\r\n"])
def test_to_be_slow_is_no_way_to_stay(client: Client, start: str) -> None:
    began = time.monotonic()
    client.send(start)
    while client.silent(0.1):
        client.send("\r\n" if start == "\r\n" else "x")
    assert time.monotonic() - began < 5
    if start == "\r\n":
        assert client.ended()
    else:
        timed_out(client)


def test_a_client_that_does_not_read_is_dropped(server: Server) -> None:
    with server.client() as client:
        client.get("/events")
        client.send("GET /forever HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: "closed" in server.get("/events").json, "the end")
        assert len(client.rest()) < 20_000_000
