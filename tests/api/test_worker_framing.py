"""The worker over raw sockets: requests that it must refuse, and how it says so."""

from collections.abc import Iterator

import pytest

from tests.api.rawhttp import Answer, Client, Server, serving

HOST = "Host: test\r\n"
CHUNKED = f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n"


def head(*headers: str, line: str = "POST / HTTP/1.1") -> str:
    return "\r\n".join([line, *headers, "", ""])


MALFORMED = {
    "nonsense": "\x16\x03\x01\x02\r\n\r\n",
    "method unknown": head(HOST[:-2], line="FETCH / HTTP/1.1"),
    "method in lower case": head(HOST[:-2], line="get / HTTP/1.1"),
    "tunnel": head(HOST[:-2], line="CONNECT test:80 HTTP/1.1"),
    "tunnel to a path": head(HOST[:-2], "Content-Length: 5", line="CONNECT / HTTP/1.1") + "hello",
    "tunnel to a URL": head(HOST[:-2], line="CONNECT http://test/ HTTP/1.1"),
    "tab in the request line": head(HOST[:-2], line="GET\t/\tHTTP/1.1"),
    "space in the target": head(HOST[:-2], line="GET /a b HTTP/1.1"),
    "space after the version": head(HOST[:-2], line="GET / HTTP/1.1 "),
    "target without a slash": head(HOST[:-2], line="GET path HTTP/1.1"),
    "target empty": head(HOST[:-2], line="GET  HTTP/1.1"),
    "target not ASCII": head(HOST[:-2], line="GET /\u00e9 HTTP/1.1"),
    "target with a control character": head(HOST[:-2], line="GET /\x7f HTTP/1.1"),
    "target with a fragment": head(HOST[:-2], line="GET /a#b HTTP/1.1"),
    "target of another scheme": head(HOST[:-2], line="GET ftp://test/ HTTP/1.1"),
    "target with a user": head(HOST[:-2], line="GET http://me@test/ HTTP/1.1"),
    "target without an authority": head(HOST[:-2], line="GET http:///a HTTP/1.1"),
    "star, but not OPTIONS": head(HOST[:-2], line="GET * HTTP/1.1"),
    "protocol in lower case": head(HOST[:-2], line="GET / http/1.1"),
    "protocol unknown": head(HOST[:-2], line="GET / HTCPCP/1.0"),
    "version with two digits": head(HOST[:-2], line="GET / HTTP/1.10"),
    "no Host": head("X-A: b"),
    "two Hosts": head("Host: a", "Host: a"),
    "two Hosts on 1.0": head("Host: a", "Host: a", line="GET / HTTP/1.0"),
    "Host with a space": head("Host: a b"),
    "Host with a path": head("Host: a/b"),
    "bare LF after the request line": f"GET / HTTP/1.1\n{HOST}\r\n",
    "bare LF after a header": "GET / HTTP/1.1\r\nHost: test\nX-A: b\r\n\r\n",
    "bare LF at the end": f"GET / HTTP/1.1\r\n{HOST}\n",
    "bare CR in the request line": f"GET / HTTP/1.1\rX: y\r\n{HOST}\r\n",
    "bare CR in a value": head("Host: test", "X-A: b\rc"),
    "NUL in a value": head("Host: test", "X-A: b\0c"),
    "control character in a value": head("Host: test", "X-A: b\x01c"),
    "folded header": head("Host: test", "X-A: b", " c"),
    "folded header, tab": head("Host: test", "X-A: b", "\tc"),
    "space before the first header": head(" Host: test"),
    "space before the colon": head("Host: test", "X-A : b"),
    "no colon": head("Host: test", "X-A"),
    "no name": head("Host: test", ": b"),
    "space in a name": head("Host: test", "X A: b"),
    "name not ASCII": head("Host: test", "X-\u00e9: b"),
    "underscore in a name": head("Host: test", "X_A: b"),
    "underscore in Content_Length": head("Host: test", "Content_Length: 4") + "GET ",
    "two lengths": head("Host: test", "Content-Length: 1", "Content-Length: 1") + "x",
    "two lengths that differ": head("Host: test", "Content-Length: 1", "Content-Length: 2") + "xx",
    "a list of lengths": head("Host: test", "Content-Length: 1, 1") + "x",
    "length with a sign": head("Host: test", "Content-Length: +1") + "x",
    "length below zero": head("Host: test", "Content-Length: -1"),
    "length in hex": head("Host: test", "Content-Length: 0x1") + "x",
    "length empty": head("Host: test", "Content-Length:"),
    "length in two parts": head("Host: test", "Content-Length: 1 1") + "x",
    "length beyond 64 bits": head("Host: test", "Content-Length: 99999999999999999999"),
    "length and chunks": head("Host: test", "Content-Length: 5", "Transfer-Encoding: chunked")
    + "0\r\n\r\n",
    "chunks and length": head("Host: test", "Transfer-Encoding: chunked", "Content-Length: 5")
    + "0\r\n\r\n",
    "chunks on 1.0": head("Transfer-Encoding: chunked", line="POST / HTTP/1.0") + "0\r\n\r\n",
    "gzip, chunked": head("Host: test", "Transfer-Encoding: gzip, chunked") + "0\r\n\r\n",
    "chunked, gzip": head("Host: test", "Transfer-Encoding: chunked, gzip") + "0\r\n\r\n",
    "gzip": head("Host: test", "Transfer-Encoding: gzip"),
    "identity": head("Host: test", "Transfer-Encoding: identity"),
    "nearly chunked": head("Host: test", "Transfer-Encoding: xchunked") + "0\r\n\r\n",
    "chunked with a vertical tab": head("Host: test", "Transfer-Encoding: \x0bchunked"),
    "chunked twice": head("Host: test", *["Transfer-Encoding: chunked"] * 2) + "0\r\n\r\n",
    "coding empty": head("Host: test", "Transfer-Encoding:") + "0\r\n\r\n",
    "chunk size in words": f"{CHUNKED}five\r\nhello\r\n0\r\n\r\n",
    "chunk size with 0x": f"{CHUNKED}0x5\r\nhello\r\n0\r\n\r\n",
    "chunk size with a sign": f"{CHUNKED}+5\r\nhello\r\n0\r\n\r\n",
    "chunk size below zero": f"{CHUNKED}-5\r\nhello\r\n0\r\n\r\n",
    "chunk size with an underscore": f"{CHUNKED}1_0\r\nhello\r\n0\r\n\r\n",
    "chunk size after a space": f"{CHUNKED} 5\r\nhello\r\n0\r\n\r\n",
    "chunk size before a space": f"{CHUNKED}5 \r\nhello\r\n0\r\n\r\n",
    "chunk size empty": f"{CHUNKED}\r\nhello\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": f"{CHUNKED}fffffffffffffffff\r\nhello",
    "chunk size with a bare LF": f"{CHUNKED}5\nhello\r\n0\r\n\r\n",
    "chunk too long": f"{CHUNKED}5\r\nhello!\r\n0\r\n\r\n",
    "chunk too short": f"{CHUNKED}5\r\nhell\r\n0\r\n\r\n",
    "chunk extension with a bare LF": f"{CHUNKED}5;a\nhello\r\n0\r\n\r\n",
    "folded trailer": f"{CHUNKED}0\r\nX-A: b\r\n c\r\n\r\n",
    "trailer without a colon": f"{CHUNKED}0\r\nX-A\r\n\r\n",
}

