"""The log: one line of JSON a request, on standard error.

It holds the route's pattern, never a query, a header, a content or what stood
in the path: any of those may be a secret.
"""

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from inbox.message import timestamp


def at_once(flush: Callable[[], None]) -> None:
    """Write each line as it comes."""
    flush()


soon = at_once  # a server with a loop sets this, to write once a round
_held: list[bytes] = []


def request(environ: Mapping[str, Any], status: int, seconds: float) -> None:
    """Write what was asked and how it was answered."""
    route = environ.get("taskpost.route")
    write(
        level="error" if status >= 500 else "info",
        event="request",
        method=environ.get("REQUEST_METHOD", "")[:20],
        route=route.pattern if route is not None else None,
        status=status,
        ms=round(seconds * 1000, 3),
        request_id=environ["taskpost.request_id"],
    )


def failure(environ: Mapping[str, Any], error: BaseException) -> None:
    """Write where a mistake of ours happened: the places, not the values that were there."""
    frames = traceback.extract_tb(error.__traceback__)
    write(
        level="error",
        event="failure",
        error=type(error).__name__,
        at=[f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-8:]],
        request_id=environ["taskpost.request_id"],
    )


def write(**fields: Any) -> None:
    """Write one line."""
    line = {"time": timestamp(time.time_ns() // 1_000_000), **fields}
    _held.append(msgspec.json.encode(line))
    if len(_held) == 1:
        soon(flush)


def flush() -> None:
    """Write the lines that have been held back."""
    if _held:
        lines = b"\n".join(_held) + b"\n"
        _held.clear()
        sys.stderr.buffer.write(lines)
        sys.stderr.buffer.flush()
