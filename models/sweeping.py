"""What the sweeper asks for: what is due, what has ended, what is old; and deleting it.

Every statement here takes a limit: the sweeper works in small batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models import clock, database
from models.queues import most_attempts
from models.rows import ANEW, LISTED
from models.statement import Statement

UNREAD = "m.realm = :realm AND m.status = 'unread'"
REALM = Statement(
    """
    SELECT (SELECT m.realm FROM messages m WHERE m.realm > :realm AND m.status = 'fact'
            ORDER BY m.realm LIMIT 1),
        (SELECT m.realm FROM messages m WHERE m.realm > :realm AND m.state_key IS NULL
            ORDER BY m.realm LIMIT 1)
    """
)
DUE = Statement(
    f"""
    SELECT m.seq FROM messages m WHERE {UNREAD} AND -m.visible_at < 0
    AND -m.visible_at >= -:now ORDER BY -m.visible_at DESC LIMIT :fetch
    """
)
# The last holder stays: it is who a dead letter died with.
TURN = Statement(
    f"""
    UPDATE messages AS m SET visible_at = 0, expires_at = {ANEW}
    WHERE m.seq IN :seqs AND m.realm = :realm AND m.status = 'unread'
    AND m.visible_at <> 0 AND m.visible_at <= :now AND m.attempts < {most_attempts(inbox="m.inbox")}
    RETURNING inbox, task_id
    """
)
EXPIRED = Statement(
    f"""
    SELECT m.seq FROM messages m WHERE {UNREAD} AND COALESCE(-m.expires_at, 0) < 0
    AND COALESCE(-m.expires_at, 0) >= -:now ORDER BY COALESCE(-m.expires_at, 0) DESC LIMIT :fetch
    """
)
ENDED = Statement(
    """
    SELECT m.seq, m.type, m.inbox, m.state_key FROM messages m
    WHERE m.realm = :realm AND m.status = 'fact' AND -m.expires_at < 0
    AND -m.expires_at >= -:now ORDER BY -m.expires_at DESC LIMIT :fetch
    """
)
SCAN = Statement(
    """
    SELECT m.seq, m.realm, m.status, m.created_at, m.visible_at, m.expires_at FROM messages m
    WHERE m.seq > :after ORDER BY m.seq LIMIT :fetch
    """
)
OPENERS = Statement(
    """
    SELECT m.seq, m.task_id, m.created_at FROM messages m
    WHERE m.realm = :realm AND m.opens AND -m.seq < -:after ORDER BY -m.seq DESC LIMIT :fetch
    """
)
THREAD = f"m.realm = :realm AND m.task_id = :task_id AND {LISTED} AND m.copy_of IS NULL"
LAST = Statement(f"SELECT m.created_at FROM messages m WHERE {THREAD} ORDER BY m.seq DESC LIMIT 1")
STATE = Statement(
    f"""
    SELECT COUNT(*), MAX(m.created_at), MAX(m.settled_at),
        SUM(CASE WHEN m.status = 'unread' THEN 1 ELSE 0 END),
        MAX(CASE WHEN m.status = 'dead' THEN m.settled_at END),
        MAX(CASE WHEN m.dedup_key IS NOT NULL THEN m.created_at END)
    FROM messages m WHERE {THREAD}
    """
)
OPEN = Statement(
    f"""
    SELECT m.seq FROM messages m WHERE {THREAD} AND m.status = 'unread'
    AND m.sender <> 'postmaster' ORDER BY m.seq LIMIT :fetch
    """
)
# Rows with a key stay while the key may be used again, and the bounce that tells of the end.
FREE = """
    (m.dedup_key IS NULL OR m.created_at <= :deadline)
    AND (m.status <> 'unread' OR m.created_at <= :deadline)
