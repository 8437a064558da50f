"""The head of a request: what it means to WSGI (PEP 3333), and what makes it refused.

Nothing here knows a socket or a connection.
"""

import ipaddress
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from api.refusals import Refusal

Environ = dict[str, Any]
Networks = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]

HOST = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")
ABSOLUTE = re.compile(r"https?://([^/?]+)([/?].*)?", re.IGNORECASE)
LONGEST_NAME = 300  # bytes of a host or of a header's name
CACHED = 1000  # entries of each table below: clients choose the keys


class Familiar:
    """Heads that have come before, byte for byte, at one listening socket.

    Agents ask the same thing over and over; what a head means need not be
    found out each time. ``heads`` has the environ and the body's length for
    each: never to be written to. ``base`` is what every environ begins with.
    """

    MOST = 500
    LONGEST = 2048  # bytes

    def __init__(self, base: Environ) -> None:
        self.base = base
        self.heads: dict[bytes, tuple[Environ, int]] = {}
        self.met: set[int] = set()

    def meet(self, head: bytes, environ: Environ, length: int) -> None:
        """Keep a good head, once it has come twice: most of those that are unique never do."""
        if len(head) > self.LONGEST:
            return
        mark = hash(head)
        if mark in self.met:
            if len(self.heads) >= self.MOST:
                self.heads.clear()
            self.heads[head] = environ, length
            return
        if len(self.met) >= 10 * self.MOST:
            self.met.clear()
        self.met.add(mark)


VERSIONS = {"1.1": "HTTP/1.1", "1.0": "HTTP/1.0"}
VERSIONS_KNOWN = "The version is not 1.1 or 1.0."

_keys: dict[bytes, str] = {}
_hosts: set[str] = set()
_methods: dict[bytes, str] = {}


def request_line(environ: Environ, method: bytes, url: bytes, version: str, most: int) -> None:
    """Take in the first line of a request, of at most so many bytes; raises ``Refusal``."""
    protocol = VERSIONS.get(version)
    if protocol is None:
        raise Refusal("http_version_not_supported", VERSIONS_KNOWN)
    environ["SERVER_PROTOCOL"] = protocol
    if len(method) + len(url) + len("  HTTP/1.1") > most:
        raise Refusal("uri_too_long", f"The limit is {most} bytes.")
    name = _methods.get(method)
    if name is None:
        if method == b"CONNECT":
            # Not to be ignored: the parser takes what follows for the tunnel, a body too.
            raise Refusal("bad_request", "This is no proxy.")
        name = _methods[method] = method.decode("ascii")  # llhttp knows some fifty, not more
    environ["REQUEST_METHOD"] = name


def fields(environ: Environ, raw: Sequence[bytes], most: int, size: int) -> None:
    """Take in the headers, names and values in turns; raises ``Refusal``.

    There may be ``most`` of them, of ``size`` bytes each.
    """
    if len(raw) > 2 * most:
        raise Refusal("headers_too_large", f"The limit is {most} headers.")
    turns = iter(raw)
    for name in turns:
        value = next(turns)
        if len(value) > size:
            raise Refusal("headers_too_large", f"The limit is {size} bytes for each header.")
        key = _keys.get(name) or _key(name)
        text = value.strip().decode("latin-1")
        if key in environ:
            text = _repeated(environ, key, text)
        environ[key] = text
    _check_host(environ, environ.get("HTTP_HOST"))
    if "HTTP_EXPECT" in environ:
        _check_expectation(environ)


def _key(name: bytes) -> str:
    """The environ's key for a header; raises ``Refusal`` for a name that could pass for another."""
    if b"_" in name:
        raise Refusal("bad_request", "A header's name has an underscore.")
    if len(name) > LONGEST_NAME:
        raise Refusal("headers_too_large", f"The limit for a name is {LONGEST_NAME} bytes.")
    made = name.decode("ascii").upper().replace("-", "_")
    if made not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        made = f"HTTP_{made}"
    if len(_keys) < CACHED:
        _keys[name] = made
    return made


