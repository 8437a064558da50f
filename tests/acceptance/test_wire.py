"""The wire: what real sockets bring that a test client does not. No hang, no 5xx, nothing stored.

What the worker itself refuses, before the service sees it, is a problem
document as well.
"""

import contextlib
import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.acceptance.clients import Client
from tests.acceptance.server import Server, running

MOST = 1 << 20  # the largest body by default, in bytes
PATIENCE = 20.0  # seconds within which everything must have been answered
SMALL = b'{"from": "alice", "type": "request", "content": "hello"}'
BIG = SMALL.replace(b"hello", b"x" * (3 << 20))


class Answer(NamedTuple):
    """One response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        """The document that it is."""
        assert "json" in self.headers["Content-Type"], self
        return json.loads(self.body)


class Kept:
    """A connection from which ``http.client`` reads one response after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self.file = connection.makefile("rb")

    def makefile(self, mode: str) -> "Kept":
        """Itself."""
        return self

    def close(self) -> None:
        """Stay open for the next response."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service for all the tests of this file; none may end its worker, or find a mistake."""
    folder = tmp_path_factory.mktemp("wire")
    with running(f"sqlite:///{folder}/a.db") as server:
        workers = server.workers()
        yield server
        assert server.workers() == workers
        assert "Traceback" not in server.log()
        assert '"failure"' not in server.log()


@pytest.fixture
def box(request: pytest.FixtureRequest) -> str:
    """The name of this test's inbox."""
    return f"box-{abs(hash(request.node.nodeid))}"


def head(method: str, path: str, *headers: str, version: str = "HTTP/1.1") -> bytes:
    """The head of a request, with the Host that is due."""
    return "\r\n".join([f"{method} {path} {version}", "Host: localhost", *headers, "", ""]).encode()


def post(box: str, body: bytes, *headers: str) -> bytes:
    """A whole request that sends, with an honest length."""
    return head("POST", f"/agents/{box}/inbox", f"Content-Length: {len(body)}", *headers) + body


def chunks(body: bytes, size: int) -> bytes:
    """A body in chunks of a size."""
    parts = [body[place : place + size] for place in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])


def ask(
    server: Server, *parts: bytes, methods: tuple[str, ...] = ("POST",), ends: bool = False
) -> list[Answer]:
    """Send the parts as they are; the answers to requests of these methods, in order.

    There are fewer when the server closes the connection. The client closes
    its side after the last part when it ``ends``; else it falls silent.
    """
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        sending = threading.Thread(target=send, args=(connection, parts, ends))
        sending.start()
        answers = list(read(connection, methods))
        with contextlib.suppress(OSError):  # it may be closed already
            connection.shutdown(socket.SHUT_RDWR)
        sending.join(PATIENCE)
        assert not sending.is_alive()
    return answers


def send(connection: socket.socket, parts: tuple[bytes, ...], ends: bool) -> None:
    """Send all, or as much as the server takes."""
    with contextlib.suppress(OSError):
        for part in parts:
            connection.sendall(part)
        if ends:
            connection.shutdown(socket.SHUT_WR)


def read(connection: socket.socket, methods: tuple[str, ...]) -> Iterator[Answer]:
    """The answers, until the server closes the connection."""
    kept = Kept(connection)
    with contextlib.closing(kept.file):
        for method in methods:
            answer = http.client.HTTPResponse(kept, method=method)  # type: ignore[arg-type]
            try:
                answer.begin()
            except http.client.RemoteDisconnected:
                return
            yield Answer(answer.status, answer.headers, answer.read())


def stored(server: Server, box: str) -> list[Any]:
    """The contents of the messages in an inbox."""
    with Client(server.port, "reader") as reader:
        return [message["content"] for message in reader.pages(f"/agents/{box}/inbox")]


def refused(answer: Answer, status: int) -> Any:
    """The problem document of an answer of this status."""
    assert answer.status == status, answer
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.json


