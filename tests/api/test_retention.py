"""Retention: a task goes whole, when it is closed or silent for long enough."""

from collections.abc import Callable, Iterator

import pytest

from inbox import retention
from inbox.retention import Lifetimes
from models import database
from tests.actors import Agent, Http, ok, refused

Travel = Callable[[float], None]
Sweep = Callable[[], None]
DAY = 24 * 3600


@pytest.fixture
def keep() -> Iterator[Callable[..., None]]:
    """Sets how long things are kept."""
    before = retention.configured.lifetimes

    def set(**lifetimes: float) -> None:
        retention.configure(Lifetimes(**lifetimes))

    yield set
    retention.configure(before)


def rows() -> int:
    """How many messages there are in the table."""
    opened = database.current()
    sql = "SELECT COUNT(*) FROM messages WHERE state_key IS NULL"
    return int(opened.execute_sql(sql).fetchone()[0])


def done(alice: Agent, bob: Agent, task_id: str) -> None:
    """A request that is done, with all read."""
    bob.ack(alice.send(bob, task_id=task_id))
    alice.ack(bob.send(alice, "done", task_id=task_id))


def test_a_task_goes_whole_once_it_is_silent(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    done(alice, bob, "t")
    travel(29 * DAY)
    sweep()
    assert rows() == 2
    travel(2 * DAY)
    sweep()
    assert rows() == 0
    assert alice.tasks() == []
    refused(alice.try_task("t"), 404, "task_not_found")


def test_a_task_in_which_something_happens_stays_whole(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    done(alice, bob, "t")
    travel(20 * DAY)
    done(alice, bob, "t")
    travel(20 * DAY)
    sweep()
    assert rows() == 4


def test_a_late_ack_counts_as_something(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    sent = alice.send(bob, task_id="t")
    travel(20 * DAY)
    bob.ack(sent)
    travel(20 * DAY)
    sweep()
    assert rows() == 1
    travel(11 * DAY)
    sweep()
    assert rows() == 0


def test_dead_letters_keep_their_task_for_longer(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    bob.register(max_attempts=1)
    alice.send(bob, "message", task_id="t")
    bob.settle(bob.claim()[0], "release")
    alice.ack_many(*alice.poll())
    travel(60 * DAY)
    sweep()
    assert bob.counts()["dead"] == 1
    travel(31 * DAY)
    sweep()
    assert bob.counts()["dead"] == 0


def test_a_closed_task_goes_after_a_week(
    alice: Agent, bob: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    done(alice, bob, "t")
    ok(alice.try_close("t"))
    travel(6 * DAY)
    sweep()
    assert alice.task("t")["state"] == "closed"
    travel(2 * DAY)
    sweep()
    refused(alice.try_task("t"), 404, "task_not_found")
    assert rows() == 0


@pytest.mark.parametrize(("keep_for", "left"), [(60, 0), (0, 2)])
def test_closing_may_say_for_how_long(
    alice: Agent,
    bob: Agent,
    http: Http,
    travel: Travel,
    sweep: Sweep,
    keep: Callable[..., None],
    keep_for: float,
    left: int,
) -> None:
    keep(acked=0)
    done(alice, bob, "t")
    ok(http.post("/tasks/t/close", {"from": "alice", "keep": keep_for}))
    travel(365 * DAY if keep_for == 0 else 61)
    sweep()
    assert rows() == left


def test_what_is_unread_in_a_closed_task_is_told_of_before_it_goes(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob, task_id="t")
    ok(alice.try_close("t"))
    travel(8 * DAY)
    sweep()
    assert bob.poll() == []
    (bounce,) = alice.poll()
    assert bounce["content"]["reason"] == "task_closed"
    alice.ack(bounce)
    travel(2 * DAY)
    sweep()
    assert rows() == 0


def test_zero_keeps_for_ever(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep, keep: Callable[..., None]
) -> None:
    keep(acked=0, unread=0, dead=0, closed=0)
    done(alice, bob, "t")
    done(alice, bob, "u")
    alice.send(bob, task_id="v")
    ok(alice.try_close("u"))
    travel(3650 * DAY)
    sweep()
    assert rows() == 5
    assert len(bob.poll()) == 1


def test_a_row_with_a_key_stays_a_day_whatever_the_settings_say(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep, keep: Callable[..., None]
) -> None:
    keep(acked=60, closed=60)
    for task_id in ("silent", "closed"):
        sent = alice.send(bob, task_id=task_id, idempotency_key=task_id)
        bob.ack(sent)
    ok(alice.try_close("closed"))
    travel(3600)
    sweep()
    again = ok(alice.try_send(bob, task_id="silent", idempotency_key="silent"), 200)
    assert again["status"] == "acked"
    travel(DAY)
    sweep()
    travel(3600)
    sweep()
    assert rows() == 0


def test_a_task_is_purged_at_once_by_its_opener(
    alice: Agent, bob: Agent, http: Http, sweep: Sweep
) -> None:
    done(alice, bob, "t")
    done(alice, bob, "u")
    refused(http.post("/tasks/t/purge", {"from": "bob"}), 403, "not_yours")
    refused(http.post("/tasks/t/purge", {"from": "mallory"}), 404, "task_not_found")
    assert ok(http.post("/tasks/t/purge", {"from": "alice"}))["state"] == "closed"
    sweep()
    refused(alice.try_task("t"), 404, "task_not_found")
    ok(http.post("/tasks/u/purge", {}))
    sweep()
    assert rows() == 0


def test_a_purge_tells_the_senders_of_what_was_unread(
    alice: Agent, bob: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    alice.send(bob, "message", task_id="t")
    bob.send(alice, "question", task_id="t")
    ok(http.post("/tasks/t/purge", {"from": "alice"}))
    sweep()
    (bounce,) = bob.poll()
    assert (bounce["type"], bounce["content"]["reason"]) == ("failed", "task_closed")
    assert [each["content"]["reason"] for each in alice.poll()] == ["task_closed"]
    refused(bob.try_send(alice, "done", task_id="t"), 409, "task_closed")
    travel(2 * DAY)
    sweep()
    assert rows() == 0


def test_a_big_task_goes_in_batches_its_first_message_last(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    for _ in range(3):
        sent = alice.send_many(*[{"to": "bob", "type": "message", "task_id": "t"}] * 300)
        bob.ack_many(*sent)
    travel(31 * DAY)
    for _ in range(10):
        sweep()
    assert rows() == 0
