"""The short way through a schema gives what the schema gives, or leaves it to the schema."""

import json

import pytest

from api import jsontext, reading
from api.quick import Quick
from api.routes import ROUTES

QUICKS = {route.operation: Quick(route.body()) for route in ROUTES if route.body}
SEND = b'{"from": "alice", "type": "request", "task_id": "t", "content": {"b": 1.50, "a": []}'
RIGHT = (
    ("sendMessage", SEND + b"}"),
    ("sendMessage", b'{"type":"message"}'),
    ("sendMessage", SEND + b', "expires_in": 5, "deliver_in": 0.5, "extend_on_progress": true}'),
    ("sendMessage", SEND + b', "reply_to": "m0000000000000007", "idempotency_key": "k"}'),
    ("sendMessage", SEND + b', "content": "\\u00e9"}'),  # the last one counts
    ("sendMessage", b'{"type": "progress", "percent": 5, "note": "\xc3\xa4"}'),
    ("sendMessage", b'\n{ "type" : "request", "content":null }\n'),
    ("sendMessages", b'{"messages": [{"to": "bob", "type": "request", "content": [1, "x"]}]}'),
    ("claimMessages", b"{}"),
    ("claimMessages", b'{"limit": 3, "lease_seconds": 1.5, "ack": ["m0000000000000007"]}'),
    ("claimMessages", b'{"limit": 700, "wait": 99, "exclusive_tasks": true, "worker": "w 1"}'),
    ("ackMessage", b'{"from": "bob"}'),
    ("ackMessages", b'{"ids": ["m0000000000000007", "no id"]}'),
    ("registerAgent", b'{"id": "bob", "tags": ["a", "b"], "aliases": ["robert"], "ttl": 5}'),
)
# What the schema is asked about: it is wrong, or null, or not as simple as that.
LEFT = (
    ("sendMessage", b""),
    ("sendMessage", b"[]"),
    ("sendMessage", b'{"type": 1}'),
    ("sendMessage", b'{"type": "request", "task_id": null}'),
    ("sendMessage", b'{"type": "request", "task_id": "room:x"}'),
    ("sendMessage", b'{"type": "request", "from": "no name"}'),
    ("sendMessage", b'{"type": "request", "expires_in": true}'),
    ("sendMessage", b'{"type": "request", "expires_in": 0}'),
    ("sendMessage", b'{"type": "request", "expires_in": 1e400}'),
    ("sendMessage", b'{"type": "request", "extend_on_progress": 1}'),
    ("sendMessage", b'{"type": "request", "reply_to": "7"}'),
    ("sendMessage", b'{"type": "request", "tpye": "request"}'),
    ("sendMessage", b'{"content": 1}'),
    ("sendMessage", b'{"type": "request"'),
    ("sendMessage", b'{"type": "request"} {}'),
    ("sendMessages", b'{"messages": []}'),
    ("sendMessages", b'{"messages": [{"to": "bob", "type": "request"}, {"type": "request"}]}'),
    ("claimMessages", b'{"limit": 0}'),
    ("claimMessages", b'{"limit": 1.5}'),
    ("claimMessages", b'{"lease_seconds": "60"}'),
    ("ackMessages", b'{"ids": [7]}'),
    ("registerAgent", b'{"id": "bob", "tags": null}'),
    ("registerAgent", b'{"id": "bob", "status": "' + b"x" * 65 + b'"}'),
)


@pytest.mark.parametrize(("operation", "raw"), RIGHT)
def test_what_is_right_is_read_as_the_schema_would(operation: str, raw: bytes) -> None:
    quick = QUICKS[operation]
    found = quick.read(raw)
    assert found is not None
    assert found == reading._loaded(quick.schema, raw, deep=False)
    types = {name: type(value) for name, value in found.items()}
    loaded = reading._loaded(quick.schema, raw, deep=False)
    assert types == {name: type(value) for name, value in loaded.items()}


@pytest.mark.parametrize(("operation", "raw"), LEFT)
def test_what_is_not_simply_right_is_left_to_the_schema(operation: str, raw: bytes) -> None:
    assert QUICKS[operation].read(raw) is None


def test_every_body_has_a_short_way() -> None:
    for operation, quick in QUICKS.items():
        required = [name for name, field in quick.schema.load_fields.items() if field.required]
        if not required:
            assert quick.read(b"{}") == quick.schema.load({}), operation


@pytest.mark.parametrize("field", ["type", "task_id", "idempotency_key"])
def test_text_is_what_json_says(field: str) -> None:
    text = 'a"\\/ä€😀'
    for escaped in (True, False):
        raw = json.dumps({"type": "x", field: text}, ensure_ascii=escaped).encode()
        found = QUICKS["sendMessage"].read(raw)
        assert found is not None
        assert found[field] == text


def test_content_stays_as_it_was_sent() -> None:
    for content in (b"1.50", b'"\\u00e9"', b'{ "b":1,"a" : [ ] }', b"1e400", b"null"):
        found = QUICKS["sendMessage"].read(b'{"type": "x", "content": ' + content + b"}")
        assert found is not None
        assert found["content"] == content


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"1", 0),
        (b"{}", 1),
        (b'{"a": [[], {}], "b": []}', 3),
        (b'{"a": "[[[["}', 1),
        (b'["\\"[[[", "]"]', 1),
        (b'["\\\\", [[]], "{"]', 3),
        (b'["", "[", "", ["]"]]', 2),
        (b"[" * 100 + b"]" * 100, 100),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 100),
    ],
)
def test_depth_is_counted_outside_of_strings(text: bytes, depth: int) -> None:
    assert jsontext.depth(text) == depth


def test_what_is_too_deep_is_seen_to_be() -> None:
    for text in (
        b"[" * 101 + b"]" * 101,
        b"[" * 9000 + b"]" * 9000,
        b'["[",' * 500 + b"1" + b"]" * 500,
    ):
        assert jsontext.depth(text) > jsontext.DEPTH
