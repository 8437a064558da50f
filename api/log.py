"""The log: one line of JSON a request, on standard error.

It holds the route's pattern, never a query, a header, a content or what stood
in the path: any of those may be a secret.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from inbox.message import timestamp


def at_once(flush: Callable[[], None]) -> None:
    """Write each line as it comes."""
    flush()


soon = at_once  # a server with a loop sets this, to write once a round
_held: list[tuple[str, tuple[Any, ...]]] = []
_holding = threading.Lock()  # the loop and the threads beside it all have something to say


def request(environ: Mapping[str, Any], status: int, seconds: float) -> None:
    """Write what was asked and how it was answered."""
    route = environ.get("taskpost.route")
    pattern = route.pattern if route is not None else None
    said = _said(pattern, environ.get("REQUEST_METHOD", "")[:20], status)
    # No value needs escaping: a request's id is of our own making, or has been checked.
    _write(said, time.time_ns(), seconds * 1000, environ["taskpost.request_id"])


@lru_cache(1000)
def _said(pattern: str | None, method: str, status: int) -> str:
    """The line of a request; to be filled in: its time, how long it took, its id."""
    level = "error" if status >= 500 else "info"
    same = {"level": level, "event": "request", "method": method, "route": pattern}
    text = msgspec.json.encode({**same, "status": status}).decode().replace("%", "%%")
    return f'{{"time":"%s",{text[1:-1]},"ms":%.3f,"request_id":"%s"}}'


def failure(error: BaseException, **said: Any) -> None:
    """Write where a mistake of ours happened: the places, not the values that were there."""
    frames = traceback.extract_tb(error.__traceback__)
    write(
        level="error",
        event="failure",
        error=type(error).__name__,
        at=[f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-8:]],
        **said,
    )


def write(**fields: Any) -> None:
    """Write one line."""
    text = msgspec.json.encode(fields).decode().replace("%", "%%")
    _write('{"time":"%s",' + text[1:], time.time_ns())


def _write(said: str, *values: Any) -> None:
    """Write a line, into which its time and other values are put once it goes out."""
    with _holding:
        _held.append((said, values))
        first = len(_held) == 1
    if first:
        soon(flush)


def flush() -> None:
    """Write the lines that have been held back."""
    with _holding:
        held = _held.copy()
        _held.clear()
    lines = [said % (timestamp(at // 1_000_000), *values) + "\n" for said, (at, *values) in held]
    sys.stderr.buffer.write("".join(lines).encode())
    sys.stderr.buffer.flush()
