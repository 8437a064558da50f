"""The short way of the daily routes and Flask's answer alike, to the byte."""

from io import BytesIO
from typing import Any

import pytest

from api.hot import Hot
from api.routes import ROUTES
from api.service import Service
from inbox import presence
from models import clock
from tests import postgres

Answer = tuple[str, list[tuple[str, str]], bytes]

SEND = b'{"task_id": "t", "from": "alice", "type": "request", "content": {"n": 1.50}}'
# Every hot route, well and badly used: method, path, query, body, further headers.
REQUESTS: tuple[tuple[str, str, str, bytes | None, dict[str, str]], ...] = (
    ("POST", "/agents/bob/inbox", "", SEND, {}),
    ("POST", "/agents/bob/inbox/", "", SEND, {"HTTP_IDEMPOTENCY_KEY": "k"}),
    ("POST", "/agents/bob/inbox", "", SEND, {"HTTP_IDEMPOTENCY_KEY": "k"}),
    ("POST", "/agents/bob/inbox", "", b'{"from": "alice"}', {"HTTP_IDEMPOTENCY_KEY": "k"}),
    ("POST", "/agents/bob/inbox", "", b"{", {}),
    ("POST", "/agents/bob/inbox", "", b"x" * 70000, {}),
    ("POST", "/agents/bob/inbox", "wait=1", SEND, {}),
    ("POST", "/agents/{agent}/inbox", "", SEND, {}),
    ("POST", "/agents/b\xc3\xb6b/inbox", "", SEND, {}),
    ("POST", "/agents//inbox", "", SEND, {}),
    ("POST", "/agents/bob/inbox", "", SEND, {"HTTP_HOST": "elsewhere.example"}),
    ("POST", "/agents/bob/inbox", "", SEND, {"HTTP_ORIGIN": "http://elsewhere.example"}),
    ("GET", "/agents/bob/inbox", "", None, {}),
    ("GET", "/agents/bob/inbox", "limit=1&status=all", None, {}),
    ("GET", "/agents/bob/inbox", "limit=x&after=y", None, {}),
    ("GET", "/agents/bob/inbox", "wait=1&task_id=none", None, {}),
    ("GET", "/agents/bob/inbox", "", None, {"HTTP_IF_NONE_MATCH": "*"}),
    ("GET", "/agents/bob/inbox", "", None, {"HTTP_TASKPOST_AGENT": "carol"}),
    ("HEAD", "/agents/bob/inbox", "", None, {}),
    ("PUT", "/agents/bob/inbox", "", None, {}),
    ("GET", "/agents/bob/inbox/count", "", None, {}),
    ("GET", "/agents/bob/inbox/count", "nonsense=1", None, {}),
    ("POST", "/agents/bob/inbox/ack", "", b'{"ids": ["m0000000000000001", "x"]}', {}),
    ("POST", "/agents/bob/inbox/ack", "", b'{"ids": []}', {}),
    ("POST", "/inbox/messages/m0000000000000002/ack", "", None, {}),
    ("POST", "/inbox/messages/m0000000000000002/ack", "", b'{"from": "bob"}', {}),
    ("POST", "/inbox/messages/m0000000000000099/ack", "", None, {}),
    ("POST", "/inbox/messages//ack", "", None, {}),
)


def _answers(service: Service) -> list[Answer]:
    return [_answer(service, *request) for request in REQUESTS]


def _answer(
    service: Service, method: str, path: str, query: str, body: bytes | None, further: dict
) -> Answer:
    given: list[Any] = []
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "8080",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost:8080",
        "HTTP_X_REQUEST_ID": "the-same",
        "wsgi.url_scheme": "http",
        "wsgi.multithread": False,
        "wsgi.input": BytesIO(body or b""),
        **({"CONTENT_LENGTH": str(len(body))} if body is not None else {}),
        **further,
    }
    chunks = service(environ, lambda status, headers: given.extend((status, headers)))
    return given[0], given[1], b"".join(chunks)


def test_both_ways_give_the_same_answers_to_the_byte(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: 1_796_000_000_000)
    short = _answers(Service(1 << 16))
    presence.forget()
    postgres.empty()
    long = Service(1 << 16)
    long.hot.routes.clear()
    for request, one, other in zip(REQUESTS, short, _answers(long), strict=True):
        assert one == other, request


def test_every_hot_route_takes_the_short_way() -> None:
    hot = Hot()
    for route in ROUTES:
        if route.hot:
            found = hot.find(route.method, route.pattern.replace("{", "").replace("}", ""))
            assert found is not None
            assert found[0] is route


def test_everything_else_is_left_to_flask() -> None:
    hot = Hot()
    for method, path in (
        ("GET", "/"),
        ("GET", "/agents"),
        ("GET", "/agents//inbox"),
        ("HEAD", "/agents/bob/inbox"),
        ("POST", "/agents/bob/inbox/more"),
        ("GET", "/tasks/a/messages"),
    ):
        assert hot.find(method, path) is None
