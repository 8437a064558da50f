"""Bytes on the wire: how requests are written and replies are read, HTTP/1.1 and Redis' RESP.

A reader is given all bytes received since the request and says either what
the reply is, or how many bytes there must be before it is worth asking again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Malformed(ValueError):
    """Bytes that are no reply, or more of them than were asked for."""


class Reply(NamedTuple):
    """One reply. ``body`` is bytes for HTTP, a Python value for RESP."""

    status: int
    body: Any
    end: int  # how many of the bytes it took
    close: bool = False  # the server will say no more on this connection


Reader = Callable[[bytes], Reply | int]


def request(method: str, path: str, head: bytes, body: bytes | None = None) -> bytes:
    """An HTTP request; ``head`` are complete header lines."""
    if body is None:
        return b"%s %s HTTP/1.1\r\n%s\r\n" % (method.encode(), path.encode(), head)
    return b"%s %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        method.encode(),
        path.encode(),
        head,
        len(body),
        body,
    )


def http(data: bytes) -> Reply | int:
    """Read an HTTP reply with a length or in chunks; what ends with the connection is refused."""
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        return len(data) + 1
    if not data.startswith(b"HTTP/1.") or not data[9:12].isdigit():
        raise Malformed(repr(data[:60]))
    status = int(data[9:12])
    head = data[: end - 2].lower()
    close = b"\r\nconnection: close\r\n" in head
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        length = int(head[at + 17 : head.find(b"\r\n", at + 17)])
    elif b"\r\ntransfer-encoding: chunked\r\n" in head:
        return _chunked(data, end, status, close)
    elif status in (204, 304):
        length = 0
    else:
        raise Malformed(f"neither a length nor chunks: {head!r}")
    if len(data) < end + length:
        return end + length
    return Reply(status, data[end : end + length], end + length, close)


def _chunked(data: bytes, at: int, status: int, close: bool) -> Reply | int:
    parts = []
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].split(b";")[0], 16)
        start, at = line + 2, line + 2 + size + 2
        if len(data) < at:
            break
        if not size:
            return Reply(status, b"".join(parts), at, close)
        parts.append(data[start : start + size])
    return len(data) + 1


def command(*words: bytes) -> bytes:
    """A Redis command."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def resp(data: bytes) -> Reply | int:
    """Read a RESP reply: bytes, int, None or a list of them; an error has status 500."""
    found = _value(data, 0)
    if found is None:
        return len(data) + 1
    value, end = found
    return Reply(500 if data.startswith(b"-") else 200, value, end)


def beanstalk(data: bytes) -> Reply | int:
    """Read a reply of beanstalkd: the id of a reserved job, else its line; 500 when it refuses."""
    line = data.find(b"\r\n")
    if line < 0:
        return len(data) + 1
    word, *more = data[:line].split(b" ")
    if word == b"RESERVED":
        end = line + 2 + int(more[1]) + 2
        return Reply(200, more[0], end) if len(data) >= end else end
    done = word in (b"INSERTED", b"DELETED")
    return Reply(200 if done else 500, data[:line], line + 2)


def _value(data: bytes, at: int) -> tuple[Any, int] | None:
    line = data.find(b"\r\n", at)
    if line < 0:
        return None
    kind, text, end = data[at : at + 1], data[at + 1 : line], line + 2
    if kind in b"+-":
        return text, end
    if kind == b":":
        return int(text), end
    if kind not in (b"$", b"*"):
        raise Malformed(repr(data[at : at + 60]))
    length = int(text)
    if length < 0:
        return None, end
    return _items(data, end, length) if kind == b"*" else _bulk(data, end, length)


def _bulk(data: bytes, start: int, length: int) -> tuple[bytes, int] | None:
    end = start + length + 2
    return (data[start : end - 2], end) if len(data) >= end else None


def _items(data: bytes, at: int, count: int) -> tuple[list[Any], int] | None:
    items = []
    for _ in range(count):
        found = _value(data, at)
        if found is None:
            return None
        item, at = found
        items.append(item)
    return items, at
