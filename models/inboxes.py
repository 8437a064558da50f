"""Reading what lies in an inbox: page, count, one message or some."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from models import clock, database
from models.rows import (
    COLUMNS,
    DUE,
    HIDDEN,
    LISTED,
    MESSAGE,
    READY,
    UNEXPIRED,
    WIDTH,
    Row,
    cut,
    page_of,
    row,
)
from models.statement import Statement

PAGE_BYTES = 4 << 20

BOX = "m.realm = :realm AND m.inbox = :inbox"
NAME = "n.realm = :realm AND n.type = 'name' AND n.state_key = :key"
OWNED = f"(SELECT 1 AS one) o LEFT JOIN messages n ON {NAME}"
NEWEST = f"""
    (SELECT m.seq FROM messages m WHERE {BOX} AND {READY} ORDER BY m.seq DESC LIMIT 1),
    (SELECT MAX(m.seq) FROM messages m WHERE {BOX} AND {DUE})
"""
# Of every status but the first, what a page shows; "unread" is the two heads of its indexes.
SHOWN = {
    "unread": (READY, DUE),
    "acked": (f"{LISTED} AND m.status = 'acked'",),
    "dead": ("m.status = 'dead'",),
    "all": (f"{LISTED} AND NOT {HIDDEN}",),
}

LATER = f"m.status = 'unread' AND m.visible_at > 0 AND m.visible_at > :now AND {UNEXPIRED}"
COUNT = Statement(
    f"""
    SELECT n.inbox, n.content,
        (SELECT COUNT(*) FROM messages m
            WHERE {BOX} AND m.status = 'unread' AND m.visible_at = 0)
        - (SELECT COUNT(*) FROM messages m
            WHERE {BOX} AND m.status = 'unread' AND m.visible_at = 0 AND m.expires_at <= :now)
        + (SELECT COUNT(*) FROM messages m WHERE {BOX} AND {DUE}),
        (SELECT COUNT(*) FROM messages m
            WHERE {BOX} AND {LATER} AND m.holder IS NULL),
        (SELECT COUNT(*) FROM messages m
            WHERE {BOX} AND {LATER} AND m.holder IS NOT NULL),
        (SELECT COUNT(*) FROM messages m WHERE {BOX} AND m.status = 'dead')
    FROM {OWNED}
    """
)
READ = Statement(
    f"SELECT {COLUMNS} FROM messages m WHERE m.seq = :seq AND m.realm = :realm AND {MESSAGE}"
)
READ_MANY = Statement(
    f"SELECT {COLUMNS} FROM messages m WHERE m.seq IN :seqs AND m.realm = :realm AND {MESSAGE}"
)


# On SQLite a statement costs little by itself: what lies in the heads is asked first, and mostly
# there is nothing, or all of it is ready.
TOP = Statement(f"SELECT n.inbox, n.content, {NEWEST} FROM {OWNED}")


class Box(NamedTuple):
    """Whose the name asked for is, as the names on record have it."""

    owner: str | None
    spelt: str | None


class Page(NamedTuple):
    """Some messages of an inbox, oldest first; whether more follow; its newest unread seq."""

    rows: list[Row]
    more: bool
    newest: int


class Filter(NamedTuple):
    """Which messages of an inbox are asked for."""

    status: str = "unread"
    task_ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    sender: str | None = None
    after: int | None = None


@functools.lru_cache(256)
def page_for(status: str, tasks: int, types: bool, sender: bool, after: bool) -> Statement:
    """The statement for a filter of this shape."""
    narrowed = [
        *(["m.type IN :types"] if types else []),
        *(["m.sender = :sender"] if sender else []),
        *(["m.seq > :after"] if after else []),
    ]
    by_task = [f"m.task_id = :task_{index}" for index in range(tasks)] or ["TRUE"]
    arms = [
        "SELECT * FROM (SELECT m.seq{size} FROM messages m WHERE "
        + " AND ".join([BOX, shown, *([] if task == "TRUE" else [task]), *narrowed])
        + " ORDER BY m.seq LIMIT :fetch) a"
        for shown in SHOWN[status]
        for task in by_task
    ]
    candidates = " UNION ALL ".join(arms) + " ORDER BY seq LIMIT :fetch"
    return page_of(candidates, OWNED, f"n.inbox, n.content, {NEWEST},")


@functools.lru_cache(16)
def _ready(task: int, types: bool, sender: bool, after: bool) -> Statement:
    """The page of what is ready, for SQLite."""
    asked = [
        *(["m.task_id = :task_0"] if task else []),
        *(["m.type IN :types"] if types else []),
        *(["m.sender = :sender"] if sender else []),
        *(["m.seq > :after"] if after else []),
    ]
    narrowed = " AND ".join([BOX, READY, *asked])
    # Said, because SQLite would rather walk past all others in the inbox's own order.
    index = "messages_ready_task" if task else "messages_ready"
    found = f"SELECT {COLUMNS} FROM messages m INDEXED BY {index} WHERE {narrowed}"
    return Statement(f"{found} ORDER BY m.seq LIMIT :fetch")


def page(
    realm: str, inbox: str, key: str, wanted: Filter, limit: int, size: int = PAGE_BYTES
) -> tuple[Box, Page]:
    """At most ``limit`` messages and ``size`` bytes of content of an inbox, at least one message.

    ``key`` is the inbox's name in lower case; who owns that name comes back
    beside the page, so that the rules need no look-up of their own.
    """
    asked = {"realm": realm, "inbox": inbox, "key": key, "now": clock.now()}
    direct = wanted.status == "unread" and len(wanted.task_ids) <= 1
    if direct and database.current().dialect == "sqlite":
        owner, spelt, ready, due = database.perform(TOP, asked).fetchone()
        if due is None:
            if ready is None:
                return Box(owner, spelt), Page([], False, 0)
            found = database.perform(
                _ready(*shape(wanted)), {**asked, **values(wanted, limit), "bytes": size}
            )
            rows, more = cut(found, limit, size)
            found.close()
            return Box(owner, spelt), Page(rows, more, ready)
    statement = page_for(wanted.status, *shape(wanted))
    found = database.perform(statement, {**asked, **values(wanted, limit), "bytes": size})
    top = found.fetchone()
    owner, spelt, ready, due = top[:-WIDTH]
    rows, more = cut(itertools.chain([top], found), limit, size)
    found.close()
    return Box(owner, spelt), Page(rows, more, max(ready or 0, due or 0))


def shape(wanted: Filter) -> tuple[int, bool, bool, bool]:
    """What the statement for a filter depends on, beside the status."""
    types, sender, after = bool(wanted.types), wanted.sender is not None, wanted.after is not None
    return len(wanted.task_ids), types, sender, after


def values(wanted: Filter, limit: int) -> dict[str, Any]:
    """What the statement for a filter is given of it."""
    return {
        "fetch": limit + 1,
        "types": wanted.types or ("",),
        "sender": wanted.sender,
        "after": wanted.after,
        **{f"task_{index}": task for index, task in enumerate(wanted.task_ids)},
    }


class Counts(NamedTuple):
    """How many messages of an inbox are unread, wait for their time, are held, have died."""

    unread: int
    delayed: int
    in_flight: int
    dead: int


def count(realm: str, inbox: str, key: str) -> tuple[Box, Counts]:
    """Whose the box is, and how much lies in it."""
    found = database.run(COUNT, realm=realm, inbox=inbox, key=key, now=clock.now()).fetchone()
    return Box(found[0], found[1]), Counts._make(map(int, found[2:]))


def read(realm: str, seq: int) -> Row | None:
    """One message, whoever's it is."""
    found = database.run(READ, realm=realm, seq=seq).fetchone()
    return row(found) if found else None


def read_many(realm: str, seqs: Sequence[int]) -> dict[int, Row]:
    """Those of ``seqs`` that are messages, whoever's they are, by seq."""
    if not seqs:
        return {}
    found = database.run(READ_MANY, realm=realm, seqs=tuple(seqs))
    return {values[0]: row(values) for values in found.fetchall()}
