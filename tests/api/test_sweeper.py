"""The sweeper: one process at a time, in small batches, seen by all."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from inbox import housekeeping, presence, sweeper, turn
from inbox.bell import Address, Wait
from inbox.errors import StoreUnavailable
from inbox.housekeeping import Housekeeping
from inbox.sweeper import Sweeper
from models import database
from tests.actors import Agent, Http, ok

Travel = Callable[[float], None]
DAY = 24 * 3600


def test_one_process_sweeps_until_it_leaves_or_is_not_heard_of(store: str, travel: Travel) -> None:
    first, second, third = Sweeper(), Sweeper(), Sweeper()
    assert first.round()
    assert not second.round()
    travel(9)
    assert first.round()
    travel(9)
    assert not second.round()
    travel(2)
    assert second.round()
    assert not first.round()
    second.leave()
    assert third.round()


def test_leaving_takes_the_turn_from_nobody(store: str) -> None:
    first, second = Sweeper(), Sweeper()
    second.leave()
    assert first.round()
    second.leave()
    assert not second.round()


def test_two_that_sweep_at_once_tell_the_sender_once(
    alice: Agent, bob: Agent, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when one had been asleep for longer than its lease."""
    alice.send(bob, expires_in=60)
    travel(61)
    first, second = Sweeper(), Sweeper()
    monkeypatch.setattr(Sweeper, "_holds", lambda self: True)
    assert first.round()
    assert second.round()
    assert len(alice.poll()) == 1


def test_an_idle_sweeper_only_reads(store: str) -> None:
    statements: list[str] = []
    idle = Sweeper()
    idle.round()
    idle.round()
    watcher = lambda statement, values: statements.append(statement.sqlite)  # noqa: E731
    database.watchers.append(watcher)
    try:
        idle.round()
    finally:
        database.watchers.remove(watcher)
    assert statements
    assert all(statement.startswith("SELECT") for statement in statements)


def test_ready_tells_of_the_last_run(
    alice: Agent, bob: Agent, http: Http, sweep: Callable[[], None], travel: Travel
) -> None:
    assert ok(http.get("/ready")) == {"status": "ready"}
    alice.send(bob, expires_in=60)
    sweep()
    first = ok(http.get("/ready"))["sweeper"]
    travel(61)
    sweep()
    travel(1)
    sweep()
    second = ok(http.get("/ready"))["sweeper"]
    assert second["last_run"] > first["last_run"]
    assert second["rows"]["expired"] == 1
    assert second["errors"] == 0


