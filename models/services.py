"""Services: how much waits for one, who works for it, how it is closed."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from models import clock, database
from models.rows import DUE, LISTED, READY
from models.statement import Statement

RECENT = 1000  # rows from which rates are taken
WINDOW = 300_000  # ms of the past that they are about

BOX = "m.realm = :realm AND m.inbox = :inbox"
OLDEST = Statement(
    f"""
    SELECT (SELECT m.created_at FROM messages m WHERE {BOX} AND {READY} ORDER BY m.seq LIMIT 1),
        (SELECT m.created_at FROM messages m WHERE {BOX} AND {DUE}
            ORDER BY m.visible_at, m.seq LIMIT 1)
    """
)
RATES = Statement(
    f"""
    SELECT COALESCE(SUM(CASE WHEN r.created_at >= :after THEN 1 ELSE 0 END), 0),
        COALESCE(SUM(
            CASE WHEN r.status = 'acked' AND r.settled_at >= :after THEN 1 ELSE 0 END
        ), 0)
    FROM (
        SELECT m.created_at, m.status, m.settled_at FROM messages m
        WHERE {BOX} AND {LISTED} ORDER BY m.seq DESC LIMIT {RECENT}
    ) r
    """
)
WORKER = "m.realm = :realm AND m.type = 'worker' AND m.inbox = :inbox AND m.status = 'fact'"
WORK = Statement(
    """
    INSERT INTO messages (realm, inbox, type, sender, content, opens, state_key, status,
        visible_at, attempts, created_at, expires_at)
    VALUES (:realm, :inbox, 'worker', :name, :content, FALSE, :name, 'fact', 0, 0, :now, :until)
    ON CONFLICT (realm, type, inbox, state_key) WHERE status = 'fact' DO UPDATE
    SET content = excluded.content, expires_at = excluded.expires_at,
        created_at = CASE WHEN messages.expires_at > :now THEN messages.created_at
            ELSE excluded.created_at END
    """
)
WORKING = Statement(
    f"""
    SELECT m.state_key, m.content, m.created_at, m.expires_at FROM messages m
    WHERE {WORKER} AND m.state_key = :name AND m.expires_at > :now
    """
)
WORKERS = Statement(
    f"""
    SELECT m.state_key, m.content, m.created_at, m.expires_at FROM messages m
    WHERE {WORKER} AND m.expires_at > :now
    ORDER BY m.state_key LIMIT :fetch
    """
)
# No old claim comes back to life when a service of the same name is opened again: whatever is
# still unread ends now, held or not. The sweeper tells the senders.
END = """
    UPDATE messages SET expires_at = :now, reason = 'service_closed' WHERE seq IN (
        SELECT m.seq FROM messages m WHERE {box} AND m.status = 'unread' AND {when}
        AND (m.expires_at IS NULL OR m.expires_at > :now) LIMIT :fetch
    )
"""
ENDS = (
    Statement(END.format(box=BOX, when="m.visible_at = 0")),
    Statement(END.format(box=BOX, when="m.visible_at > 0")),
)
# What is left to be ended is noted in the queue's fact, which the sweeper finds by its end.
QUEUE = "realm = :realm AND type = 'queue' AND inbox = :inbox AND state_key = ''"
LEFT = Statement(f"UPDATE messages SET expires_at = :until WHERE {QUEUE} AND status = 'fact'")
IS_LEFT = Statement(f"SELECT expires_at FROM messages WHERE {QUEUE} AND status = 'fact'")


class Worker(NamedTuple):
    """A worker whose own lease has not ended; times in ms."""

    name: str
    details: dict[str, Any]  # state, capacity, activity
    since: int
    until: int


def _worker(values: Any) -> Worker:
    return Worker(values[0], json.loads(values[1] or "{}"), values[2], values[3])


def work(realm: str, inbox: str, name: str, details: Mapping[str, Any], lease: int) -> None:
    """State that ``name`` works for a service, for the next ``lease`` ms."""
    now = clock.now()
    database.run(
        WORK,
        realm=realm,
        inbox=inbox,
        name=name,
        content=json.dumps(details),
        now=now,
        until=now + lease,
    )


def working(realm: str, inbox: str, name: str) -> Worker | None:
    """The worker of this name, if it is there."""
    found = database.run(WORKING, realm=realm, inbox=inbox, name=name, now=clock.now()).fetchone()
    return _worker(found) if found else None


def workers(realm: str, inbox: str, limit: int) -> list[Worker]:
    """The workers that are there, by name."""
    found = database.run(WORKERS, realm=realm, inbox=inbox, fetch=limit, now=clock.now())
    return [_worker(values) for values in found.fetchall()]


def oldest(realm: str, inbox: str) -> int | None:
    """When the oldest message that waits was sent, in ms."""
    found = database.run(OLDEST, realm=realm, inbox=inbox, now=clock.now()).fetchone()
    return min((at for at in found if at is not None), default=None)


def rates(realm: str, inbox: str) -> tuple[int, int]:
    """How many came and how many were acknowledged in five minutes, of the newest thousand."""
    after = clock.now() - WINDOW
    came, acked = database.run(RATES, realm=realm, inbox=inbox, after=after).fetchone()
    return int(came), int(acked)


def end(realm: str, inbox: str, limit: int) -> int:
    """Let at most ``limit`` messages that are unread in a service's inbox expire now; how many."""
    ended = 0
    for statement in ENDS:
        left = limit - ended
        found = database.run(statement, realm=realm, inbox=inbox, now=clock.now(), fetch=left)
        ended += int(found.rowcount)
    return ended


def leave_to_sweeper(realm: str, inbox: str, left: bool) -> None:
    """Note whether more is left to be ended."""
    until = clock.now() if left else None
    database.run(LEFT, realm=realm, inbox=inbox, until=until)


def is_left(realm: str, inbox: str) -> bool:
    """Whether more is left to be ended."""
    found = database.run(IS_LEFT, realm=realm, inbox=inbox).fetchone()
    return found is not None and found[0] is not None