class TestLargeBodies:
    """Case 61."""

    def test_an_honest_length(self, server: Server, box: str) -> None:
        problem = refused(ask(server, post(box, BIG))[0], 413)
        assert str(MOST) in problem["detail"]
        assert stored(server, box) == []

    def test_a_body_that_waits_to_be_asked_for_is_refused_by_its_length(
        self, server: Server, box: str
    ) -> None:
        request = post(box, BIG, "Expect: 100-continue").removesuffix(BIG)
        problem = refused(ask(server, request)[0], 413)
        assert str(MOST) in problem["detail"]
        assert stored(server, box) == []

    def test_a_body_that_waits_to_be_asked_for_is_asked_for(self, server: Server, box: str) -> None:
        request = post(box, SMALL, "Expect: 100-continue").removesuffix(SMALL)
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
            connection.sendall(request)
            assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
            connection.sendall(SMALL)
            assert connection.recv(4096).startswith(b"HTTP/1.1 201 ")
        assert stored(server, box) == ["hello"]

    @pytest.mark.parametrize("size", [1 << 12, 1 << 16, len(BIG)])
    def test_chunks_without_a_length(self, server: Server, box: str, size: int) -> None:
        start = head("POST", f"/agents/{box}/inbox", "Transfer-Encoding: chunked")
        problem = refused(ask(server, start, chunks(BIG, size))[0], 413)
        assert str(MOST) in problem["detail"]
        assert stored(server, box) == []

    def test_a_length_that_promises_more_than_comes(self, server: Server, box: str) -> None:
        request = post(box, BIG).removesuffix(BIG) + SMALL
        problem = refused(ask(server, request)[0], 413)
        assert str(MOST) in problem["detail"]
        assert stored(server, box) == []

    def test_a_length_that_promises_less_than_comes(self, server: Server, box: str) -> None:
        start = head("POST", f"/agents/{box}/inbox", "Content-Length: 20")
        answers = ask(server, start, BIG, methods=("POST",) * 3, ends=True)
        refused(answers[0], 400)
        assert all(400 <= answer.status < 500 for answer in answers)
        assert stored(server, box) == []

    def test_no_length_at_all(self, server: Server, box: str) -> None:
        start = head("POST", f"/agents/{box}/inbox")
        answers = ask(server, start, BIG, methods=("POST",) * 3, ends=True)
        assert answers
        assert all(400 <= answer.status < 500 for answer in answers)
        assert stored(server, box) == []

    @pytest.mark.parametrize("missing", [1, 20])
    def test_a_body_that_breaks_off_is_not_stored(
        self, server: Server, box: str, missing: int
    ) -> None:
        body = SMALL + b" " * missing  # what comes is whole JSON
        answers = ask(server, post(box, body).rstrip(), ends=True)
        assert all(answer.status == 400 for answer in answers)
        assert stored(server, box) == []


class TestChunks:
    """A chunked body, well and badly made."""

    @pytest.mark.parametrize("size", [1, 7, 1000])
    def test_any_size_of_chunks(self, server: Server, box: str, size: int) -> None:
        start = head("POST", f"/agents/{box}/inbox", "Transfer-Encoding: chunked")
        assert ask(server, start + chunks(SMALL, size))[0].status == 201
        assert stored(server, box) == ["hello"]

    def test_trailers_are_no_headers(self, server: Server, box: str) -> None:
        start = head("POST", f"/agents/{box}/inbox", "Transfer-Encoding: chunked")
        body = chunks(SMALL, 100).removesuffix(b"\r\n") + b"Taskpost-Agent: mallory\r\n\r\n"
        (answer,) = ask(server, start + body)
        assert (answer.status, answer.json["from"]) == (201, "alice")

    @pytest.mark.parametrize(
        "body",
        [b"zz\r\n" + SMALL, b"-5\r\nhello\r\n", b"5\r\nhelloworld\r\n0\r\n\r\n", b"5;\n\r\nhello"],
        ids=["no-number", "negative", "too-long", "line-feed"],
    )
    def test_a_chunk_that_is_none_is_refused(self, server: Server, box: str, body: bytes) -> None:
        start = head("POST", f"/agents/{box}/inbox", "Transfer-Encoding: chunked")
        (answer,) = ask(server, start + body, ends=True)
        assert answer.status == 400
        assert stored(server, box) == []

    def test_chunks_that_break_off_are_not_stored(self, server: Server, box: str) -> None:
        start = head("POST", f"/agents/{box}/inbox", "Transfer-Encoding: chunked")
        whole = chunks(SMALL, 100)
        answers = ask(server, start + whole.removesuffix(b"0\r\n\r\n"), ends=True)
        assert all(answer.status == 400 for answer in answers)
        assert stored(server, box) == []

    @pytest.mark.parametrize(
        "headers",
        [
            ("Transfer-Encoding: chunked", "Content-Length: 5"),
            ("Content-Length: 5", "Content-Length: 6"),
            ("Content-Length: +5",),
            ("Content-Length: -5",),
            ("Content-Length: 5_0",),
            ("Content-Length: 0x5",),
            ("Transfer-Encoding: chunked, chunked",),
            ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ],
        ids=", ".join,
    )
    def test_two_readings_of_where_a_body_ends_are_refused(
        self, server: Server, box: str, headers: tuple[str, ...]
    ) -> None:
        start = head("POST", f"/agents/{box}/inbox", *headers)
        answers = ask(server, start + chunks(SMALL, 100), methods=("POST", "POST"), ends=True)
        assert answers[0].status in (400, 501), answers
        assert stored(server, box) == []


