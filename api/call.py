"""A request as a view sees it, and what a view answers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from inbox.bell import Wait
from inbox.names import Actor


class Call(NamedTuple):
    """One request, checked: path, query and body hold what the route's schemas have let through."""

    actor: Actor
    path: dict[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    headers: dict[str, Any]  # the WSGI environ: HTTP_IF_NONE_MATCH and the like
    wait: Wait | None = None  # given when the request has been parked and is looked at again
    final: bool = False  # answer now, there is no more waiting


class Answer(NamedTuple):
    """What goes back: a payload that msgspec can encode, or bytes of another content type."""

    payload: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