def test_what_goes_wrong_is_told_and_the_next_round_goes_on(
    alice: Agent, bob: Agent, http: Http, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    failing = Sweeper(lambda problem: told.append(problem.code))
    failing.round()
    alice.send(bob, expires_in=60)
    travel(61)

    def broken(realm: str) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(sweeper, "_expire", broken)
        assert not failing.round()
    assert told == ["store_unavailable"]
    assert failing.round()
    failing.leave()
    found = ok(http.get("/ready"))["sweeper"]
    assert (found["errors"], found["last_error"]) == (1, "store_unavailable")
    assert len(alice.poll()) == 1


def test_a_mistake_of_ours_is_told_and_ends_no_thread(
    alice: Agent, bob: Agent, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception] = []
    monkeypatch.setattr(housekeeping, "TICK", 0.01)
    monkeypatch.setattr(presence, "INTERVAL", 0.01)
    alice.send(bob, expires_in=0.05)
    wait = Wait([Address("default", "alice")], 20)

    def mistaken(*_: Any) -> None:
        raise KeyError("mistake")

    with monkeypatch.context() as patched:
        patched.setattr(sweeper, "_expire", mistaken)
        patched.setattr(presence, "flush", mistaken)
        running = Housekeeping(told.append)
        deadline = time.monotonic() + 20
        while len(told) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
    try:
        wait.block()
    finally:
        running.stop()
        wait.cancel()
    assert len(told) >= 4
    assert {type(each) for each in told} == {KeyError}
    assert ok(http.get("/ready"))["sweeper"]["last_error"] == "internal_error"
    assert len(alice.poll()) == 1


def test_what_is_due_becomes_ready_and_wakes_who_waits(
    alice: Agent, bob: Agent, sweep: Callable[[], None], travel: Travel
) -> None:
    alice.send(bob, deliver_in=60)
    travel(61)
    wait = Wait([Address("default", "bob")], 20)
    sweep()
    assert wait.rung
    wait.cancel()
    opened = database.current()
    sql = "SELECT visible_at FROM messages WHERE inbox = 'bob' AND status = 'unread'"
    assert opened.execute_sql(sql).fetchall() == [(0,)]
    assert len(bob.poll()) == 1


def test_a_lapsed_lease_becomes_ready_with_its_attempts(
    alice: Agent, bob: Agent, sweep: Callable[[], None], travel: Travel
) -> None:
    alice.send(bob)
    (held,) = bob.claim()
    travel(61)
    sweep()
    (again,) = bob.claim()
    assert again["attempts"] == 2
    assert bob.try_settle(held).status_code == 409


def test_a_lease_that_lasts_is_left_alone(
    alice: Agent, bob: Agent, sweep: Callable[[], None], travel: Travel
) -> None:
    alice.send(bob)
    (held,) = bob.claim(lease_seconds=600)
    travel(599)
    sweep()
    assert bob.counts()["in_flight"] == 1
    assert bob.settle(held)["status"] == "acked"


def test_delayed_mail_is_counted_apart_and_kept_across_a_restart(
    alice: Agent, bob: Agent, store: str, sweep: Callable[[], None], travel: Travel
) -> None:
    alice.send(bob, deliver_in=60)
    turn.close()
    turn.open(store)
    sweep()
    assert bob.counts() == {"unread": 0, "delayed": 1, "in_flight": 0, "dead": 0}
    travel(61)
    sweep()
    assert bob.counts()["unread"] == 1


def test_every_realm_is_swept(
    alice: Agent, bob: Agent, sweep: Callable[[], None], travel: Travel
) -> None:
    alice.send(bob, expires_in=60)
    opened = database.current()
    opened.execute_sql("UPDATE messages SET realm = 'another' WHERE realm = 'default'")
    travel(61)
    sweep()
    found = opened.execute_sql("SELECT realm, inbox FROM messages WHERE sender = 'postmaster'")
    assert ("another", "alice") in found.fetchall()


def test_a_sqlite_file_gives_pages_back(
    alice: Agent, bob: Agent, store: str, travel: Travel, sweep: Callable[[], None]
) -> None:
    if not store.startswith("sqlite"):
        return  # PostgreSQL reuses what its autovacuum frees; see the next test
    for _ in range(8):
        sent = alice.send_many(
            *[{"to": "bob", "type": "message", "task_id": "t", "content": "x" * 4000}] * 200
        )
        bob.ack_many(*sent)
    pages = database.current().execute_sql("PRAGMA page_count").fetchone()[0]
    travel(31 * DAY)
    for _ in range(16):
        sweep()
    assert database.current().execute_sql("PRAGMA page_count").fetchone()[0] < pages / 2


def test_postgresql_vacuums_this_table_in_its_own_way(store: str) -> None:
    if store.startswith("postgresql"):
        sql = "SELECT reloptions FROM pg_class WHERE relname = 'messages'"
        (options,) = database.current().execute_sql(sql).fetchone()
        assert "autovacuum_vacuum_scale_factor=0.02" in options


def test_the_housekeeping_thread_sweeps_and_notes_who_was_heard_of(
    alice: Agent, bob: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "TICK", 0.01)
    assert bob.poll() == []
    alice.send(bob, expires_in=0.05)
    wait = Wait([Address("default", "alice")], 20)
    running = Housekeeping(lambda problem: pytest.fail(problem.code))
    try:
        wait.block()
    finally:
        running.stop()
        wait.cancel()
    assert len(alice.poll()) == 1
    presence.forget()
    assert ok(alice.http.get("/agents/bob"))["last_seen"]
