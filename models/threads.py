"""Threads: their histories, what a summary is derived from, and the list of tasks.

On PostgreSQL a row may commit after one with a higher seq has been read. A
history is therefore read up to a fence, below which nothing more can appear.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from models import clock, database
from models.inboxes import PAGE_BYTES
from models.postgres import LAST_VALUE, LOWEST_MARK
from models.rows import (
    COLUMNS,
    DUE,
    HIDDEN,
    HOLDER_NAME,
    IN_SERVICE,
    LISTED,
    READY,
    WORKS_ON,
    Row,
    cut,
    page_of,
    row,
)
from models.statement import Statement

END = (1 << 63) - 1

ORIGINAL = f"{LISTED} AND m.copy_of IS NULL"
# What an agent has a part in: what it sent, and what has reached it.
HOLDS = WORKS_ON.format(name=":name")
PART = f"(:anyone OR m.sender = :name OR (m.inbox = :name AND NOT {HIDDEN}) OR {HOLDS})"
THREAD = f"m.realm = :realm AND m.task_id = :task_id AND {ORIGINAL} AND {PART}"

HISTORY = page_of(
    f"""
    SELECT m.seq{{size}} FROM messages m
    WHERE {THREAD} AND m.seq > :after AND m.seq <= :fence ORDER BY m.seq LIMIT :fetch
    """
)
BEYOND = Statement(f"SELECT 1 FROM messages m WHERE {THREAD} AND m.seq > :fence LIMIT 1")
# By -seq, as its index is: by seq, PostgreSQL would rather walk the primary key past all that
# opens nothing. Of two that began a thread at once, the first is its opener.
OPENERS = Statement(
    """
    SELECT m.seq, m.task_id FROM messages m
    WHERE m.realm = :realm AND m.opens AND -m.seq > -:before AND (
        SELECT 1 FROM messages t WHERE t.realm = m.realm AND t.task_id = m.task_id
        AND t.state_key IS NULL AND t.copy_of IS NULL AND t.seq < m.seq LIMIT 1
    ) IS NULL
    ORDER BY -m.seq LIMIT :fetch
    """
)
ENTRIES = Statement(
    f"""
    SELECT m.task_id, m.seq, m.type, m.sender, m.inbox, m.reply_to, m.created_at,
        COALESCE(m.settled_at, m.created_at),
        CASE WHEN ({READY}) OR ({DUE}) THEN 1 ELSE 0 END,
        CASE WHEN {IN_SERVICE} THEN {HOLDER_NAME} END
    FROM messages m
    WHERE m.realm = :realm AND m.task_id IN :task_ids AND {ORIGINAL} AND {PART}
    ORDER BY m.task_id, m.seq
    """
)
CLOSED = Statement(
    """
    SELECT m.state_key, m.sender, m.created_at FROM messages m
    WHERE m.realm = :realm AND m.type = 'closed' AND m.inbox = '' AND m.state_key IN :task_ids
        AND m.status = 'fact'
    """
)
FIRST = Statement(
    f"""
    SELECT {COLUMNS} FROM messages m
    WHERE m.realm = :realm AND m.task_id = :task_id AND {ORIGINAL} ORDER BY m.seq LIMIT 1
    """
)
LAST = Statement(LAST_VALUE)
MARKS = Statement(LOWEST_MARK)


class Entry(NamedTuple):
    """What a summary needs of one message; times in ms since the epoch."""

    task_id: str
    seq: int
    type: str
    sender: str
    inbox: str
    reply_to: int | None
    created_at: int
    touched_at: int
    unread: int
    worker: str | None = None  # who holds what was sent to a service, or has done it


def fence() -> int:
    """The seq up to which every row that will ever exist is to be seen.

    The sequence's value comes first and the lowest mark second: a writer
    whose mark is not there yet takes its numbers later, above the value read.
    """
    if database.current().dialect == "sqlite":
        return END  # one writer at a time: rows appear in the order of their seq
    last = database.run(LAST).fetchone()[0]
    lowest = database.run(MARKS).fetchone()[0]
    return int(last if lowest is None else min(last, lowest))


def history(
    realm: str, task_id: str, name: str | None, after: int, limit: int, size: int = PAGE_BYTES
) -> tuple[list[Row], bool, bool]:
    """A page of a thread that ``name`` (None: anybody) has a part in, oldest first.

    Also whether more follows, and whether something has been committed above
    the fence: then a look a few milliseconds later shows it.
    """
    top = fence()
    seen: dict[str, Any] = {"realm": realm, "task_id": task_id, "now": clock.now()}
    seen.update(anyone=name is None, name=name or "")
    found = database.run(HISTORY, **seen, after=after, fence=top, fetch=limit + 1, bytes=size)
    rows, more = cut(found, limit, size)
    found.close()
    hidden = not more and top < END and bool(database.run(BEYOND, **seen, fence=top).fetchone())
    return rows, more, hidden


def first(realm: str, task_id: str) -> Row | None:
    """The message that began a thread."""
    found = database.run(FIRST, realm=realm, task_id=task_id).fetchone()
    return row(found) if found else None


def openers(realm: str, before: int, limit: int) -> list[tuple[int, str]]:
    """The seq and task id of the newest ``limit`` threads that began before ``before``."""
    found = database.run(OPENERS, realm=realm, before=before, fetch=limit)
    return list(found.fetchall())


def entries(realm: str, task_ids: Sequence[str], name: str | None) -> dict[str, list[Entry]]:
    """What ``name`` (None: anybody) has a part in of each thread, in order, by task id."""
    found: dict[str, list[Entry]] = {task_id: [] for task_id in task_ids}
    if found:
        cursor = database.run(
            ENTRIES,
            realm=realm,
            task_ids=tuple(task_ids),
            anyone=name is None,
            name=name or "",
            now=clock.now(),
        )
        for values in cursor.fetchall():
            found[values[0]].append(Entry._make(values))
    return found


def closed(realm: str, task_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Of those tasks that are closed: by whom and when, in ms."""
    if not task_ids:
        return {}
    cursor = database.run(CLOSED, realm=realm, task_ids=tuple(task_ids))
    return {task_id: (sender, at) for task_id, sender, at in cursor.fetchall()}