def _repeated(environ: Environ, key: str, text: str) -> str:
    """The value of a header that comes again; raises ``Refusal`` where there may be only one."""
    if key == "HTTP_HOST":
        raise Refusal("bad_request", "There are two Host headers.")
    return f"{environ[key]}; {text}" if key == "HTTP_COOKIE" else f"{environ[key]},{text}"


def _check_host(environ: Environ, host: str | None) -> None:
    if host is None:
        if environ["SERVER_PROTOCOL"] == "HTTP/1.1":
            raise Refusal("bad_request", "The Host header is missing.")
    elif host not in _hosts:
        if len(host) > LONGEST_NAME or not HOST.fullmatch(host):
            raise Refusal("bad_request", "The Host header is not a host.")
        if len(_hosts) < CACHED:
            _hosts.add(host)


def _check_expectation(environ: Environ) -> None:
    """Nothing may be expected but a word before the body is sent."""
    if environ["SERVER_PROTOCOL"] == "HTTP/1.0":
        del environ["HTTP_EXPECT"]  # RFC 9110, 10.1.1: not for HTTP/1.0
    elif environ["HTTP_EXPECT"].lower() != "100-continue":
        raise Refusal("expectation_failed", "The only expectation known is 100-continue.")


def target(environ: Environ, url: bytes) -> None:
    """Take a request's target apart, as PEP 3333 has it; raises ``Refusal``."""
    text = environ["RAW_URI"] = url.decode("latin-1")
    if text[0] != "/":
        text = _other_form(text, environ)
    if "#" in text:
        raise Refusal("bad_request", "The target has a fragment.")
    path, _, environ["QUERY_STRING"] = text.partition("?")
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path


def _other_form(text: str, environ: Environ) -> str:
    if text == "*" and environ["REQUEST_METHOD"] == "OPTIONS":
        return text
    absolute = ABSOLUTE.fullmatch(text)
    if absolute is None or not HOST.fullmatch(absolute[1]):
        raise Refusal("bad_request", "The target is neither a path nor an http URL.")
    # RFC 9112, 3.2.2: the authority of the target counts, not that of the Host header.
    environ["HTTP_HOST"] = absolute[1]
    rest = absolute[2] or ""
    return rest if rest.startswith("/") else f"/{rest}"


def body_length(environ: Environ) -> int | None:
    """How many bytes of body follow the head, None when it comes in chunks; raises ``Refusal``."""
    coding = environ.get("HTTP_TRANSFER_ENCODING")
    if coding is None:
        return int(environ.get("CONTENT_LENGTH", 0))
    if environ["SERVER_PROTOCOL"] == "HTTP/1.0" or "CONTENT_LENGTH" in environ:
        raise Refusal("bad_request", "The body's length is ambiguous.")
    if coding.lower() != "chunked":
        raise Refusal("bad_request", "The only Transfer-Encoding is chunked.")
    return None


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in a peer's name or a hop of X-Forwarded-For, with or without a port."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def forwarded(environ: Environ, peer: tuple[str, str], proxies: Networks) -> tuple[str, str]:
    """Believe what a trusted proxy, the peer, says of its client; returns that one's address.

    The client is the last hop that is not a proxy of ours: what stands before
    it in X-Forwarded-For, the client may have written itself.
    """
    for hop in reversed(environ.get("HTTP_X_FORWARDED_FOR", "").split(",")):
        client = address(hop.strip())
        if client is None:
            break
        peer = str(client), ""
        if not any(client in network for network in proxies):
            break
    scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").lower()
    if scheme in ("http", "https"):
        environ["wsgi.url_scheme"] = scheme
    return peer


def replay(length: int | None) -> bytes:
    """A head that makes a parser expect a body of this length, or in chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode()
