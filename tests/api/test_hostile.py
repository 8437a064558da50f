"""Whatever a careless or hostile client sends: a problem document that says what is wrong."""

import json
from typing import Any

from api.routes import ROUTES, Route
from tests.actors import Agent, Http, ok

PLACES = {"{agent}": "bob", "{message}": "m0000000000000001", "{task_id}": "t"}


def concrete(route: Route) -> str:
    """A path that fits the route."""
    path = route.pattern
    for place, value in PLACES.items():
        path = path.replace(place, value)
    return path


ASKING = [concrete(route) for route in ROUTES if route.method == "GET" and not route.about]
HOSTILE = ["%00", "a%00b", "%FF", "%ED%A0%80", "%", "%zz", "x" * 6000, "%F0%9F%98%80", "1e999",
           "nan", "-1", "[]", "'", '"', "1;2", "%0D%0AX:1", "room:x", "postmaster"]  # fmt: skip
PARAMETERS = ("limit", "after", "as", "status", "task_id", "type", "from", "wait", "timeout", "tag",
              "q", "state", "agent", "nope")  # fmt: skip


def test_no_query_is_a_server_error(http: Http) -> None:
    strange = ["&&", "=", "=x", "&".join(f"a{n}" for n in range(300)), "limit=1&limit=2"]
    strange += [f"{name}={value}&{name}={value}" for name in PARAMETERS for value in HOSTILE]
    for path in ASKING:
        for query in strange:
            answer = http.get(f"{path}?{query}")
            assert is_a_clear_no(answer), (query, answer.text)
        raw = {"QUERY_STRING": "task_id=\xff&from=\xe9"}
        assert http.get(path, environ_overrides=raw).status_code in (404, 422)


STRINGS = ["", " ", "\0", "a\0b", "\x7f", "\ufffe", "😀", "x" * 70, "x" * 300, "x" * 70_000,
           "bob", "BOB", "postmaster", "room:x", "{name}", "null", "-1", "m0000000000000002",
           "m7fffffffffffffff", "'; DROP TABLE messages; --"]  # fmt: skip
VALUES: list[Any] = [
    *STRINGS, None, True, 0, -1, 1.5, 1e300, 2**63, 2**64, 10**400, [], {}, [None], [[]], [{}],
    ["a"] * 501, ["m0000000000000001"] * 2, [1], {"a": 1}, [["a"]], ["a\0", "\ufffe"],
]  # fmt: skip
RAW = [
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 5000,
    b'"\\ud800"',
    b'"\\u0000"',
    b"[" * 150 + b"]" * 150,
]


def is_a_clear_no(answer: Any) -> bool:
    """Whether an answer that is not yes is the client's mistake, and points at it."""
    if answer.status_code < 400:
        return True
    problem = answer.json
    pointed = problem["code"] != "invalid_request" or bool(problem["errors"])
    return answer.status_code < 500 and pointed and len(answer.data) < 20_000


def fields(route: Route) -> list[str]:
    """The fields of the route's body, by their names in JSON."""
    assert route.body is not None
    return [field.data_key or name for name, field in route.body().fields.items()]


def usual(route: Route) -> dict[str, Any]:
    """A body that the route takes."""
    given = {
        "id": "carol", "type": "request", "ids": ["m0000000000000001"],
        "messages": [{"to": "bob", "type": "request"}], "from": "bob",
    }  # fmt: skip
    return {name: given[name] for name in fields(route) if name in given}


def test_no_body_is_a_server_error(http: Http, bob: Agent) -> None:
    ok(http.post("/agents/bob/inbox", {"from": "bob", "type": "request", "task_id": "t"}))
    for route in ROUTES:
        for name in [*fields(route), "nope"] if route.body is not None else []:
            bodies = [json.dumps({**usual(route), name: value}).encode() for value in VALUES]
            start = json.dumps({**usual(route), name: 0}).encode()[:-2]
            bodies += [start + raw + b"}" for raw in RAW if start.endswith(b": ")]
            for body in bodies:
                answer = http.post(concrete(route), body)
                assert is_a_clear_no(answer), (route.pattern, name, body[:200])
    assert ok(http.get("/agents"))["agents"]


def test_no_message_of_a_batch_is_a_server_error(http: Http, bob: Agent) -> None:
    names = [
        "to",
        "type",
        "content",
        "task_id",
        "reply_to",
        "expires_in",
        "idempotency_key",
        "from",
    ]
    for name in names:
        for value in VALUES:
            message = {"to": "bob", "type": "request", name: value}
            answer = http.post("/messages", {"from": "bob", "messages": [message, message]})
            assert is_a_clear_no(answer), (name, value)


def test_no_header_is_a_server_error(http: Http, bob: Agent) -> None:
    body = {"from": "alice", "type": "request"}
    names = ["IDEMPOTENCY_KEY", "TASKPOST_AGENT", "IF_NONE_MATCH", "PREFER", "CONTENT_ENCODING",
             "ACCEPT", "HOST", "ORIGIN", "X_REQUEST_ID", "TRANSFER_ENCODING"]  # fmt: skip
    values = ["", " ", "\xe9", "\xff", "x" * 8000, "a\0b", "-1", "wait=nan", "wait=999999",
              "wait=-1", 'W/"', "*", ",,,", "bob"]  # fmt: skip
    for name in names:
        for value in values:
            raw = {f"HTTP_{name}": value}
            for answer in (
                http.client.post("/agents/bob/inbox", json=body, environ_overrides=raw),
                http.client.get("/agents/bob/inbox", environ_overrides=raw),
            ):
                assert is_a_clear_no(answer), (name, value)
