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


@pytest.fixture(scope="module")
def late(server: Server) -> dict[str, Client]:
    """Clients that all stop in the middle of something, at the same time."""
    late = {name: server.client() for name in ("silent", "idle", "head", "later head", "body")}
    for name in ("idle", "later head"):
        late[name].get("/")
    for name in ("head", "later head"):
        late[name].send("GET / HTTP/1.1\r\nX-A: ")
    late["body"].send(POST, "Content-Length: 10\r\n\r\nhalf")
    return late


def timed_out(client: Client) -> None:
    """The next answer says so, and is the last."""
    answer = client.answer()
    assert (answer.status, answer.json["code"]) == (408, "request_timeout")
    assert answer.json["retryable"]
    client.socket.shutdown(1)
    assert client.ended()


@pytest.mark.parametrize("name", ["silent", "idle"])
def test_a_connection_that_nobody_uses_is_closed(late: dict[str, Client], name: str) -> None:
    assert late[name].ended()


@pytest.mark.parametrize("name", ["head", "later head", "body"])
def test_a_request_that_does_not_end_is_refused(late: dict[str, Client], name: str) -> None:
    timed_out(late[name])


def test_to_be_slow_is_no_way_to_stay(server: Server) -> None:
    began = time.monotonic()
    head, body, nothing = (server.client() for _ in range(3))
    head.send("GET /")
    body.send(POST, "Content-Length: 9999\r\n\r\n")
    staying = [head, body, nothing]
    while staying := [client for client in staying if client.silent(0.05)]:
        for client in staying:
            client.send("\r\n" if client is nothing else "x")
    assert time.monotonic() - began < 5
    timed_out(head)
    timed_out(body)
    assert nothing.ended()


def test_a_client_that_does_not_read_is_dropped(server: Server) -> None:
    with server.client() as client:
        client.get("/events")
        client.send("GET /forever HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: "closed" in server.get("/events").json, "the end")
        assert len(client.rest()) < 20_000_000
