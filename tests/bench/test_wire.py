"""Replies are read right however the bytes arrive."""

import pytest

from bench import wire
from bench.wire import Malformed, Reply

HTTP = {
    "with a length": (
        b"HTTP/1.1 201 CREATED\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello",
        b"hello",
    ),
    "length last": (b"HTTP/1.1 200 OK\r\nX-A: b\r\ncontent-length:5\r\n\r\nhello", b"hello"),
    "no body": (b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", b""),
    "in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        b"hello",
    ),
}
RESP = {
    "a status": (b"+OK\r\n", b"OK"),
    "an integer": (b":12\r\n", 12),
    "nothing": (b"*-1\r\n", None),
    "bytes with an end of line in them": (b"$4\r\na\r\nb\r\n", b"a\r\nb"),
    "lists in lists": (b"*2\r\n*1\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n", [[b"a"], [1, None]]),
}


def read_byte_by_byte(reader: wire.Reader, data: bytes) -> Reply:
    """What is found when each byte comes alone; nothing may be found before the last."""
    needed = 0
    for come in range(1, len(data)):
        found = reader(data[:come])
        assert isinstance(found, int)
        assert come < found <= len(data), "it must ask for more, and not for more than there is"
        assert found >= needed
        needed = found
    last = reader(data)
    assert isinstance(last, Reply)
    return last


@pytest.mark.parametrize("kind", HTTP)
def test_an_http_reply_is_read_when_its_last_byte_has_come(kind: str) -> None:
    data, body = HTTP[kind]
    reply = read_byte_by_byte(wire.http, data)
    assert (reply.status, reply.body) == (int(data[9:12]), body)
    assert reply.end == len(data)
    assert not reply.close


@pytest.mark.parametrize("kind", RESP)
def test_a_resp_reply_is_read_when_its_last_byte_has_come(kind: str) -> None:
    data, value = RESP[kind]
    reply = read_byte_by_byte(wire.resp, data)
    assert (reply.status, reply.body, reply.end) == (200, value, len(data))


def test_what_follows_a_reply_is_left_alone() -> None:
    data, _ = HTTP["with a length"]
    reply = wire.http(data + b"HTTP/1.1 500")
    assert isinstance(reply, Reply)
    assert reply.end == len(data)


def test_a_server_that_will_close_says_so() -> None:
    reply = wire.http(b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n")
    assert isinstance(reply, Reply)
    assert reply.close


def test_a_redis_error_is_a_failure() -> None:
    assert wire.resp(b"-ERR unknown\r\n") == Reply(500, b"ERR unknown", 14)


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n"])
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        wire.http(data)


def test_requests_are_written_as_http_has_them() -> None:
    head = b"Host: a\r\n"
    assert wire.request("GET", "/x", head) == b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
    assert wire.request("POST", "/x", head, b"{}") == (
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    assert wire.command(b"XADD", b"a") == b"*2\r\n$4\r\nXADD\r\n$1\r\na\r\n"
