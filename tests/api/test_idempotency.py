"""Sending again: with a key, a message is sent once, however often the request is repeated."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.actors import Agent, Http, ok, refused, together


def key(text: str) -> dict[str, str]:
    """The header."""
    return {"Idempotency-Key": text}


def test_a_repeated_send_is_answered_as_the_first(alice: Agent, bob: Agent) -> None:
    """Case 20."""
    first = alice.try_send(bob, headers=key("k"), content={"n": 1})
    again = alice.try_send(bob, headers=key("k"), content={"n": 1})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Location"] == first.headers["Location"]
    assert bob.count() == 1


def test_a_replay_shows_the_message_as_it_is_now(alice: Agent, bob: Agent) -> None:
    first = alice.send(bob, headers=key("k"))
    bob.ack(first)
    again = alice.send(bob, headers=key("k"))
    assert (again["id"], again["status"]) == (first["id"], "acked")
    assert bob.count() == 0


def test_a_replay_outlives_what_would_refuse_a_new_message(
    alice: Agent, bob: Agent, travel: Callable
) -> None:
    sent = alice.send(bob, headers=key("k"), task_id="t", expires_in=60)
    ok(alice.try_close("t"))
    bob.retire()
    travel(3600)
    again = alice.try_send(bob, headers=key("k"), task_id="t", expires_in=60)
    assert ok(again, 200)["id"] == sent["id"]


def test_twenty_sends_at_once_with_one_key_make_one_message(alice: Agent, bob: Agent) -> None:
    """Case 21."""
    answers = together(20, lambda _: alice.try_send(bob, headers=key("k"), content="x"))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json["id"] for answer in answers}) == 1
    assert bob.count() == 1


def test_the_same_key_of_two_senders_makes_two_messages(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    """Case 22."""
    for sender in (alice, agent("carol")):
        ok(sender.try_send(bob, headers=key("k")), 201)
    assert [seen["from"] for seen in bob.poll()] == ["alice", "carol"]


def test_a_key_in_the_body_does_as_the_header_does(alice: Agent, bob: Agent) -> None:
    """Case 23."""
    first = ok(alice.try_send(bob, idempotency_key="k"), 201)
    again = alice.try_send(bob, idempotency_key="k")
    assert ok(again, 200) == first
    assert again.headers["Idempotency-Replayed"] == "true"
    assert ok(alice.try_send(bob, headers=key("k")), 200) == first
    assert ok(alice.try_send(bob, headers=key("k"), idempotency_key="k"), 200) == first
    other = alice.try_send(bob, headers=key("k"), idempotency_key="other")
    refused(other, 422, "invalid_request")
    assert bob.count() == 1


CHANGES: list[dict[str, Any]] = [
    {"to": "carol"},
    {"type": "message"},
    {"content": {"n": 2}},
    {"content": None},
    {"task_id": "other"},
    {"expires_in": 60},
    {"deliver_in": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_key_used_for_something_else_is_refused(
    alice: Agent, bob: Agent, agent: Callable, change: dict[str, Any]
) -> None:
    """Case 24."""
    said = {"to": "bob", "type": "request", "content": {"n": 1}, "task_id": "t"}
    alice.send(**said, headers=key("k"))
    refused(alice.try_send(**{**said, **change}, headers=key("k")), 422, "idempotency_key_reused")
    assert (bob.count(), agent("carol").count()) == (1, 0)


def test_left_out_content_is_not_null_content_under_one_key(alice: Agent, bob: Agent) -> None:
    alice.send(bob, headers=key("k"))
    refused(alice.try_send(bob, headers=key("k"), content=None), 422, "idempotency_key_reused")


def test_a_reply_under_one_key_is_to_one_message(alice: Agent, bob: Agent) -> None:
    first, second = alice.send(bob, task_id="t"), alice.send(bob, task_id="t")
    bob.send(alice, "done", headers=key("k"), reply_to=first["id"])
    again = bob.try_send(alice, "done", headers=key("k"), reply_to=second["id"])
    refused(again, 422, "idempotency_key_reused")


def test_a_minted_task_is_the_same_in_the_replay(alice: Agent, bob: Agent) -> None:
    first, again = (alice.send(bob, headers=key("k")) for _ in range(2))
    assert first["task_id"] == again["task_id"]


def test_an_alias_of_the_sender_shares_its_keys(alice: Agent, bob: Agent, agent: Callable) -> None:
    alice.register(aliases=["al"])
    first = alice.send(bob, headers=key("k"))
    assert ok(agent("al").try_send(bob, headers=key("k")), 200)["id"] == first["id"]


@pytest.mark.parametrize("bad", ["x" * 256, "a\tb", "a\x7fb"], ids=["long", "tab", "del"])
def test_a_key_that_is_too_long_or_cannot_be_printed_is_refused(
    alice: Agent, bob: Agent, bad: str
) -> None:
    refused(alice.try_send(bob, idempotency_key=bad), 422, "invalid_request")
    refused(alice.try_send(bob, headers=key(bad)), 422, "invalid_request")
    batch = alice.try_send_many({"to": "bob", "type": "request"}, headers=key(bad))
    refused(batch, 422, "invalid_request")
    assert bob.count() == 0


def test_a_key_of_255_characters_is_a_key_everywhere(alice: Agent, bob: Agent) -> None:
    long = "k" * 255
    one = {"to": "bob", "type": "request"}
    for _ in range(2):
        alice.send(bob, headers=key(long))
        ok(alice.try_send_many(one, one, headers=key(long)))
    assert bob.count() == 3


def test_an_empty_key_in_the_header_is_as_none(alice: Agent, bob: Agent) -> None:
    for _ in range(2):
        ok(alice.try_send(bob, headers=key("")), 201)
    refused(alice.try_send(bob, idempotency_key=""), 422, "invalid_request")
    assert bob.count() == 2


def test_a_header_key_that_is_not_ascii_is_the_key_of_the_body(
    alice: Agent, bob: Agent, http: Http
) -> None:
    sent = alice.send(bob, idempotency_key="schlüssel")
    raw = {"HTTP_IDEMPOTENCY_KEY": "schlüssel".encode().decode("latin-1")}
    body = {"from": "alice", "type": "request"}
    again = http.post("/agents/bob/inbox", body, environ_overrides=raw)
    assert ok(again, 200)["id"] == sent["id"]


def test_a_repeat_that_differs_only_outside_of_the_message_is_a_repeat(
    alice: Agent, http: Http
) -> None:
    said = {"from": "alice", "type": "request", "content": [1, 2], "idempotency_key": "k"}
    first = ok(http.post("/agents/bob/inbox", json.dumps(said).encode()), 201)
    turned = json.dumps(dict(reversed(said.items())), indent=1, separators=(",", ":"))
    turned = turned.replace("[\n  1,\n  2\n ]", "[1, 2]")
    assert ok(http.post("/agents/bob/inbox/", turned.encode()), 200)["id"] == first["id"]