"""
# From the newest down: the first of a thread, by which it is found, goes last.
DELETE = Statement(
    f"""
    DELETE FROM messages WHERE seq IN (
        SELECT m.seq FROM messages m WHERE {THREAD} AND {FREE} ORDER BY m.seq DESC LIMIT :fetch
    )
    """
)
INBOX = f"m.realm = :realm AND m.inbox = :inbox AND {LISTED}"
OPEN_IN = Statement(
    f"""
    SELECT m.seq FROM messages m WHERE {INBOX} AND m.status = 'unread' ORDER BY m.seq LIMIT :fetch
    """
)
EMPTY = Statement(
    f"""
    DELETE FROM messages WHERE seq IN (
        SELECT m.seq FROM messages m WHERE {INBOX} AND {FREE} ORDER BY m.seq LIMIT :fetch
    )
    RETURNING task_id, opens
    """
)
OPENS = Statement(
    f"""
    UPDATE messages SET opens = TRUE WHERE seq = (
        SELECT MIN(m.seq) FROM messages m WHERE {THREAD}
    )
    """
)
FORGET = Statement(
    """
    DELETE FROM messages WHERE seq IN (
        SELECT m.seq FROM messages m WHERE m.realm = :realm AND m.inbox = :inbox
        AND m.status = 'fact' AND m.type IN :types
    )
    """
)
LATER = Statement("UPDATE messages SET expires_at = :until WHERE seq = :seq")
REMOVE = Statement("DELETE FROM messages WHERE seq = :seq")


class Thread(NamedTuple):
    """What decides whether a task may go; times in ms."""

    messages: int
    created_at: int | None
    settled_at: int | None
    unread: int
    died_at: int | None
    keyed_at: int | None  # when the newest with an idempotency key was sent


class Ended(NamedTuple):
    """A fact whose time has come."""

    seq: int
    type: str
    inbox: str
    state_key: str


def realms() -> list[str]:
    """Every realm that has rows."""
    found: list[str] = []
    while True:
        row = database.run(REALM, realm=found[-1] if found else "").fetchone()
        following = [realm for realm in row if realm is not None]
        if not following:
            return found
        found.append(min(following))


def _seqs(statement: Statement, **values: object) -> list[int]:
    return [seq for (seq,) in database.run(statement, now=clock.now(), **values).fetchall()]


def due(realm: str, limit: int) -> list[int]:
    """What was delayed or leased until now, the longest due first."""
    return _seqs(DUE, realm=realm, fetch=limit)


def turn(realm: str, seqs: Sequence[int], before: int, until: int | None) -> list[tuple[str, str]]:
    """Make ready what is due, but for what has had its last claim; inbox and task of each.

    What was sent ``before`` then and has no deadline expires at ``until``; both in ms.
    """
    now = clock.now()
    found = database.run(TURN, realm=realm, seqs=tuple(seqs), now=now, deadline=before, until=until)
    return [(inbox, task_id) for inbox, task_id in found.fetchall()]


def expired(realm: str, limit: int) -> list[int]:
    """What is unread and past its deadline."""
    return _seqs(EXPIRED, realm=realm, fetch=limit)


def ended(realm: str, limit: int) -> list[Ended]:
    """Facts whose time has come."""
    found = database.run(ENDED, realm=realm, now=clock.now(), fetch=limit)
    return [Ended._make(values) for values in found.fetchall()]


class Scanned(NamedTuple):
    """What the walk over old rows needs of one; times in ms."""

    seq: int
    realm: str
    status: str
    created_at: int
    visible_at: int
    expires_at: int | None


def scan(after: int, limit: int) -> list[Scanned]:
    """The rows above ``after``, facts as well, in order."""
    found = database.run(SCAN, after=after, fetch=limit)
    return [Scanned._make(values) for values in found.fetchall()]


def openers(realm: str, after: int, limit: int) -> list[tuple[int, str, int]]:
    """Seq, task and time of what began the threads above ``after``, the oldest first."""
    return list(database.run(OPENERS, realm=realm, after=after, fetch=limit).fetchall())


def last(realm: str, task_id: str) -> int | None:
    """When the newest message of a thread was sent, in ms."""
    found = database.run(LAST, realm=realm, task_id=task_id).fetchone()
    return found[0] if found else None


def thread(realm: str, task_id: str) -> Thread:
    """What there is of a thread."""
    return Thread._make(database.run(STATE, realm=realm, task_id=task_id).fetchone())


def unread_of(realm: str, task_id: str, limit: int) -> list[int]:
    """What is unread in a thread, but for the service's own mail."""
    found = database.run(OPEN, realm=realm, task_id=task_id, fetch=limit)
    return [seq for (seq,) in found.fetchall()]


def unread_in(realm: str, inbox: str, limit: int) -> list[int]:
    """What is unread in an inbox, delivered or not."""
    found = database.run(OPEN_IN, realm=realm, inbox=inbox, fetch=limit)
    return [seq for (seq,) in found.fetchall()]


def delete(realm: str, task_id: str, limit: int, before: int) -> int:
    """Delete from a thread, newest first; what is unread or has a key only if from ``before``."""
    found = database.run(DELETE, realm=realm, task_id=task_id, fetch=limit, deadline=before)
    return int(found.rowcount)


def empty(realm: str, inbox: str, limit: int, before: int) -> int:
    """Delete from an inbox, oldest first, likewise; a thread that lost its first gets another."""
    gone = database.run(EMPTY, realm=realm, inbox=inbox, fetch=limit, deadline=before).fetchall()
    for task_id in {task_id for task_id, opens in gone if opens}:
        database.run(OPENS, realm=realm, task_id=task_id)
    return len(gone)


def forget(realm: str, inbox: str, types: Sequence[str]) -> None:
    """Delete the facts of these types about an address."""
    database.run(FORGET, realm=realm, inbox=inbox, types=tuple(types))


def later(seq: int, at: int | None) -> None:
    """Let a fact end at another time, in ms, or never."""
    database.run(LATER, seq=seq, until=at)


def remove(seq: int) -> None:
    """Delete one row."""
    database.run(REMOVE, seq=seq)


def free_pages() -> int:
    """How many pages of a SQLite file hold nothing; PostgreSQL reuses its own, 0."""
    opened = database.current()
    if opened.dialect != "sqlite":
        return 0
    return int(opened.execute_sql("PRAGMA freelist_count").fetchone()[0])


def give_back(pages: int) -> int:
    """Give so many free pages of a SQLite file back; returns that number."""
    database.current().execute_sql(f"PRAGMA incremental_vacuum({pages})").fetchall()
    return pages
