"""Reading and settling what lies in an inbox: page, count, one message, ack."""

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from models import clock, database
from models.rows import (
    COLUMNS,
    DUE,
    HIDDEN,
    IN_SERVICE,
    LEASED,
    LISTED,
    MESSAGE,
    NONCE,
    READY,
    RETURNED,
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
ACKABLE = f"m.realm = :realm AND m.status = 'unread' AND {UNEXPIRED}"
# A message that is held is settled with its receipt, every other one without.
RECEIVED = f"substr(m.holder, 1, {NONCE}) = :nonce"
FITS = f"((:nonce = '' AND NOT {LEASED}) OR ({LEASED} AND {RECEIVED}))"
MAY_ACK = f"""
    m.seq = :seq AND {ACKABLE} AND {FITS} AND (:anyone OR (NOT {HIDDEN} AND (
        m.inbox = :name OR ({IN_SERVICE} AND :nonce <> '') OR m.inbox = (
            SELECT n.inbox FROM messages n WHERE {NAME} AND n.content = :spelt
        )
    )))
"""
SETTLED = "status = 'acked', settled_at = :now"
ACK = Statement(f"UPDATE messages AS m SET {SETTLED} WHERE {MAY_ACK} RETURNING {RETURNED}")
# Several at once, each for an agent of its own.
EACH = re.sub(r"(?<!:):(seq|name|key|spelt|anyone|nonce)\b", r"d.many_\1", MAY_ACK)
PLACES = ("seq", "name", "key", "spelt", "anyone", "nonce")
ACK_EACH = Statement(
    f"""
    UPDATE messages AS m SET {SETTLED}
    FROM unnest({", ".join(f":many_{name}" for name in PLACES)})
        AS d({", ".join(f"many_{name}" for name in PLACES)})
    WHERE {EACH} RETURNING {COLUMNS}
    """
)
# On SQLite, where nobody can come in between, what RETURNING costs is more than another statement.
LOOK_TO_ACK = Statement(
    "SELECT "
    + COLUMNS.replace("m.status", "'acked'").replace("m.settled_at", ":now")
    + f" FROM messages m WHERE {MAY_ACK}"
)
SETTLE = Statement(
    f"UPDATE messages SET {SETTLED} WHERE seq = :seq AND status = 'unread'",
    undo="UPDATE messages SET status = 'unread', settled_at = NULL WHERE seq = :seq",
)
ACK_MANY = Statement(
    f"""
    UPDATE messages AS m SET status = 'acked', settled_at = :now
    WHERE m.seq IN :seqs AND m.inbox = :inbox AND {ACKABLE} AND NOT {HIDDEN} AND (
        ({LEASED} AND CAST(m.seq AS TEXT) || '.' || substr(m.holder, 1, {NONCE}) IN :receipts)
        OR (NOT {LEASED} AND m.seq IN :bare)
    )
    RETURNING seq, visible_at, holder
    """
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
def _page(status: str, tasks: int, types: bool, sender: bool, after: bool) -> Statement:
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
def _ready(task: bool, types: bool, sender: bool, after: bool) -> Statement:
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
    shape = (
        wanted.status,
        len(wanted.task_ids),
        bool(wanted.types),
        wanted.sender is not None,
        wanted.after is not None,
    )
    values: dict[str, Any] = {
        "realm": realm,
        "inbox": inbox,
        "key": key,
        "now": clock.now(),
        "fetch": limit + 1,
        "bytes": size,
        "types": wanted.types or ("",),
        "sender": wanted.sender,
        "after": wanted.after,
    }
    values.update({f"task_{index}": task for index, task in enumerate(wanted.task_ids)})
    if database.current().dialect == "sqlite" and shape[0] == "unread" and shape[1] <= 1:
        owner, spelt, ready, due = database.perform(TOP, values).fetchone()
        if due is None:
            rows: list[Row] = []
            more = False
            if ready is not None:
                rows, more = _cut(_ready(*shape[1:]), values, limit, size)
            return Box(owner, spelt), Page(rows, more, ready or 0)
    found = database.perform(_page(*shape), values)
    top = found.fetchone()
    owner, spelt, ready, due = top[:-WIDTH]
    rows, more = cut(itertools.chain([top], found), limit, size)
    found.close()
    return Box(owner, spelt), Page(rows, more, max(ready or 0, due or 0))


def _cut(
    statement: Statement, values: dict[str, Any], limit: int, size: int
) -> tuple[list[Row], bool]:
    found = database.perform(statement, values)
    rows = cut(found, limit, size)
    found.close()
    return rows


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


class Settling(NamedTuple):
    """Who settles which message: the agent ``name``, or anyone's where that is ``anyone``'s to do.

    One that is held needs the ``nonce`` of its lease, and no other takes one.
    """

    realm: str
    seq: int
    name: str
    key: str
    spelt: str
    anyone: bool
    nonce: str


def ack(asked: Settling) -> Row | None:
    """Settle an unread message; None if there is none that may be settled so.

    Nothing else is to be written in the same part of a unit of work.
    """
    values = {**asked._asdict(), "now": clock.now()}
    if database.current().dialect == "sqlite":
        found = database.perform(LOOK_TO_ACK, values).fetchone()
        if found:
            database.perform(SETTLE, values, only=True)
    else:
        found = database.perform(ACK, values, only=True).fetchone()
    return row(found) if found else None


def ack_each(asked: Sequence[Settling]) -> list[Row | None]:
    """The same for several messages of one realm."""
    now = clock.now()
    if database.current().dialect != "sqlite":
        values: dict[str, Any] = {
            f"many_{name}": [getattr(each, name) for each in asked] for name in Settling._fields
        }
        values.update(realm=values.pop("many_realm")[0], now=now)
        found = {each[0]: row(each) for each in database.perform(ACK_EACH, values).fetchall()}
        return [found.pop(each.seq, None) for each in asked]
    looks = [
        database.perform(LOOK_TO_ACK, {**each._asdict(), "now": now}).fetchone() for each in asked
    ]
    settled = [{"seq": each[0], "now": now} for each in looks if each is not None]
    if settled:
        database.perform_many(SETTLE, settled)
    return [row(each) if each is not None else None for each in looks]


def ack_many(realm: str, inbox: str, wanted: Sequence[tuple[int, str]]) -> set[tuple[int, str]]:
    """Settle messages of ``inbox``, given by seq and nonce (or ''); which they were."""
    if not wanted:
        return set()
    now = clock.now()
    found = database.run(
        ACK_MANY,
        realm=realm,
        inbox=inbox,
        seqs=tuple({seq for seq, _ in wanted}),
        bare=tuple(seq for seq, nonce in wanted if not nonce),
        receipts=tuple(f"{seq}.{nonce}" for seq, nonce in wanted if nonce),
        now=now,
    )
    return {
        (seq, holder[:NONCE] if holder is not None and until > now else "")
        for seq, until, holder in found.fetchall()
    }


def read_many(realm: str, seqs: Sequence[int]) -> dict[int, Row]:
    """Those of ``seqs`` that are messages, whoever's they are, by seq."""
    if not seqs:
        return {}
    found = database.run(READ_MANY, realm=realm, seqs=tuple(seqs))
    return {values[0]: row(values) for values in found.fetchall()}
