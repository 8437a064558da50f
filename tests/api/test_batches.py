"""Batches: up to 500 messages that are all sent, in their order, or none of them."""

from collections.abc import Callable
from typing import Any

from tests.actors import Agent, Http, ok, refused

KEY = {"Idempotency-Key": "k"}


def to(name: str, type: str = "request", **fields: Any) -> dict[str, Any]:
    """One message of a batch."""
    return {"to": name, "type": type, **fields}


def test_a_mixed_batch_is_sent_in_its_order(alice: Agent, bob: Agent, agent: Callable) -> None:
    asked = bob.send(alice, task_id="t")
    sent = alice.send_many(
        to("bob", "progress", reply_to=asked["id"], content=0.5),
        to("carol", content={"a": [1, None]}),
        to("bob", "done", reply_to=asked["id"]),
        to("bob", "message", task_id="t2", deliver_in=60),
    )
    assert [each["type"] for each in sent] == ["progress", "request", "done", "message"]
    assert [each["id"] for each in sent] == sorted(each["id"] for each in sent)
    assert [each["recipient"]["known"] for each in sent] == [True, False, True, True]
    assert [seen["id"] for seen in bob.poll()] == [sent[0]["id"], sent[2]["id"]]
    assert agent("carol").poll()[0]["content"] == {"a": [1, None]}


FAULTY = [
    (to("bob", "reqest"), 422, "invalid_request", "/messages/1/type"),
    (to("bob", "name"), 403, "reserved", "/messages/1"),
    (to("postmaster"), 422, "delivers_to_nobody", "/messages/1"),
    (to("BOB"), 409, "name_differs_in_case", "/messages/1"),
    (to("gone"), 409, "agent_retired", "/messages/1"),
    (to("bob", "done"), 422, "task_required", "/messages/1"),
    (to("bob", task_id="closed"), 409, "task_closed", "/messages/1"),
    (to("bob", reply_to="m0000000000000999"), 422, "reply_not_found", "/messages/1"),
    (to("bob", reply_to="x"), 422, "invalid_request", "/messages/1/reply_to"),
    (to("bob", contnet=1), 422, "invalid_request", "/messages/1/contnet"),
    (to("bob", expires_in=5, deliver_in=5), 422, "invalid_request", "/messages/1/expires_in"),
    ({"to": "bob"}, 422, "invalid_request", "/messages/1/type"),
    ({"type": "request"}, 422, "invalid_request", "/messages/1/to"),
    ({"to": "bob", "type": None}, 422, "invalid_request", "/messages/1/type"),
    (to("bob", **{"from": "x y"}), 422, "invalid_request", "/messages/1/from"),
    (None, 422, "invalid_request", "/messages/1"),
    (1, 422, "invalid_request", "/messages/1"),
    ("x", 422, "invalid_request", "/messages/1"),
    ([], 422, "invalid_request", "/messages/1"),
    ([{}], 422, "invalid_request", "/messages/1"),
]


def test_one_message_that_is_refused_keeps_the_others_back(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    gone = agent("gone")
    gone.register()
    gone.retire()
    alice.send("dave", task_id="closed")
    ok(alice.try_close("closed"))
    for faulty, status, code, pointer in FAULTY:
        problem = refused(alice.try_send_many(to("bob"), faulty, to("bob")), status, code)
        assert problem["errors"][0]["pointer"] == pointer
        assert (bob.count(), alice.tasks()) == (0, ["closed"])


def test_a_batch_is_a_list_of_1_to_500(http: Http, bob: Agent) -> None:
    for messages in ([], None, {}, "x", 7, {"0": to("bob")}, [to("bob")] * 501):
        answer = http.post("/messages", {"from": "alice", "messages": messages})
        assert refused(answer, 422, "invalid_request")["errors"][0]["pointer"] == "/messages"
    assert bob.count() == 0


def test_five_hundred_are_a_batch(alice: Agent, bob: Agent) -> None:
    assert len(alice.send_many(*[to("bob", content=n) for n in range(500)])) == 500
    assert [seen["content"] for seen in bob.poll(limit=500)] == list(range(500))


def test_a_header_key_counts_for_each_message_by_its_place(alice: Agent, bob: Agent) -> None:
    first = alice.try_send_many(to("bob", content=1), to("bob", content=2), headers=KEY)
    again = alice.try_send_many(to("bob", content=1), to("bob", content=2), headers=KEY)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json == first.json
    assert ok(alice.try_send(bob, headers={"Idempotency-Key": "k#1"}, content=2), 200)["content"]
    longer = alice.try_send_many(*[to("bob", content=n) for n in (1, 2, 3)], headers=KEY)
    assert ok(longer, 201)["messages"][:2] == first.json["messages"]
    assert "Idempotency-Replayed" not in longer.headers
    turned = alice.try_send_many(to("bob", content=2), to("bob", content=1), headers=KEY)
    refused(turned, 422, "idempotency_key_reused")
    assert bob.count() == 3


def test_keys_of_a_batchs_own_are_kept(alice: Agent, bob: Agent) -> None:
    batch = [to("bob", content=n, idempotency_key=f"k{n}") for n in range(3)]
    first = alice.send_many(*batch)
    assert alice.send_many(*batch) == first
    assert alice.send(bob, content=1, idempotency_key="k1") == first[1]
    refused(alice.try_send_many(*batch, headers=KEY), 422, "invalid_request")


def test_a_key_twice_in_one_batch_is_one_message_or_an_error(alice: Agent, bob: Agent) -> None:
    same = to("bob", content=1, idempotency_key="k")
    first, second = alice.send_many(same, same)
    assert first["id"] == second["id"]
    other = to("bob", content=2, idempotency_key="k2")
    differs = alice.try_send_many(other, {**other, "content": 3})
    problem = refused(differs, 422, "idempotency_key_reused")
    assert problem["errors"][0]["pointer"] == "/messages/1"
    assert bob.count() == 1


def test_who_sends_may_be_said_in_each_message_but_is_one(bob: Agent, http: Http) -> None:
    mine = to("bob", **{"from": "alice"})
    assert ok(http.post("/messages", {"messages": [mine, mine]}), 201)
    assert ok(http.post("/messages", {"from": "alice", "messages": [mine, to("bob")]}), 201)
    other = {"messages": [mine, to("bob", **{"from": "mallory"})]}
    refused(http.post("/messages", other), 403, "sender_mismatch")
    refused(http.post("/messages", {"from": "mallory", "messages": [mine]}), 403, "sender_mismatch")
    refused(http.post("/messages", {"messages": [to("bob")]}), 422, "sender_required")
    assert {seen["from"] for seen in bob.poll()} == {"alice"}
    assert bob.count() == 4


def test_a_reply_to_a_message_of_the_same_batch_is_not_known_yet(alice: Agent, bob: Agent) -> None:
    last = int(alice.send(bob)["id"][1:], 16)
    answers = [to("alice"), to("alice", "done", reply_to=f"m{last + 5:016x}")]
    refused(alice.try_send_many(*answers), 422, "reply_not_found")


def test_batches_in_batches_are_refused(http: Http) -> None:
    for depth in (50, 110, 250, 320, 400, 5000):
        nested = b'{"messages":[' * depth + b"]}" * depth
        assert http.post("/messages", nested).status_code in (400, 422)
