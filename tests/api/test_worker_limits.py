"""The worker over raw sockets: what is too large or too much."""

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.rawhttp import Client, Server, serving, until

SETTINGS = """
limit_request_fields = 20
limit_request_field_size = 1000
LoopWorker.max_body = 10000
LoopWorker.max_head = 12000
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


def check(client: Client, status: int, code: str) -> str:
    """The next answer is this refusal, and the last; returns its detail."""
    answer = client.answer()
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.headers["connection"] == "close"
    client.socket.shutdown(1)
    assert client.ended()
    return str(answer.json["detail"])


def test_a_request_line_has_8190_bytes(server: Server, client: Client) -> None:
    assert client.get("/" + "x" * (8190 - len("GET / HTTP/1.1"))).status == 200
    for method, more in (("GET", 1), ("OPTIONS", 0), ("GET", 100_000)):
        with server.client() as other:
            path = "/" + "x" * (8190 - len("GET / HTTP/1.1") + more)
            other.send(f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n")
            assert "8190" in check(other, 414, "uri_too_long")


def test_a_request_line_need_not_end_to_be_too_long(client: Client) -> None:
    client.send("GET /" + "x" * 20000)
    check(client, 414, "uri_too_long")


def test_there_may_be_so_many_headers(client: Client) -> None:
    assert client.get("/", *["X-A: b"] * 19).status == 200
    client.send("GET / HTTP/1.1\r\nHost: a\r\n" + "X-A: b\r\n" * 20 + "\r\n")
    assert "20" in check(client, 431, "headers_too_large")


def test_a_header_may_be_so_long(client: Client) -> None:
    assert client.get("/", "X-A: " + "b" * 1000).status == 200
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX-A: " + "b" * 1001 + "\r\n\r\n")
    assert "1000" in check(client, 431, "headers_too_large")


@pytest.mark.parametrize(
    "head",
    ["X" * 900 + ": b", "X-A: " + "b" * 100_000, "\r\n".join(f"X-{n}: b" for n in range(9999))],
    ids=["name", "value", "number"],
)
def test_a_head_may_be_so_large_in_all(client: Client, head: str) -> None:
    client.send("GET / HTTP/1.1\r\nHost: a\r\n", head, "\r\n\r\n")
    check(client, 431, "headers_too_large")


@pytest.mark.parametrize("head", ["0\r\nX-A: ", "5;", "0\r\n" + "X-A: b\r\n" * 3000])
def test_what_is_around_chunks_may_be_so_large(client: Client, head: str) -> None:
    client.send(POST, "Transfer-Encoding: chunked\r\n\r\n", head, "x" * 20000)
    check(client, 431, "headers_too_large")


def test_line_ends_before_a_request_may_be_so_many(client: Client) -> None:
    client.send("\r\n" * 10000)
    check(client, 431, "headers_too_large")


def test_a_body_may_be_so_large(client: Client) -> None:
    assert client.post("/", b"x" * 10000).status == 200
    client.send(POST, "Transfer-Encoding: chunked\r\n\r\n2710\r\n", "x" * 10000, "\r\n0\r\n\r\n")
    assert client.answer().status == 200


def test_a_length_beyond_the_limit_is_refused_before_the_body(client: Client) -> None:
    client.send(POST, "Content-Length: 10001\r\n\r\n")
    assert "10000" in check(client, 413, "body_too_large")


def test_a_length_beyond_the_limit_is_not_asked_for(client: Client) -> None:
    client.send(POST, "Content-Length: 10001\r\nExpect: 100-continue\r\n\r\n")
    check(client, 413, "body_too_large")


def test_chunks_beyond_the_limit_are_refused_before_their_end(client: Client) -> None:
    client.send(POST, "Transfer-Encoding: chunked\r\n\r\n")
    client.send("1388\r\n" + "x" * 5000 + "\r\n", "1389\r\n" + "x" * 5001)
    assert "10000" in check(client, 413, "body_too_large")


def test_a_chunk_that_lies_about_its_size_is_counted(client: Client) -> None:
    client.send(POST, "Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n", "x" * 10001)
    check(client, 413, "body_too_large")


def test_a_refusal_reaches_a_client_that_sends_all_the_same(client: Client) -> None:
    client.send(POST, "Content-Length: 3000000\r\n\r\n", b"x" * 3_000_000)
    check(client, 413, "body_too_large")


# --- many at once, and clients that do not read


def test_half_sent_and_silent_requests_do_not_stop_others(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        others = [server.client() for _ in range(250)]
        for half in others[:50]:
            half.send("GET / HTTP/1.1\r\nHost: ")
        for _ in range(5):
            began = time.monotonic()
            assert server.get("/").status == 200
            assert time.monotonic() - began < 1
        for half in others[:50]:
            half.send("a\r\n\r\n")
            assert half.answer().status == 200


def test_a_client_that_does_not_read_costs_little(server: Server, client: Client) -> None:
    before = server.worker_memory()
    client.socket.settimeout(0.5)
    with pytest.raises(OSError):  # noqa: PT012
        while True:  # until the worker reads no more, or has lost patience
            client.send("GET /large?size=100000 HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
    assert server.get("/").status == 200
    assert server.worker_memory() - before < 20_000_000


def test_pipelined_answers_larger_than_the_buffers_arrive_whole(client: Client) -> None:
    client.send("GET /large?size=3000000 HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
    for _ in range(3):
        assert len(client.answer().body) == 3_000_000
    assert client.get("/").status == 200


def test_a_stream_goes_on_at_the_pace_of_its_reader(server: Server, client: Client) -> None:
    before = server.worker_memory()
    client.send("GET /forever HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(2000):
        client.exactly(65536)
        client.buffer = b""
    assert server.get("/").status == 200
    assert server.worker_memory() - before < 20_000_000


def test_beyond_so_many_connections_clients_wait_their_turn(tmp_path: Path) -> None:
    with serving(tmp_path, "LoopWorker.max_connections = 5") as server:
        clients = [server.client() for _ in range(8)]
        for client in clients:
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [client.answer().status for client in clients[:5]] == [200] * 5
        assert all(client.silent(0.05) for client in clients[5:])
        for at in range(3):
            clients[at].close()
            assert clients[5 + at].answer().status == 200


def test_without_files_left_it_waits_and_does_not_spin(tmp_path: Path) -> None:
    with serving(tmp_path, "LoopWorker.max_connections = 9999") as server:
        with server.client() as client:
            client.get("/")
            open_now = len(list(Path(f"/proc/{server.worker()}/fd").iterdir()))
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.prlimit(server.worker(), resource.RLIMIT_NOFILE, (open_now + 3, most))
            clients = [server.client() for _ in range(6)]
            for waiting in clients:
                waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            until(lambda: "Too many open files" in server.log.read_text(), "an error")
            used = server.worker_seconds()
            assert client.silent(1)
            assert server.worker_seconds() - used < 0.3
            assert client.get("/").status == 200
        for waiting in clients:
            assert waiting.answer().status == 200
            waiting.close()  # for the next