class TestGzip:
    """Case 62."""

    def test_a_compressed_body_is_read(self, server: Server, box: str) -> None:
        packed = gzip.compress(SMALL)
        assert ask(server, post(box, packed, "Content-Encoding: gzip"))[0].status == 201
        assert stored(server, box) == ["hello"]

    def test_a_bomb_is_cut_off(self, server: Server, box: str) -> None:
        bomb = gzip.compress(SMALL.replace(b"hello", b"0" * (200 << 20)), 9)
        assert len(bomb) < MOST
        problem = refused(ask(server, post(box, bomb, "Content-Encoding: gzip"))[0], 413)
        assert str(MOST) in problem["detail"]
        assert stored(server, box) == []

    @pytest.mark.parametrize("cut", [1, 8, 30])
    def test_half_of_it_is_refused(self, server: Server, box: str, cut: int) -> None:
        packed = gzip.compress(SMALL)[:-cut]
        refused(ask(server, post(box, packed, "Content-Encoding: gzip"))[0], 400)
        assert stored(server, box) == []

    @pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip", "x"])
    def test_another_encoding_is_refused_with_what_would_do(
        self, server: Server, box: str, encoding: str
    ) -> None:
        request = post(box, gzip.compress(SMALL), f"Content-Encoding: {encoding}")
        problem = refused(ask(server, request)[0], 415)
        assert "gzip" in problem["hint"]
        assert stored(server, box) == []


class TestPipelining:
    """Several requests on one connection, the later ones sent before the first is answered."""

    def test_answers_come_in_order(self, server: Server, box: str) -> None:
        sends = [post(box, SMALL.replace(b"hello", b"%d" % number)) for number in range(5)]
        looks = [head(method, f"/agents/{box}/inbox") for method in ("HEAD", "GET")]
        answers = ask(server, b"".join(sends + looks), methods=(*["POST"] * 5, "HEAD", "GET"))
        assert [answer.status for answer in answers] == [201] * 5 + [200, 200]
        ids = [answer.json["id"] for answer in answers[:5]]
        page = answers[-1].json["messages"]
        assert [message["id"] for message in page] == ids
        assert [message["content"] for message in page] == list("01234")
        assert answers[-2].body == b""

    def test_a_refusal_does_not_disturb_what_follows(self, server: Server, box: str) -> None:
        requests = [post(box, b"{"), head("GET", "/nowhere"), post(box, SMALL)]
        answers = ask(server, *requests, methods=("POST", "GET", "POST"))
        assert [answer.status for answer in answers] == [400, 404, 201]
        assert stored(server, box) == ["hello"]

    def test_bytes_that_come_one_by_one(self, server: Server, box: str) -> None:
        parts = [bytes([byte]) for byte in post(box, SMALL) + post(box, SMALL)]
        answers = ask(server, *parts, methods=("POST", "POST"))
        assert [answer.status for answer in answers] == [201, 201]

    def test_a_body_that_nobody_reads_is_not_the_next_request(
        self, server: Server, box: str
    ) -> None:
        inner = post(box, SMALL)
        outer = head("GET", "/health", f"Content-Length: {len(inner)}") + inner
        answers = ask(
            server, outer, head("GET", "/health"), methods=("GET", "GET", "GET"), ends=True
        )
        assert [answer.status for answer in answers] in ([200, 200], [200], [400])
        assert stored(server, box) == []

    def test_http_1_0_is_answered_and_closed(self, server: Server) -> None:
        request = head("GET", "/health", version="HTTP/1.0")
        answers = ask(server, request, request, methods=("GET", "GET"))
        assert [answer.status for answer in answers] == [200]

    def test_connection_close_is_kept_to(self, server: Server) -> None:
        request = head("GET", "/health", "Connection: close")
        answers = ask(server, request, request, methods=("GET", "GET"))
        assert [answer.status for answer in answers] == [200]


LONG, WIDE = "x" * 9000, "x" * 8000


