"""What holds every answer of the suite against the contract would notice what is wrong."""

import json
from typing import Any

import pytest
from werkzeug.test import EnvironBuilder, TestResponse

from tests import contract

AGENT = {"id": "bob", "created_at": "2026-11-29T13:00:00.000Z"}
PROBLEM = {
    "type": "urn:taskpost:problem:agent_not_found",
    "title": "There is no such agent",
    "status": 404,
    "detail": "No agent bob has registered.",
    "code": "agent_not_found",
    "retryable": False,
    "hint": "GET /agents lists those that have registered.",
    "request_id": "r1",
}


def answer(body: Any = None, status: int = 200, **headers: str | None) -> TestResponse:
    """An answer as a test client gives it; a header that is None is left out."""
    kind = "application/problem+json" if status >= 400 else "application/json"
    given = {"content_type": kind if body is not None else None, "x_request_id": "r1", **headers}
    sent = [(name.replace("_", "-"), value) for name, value in given.items() if value is not None]
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = EnvironBuilder().get_request()
    return TestResponse([b"" if body is None else data], str(status), sent, request)


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("GET", "/agents/bob", answer(AGENT)),
        ("GET", "/agents/bob/?as=bob", answer(AGENT)),
        ("HEAD", "/agents/bob", answer(content_type="application/json")),
        ("GET", "/agents/bob", answer(PROBLEM, 404)),
        ("POST", "/agents", answer(AGENT, 201, location="/agents/bob")),
        ("OPTIONS", "/agents/bob", answer(status=204, allow="GET, HEAD")),
        ("GET", "/agents/bob/inbox", answer(status=304, etag='W/"1"', cache_control="no-cache")),
        ("GET", "/tasks/a/b/messages", answer({"messages": []})),
        ("GET", "/llms.txt", answer(b"text", content_type="text/plain; charset=utf-8")),
    ],
)
def test_an_answer_of_the_contract_passes(method: str, path: str, given: TestResponse) -> None:
    contract.check(method, path, given)


@pytest.mark.parametrize(
    "change",
    [
        {"colour": "red"},
        {"id": 7},
        {"id": None},
        {"tags": None},
        {"created_at": "2026-11-29T13:00:00Z"},
        {"created_at": "2026-11-29 13:00:00.000Z"},
    ],
)
def test_a_field_that_is_not_in_the_contract_fails(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        contract.check("GET", "/agents/bob", answer({**AGENT, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"status": 422},
        {"code": "task_not_found"},
        {"type": "about:blank"},
        {"request_id": "r2"},
        {"retryable": True},
        {"errors": []},
    ],
)
def test_a_problem_that_is_not_in_the_contract_fails(change: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        contract.check("GET", "/agents/bob", answer({**PROBLEM, **change}, 404))


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("GET", "/agents/bob", answer(AGENT, 202)),
        ("GET", "/agents/bob", answer(AGENT, x_request_id=None)),
        ("GET", "/agents/bob", answer(AGENT, x_colour="red")),
        ("GET", "/agents/bob", answer(AGENT, content_type="application/json; charset=utf-8")),
        ("GET", "/agents/bob", answer(AGENT, content_type="text/html")),
        ("HEAD", "/agents/bob", answer(AGENT)),
        ("POST", "/agents", answer(AGENT, 201, location="agents/bob")),
        ("OPTIONS", "/agents/bob", answer(status=204)),
        ("OPTIONS", "/agents/bob", answer(status=204, allow="GET", content_length="0")),
        ("GET", "/agents/bob/inbox", answer(status=304, cache_control="no-cache")),
        ("GET", "/agents/bob/inbox", answer({}, 304, etag='W/"1"', cache_control="no-cache")),
        ("GET", "/nowhere", answer(AGENT)),
    ],
)
def test_an_answer_that_is_not_in_the_contract_fails(
    method: str, path: str, given: TestResponse
) -> None:
    with pytest.raises(AssertionError):
        contract.check(method, path, given)
