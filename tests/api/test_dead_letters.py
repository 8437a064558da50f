"""Dead letters: what failed too often is kept, told of, and comes back when somebody says so."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.actors import Agent, Http, ok, refused

Travel = Callable[[float], None]
Sweep = Callable[[], None]


def give_up(bob: Agent, times: int = 5, reason: str | None = None) -> Any:
    """Claim and release again and again; the last answer."""
    fields = {"reason": reason} if reason else {}
    for _ in range(times):
        (held,) = bob.claim()
        last = bob.settle(held, "release", delay_seconds=0, **fields)
    return last


def test_a_message_released_five_times_is_a_dead_letter_and_bounces(
    alice: Agent, bob: Agent
) -> None:
    """Case 30. The bounce is there as soon as the release is answered."""
    sent = alice.send(bob, task_id="t")
    dead = give_up(bob, reason="cannot parse it")
    assert (dead["status"], dead["attempts"]) == ("dead", 5)
    assert (dead["reason"], dead["leased_by"]) == ("cannot parse it", "bob")
    (bounce,) = alice.poll()
    assert (bounce["from"], bounce["type"]) == ("postmaster", "failed")
    assert (bounce["task_id"], bounce["reply_to"]) == ("t", sent["id"])
    assert bounce["content"] == {
        "reason": "cannot parse it",
        "status": "dead",
        "message_id": sent["id"],
        "type": "request",
        "to": "bob",
        "attempts": 5,
        "last_holder": "bob",
    }
    assert alice.task("t")["state"] == "failed"


def test_a_message_whose_lease_lapsed_five_times_is_a_dead_letter(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    """Cases 30 and 31."""
    sent = alice.send(bob)
    for attempt in range(1, 6):
        (held,) = bob.claim()
        assert held["attempts"] == attempt
        travel(61)
    assert bob.claim() == []
    sweep()
    (dead,) = bob.poll(status="dead")
    assert (dead["id"], dead["reason"], dead["attempts"]) == (sent["id"], "lease_lapsed", 5)
    assert dead["leased_by"] == "bob"
    assert alice.poll()[0]["content"]["reason"] == "lease_lapsed"
    refused(bob.try_settle(held), 409, "message_dead")


def test_what_is_only_polled_never_dies(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob)
    for _ in range(10):
        assert bob.count() == 1
        travel(3600)
        sweep()
    assert len(bob.poll()) == 1


def test_dead_letters_are_counted_and_listed_and_nothing_else_is(alice: Agent, bob: Agent) -> None:
    alice.send(bob)
    give_up(bob)
    alice.send(bob)
    assert bob.counts() == {"unread": 1, "delayed": 0, "in_flight": 0, "dead": 1}
    assert [each["status"] for each in bob.poll(status="dead")] == ["dead"]
    assert [each["status"] for each in bob.poll()] == ["unread"]


def test_a_dead_letter_cannot_be_acked_or_claimed(alice: Agent, bob: Agent) -> None:
    alice.send(bob)
    dead = give_up(bob)
    refused(bob.try_ack(dead), 409, "message_dead")
    assert bob.ack_many(dead)[0]["code"] == "message_dead"
    assert bob.claim() == []


def test_redrive_counts_anew_and_no_old_receipt_fits(alice: Agent, bob: Agent) -> None:
    alice.send(bob)
    old = []
    for _ in range(5):
        (held,) = bob.claim()
        old.append(held)
        bob.settle(held, "release", delay_seconds=0)
    again = ok(bob.do(held, "redrive"))
    assert (again["status"], again["attempts"]) == ("unread", 0)
    assert "reason" not in again
    (held,) = bob.claim()
    assert held["attempts"] == 1
    for stale in old:
        refused(bob.try_settle(stale), 409, "lease_lost")
    assert bob.settle(held)["status"] == "acked"


def test_a_redriven_request_that_is_done_is_done(alice: Agent, bob: Agent) -> None:
    sent = alice.send(bob, task_id="t")
    dead = give_up(bob)
    assert alice.task("t")["state"] == "failed"
    ok(bob.do(dead, "redrive"))
    bob.send(alice, "done", reply_to=sent["id"])
    assert alice.task("t")["state"] == "done"


def test_all_dead_letters_are_redriven_at_once(alice: Agent, bob: Agent, http: Http) -> None:
    bob.register(max_attempts=1)
    for _ in range(3):
        alice.send(bob)
        give_up(bob, 1)
    answer = ok(http.post("/agents/bob/inbox/redrive", {}))
    assert answer == {"redriven": 3, "dead": 0}
    assert bob.count() == 3


def test_a_redriven_message_past_its_deadline_has_none(
    alice: Agent, bob: Agent, travel: Travel
) -> None:
    bob.register(max_attempts=1)
    alice.send(bob, expires_in=60)
    dead = give_up(bob, 1)
    travel(120)
    assert "expires_at" not in ok(bob.do(dead, "redrive"))
    assert bob.count() == 1


def test_a_discarded_dead_letter_is_acked_and_keeps_its_reason(alice: Agent, bob: Agent) -> None:
    alice.send(bob)
    dead = give_up(bob, reason="useless")
    discarded = ok(bob.do(dead, "discard"))
    assert (discarded["status"], discarded["reason"]) == ("acked", "useless")
    assert bob.counts()["dead"] == 0


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_what_is_not_dead_is_neither_redriven_nor_discarded(
    alice: Agent, bob: Agent, verb: str
) -> None:
    message = alice.send(bob)
    refused(bob.do(message, verb), 409, "not_dead")
    bob.ack(message)
    refused(bob.do(message, verb), 409, "not_dead")
    refused(bob.do({"id": "m0000000000999999"}, verb), 404, "message_not_found")
    refused(bob.do({"id": "nonsense"}, verb), 404, "message_not_found")


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_dead_letters_are_the_recipients_and_the_operators(
    alice: Agent, bob: Agent, agent: Callable[[str], Agent], http: Http, verb: str
) -> None:
    alice.send(bob)
    dead = give_up(bob)
    refused(alice.do(dead, verb), 403, "not_yours")
    refused(agent("mallory").do(dead, verb), 404, "message_not_found")
    ok(http.post(f"/inbox/messages/{dead['id']}/{verb}", {}))


def test_an_inbox_may_allow_more_or_fewer_attempts(alice: Agent, bob: Agent) -> None:
    assert bob.register(max_attempts=2)["max_attempts"] == 2
    alice.send(bob)
    assert give_up(bob, 2)["status"] == "dead"
    bob.register(max_attempts=None)
    alice.send(bob)
    assert give_up(bob, 4)["status"] == "unread"


def test_fewer_attempts_allowed_bury_what_has_had_them(
    alice: Agent, bob: Agent, sweep: Sweep
) -> None:
    alice.send(bob)
    give_up(bob, 3)
    bob.register(max_attempts=3)
    assert bob.claim() == []
    sweep()
    assert bob.counts()["dead"] == 1
    assert len(alice.poll()) == 1


def test_an_inbox_has_a_lease_of_its_own(alice: Agent, bob: Agent, travel: Travel) -> None:
    bob.register(lease_seconds=600)
    alice.send(bob)
    bob.claim()
    travel(599)
    assert bob.claim() == []
    travel(2)
    assert len(bob.claim()) == 1


def test_available_in_flight_acked_and_dead_add_up(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    """Case 29."""
    bob.register(max_attempts=2)
    alice.send_many(*[{"to": "bob", "type": "message", "content": n} for n in range(12)])

    def total() -> int:
        counts = bob.counts()
        return sum(counts.values()) + len(bob.poll(status="acked", limit=500))

    for _ in range(4):
        held = bob.claim(limit=6)
        assert total() == 12
        for message in held[:2]:
            bob.settle(message)
            assert total() == 12
        for message in held[2:4]:
            bob.settle(message, "release")
            assert total() == 12
        travel(61)
        assert total() == 12
        sweep()
        assert total() == 12
