"""The worker over raw sockets: requests that come again byte for byte, and are not parsed again."""

from collections.abc import Iterator

import pytest

from tests.api.rawhttp import Client, Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def test_a_familiar_request_is_read_as_at_first(client: Client, server: Server) -> None:
    same = b"POST /same HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\n"
    for body in (b"one.", b"two.", b"\r\n\r\n", b"GET ", b"five"):
        client.send(same + body)
        assert client.answer().json["body"] == body.decode()
    with server.client() as other:
        other.send(same + b"peer")
        seen = other.answer().json
        assert seen["REMOTE_PORT"] == str(other.socket.getsockname()[1])
    client.send(same)  # and the body later
    server.get("/")
    client.send(b"late", same + b"1..." + same + b"2..." + same[:30])
    bodies = [client.answer().json["body"] for _ in range(3)]
    assert bodies == ["late", "1...", "2..."]
    client.send(same[30:] + b"3...")
    assert client.answer().json["body"] == "3..."


def test_a_familiar_request_may_end_the_connection_or_not_be_one(server: Server) -> None:
    for _ in range(4):
        with server.client() as client:
            assert client.get("/", "Connection: close").status == 200
            assert client.ended()
        with server.client() as client:
            client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            assert client.answer().status == 400
            assert client.ended()
        with server.client() as client:
            assert client.get("/polluting").body == b"test"


def test_a_body_that_reads_like_a_familiar_request_is_a_body(
    client: Client, server: Server
) -> None:
    familiar = "GET /familiar HTTP/1.1\r\nHost: test\r\n\r\n"
    for _ in range(3):
        client.send(familiar)
        assert client.answer().json["PATH_INFO"] == "/familiar"
    client.send(f"POST /body HTTP/1.1\r\nHost: test\r\nContent-Length: {len(familiar)}\r\n\r\n")
    server.get("/")
    client.send(familiar)
    seen = client.answer().json
    assert (seen["PATH_INFO"], seen["body"]) == ("/body", familiar)
    client.send("GET /head HTTP/1.1\r\nX-A: ")
    server.get("/")
    client.send(familiar)
    assert client.answer().json["PATH_INFO"] == "/head"  # the rest is the value of X-A, and Host


def test_familiar_requests_are_forgotten_in_time(client: Client) -> None:
    for number in [*range(600), *range(600), *range(600)]:
        assert client.get(f"/{number}").json["PATH_INFO"] == f"/{number}"
