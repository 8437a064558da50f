"""Claiming: messages are taken for a while, in order, by one at a time."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from api.service import Service
from inbox import bell
from models import clock, database
from tests.actors import Agent, Http, ok, refused, together

THREADS = {"environ_overrides": {"wsgi.multithread": True}}


@pytest.fixture
def http(store: str) -> Http:
    return Http(Service(1 << 20, waiters=16))


def test_a_claim_takes_the_oldest_messages_with_a_receipt_each(alice: Agent, bob: Agent) -> None:
    sent = [alice.send(bob, content=index) for index in range(3)]
    claimed = bob.claim(limit=2)
    assert [each["id"] for each in claimed] == [each["id"] for each in sent[:2]]
    assert [each["attempts"] for each in claimed] == [1, 1]
    assert all(each["receipt"].startswith(each["id"]) for each in claimed)
    assert all(each["leased_until"] and each["leased_by"] == "bob" for each in claimed)
    assert [each["content"] for each in bob.poll()] == [2]


def test_a_claim_takes_one_message_for_a_minute_unless_it_says_otherwise(
    alice: Agent, bob: Agent, travel: Callable[[float], None]
) -> None:
    alice.send(bob)
    alice.send(bob)
    assert len(bob.claim()) == 1
    travel(59)
    assert len(bob.poll()) == 1
    travel(2)
    assert len(bob.poll()) == 2


def test_nobody_else_gets_what_is_claimed(alice: Agent, bob: Agent) -> None:
    alice.send(bob)
    assert len(bob.claim(worker="one")) == 1
    assert bob.claim(worker="two") == []


def test_an_empty_inbox_gives_an_empty_claim(bob: Agent) -> None:
    assert ok(bob.try_claim()) == {"messages": []}


def test_a_claim_may_be_for_one_task_or_one_type(alice: Agent, bob: Agent) -> None:
    alice.send(bob, task_id="one")
    wanted = alice.send(bob, "question", task_id="two")
    alice.send(bob, task_id="two")
    assert [each["id"] for each in bob.claim(limit=9, type="question")] == [wanted["id"]]
    assert [each["task_id"] for each in bob.claim(limit=9, task_id="two")] == ["two"]
    assert [each["task_id"] for each in bob.claim(limit=9)] == ["one"]


def test_delayed_and_expired_messages_are_not_claimed(
    alice: Agent, bob: Agent, travel: Callable[[float], None]
) -> None:
    alice.send(bob, expires_in=5)
    alice.send(bob, deliver_in=10, content="later")
    travel(6)
    assert bob.claim() == []
    travel(5)
    assert [each["content"] for each in bob.claim()] == ["later"]


def test_what_was_given_up_comes_before_what_is_newer(
    alice: Agent, bob: Agent, travel: Callable[[float], None]
) -> None:
    """A lapsed lease is due again, in the order of the ids, with nobody to see to it."""
    first = alice.send(bob)
    bob.claim(lease_seconds=10)
    alice.send(bob)
    travel(11)
    claimed = bob.claim(limit=2)
    assert claimed[0]["id"] == first["id"]
    assert [each["attempts"] for each in claimed] == [2, 1]


def test_a_claim_acknowledges_what_the_claimer_is_done_with(alice: Agent, bob: Agent) -> None:
    alice.send(bob)
    alice.send(bob)
    (first,) = bob.claim()
    stale = first["id"] + ".0123456789abcdef"
    answer = ok(bob.try_claim(ack=[first["receipt"], stale, "nonsense"]))
    assert [each["status"] for each in answer["results"]] == ["acked", "refused", "refused"]
    assert [each.get("code") for each in answer["results"]][1:] == [
        "lease_lost",
        "message_not_found",
    ]
    assert len(answer["messages"]) == 1
    assert bob.counts() == {"unread": 0, "delayed": 0, "in_flight": 1, "dead": 0}


def test_one_task_goes_to_one_worker(alice: Agent, bob: Agent) -> None:
    for task_id in ("one", "one", "two", "one"):
        alice.send(bob, task_id=task_id)
    alone = {"exclusive_tasks": True, "limit": 9}
    first = bob.claim(worker="w1", **alone)
    assert [each["task_id"] for each in first] == ["one", "two"]
    assert bob.claim(worker="w2", **alone) == []
    second = bob.claim(worker="w1", **alone)
    assert [each["task_id"] for each in second] == ["one"]
    bob.settle(first[0])
    bob.settle(second[0])
    third = bob.claim(worker="w2", **alone)
    assert [each["task_id"] for each in third] == ["one"]
    assert bob.claim(worker="w1", **alone) == []


def test_a_message_that_waits_for_its_time_does_not_hold_its_task_up(
    alice: Agent, bob: Agent
) -> None:
    alice.send(bob, task_id="one", deliver_in=3600)
    alice.send(bob, task_id="one", content="now")
    assert [each["content"] for each in bob.claim(exclusive_tasks=True)] == ["now"]


def test_a_task_given_back_is_still_in_order(alice: Agent, bob: Agent) -> None:
    alice.send(bob, task_id="one")
    alice.send(bob, task_id="one")
    (first,) = bob.claim(exclusive_tasks=True, worker="w1")
    bob.settle(first, "release", delay_seconds=60)
    assert bob.claim(exclusive_tasks=True, worker="w2") == []


def test_a_claim_waits_for_work(alice: Agent, bob: Agent, later: Callable) -> None:
    later(lambda: alice.send(bob, content="work"))
    (claimed,) = bob.claim(wait=20, options=THREADS)
    assert (claimed["content"], claimed["attempts"]) == ("work", 1)


def test_a_waiting_claim_settles_once(alice: Agent, bob: Agent, later: Callable) -> None:
    alice.send(bob)
    (first,) = bob.claim()
    later(lambda: alice.send(bob))
    answer = ok(bob.try_claim(wait=20, ack=[first["receipt"]], options=THREADS))
    assert [each["status"] for each in answer["results"]] == ["acked"]
    assert len(answer["messages"]) == 1


def test_a_waiting_claim_is_woken_by_the_end_of_a_lease(alice: Agent, bob: Agent) -> None:
    alice.send(bob)
    bob.claim(lease_seconds=1)
    (claimed,) = bob.claim(wait=20, options=THREADS)
    assert claimed["attempts"] == 2


def test_a_waiting_claim_is_woken_by_a_release(alice: Agent, bob: Agent, later: Callable) -> None:
    alice.send(bob)
    (held,) = bob.claim()
    later(lambda: bob.settle(held, "release", delay_seconds=0))
    assert len(bob.claim(wait=20, options=THREADS)) == 1


def test_a_delayed_message_wakes_a_waiting_claim_when_it_is_due(alice: Agent, bob: Agent) -> None:
    alice.send(bob, deliver_in=0.2)
    assert len(bob.claim(wait=20, options=THREADS)) == 1


def test_a_claim_that_is_over_waits_no_more(bob: Agent) -> None:
    assert bob.claim(wait=0.05, options=THREADS) == []
    assert bell.waited_for() == []


def test_without_a_place_to_wait_a_claim_answers_at_once(bob: Agent) -> None:
    answer = bob.try_claim(wait=20)
    assert ok(answer) == {"messages": []}
    assert answer.headers["Retry-After"] == "1"


def test_the_wait_of_a_claim_may_be_in_its_query_or_its_headers(bob: Agent) -> None:
    for options in ({"query_string": {"timeout": 0.05}}, {"headers": {"Prefer": "wait=0"}}):
        assert ok(bob.try_claim(options={**options, **THREADS})) == {"messages": []}


def test_fifty_claimers_of_one_message_do_bounded_work(
    alice: Agent, bob: Agent, http: Http
) -> None:
    """Case 40: one look when it begins to wait, and one for what was sent."""
    statements: list[Any] = []
    watcher = lambda statement, values: statements.append(statement)  # noqa: E731
    waiters = 12

    def parked() -> int:
        waits = bell._waits.get(bell.Address("default", "bob"), ())
        return sum(wait.callback is not None for wait in list(waits))

    def claim(index: int) -> int:
        return len(bob.claim(wait=5, options=THREADS))

    def send() -> None:
        deadline = time.monotonic() + 20
        while parked() < waiters and time.monotonic() < deadline:
            threading.Event().wait(0.002)
        database.watchers.append(watcher)
        alice.send(bob)
        time.sleep(0.5)
        database.watchers.remove(watcher)

    sender = threading.Thread(target=send)
    sender.start()
    got = together(waiters, claim)
    sender.join()
    assert sum(got) == 1
    assert len(statements) < waiters * 6


def test_parallel_claimers_get_each_message_once(alice: Agent, bob: Agent) -> None:
    alice.send_many(*[{"to": "bob", "type": "request", "content": n} for n in range(60)])

    def claim(index: int) -> list[int]:
        got: list[int] = []
        while found := bob.claim(limit=3, worker=f"w{index}"):
            got += [each["content"] for each in found]
        return got

    got = sorted(number for part in together(6, claim) for number in part)
    assert got == list(range(60))


@pytest.mark.parametrize(
    "fields",
    [
        {"lease_seconds": 0.5},
        {"lease_seconds": 43201},
        {"limit": 0},
        {"limit": "1"},
        {"exclusive_tasks": "yes"},
        {"ack": "m0000000000000001"},
        {"lease": 60},
    ],
    ids=str,
)
def test_a_claim_that_makes_no_sense_is_refused(bob: Agent, fields: Any) -> None:
    refused(bob.try_claim(**fields), 422, "invalid_request")


def test_another_agent_claims_nothing_of_mine(alice: Agent, bob: Agent, http: Http) -> None:
    alice.send(bob)
    answer = http.post("/agents/bob/inbox/claim", {"from": "mallory"})
    refused(answer, 404, "inbox_not_found")
    assert bob.count() == 1


def test_an_alias_claims_from_its_owners_inbox(alice: Agent, bob: Agent, http: Http) -> None:
    bob.register(aliases=["bobby"])
    alice.send(bob)
    (claimed,) = ok(http.post("/agents/bobby/inbox/claim", {}))["messages"]
    answer = http.post(
        f"/inbox/messages/{claimed['id']}/ack", {"from": "bobby", "receipt": claimed["receipt"]}
    )
    assert ok(answer)["status"] == "acked"


def test_a_lease_is_kept_by_the_servers_clock_alone(
    alice: Agent, bob: Agent, travel: Callable[[float], None]
) -> None:
    """No request carries a time: a client whose clock jumps by a day claims as before."""
    alice.send(bob)
    (claimed,) = bob.claim(lease_seconds=60)
    before = clock.now()
    for date in ("Mon, 01 Jan 1990 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"):
        headers = {"headers": {"Date": date, "If-Modified-Since": date}}
        assert ok(bob.try_claim(options=headers)) == {"messages": []}
        receipt = {"from": "bob", "receipt": claimed["receipt"], "lease_seconds": 60}
        path = f"/inbox/messages/{claimed['id']}/extend"
        extended = ok(bob.http.post(path, receipt, **headers))
        assert extended["leased_until"] >= claimed["leased_until"]
    assert clock.now() - before < 30_000
    assert bob.settle(claimed)["status"] == "acked"
