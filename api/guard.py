"""Open mode's guard: without credentials, only this machine's own programs are served.

A page in a browser could otherwise send here on behalf of whoever runs the
browser; it cannot hide its origin, nor the name that it asked for.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from inbox.errors import ForeignRequest

LOCAL = ("localhost", "127.0.0.1", "[::1]")


@lru_cache(100)
def _is_local(host: str) -> bool:
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() and name else host).lower() in LOCAL


def local(environ: Mapping[str, Any]) -> None:
    """Raise ``ForeignRequest`` for a request that a foreign page could have made."""
    host = environ.get("HTTP_HOST", "")
    if not _is_local(host):
        raise ForeignRequest(f"The Host {host[:100]!r} is not this machine's.")
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin.lower() != f"{environ['wsgi.url_scheme']}://{host}".lower():
        raise ForeignRequest(f"A page of {origin[:100]!r} has no business here.")
