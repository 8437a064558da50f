"""Payloads: content comes back byte for byte, and what is not JSON says what it is instead."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.actors import Agent, Http, contents, ok, refused

LIMIT = 1 << 20  # of the service in these tests


def body(content: str | bytes = b"", rest: bytes = b"") -> bytes:
    """A request to send, with the content's bytes as they are."""
    raw = content.encode() if isinstance(content, str) else content
    given = b', "content": ' + raw if raw else b""
    return b'{"from": "alice", "type": "request"' + given + rest + b"}"


def send(http: Http, raw: bytes, **headers: str) -> Any:
    """The answer to a body for bob's inbox."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.post("/agents/bob/inbox", raw, headers=given)


EIGHT = ["", "null", '""', "0", "false", "[]", "{}", '"{\\"to\\": \\"eve\\"}"']
EXACT = [
    '{"z": 1, "a": 2,"m":  [3 , 4]}',
    '{"a": 1, "a": 2}',
    "1.0",
    "-0",
    "1e5",
    "1E+05",
    "0.10000000000000000000000000001",
    "12345678901234567890123456789",
    "9" * 4000,
    "1e999",
    '"\\u00e9é\\u0000\\/\\ud83d\\ude00😀"',
    '"\u2028\u2029\ufeff\u202e\x7f"',
    '[\n\t"spread",\r\n 1 ]',
    '"' + "ä" * 100_000 + '"',
    "[" * 100 + "]" * 100,
    '"' + "[{" * 5000 + '"',
    '"\\\\\\"[[' + "{" * 200 + '\\\\"',
]


def test_eight_contents_are_eight_different_things(alice: Agent, bob: Agent, http: Http) -> None:
    """Case 59."""
    for content in EIGHT:
        answer = ok(send(http, body(content, b', "task_id": "t"')), 201)
        assert ("content" in answer) == bool(content)
    expected = [content.encode() or None for content in EIGHT]
    assert contents(bob.try_poll()) == expected
    assert contents(alice.try_history("t")) == expected
    batch = b", ".join(
        b'{"to": "carol", "type": "request"%s}'
        % (b', "content": ' + each.encode() if each else b"")
        for each in EIGHT
    )
    ok(http.post("/messages", b'{"from": "alice", "messages": [ %s ]}' % batch), 201)
    assert contents(Agent(http, "carol").try_poll()) == expected


def test_content_comes_back_byte_for_byte(bob: Agent, http: Http) -> None:
    """Promise 11."""
    for content in EXACT:
        assert send(http, body(content)).status_code == 201, content[:80]
    assert contents(bob.try_poll()) == [content.encode() for content in EXACT]


NO_JSON = {
    "NaN": body("NaN"),
    "infinity": body("[-Infinity]"),
    "an array": b"[" + body() + b"]",
    "a string": b'"x"',
    "a number": b"7",
    "null": b"null",
    "half": body()[:-9],
    "two": body() * 2,
    "a BOM": b"\xef\xbb\xbf" + body(),
    "UTF-16": body().decode().encode("utf-16"),
    "UTF-16 without a BOM": body().decode().encode("utf-16-be"),
    "UTF-32": body().decode().encode("utf-32"),
    "latin-1": body('"é"'.encode("latin-1")),
    "a surrogate in UTF-8": body(b'"\xed\xa0\x80"'),
    "overlong UTF-8": body(b'"\xc0\x80"'),
    "half a surrogate pair": body('"\\ud800"'),
    "a half in a key": body('{"\\udfff": 1}'),
    "a half in a field": b'{"from": "alice", "type": "request", "task_id": "\\ud800"}',
    "a raw NUL": body('"a\0b"'),
    "a raw newline": body('"a\nb"'),
    "a bad escape": body('"\\q"'),
    "a short escape": body('"\\u12"'),
    "a leading zero": body("01"),
    "a bare point": body("1."),
    "a lone minus": body("-"),
    "a plus": body("+1"),
    "hexadecimal": body("0x1"),
    "a trailing comma": body("[1,]"),
    "a comment": body("1 /* one */"),
    "single quotes": b"{'from': 'alice', 'type': 'request'}",
    "a form": b"from=alice&type=request",
    "XML": b"<request/>",
    "deep content": body("[" * 101 + "]" * 101),
    "very deep content": body("[" * 200_000 + "]" * 200_000),
    "unclosed depth": body("[" * 500_000),
    "deep objects": body('{"a":' * 101 + "1" + "}" * 101),
    "a deep field": b'{"from": "alice", "type": ' + b"[" * 500 + b"]" * 500 + b"}",
    "a huge number in a field": body(rest=b', "expires_in": ' + b"9" * 5000),
    "an endless number in a field": body(rest=b', "expires_in": 1e999'),
    "a number that Python cannot read": body("1" * 4301),
    "a long negative number, deep inside": body('[{"\\"7": "\\"", "a": [-' + "10" * 2151 + "]}]"),
}


def test_what_is_no_json_object_is_refused(bob: Agent, http: Http) -> None:
    """Case 60."""
    for kind, raw in NO_JSON.items():
        answer = send(http, raw)
        assert (answer.status_code, answer.json.get("code")) == (400, "invalid_json"), kind
    assert bob.count() == 0


def test_long_digits_that_everybody_can_read_come_back(bob: Agent, http: Http) -> None:
    """What Python's reader refuses would keep its agent from all that comes after."""
    digits = "7" * 5000
    strings = f'"{digits}"', f'{{"{digits}": "a\\"{digits}"}}'
    for text in (digits[:4300], *strings, "[1]" + " " * 5000):
        ok(send(http, body(text)), 201)
        (seen,) = bob.poll()
        assert seen["content"] == json.loads(text)
        bob.ack(seen)


