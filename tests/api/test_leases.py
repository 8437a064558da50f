"""Leases: a receipt belongs to one claim, and what its holder may do with it."""

from collections.abc import Callable
from typing import Any

import pytest

from inbox import turn
from tests.actors import Agent, Http, ok, refused

Travel = Callable[[float], None]


@pytest.fixture
def held(alice: Agent, bob: Agent) -> Any:
    """A request from alice that bob holds for a minute."""
    alice.send(bob, task_id="t")
    (claimed,) = bob.claim(lease_seconds=60)
    return claimed


def test_the_late_ack_of_a_worker_that_died_is_refused(
    bob: Agent, held: Any, travel: Travel
) -> None:
    """Case 25."""
    travel(61)
    (second,) = bob.claim()
    assert second["attempts"] == 2
    for late in (bob.try_settle(held), bob.try_ack(held)):
        refused(late, 409, "lease_lost")
    assert bob.counts()["in_flight"] == 1
    assert bob.settle(second)["status"] == "acked"
    refused(bob.try_settle(held), 409, "lease_lost")


def test_a_late_ack_after_the_lease_ended_is_refused_also_when_nobody_has_claimed_it_since(
    bob: Agent, held: Any, travel: Travel
) -> None:
    travel(61)
    refused(bob.try_settle(held), 409, "lease_lost")
    assert bob.counts()["unread"] == 1


def test_a_worker_that_restarts_under_its_name_does_not_prolong_its_old_lease(
    bob: Agent, held: Any, travel: Travel
) -> None:
    """Case 26."""
    travel(30)
    bob.register()
    assert bob.claim() == []
    travel(31)
    (again,) = bob.claim()
    assert again["attempts"] == 2


def test_extending_at_half_time_sets_the_end_anew(bob: Agent, held: Any, travel: Travel) -> None:
    """Case 27: the deadline is now + n."""
    travel(30)
    extended = bob.settle(held, "extend", lease_seconds=60)
    assert extended["leased_until"] > held["leased_until"]
    travel(59)
    assert bob.claim() == []
    travel(2)
    refused(bob.try_settle(held, "extend", lease_seconds=60), 409, "lease_lost")
    assert len(bob.claim()) == 1
    refused(bob.try_settle(held, "extend", lease_seconds=60), 409, "lease_lost")


def test_a_lease_can_be_shortened(bob: Agent, held: Any, travel: Travel) -> None:
    bob.settle(held, "extend", lease_seconds=1)
    travel(2)
    assert len(bob.claim()) == 1


def test_a_claimed_message_is_acked_with_its_receipt_only(bob: Agent, held: Any) -> None:
    refused(bob.try_ack(held), 409, "lease_lost")
    assert [each["code"] for each in bob.ack_many(held)] == ["lease_lost"]
    assert bob.ack_many(held["receipt"])[0]["status"] == "acked"
    assert bob.settle(held)["status"] == "acked"


def test_acking_twice_with_the_receipt_is_as_once(bob: Agent, held: Any) -> None:
    first = bob.settle(held)
    assert bob.settle(held)["acked_at"] == first["acked_at"]


def test_what_nobody_holds_takes_no_receipt(alice: Agent, bob: Agent) -> None:
    message = alice.send(bob)
    forged = {**message, "receipt": message["id"] + ".0123456789abcdef"}
    refused(bob.try_settle(forged), 409, "lease_lost")
    assert bob.count() == 1


@pytest.mark.parametrize("receipt", ["", "m1", "m0000000000000001", "x" * 200])
def test_what_is_no_receipt_is_refused(bob: Agent, held: Any, receipt: str) -> None:
    refused(bob.try_settle({**held, "receipt": receipt}), 409, "lease_lost")
    refused(bob.try_settle({**held, "receipt": receipt}, "extend"), 409, "lease_lost")
    refused(bob.try_settle({**held, "receipt": receipt}, "release"), 409, "lease_lost")


def test_the_receipt_of_another_message_does_not_fit(alice: Agent, bob: Agent, held: Any) -> None:
    alice.send(bob)
    (other,) = bob.claim()
    refused(bob.try_settle({**held, "receipt": other["receipt"]}), 409, "lease_lost")


def test_a_stale_receipt_in_a_bulk_ack_settles_nothing_beside_a_fresh_one(
    alice: Agent, bob: Agent, held: Any, travel: Travel
) -> None:
    alice.send(bob)
    travel(61)
    again, other = bob.claim(limit=2)
    results = bob.ack_many(held["receipt"], other["receipt"])
    assert [each["status"] for each in results] == ["refused", "acked"]
    assert bob.settle(again)["status"] == "acked"