VERSIONS = {
    "none": "GET /\r\n\r\n",
    "0.9": head(HOST[:-2], line="GET / HTTP/0.9"),
    "1.2": head(HOST[:-2], line="GET / HTTP/1.2"),
    "2.0": head(HOST[:-2], line="GET / HTTP/2.0"),
    "2.0, in earnest": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "3.0": head(HOST[:-2], line="GET / HTTP/3.0"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def check(answer: Answer, status: int, code: str) -> None:
    """The answer is a problem document, the last of its connection."""
    problem = answer.json
    assert (answer.status, problem["status"], problem["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert set(problem) == {
        *("type", "title", "status", "detail", "code", "retryable", "hint", "request_id")
    }
    assert problem["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("request_", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_request_is_refused(client: Client, request_: str) -> None:
    client.send(request_)
    check(client.answer(), 400, "bad_request")
    assert client.ended()


@pytest.mark.parametrize("request_", VERSIONS.values(), ids=VERSIONS.keys())
def test_a_version_that_is_not_ours_is_refused(client: Client, request_: str) -> None:
    client.send(request_)
    check(client.answer(), 505, "http_version_not_supported")
    assert client.ended()


@pytest.mark.parametrize("request_", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_request_is_refused_byte_by_byte(server: Server, request_: str) -> None:
    with server.client() as client, server.client() as other:
        for byte in request_.encode():
            if not client.silent(0):
                break  # it has been refused before its end
            client.send(bytes([byte]))
            other.get("/")
        check(client.answer(), 400, "bad_request")
        assert client.ended()


@pytest.mark.parametrize(
    "wrong", ["bare LF at the end", "two lengths", "chunk too long", "no Host"]
)
def test_requests_before_a_malformed_one_are_answered(client: Client, wrong: str) -> None:
    client.send(f"GET /1 HTTP/1.1\r\n{HOST}\r\n" * 3 + MALFORMED[wrong])
    assert [client.answer().json["PATH_INFO"] for _ in range(3)] == ["/1"] * 3
    check(client.answer(), 400, "bad_request")
    assert client.ended()


def test_nothing_after_a_malformed_request_is_answered(client: Client) -> None:
    client.send(MALFORMED["two lengths"], f"GET /smuggled HTTP/1.1\r\n{HOST}\r\n" * 5)
    check(client.answer(), 400, "bad_request")
    assert client.ended()


def test_an_expectation_other_than_to_go_on_is_refused(client: Client) -> None:
    client.send(head("Host: test", "Expect: 200-ok", "Content-Length: 2"))
    check(client.answer(), 417, "expectation_failed")
    assert client.ended()


def test_a_refusal_reaches_a_client_that_is_still_sending(client: Client) -> None:
    client.send(head("Host: test", "Host: test", "Content-Length: 900000"))
    for _ in range(90):
        client.send(b"x" * 10000)
    check(client.answer(), 400, "bad_request")
    client.socket.shutdown(1)
    assert client.ended()


def test_the_application_sees_none_of_it(server: Server) -> None:
    with server.client() as client:
        client.get("/events")
        for request in (*MALFORMED.values(), *VERSIONS.values()):
            with server.client() as wrong:
                wrong.send(request.replace(" / ", " /crash "))
                assert wrong.answer().json["code"] != "internal_error"