def test_json_is_taken_whatever_its_content_type_says(bob: Agent, http: Http) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "", "application/json"):
        ok(send(http, body(), Content_Type=kind), 201)
    assert bob.count() == 4


def test_a_body_over_the_limit_is_refused_with_the_limit(bob: Agent, http: Http) -> None:
    """Case 61: with an honest, a small and no Content-Length."""
    big = body('"' + "x" * LIMIT + '"')
    honest = http.post("/agents/bob/inbox", big)
    none = http.post(
        "/agents/bob/inbox",
        big,
        environ_overrides={"CONTENT_LENGTH": "", "wsgi.input_terminated": True},
    )
    lying = http.post("/agents/bob/inbox", big, environ_overrides={"CONTENT_LENGTH": "10"})
    claimed = http.post(
        "/agents/bob/inbox", body(), environ_overrides={"CONTENT_LENGTH": "9" * 5000}
    )
    for answer in (honest, none, lying, claimed):
        assert str(LIMIT) in refused(answer, 413, "body_too_large")["detail"]
    assert bob.count() == 0


def test_a_body_of_just_the_limit_is_taken(bob: Agent, http: Http) -> None:
    around = len(body('""'))
    exact = '"' + "x" * (LIMIT - around) + '"'
    assert len(body(exact)) == LIMIT
    ok(send(http, body(exact)), 201)
    ok(send(http, gzip.compress(body(exact)), Content_Encoding="gzip"), 201)
    assert contents(bob.try_poll()) == [exact.encode()] * 2


@pytest.mark.parametrize("length", ["²", "-5", "abc", "1e3", " 7"])
def test_a_content_length_that_is_no_number_is_no_server_error(http: Http, length: str) -> None:
    answer = http.post("/agents/bob/inbox", body(), environ_overrides={"CONTENT_LENGTH": length})
    assert answer.status_code < 500


def test_a_gzip_body_is_decoded(bob: Agent, http: Http) -> None:
    """Case 62."""
    half = len(body("1")) // 2
    members = gzip.compress(body("1")[:half]) + gzip.compress(body("1")[half:])
    for packed in (gzip.compress(body("1")), members):
        for name in ("gzip", "GZIP", "x-gzip"):
            ok(send(http, packed, Content_Encoding=name), 201)
    ok(send(http, body("1"), Content_Encoding="identity"), 201)
    assert contents(bob.try_poll()) == [b"1"] * 7


def test_a_gzip_bomb_is_cut_off(bob: Agent, http: Http) -> None:
    """Case 62."""
    bomb = gzip.compress(body('"' + " " * 20_000_000 + '"'))
    assert len(bomb) < LIMIT
    many = gzip.compress(b" " * 1_000_000) * 50
    for packed in (bomb, many, gzip.compress(bomb)):
        assert send(http, packed, Content_Encoding="gzip").status_code in (400, 413)
    refused(send(http, bomb, Content_Encoding="gzip"), 413, "body_too_large")
    refused(send(http, many, Content_Encoding="gzip"), 413, "body_too_large")
    assert bob.count() == 0