def test_the_agent_of_another_inbox_settles_nothing(
    alice: Agent, held: Any, agent: Callable[[str], Agent], bob: Agent
) -> None:
    """Case 4, with a receipt that has leaked."""
    mallory = agent("mallory")
    for verb in ("ack", "release", "extend"):
        answer = mallory.try_settle(held, verb)
        assert answer.status_code in (404, 409), answer.text
    assert bob.settle(held)["status"] == "acked"


def test_the_operator_needs_the_receipt_as_well(http: Http, held: Any) -> None:
    refused(http.post(f"/inbox/messages/{held['id']}/ack", {}), 409, "lease_lost")
    answer = http.post(f"/inbox/messages/{held['id']}/ack", {"receipt": held["receipt"]})
    assert ok(answer)["status"] == "acked"


def test_the_sender_sees_who_holds_its_message_and_no_receipt(alice: Agent, held: Any) -> None:
    receipt = alice.receipt(held)
    assert (receipt["leased_by"], receipt["leased_until"]) == ("bob", held["leased_until"])
    assert receipt["status"] == "unread"
    assert "receipt" not in receipt
    assert all("receipt" not in each for each in alice.history("t"))


def test_a_process_names_itself(alice: Agent, bob: Agent) -> None:
    message = alice.send(bob)
    bob.claim(worker="process-7")
    assert alice.receipt(message)["leased_by"] == "process-7"


def test_a_process_that_is_called_as_an_agent_gives_that_agent_no_part(
    alice: Agent, bob: Agent, agent: Callable[[str], Agent]
) -> None:
    message = alice.send(bob, task_id="secret")
    bob.claim(worker="mallory")
    mallory = agent("mallory")
    refused(mallory.try_task("secret"), 404, "task_not_found")
    answer = mallory.http.get(f"/inbox/messages/{message['id']}?as=mallory")
    refused(answer, 404, "message_not_found")


def test_a_released_message_can_be_claimed_at_once_or_later(
    alice: Agent, bob: Agent, held: Any, travel: Travel
) -> None:
    released = bob.settle(held, "release", delay_seconds=0, reason="no model is free")
    assert (released["status"], released["reason"]) == ("unread", "no model is free")
    assert "leased_until" not in released
    (again,) = bob.claim()
    later = bob.settle(again, "release", delay_seconds=30)
    assert later["deliver_at"]
    assert bob.claim() == []
    assert bob.counts() == {"unread": 0, "delayed": 1, "in_flight": 0, "dead": 0}
    travel(31)
    assert bob.claim()[0]["attempts"] == 3


def test_without_a_delay_a_released_message_comes_back_ever_later(
    bob: Agent, held: Any, travel: Travel
) -> None:
    for seconds in (1, 2, 4):
        bob.settle(held, "release")
        travel(seconds - 0.5)
        assert bob.claim() == []
        travel(0.6)
        (held,) = bob.claim()


def test_a_released_receipt_fits_no_more(bob: Agent, held: Any) -> None:
    bob.settle(held, "release", delay_seconds=0)
    for verb in ("ack", "extend", "release"):
        refused(bob.try_settle(held, verb), 409, "lease_lost")


def test_a_released_message_stays_in_the_history_while_it_waits(bob: Agent, held: Any) -> None:
    bob.settle(held, "release", delay_seconds=3600)
    assert [each["id"] for each in bob.history("t")] == [held["id"]]


def test_a_message_past_its_deadline_is_no_more_anybodys(
    alice: Agent, bob: Agent, travel: Travel
) -> None:
    alice.send(bob, expires_in=30)
    (claimed,) = bob.claim(lease_seconds=60)
    travel(31)
    for verb in ("ack", "extend", "release"):
        refused(bob.try_settle(claimed, verb), 409, "message_expired")


def test_attempts_and_leases_survive_a_restart(
    bob: Agent, held: Any, store: str, travel: Travel
) -> None:
    """Case 31."""
    turn.close()
    turn.open(store)
    assert bob.claim() == []
    travel(61)
    turn.close()
    turn.open(store)
    assert bob.claim()[0]["attempts"] == 2


def test_none_of_what_a_dead_claimer_held_is_lost(alice: Agent, bob: Agent, travel: Travel) -> None:
    """Case 32: a claimer takes ten, works on four, dies."""
    alice.send_many(*[{"to": "bob", "type": "request", "content": n} for n in range(10)])
    for message in bob.claim(limit=10)[:4]:
        bob.settle(message)
    travel(61)
    assert [each["content"] for each in bob.claim(limit=10)] == [4, 5, 6, 7, 8, 9]