class TestWhatTheServerAnswersItself:
    """Case 66, its second half: refused before the service sees it."""

    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (head("GET", f"/{LONG}"), 414),
            (head("GET", f"/health?{LONG}"), 414),
            (head("GET", "/health", f"X-Long: {LONG}"), 431),
            (head("GET", "/health", *(f"X-{number}: 1" for number in range(200))), 431),
            (head("GET", "/health", *(f"X-{number}: {WIDE}" for number in range(90))), 431),
            (b"GARBAGE\r\n\r\n", 400),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400),
            (head("BREW", "/health"), 400),
            (b"GET /health\r\n\r\n", 505),
            (head("GET", "/health", version="HTTP/9.9"), 505),
            (head("GET", "/health", version="HTTP/2.0"), 505),
            (head("GET", "/health", "X Y: 1"), 400),
            (head("GET", "/health", "X-Y : 1"), 400),
            (head("GET", "/health", "no colon"), 400),
            (head("GET", "/health", "X-Y: a\x00b"), 400),
            (head("GET", "/health", "X-Y: a\rb: c"), 400),
            (head("GET", "/health", "X-Y: 1", " folded"), 400),
            (head("GET", "/health", "Expect: a-miracle"), 417),
            (b"GET /agents HTTP/1.1\r\n\r\n", 400),
            (b"GET /agents HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", 400),
        ],
        ids=[
            "path", "query", "header", "many headers", "much header", "garbage", "tls",
            "method", "http 0.9", "http 9.9", "http 2.0", "space in name", "space after name",
            "no colon", "nul", "carriage return", "folded", "expectation", "no host", "two hosts",
        ],
    )  # fmt: skip
    def test_it_is_refused_and_the_connection_closed(
        self, server: Server, request_bytes: bytes, status: int
    ) -> None:
        answers = ask(server, request_bytes, head("GET", "/health"), methods=("GET", "GET"))
        assert [answer.status for answer in answers] == [status]
        assert refused(answers[0], status)["hint"]

    def test_a_head_that_never_ends_does_not_keep_others_waiting(self, server: Server) -> None:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
            assert ask(server, head("GET", "/health"), methods=("GET",))[0].status == 200


class TestProblems:
    """Case 66, its first half: problem documents over a real socket."""

    @pytest.mark.parametrize("path", ["/nowhere", "/agents//inbox", "/agents/a/b/c", "/%00"])
    def test_an_unknown_path(self, server: Server, path: str) -> None:
        problem = refused(ask(server, head("GET", path), methods=("GET",))[0], 404)
        assert problem["hint"]

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE"])
    def test_a_wrong_method(self, server: Server, box: str, method: str) -> None:
        (answer,) = ask(server, head(method, f"/agents/{box}/inbox"), methods=(method,))
        refused(answer, 405)
        assert answer.headers["Allow"] == "GET, HEAD, OPTIONS, POST"

    @pytest.mark.parametrize("body", [b"{", b"[]", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"x" * 5000])
    def test_a_body_that_is_no_object(self, server: Server, box: str, body: bytes) -> None:
        problem = refused(ask(server, post(box, body))[0], 400)
        assert problem["code"] == "invalid_json"
        assert stored(server, box) == []


class TestMethods:
    """Case 67."""

    @pytest.mark.parametrize("path", ["/health", "/openapi.yaml", "/agents", "/", "/nowhere"])
    def test_head_is_get_without_the_body(self, server: Server, path: str) -> None:
        requests = [head(method, path) for method in ("HEAD", "GET")]
        bare, full = ask(server, *requests, methods=("HEAD", "GET"))
        assert bare.status == full.status
        assert bare.body == b""
        changing = {"date", "x-request-id"} | ({"content-length"} if full.status == 404 else set())
        kept = [
            {
                key.lower(): value
                for key, value in answer.headers.items()
                if key.lower() not in changing
            }
            for answer in (bare, full)
        ]
        assert kept[0] == kept[1]

    @pytest.mark.parametrize("path", ["/agents/{box}/inbox", "/agents", "/health"])
    def test_options_names_the_methods_and_changes_nothing(
        self, server: Server, box: str, path: str
    ) -> None:
        origin = f"Origin: http://localhost:{server.port}"
        asked = head("OPTIONS", path.format(box=box), origin, "Access-Control-Request-Method: POST")
        (answer,) = ask(server, asked, methods=("OPTIONS",))
        assert (answer.status, answer.body) == (204, b"")
        assert {"GET", "HEAD", "OPTIONS"} <= set(answer.headers["Allow"].split(", "))
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert stored(server, box) == []

    def test_there_is_no_cors(self, server: Server) -> None:
        asked = head("GET", "/agents", f"Origin: http://localhost:{server.port}")
        for request in (asked, asked.replace(b"localhost:", b"example.org:")):
            (answer,) = ask(server, request, methods=("GET",))
            named = [name for name in answer.headers if name.lower().startswith("access-control")]
            assert named == []