def test_what_is_not_gzip_is_refused(bob: Agent, http: Http) -> None:
    """Case 62."""
    packed = gzip.compress(body())
    for raw in (body(), packed[:-3], packed[:5], packed + b"xx", b"\x1f\x8b"):
        refused(send(http, raw, Content_Encoding="gzip"), 400, "invalid_json")
    for name in ("br", "zstd", "deflate", "gzip, gzip", "x" * 500):
        refused(send(http, packed, Content_Encoding=name), 415, "unsupported_encoding")
    assert bob.count() == 0


TYPOS = {"contnet": "content", "task": "task_id", "taskid": "task_id", "replyto": "reply_to",
         "idempotency-key": "idempotency_key", "form": "from", "expires": "expires_in"}  # fmt: skip


def test_a_misspelt_field_is_pointed_at_with_the_right_one(http: Http, bob: Agent) -> None:
    """Case 63."""
    for typo, meant in TYPOS.items():
        answer = send(http, body(rest=b', "%s": 1' % typo.encode()))
        (fault,) = refused(answer, 422, "invalid_request")["errors"]
        assert fault == {
            "pointer": f"/{typo}", "detail": f"is not known; did you mean {meant}?"
        }  # fmt: skip
    strange = refused(send(http, body(rest=b', "a/b~c": 1')), 422, "invalid_request")
    assert strange["errors"] == [{"pointer": "/a~1b~0c", "detail": "is not known"}]
    assert "did you mean limit?" in bob.try_poll(limt=5).json["detail"]
    refused(bob.try_poll(status_="x"), 422, "invalid_request")


def test_a_body_that_is_wrong_all_over_gets_a_short_answer(http: Http) -> None:
    many = b", ".join(b'"field%d": 1' % number for number in range(50_000))
    for raw in (b"{" + many + b"}", b'{"' + b"k" * 900_000 + b'": 1}', body(rest=b", " + many)):
        answer = send(http, raw)
        refused(answer, 422, "invalid_request")
        assert len(answer.data) < 10_000


FIELDS = ["from", "task_id", "type", "reply_to", "idempotency_key", "expires_in", "deliver_in"]
WRONG: list[Any] = [1.5, True, [], {}, "", "\0", "\ufffe", "x" * 300, -1, 10**400, [None], "é\n"]


def test_a_field_of_another_kind_is_refused(http: Http, bob: Agent) -> None:
    for field in FIELDS:
        for value in WRONG[1:] if field in ("expires_in", "deliver_in") else WRONG:
            given = {"from": "alice", "type": "request", field: value}
            answer = http.post("/agents/bob/inbox", given)
            assert answer.status_code in (400, 422), (field, value)
    assert bob.count() == 0


def test_null_is_as_absent(http: Http, bob: Agent) -> None:
    """Case 64."""
    fields = {**dict.fromkeys(FIELDS[1:]), "from": "alice", "type": "request"}
    sent = ok(http.post("/agents/bob/inbox", fields), 201)
    assert "content" not in sent
    assert "expires_at" not in sent
    refused(http.post("/agents/bob/inbox", {**fields, "type": None}), 422, "invalid_request")
    refused(http.post("/agents/bob/inbox", {**fields, "from": None}), 422, "sender_required")


def test_null_clears_in_a_registration(bob: Agent, agent: Callable) -> None:
    """Case 64."""
    given = {"description": "d", "tags": ["t"], "aliases": ["robert"], "status": "idle",
             "activity": "a"}  # fmt: skip
    full = bob.register(**given)
    assert {name: full[name] for name in given} == given
    assert bob.register()["tags"] == ["t"]
    for name in given:
        assert name not in bob.register(**{name: None})
    assert agent("alice").send("robert")["recipient"]["known"] is False
    refused(bob.http.post("/agents", {"id": None}), 422, "invalid_request")


def test_fields_inside_content_override_nothing(alice: Agent, bob: Agent, agent: Callable) -> None:
    """Case 65."""
    inner = {"to": "eve", "from": "eve", "type": "done", "task_id": "x", "reply_to": "y", "id": "z"}
    sent = alice.send(bob, content=inner, task_id="t")
    assert (sent["to"], sent["from"], sent["type"], sent["task_id"]) == (
        "bob", "alice", "request", "t",
    )  # fmt: skip
    assert json.dumps(bob.poll()[0]["content"]) == json.dumps(inner)
    assert agent("eve").poll(status="all") == []
