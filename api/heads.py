"""The head of a request: what it means to WSGI (PEP 3333), and what makes it refused.

Tables and functions only: nothing here knows a socket or a connection.
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
ABSOLUTE = re.compile(r"https?://([^/?@]+)(.*)", re.IGNORECASE)
CACHED = 1000  # entries of each table below: clients choose the keys

KEYS: dict[bytes, str] = {}
_hosts: set[str] = set()


def key(name: bytes) -> str:
    """The environ key of a header; raises ``Refusal`` for a name that would pass for another's."""
    if b"_" in name:
        raise Refusal("bad_request", "A header's name has an underscore.")
    made = name.decode("ascii").upper().replace("-", "_")
    if made not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        made = f"HTTP_{made}"
    if len(KEYS) < CACHED:
        KEYS[name] = made
    return made


def repeated(key: str, first: str, second: str) -> str:
    """The value of a header that was sent twice; raises ``Refusal`` where one must do."""
    if key == "HTTP_HOST":
        raise Refusal("bad_request", "There are two Host headers.")
    return f"{first}; {second}" if key == "HTTP_COOKIE" else f"{first},{second}"


def check_host(environ: Environ) -> None:
    """Raise ``Refusal`` unless the request names its host as its version asks for."""
    host = environ.get("HTTP_HOST")
    if host is None:
        if environ["SERVER_PROTOCOL"] == "HTTP/1.1":
            raise Refusal("bad_request", "The Host header is missing.")
    elif host not in _hosts:
        if not HOST.fullmatch(host):
            raise Refusal("bad_request", "The Host header is not a host.")
        if len(_hosts) < CACHED:
            _hosts.add(host)


def target(url: bytes, environ: Environ) -> None:
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
    return absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"


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


def forwarded(environ: Environ, proxies: Networks) -> None:
    """Believe what a trusted proxy says of its client.

    The client is the last hop that is not a proxy of ours: what stands before
    it in X-Forwarded-For, the client may have written itself.
    """
    for hop in reversed(environ.get("HTTP_X_FORWARDED_FOR", "").split(",")):
        client = address(hop.strip())
        if client is None:
            break
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = str(client), ""
        if not any(client in network for network in proxies):
            break
    scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").lower()
    if scheme in ("http", "https"):
        environ["wsgi.url_scheme"] = scheme


def check_expectation(environ: Environ) -> None:
    """Raise ``Refusal`` unless the client expects nothing but a word before it sends the body."""
    if environ["SERVER_PROTOCOL"] == "HTTP/1.0":
        del environ["HTTP_EXPECT"]  # RFC 9110, 10.1.1: not for HTTP/1.0
    elif environ["HTTP_EXPECT"].lower() != "100-continue":
        raise Refusal("expectation_failed", "The only expectation known is 100-continue.")


def replay(length: int | None) -> bytes:
    """A head that makes a parser expect a body of this length, or in chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode()
