"""An answer as bytes: its head, and the framing of its body.

Tables and functions only: nothing here knows a socket or a connection.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Environ = dict[str, Any]
Headers = Sequence[tuple[str, str]]

TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
STATUS = re.compile(r"[2-5]\d\d( [\t\x20-\x7e\x80-\xff]*)?")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
SIZE = b"Content-Length: %d\r\n"
CACHED = 1000  # entries of each table below: applications choose the keys


class BadAnswer(Exception):
    """The application's answer cannot be written as HTTP."""


PLAIN, LENGTH, OURS = range(3)
_THE_SERVERS = (
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
    *("proxy-connection", "te", "trailer", "trailers", "transfer-encoding", "upgrade"),
)
_kinds: dict[str, int] = {}
_statuses: dict[str, tuple[bytes, bool]] = {}


def _kind(name: str) -> int:
    if not TOKEN.fullmatch(name):
        raise BadAnswer("A header's name is no token.")
    low = name.lower()
    if low in _THE_SERVERS:
        raise BadAnswer(f"The header {name} is the server's.")
    kind = LENGTH if low == "content-length" else OURS if low in ("date", "server") else PLAIN
    if len(_kinds) < CACHED:
        _kinds[name] = kind
    return kind


def _status(status: str) -> tuple[bytes, bool]:
    """The first line, and whether answers of this status have no body."""
    if not STATUS.fullmatch(status):
        raise BadAnswer("The status is not one of HTTP's.")
    made = f"HTTP/1.1 {status}\r\n".encode("latin-1"), status[:3] in ("204", "304")
    if len(_statuses) < CACHED:
        _statuses[status] = made
    return made


def _fields(headers: Headers) -> tuple[bytes, int | None]:
    """The application's headers as bytes, and the Content-Length among them."""
    lines = []
    length = None
    for name, value in headers:
        kind = _kinds.get(name)
        if kind is None:
            kind = _kind(name)
        # What can be printed needs no closer look.
        if not value.isprintable() and not VALUE.fullmatch(value):
            raise BadAnswer(f"The value of {name} has control characters.")
        if kind == PLAIN:
            lines.append(f"{name}: {value}\r\n")
        elif kind == LENGTH:
            if length is not None or not (value.isascii() and value.isdigit()):
                raise BadAnswer("The Content-Length is not one number.")
            length = int(value)
    return "".join(lines).encode("latin-1"), length


def _end(environ: Environ, keep: bool) -> bytes:
    if not keep:
        return b"Connection: close\r\n\r\n"
    if environ["SERVER_PROTOCOL"] == "HTTP/1.0":
        return b"Connection: keep-alive\r\n\r\n"
    return b"\r\n"


def bodiless(environ: Environ, status: str) -> bool:
    """Whether the answer ends with its head, whatever its headers say."""
    _, empty = _statuses.get(status) or _status(status)
    return empty or environ["REQUEST_METHOD"] == "HEAD"


def whole(
    environ: Environ, status: str, headers: Headers, body: bytes, common: bytes, keep: bool
) -> bytes:
    """An answer whose body is known, head and body; raises ``BadAnswer``."""
    line, empty = _statuses.get(status) or _status(status)
    fields, length = _fields(headers)
    if empty or environ["REQUEST_METHOD"] == "HEAD":
        if length is None and body and not empty:
            length = len(body)
        body = b""
        size = b"" if length is None or status[:3] == "204" else SIZE % length
    elif length is None or length == len(body):
        size = SIZE % len(body)
    else:
        raise BadAnswer(f"The Content-Length is {length}, the body has {len(body)} bytes.")
    return b"".join((line, common, fields, size, _end(environ, keep), body))


def begun(
    environ: Environ, status: str, headers: Headers, common: bytes, keep: bool
) -> tuple[bytes, int | None, bool]:
    """The head of an answer whose body comes by and by, its length, and whether it is chunked.

    With neither the end of the connection ends it, so ``keep`` must be false.
    """
    line, _ = _statuses.get(status) or _status(status)
    fields, length = _fields(headers)
    chunked = length is None and environ["SERVER_PROTOCOL"] == "HTTP/1.1"
    size = b"Transfer-Encoding: chunked\r\n" if chunked else b""
    if length is not None:
        size = SIZE % length
    keep = keep and (chunked or length is not None)
    return b"".join((line, common, fields, size, _end(environ, keep))), length, chunked


def framed(pieces: Iterable[bytes], length: int | None, chunked: bool) -> Iterator[bytes]:
    """A body's pieces as they go over the wire; raises ``BadAnswer`` if they miss the length."""
    for piece in pieces:
        if not piece:
            continue
        if length is not None:
            length -= len(piece)
            if length < 0:
                raise BadAnswer("The body is longer than its Content-Length.")
        yield b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
    if length:
        raise BadAnswer("The body is shorter than its Content-Length.")
    if chunked:
        yield b"0\r\n\r\n"
