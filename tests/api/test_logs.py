"""Logs of rooms and direct threads: trimmed from the old end, a post with all its copies.

Their rows are put into the table as rooms are to write them: the post into the log, acknowledged,
and a copy without content into the inbox of each member.
"""

from collections.abc import Callable

import pytest

from inbox import retention
from inbox.retention import Lifetimes
from models import clock, database, logs
from models.logs import Ages
from tests.actors import Agent, Http

DAY = 24 * 3600
INSERT = """
    INSERT INTO messages (realm, inbox, task_id, type, sender, content, copy_of, opens, status,
        visible_at, attempts, dedup_key, created_at, settled_at)
    VALUES ('default', {inbox}, {task}, 'message', 'alice', {content}, {copy_of}, {opens},
        {status}, 0, 0, {key}, {now}, {settled})
"""
ROOM, DIRECT = "room:general", "dm:alice:bob"

Travel = Callable[[float], None]
Sweep = Callable[[], None]


def run(sql: str) -> list[int]:
    """The first column of what the SQL finds."""
    found = database.current().execute_sql(sql)
    return [row[0] for row in found.fetchall()] if found.description else []


def put(
    inbox: str,
    task: str = ROOM,
    status: str = "acked",
    copy_of: int | None = None,
    key: str | None = None,
) -> int:
    """Put a row into the table; its seq."""
    first = not run(f"SELECT 1 FROM messages WHERE task_id = '{task}' LIMIT 1")
    text = "CAST('1' AS BLOB)" if database.current().dialect == "sqlite" else "'1'"
    run(
        INSERT.format(
            inbox=f"'{inbox}'",
            task=f"'{task}'",
            content=text if copy_of is None else "NULL",
            copy_of=copy_of or "NULL",
            opens="TRUE" if first else "FALSE",
            status=f"'{status}'",
            key=f"'{key}'" if key else "NULL",
            now=clock.now(),
            settled="NULL" if status == "unread" else clock.now(),
        )
    )
    return run("SELECT MAX(seq) FROM messages")[0]


def post(*statuses: str) -> list[int]:
    """A post to the room, with a copy of each status; the seqs."""
    original = put(ROOM)
    copies = [
        put(f"member-{number}", status=status, copy_of=original)
        for number, status in enumerate(statuses)
    ]
    return [original, *copies]


def left() -> list[int]:
    """What is left of all messages but the service's own."""
    return run(
        "SELECT seq FROM messages WHERE state_key IS NULL AND sender <> 'postmaster' ORDER BY seq"
    )


def test_a_log_is_trimmed_from_its_old_end(http: Http, travel: Travel, sweep: Sweep) -> None:
    old = post("acked", "acked")
    travel(20 * DAY)
    newer = post("acked", "acked")
    sweep()
    assert left() == [*old, *newer]
    travel(11 * DAY)
    sweep()
    assert left() == newer
    travel(20 * DAY)
    sweep()
    assert left() == []


def test_what_is_first_after_a_log_was_trimmed_opens_it(
    http: Http, travel: Travel, sweep: Sweep
) -> None:
    """Else the sweeper would not find it again."""
    post("acked")
    travel(20 * DAY)
    newer = post("acked")
    post("acked")
    travel(11 * DAY)
    sweep()
    assert run("SELECT seq FROM messages WHERE opens") == newer[:1]


@pytest.mark.parametrize("status", ["unread", "dead"])
def test_a_post_stays_while_anybody_has_a_copy_to_deal_with(
    http: Http, travel: Travel, sweep: Sweep, status: str
) -> None:
    lifetimes = retention.configured.lifetimes
    retention.configure(Lifetimes(unread=0, dead=0))
    kept = post("acked", status)
    post("acked", "acked")
    try:
        travel(31 * DAY)
        sweep()
    finally:
        retention.configure(lifetimes)
    assert left() == kept


def test_a_copy_that_was_read_late_keeps_the_post(http: Http, travel: Travel, sweep: Sweep) -> None:
    rows = post("acked", "unread")
    travel(20 * DAY)
    run(f"UPDATE messages SET status = 'acked', settled_at = {clock.now()} WHERE seq = {rows[2]}")
    travel(20 * DAY)
    sweep()
    assert left() == rows
    travel(11 * DAY)
    sweep()
    assert left() == []


def test_a_copy_that_nobody_reads_goes_untold_in_the_end(
    http: Http, travel: Travel, sweep: Sweep
) -> None:
    """Receipts tell of copies; a notice for each member and post would be too much."""
    post("acked", "unread")
    for _ in range(3):
        travel(31 * DAY)
        sweep()
    assert run("SELECT seq FROM messages WHERE state_key IS NULL") == []


def test_a_direct_thread_is_trimmed_and_the_sender_told_of_what_was_unread(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    put("bob", DIRECT)
    waiting = put("bob", DIRECT, "unread")
    travel(20 * DAY)
    newer = put("alice", DIRECT)
    travel(11 * DAY)
    sweep()
    assert left() == [waiting, newer]  # that was unread until now, and is told of
    (notice,) = alice.poll()
    assert (notice["from"], notice["type"]) == ("postmaster", "message")
    travel(31 * DAY)
    sweep()
    assert left() == []


def test_a_post_with_a_key_stays_for_a_day(http: Http, travel: Travel, sweep: Sweep) -> None:
    lifetimes = retention.configured.lifetimes
    retention.configure(Lifetimes(acked=3600))
    try:
        put(ROOM, key="k")
        put(ROOM)
        travel(2 * 3600)
        sweep()
        assert len(left()) == 1
        travel(DAY)
        sweep()
        assert left() == []
    finally:
        retention.configure(lifetimes)


def test_with_lifetimes_of_0_a_log_is_kept_for_ever(
    http: Http, travel: Travel, sweep: Sweep
) -> None:
    lifetimes = retention.configured.lifetimes
    retention.configure(Lifetimes(acked=0))
    rows = post("acked")
    try:
        travel(1000 * DAY)
        sweep()
    finally:
        retention.configure(lifetimes)
    assert left() == rows


def test_a_post_to_many_goes_in_batches_itself_last(http: Http, travel: Travel) -> None:
    rows = post(*["acked"] * 10)
    travel(31 * DAY)
    ages = Ages(clock.now() - DAY, clock.now() - DAY, clock.now() - DAY)
    steps = []
    while deleted := logs.delete("default", ROOM, rows[:1], ages, 4):
        steps.append((deleted, rows[0] in left()))
    assert steps == [(4, True), (4, True), (3, False)]


def test_what_came_back_to_life_meanwhile_is_not_deleted(http: Http, travel: Travel) -> None:
    rows = post("acked", "unread")
    travel(31 * DAY)
    ages = Ages(clock.now() - DAY, clock.now() - DAY, clock.now() - DAY)
    logs.delete("default", ROOM, rows[:1], ages, 100)
    assert left() == [rows[0], rows[2]]


def test_many_old_posts_of_many_rooms_go_and_tasks_with_them(
    alice: Agent, bob: Agent, travel: Travel, sweep: Sweep
) -> None:
    for number in range(3):
        for _ in range(90):
            put(f"room:{number}", f"room:{number}")
    bob.ack(alice.send(bob, task_id="t"))
    travel(31 * DAY)
    last = put("room:1", "room:1")
    sweep()
    assert left() == [last]
