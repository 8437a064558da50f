"""Deadlines and bounces: no request hangs for ever, and nothing unread vanishes untold."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.actors import Agent, ok, refused

Travel = Callable[[float], None]
Sweep = Callable[[], None]


@pytest.mark.parametrize("type", ["request", "question"])
def test_a_request_that_expires_bounces(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep, type: str
) -> None:
    sent = alice.send(bob, type, task_id="t", expires_in=60)
    travel(59)
    sweep()
    assert alice.poll() == []
    travel(2)
    assert bob.poll() == []
    sweep()
    (bounce,) = alice.poll()
    assert (bounce["from"], bounce["type"], bounce["task_id"]) == ("postmaster", "failed", "t")
    assert bounce["reply_to"] == sent["id"]
    assert bounce["content"]["reason"] == "expired"
    assert bounce["content"]["to"] == "bob"
    assert alice.receipt(sent)["status"] == "expired"
    sweep()
    assert len(alice.poll()) == 1


def test_a_bounce_is_the_failure_of_that_request(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob, task_id="t", expires_in=60)
    alice.send(bob, task_id="t")
    travel(61)
    sweep()
    task = alice.task("t")
    assert task["state"] == "failed"
    assert len(task["owes"]) == 1


def test_a_held_request_that_expires_bounces_too(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob, expires_in=60)
    (held,) = bob.claim(lease_seconds=3600)
    travel(61)
    sweep()
    assert alice.poll()[0]["content"]["last_holder"] == "bob"
    refused(bob.try_settle(held), 409, "message_expired")


def test_what_was_acked_does_not_bounce(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    bob.ack(alice.send(bob, expires_in=60))
    travel(61)
    sweep()
    assert alice.poll() == []


def test_other_mail_that_expires_is_told_of_in_one_notice(
    alice: Agent, bob: Agent, agent: Callable[[str], Agent], travel: Travel, sweep: Sweep
) -> None:
    carol = agent("carol")
    sent = [alice.send(bob, "message", task_id="t", expires_in=60) for _ in range(3)]
    alice.send(carol, "message", task_id="t", expires_in=60)
    travel(61)
    sweep()
    to_bob, to_carol = sorted(alice.poll(), key=lambda each: each["content"]["to"])
    assert (to_bob["from"], to_bob["type"]) == ("postmaster", "message")
    assert to_bob["content"]["count"] == 3
    assert to_bob["content"]["message_ids"] == [each["id"] for each in sent]
    assert to_carol["content"]["count"] == 1


def test_a_bounce_is_never_bounced(
    alice: Agent, bob: Agent, agent: Callable[[str], Agent], travel: Travel, sweep: Sweep
) -> None:
    alice.register()
    alice.send(bob, expires_in=60)
    travel(61)
    sweep()
    assert len(alice.poll()) == 1
    travel(40 * 24 * 3600)
    sweep()
    assert alice.poll() == []
    assert agent("postmaster").http.get("/agents/postmaster/inbox").json["messages"] == []


def test_a_bounce_reaches_a_sender_that_never_registered_or_has_retired(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.register()
    alice.send(bob, expires_in=60)
    alice.retire()
    travel(61)
    sweep()
    assert len(alice.poll()) == 1


def test_a_bounce_reaches_a_closed_task(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob, task_id="t", expires_in=60)
    ok(alice.try_close("t"))
    travel(61)
    sweep()
    assert alice.poll()[0]["task_id"] == "t"


def test_retiring_lets_the_unread_requests_bounce_within_a_day(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob)
    bob.retire()
    travel(24 * 3600 - 60)
    sweep()
    assert alice.poll() == []
    travel(61)
    sweep()
    assert alice.poll()[0]["content"]["reason"] == "agent_retired"


def test_the_unread_mail_of_a_dead_agent_expires_and_its_senders_learn_it(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    """Case 46."""
    alice.send(bob, task_id="t")
    alice.send(bob, "message", task_id="t")
    travel(31 * 24 * 3600)
    sweep()
    request, notice = sorted(alice.poll(), key=lambda each: each["type"])
    assert (request["type"], request["content"]["reason"]) == ("failed", "retention")
    assert (notice["type"], notice["content"]["reason"]) == ("message", "retention")
    assert bob.poll() == []


def test_a_deadline_of_its_own_outlives_the_retention(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob, expires_in=90 * 24 * 3600)
    alice.send(bob, deliver_in=60 * 24 * 3600)
    travel(61 * 24 * 3600)
    sweep()
    assert len(bob.poll()) == 2


def test_progress_pushes_the_deadline_back_when_the_request_asked_for_it(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    asked = alice.send(bob, expires_in=60, extend_on_progress=True)
    travel(40)
    made = bob.send(alice, "progress", reply_to=asked["id"], percent=50, note="half")
    assert made["content"] == {"percent": 50, "note": "half"}
    travel(40)
    sweep()
    assert len(bob.poll()) == 1
    assert alice.receipt(asked)["expires_at"] > asked["expires_at"]
    travel(21)
    sweep()
    assert bob.poll() == []
    assert [each["type"] for each in alice.poll()] == ["progress", "failed"]


def test_progress_pushes_nothing_else_back(
    alice: Agent, bob: Agent, agent: Callable[[str], Agent]
) -> None:
    plain = alice.send(bob, expires_in=60)
    asked = alice.send(bob, expires_in=60, extend_on_progress=True)
    bob.send(alice, "progress", reply_to=plain["id"])
    alice.send(bob, "progress", reply_to=asked["id"])
    for sent in (plain, asked):
        assert alice.receipt(sent)["expires_at"] == sent["expires_at"]


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "request", "extend_on_progress": True},
        {"type": "request", "percent": 50},
        {"type": "progress", "task_id": "t", "percent": 101},
        {"type": "progress", "task_id": "t", "percent": 5, "content": 1},
        {"type": "request", "extend_on_progress": 1, "expires_in": 60},
    ],
    ids=str,
)
def test_progress_and_deadlines_that_make_no_sense_are_refused(
    alice: Agent, bob: Agent, fields: Any
) -> None:
    refused(alice.try_send(bob, **fields), 422, "invalid_request")


def test_a_cancel_takes_back_what_nobody_holds_and_still_arrives(
    alice: Agent, bob: Agent, sweep: Sweep
) -> None:
    asked = alice.send(bob, task_id="t")
    alice.send(bob, "cancel", reply_to=asked["id"])
    assert [each["type"] for each in bob.poll()] == ["cancel"]
    receipt = alice.receipt(asked)
    assert (receipt["status"], receipt["reason"]) == ("expired", "cancelled")
    assert alice.task("t")["state"] == "cancelled"
    refused(bob.try_ack(asked), 409, "message_expired")
    sweep()
    assert alice.poll() == []


def test_a_cancel_reaches_whoever_holds_the_request(alice: Agent, bob: Agent) -> None:
    asked = alice.send(bob, task_id="t")
    (held,) = bob.claim()
    alice.send(bob, "cancel", reply_to=asked["id"])
    assert [each["type"] for each in bob.poll()] == ["cancel"]
    assert bob.settle(held)["status"] == "acked"


def test_a_cancel_without_reply_means_all_of_the_task(alice: Agent, bob: Agent) -> None:
    alice.send(bob, task_id="t")
    alice.send(bob, task_id="t")
    alice.send(bob, task_id="other")
    alice.send(bob, "cancel", task_id="t")
    assert [each["task_id"] for each in bob.claim(limit=9)] == ["other", "t"]


def test_nobody_cancels_the_request_of_another(
    alice: Agent, bob: Agent, agent: Callable[[str], Agent]
) -> None:
    alice.send(bob, task_id="t")
    agent("mallory").send(bob, "cancel", task_id="t")
    assert [each["type"] for each in bob.poll()] == ["request", "cancel"]


def test_two_agents_that_thank_each_other_for_ever_are_stopped(alice: Agent, bob: Agent) -> None:
    """Case 19."""
    alice.send(bob, task_id="t")
    for turn in range(8):
        sender, other = (bob, alice) if turn % 2 == 0 else (alice, bob)
        sender.send(other, "done", task_id="t")
    refused(bob.try_send(alice, "done", task_id="t"), 409, "loop")
    refused(alice.try_send(bob, "failed", task_id="t"), 409, "loop")
    alice.send(bob, "request", task_id="t")
    bob.send(alice, "done", task_id="t")


def test_finishing_many_requests_of_one_task_is_no_loop(
    alice: Agent, bob: Agent, agent: Callable[[str], Agent]
) -> None:
    """Case 19 says: the last eight. A fan-out ends with more `done`s than that, and may."""
    asked = [alice.send(bob, task_id="t") for _ in range(12)]
    for each in asked:
        bob.send(alice, "done", reply_to=each["id"])
    workers = [agent(f"worker-{index}") for index in range(12)]
    asked = [alice.send(worker, task_id="u") for worker in workers]
    for worker, each in zip(workers, asked, strict=True):
        worker.send(alice, "done", reply_to=each["id"])
    assert alice.task("t")["state"] == alice.task("u")["state"] == "done"


def test_a_worker_that_finishes_for_a_stranger_is_heard(alice: Agent, bob: Agent) -> None:
    """Case 14."""
    asked = alice.send(bob)
    (held,) = bob.claim()
    bob.send(alice, "done", reply_to=asked["id"], content=42)
    bob.settle(held)
    assert [each["content"] for each in alice.poll()] == [42]
