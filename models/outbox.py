"""Sending: what stands in a message's way is looked for where the message is made.

On PostgreSQL one statement looks and inserts: it is one round trip, and others
write meanwhile. On SQLite nobody else writes while a transaction does, and two
statements, which look and insert, cost a third less.
"""

import functools
from typing import Any, NamedTuple

from models import clock, database
from models.rows import COLUMNS, HIDDEN, WIDTH, WORKS_ON, Row, row, stored
from models.statement import Statement

# Who the names belong to.
NAMES = """
    (SELECT 1 AS one) o
    LEFT JOIN messages r ON r.realm = :realm AND r.type = 'name' AND r.state_key = :to_key
    LEFT JOIN messages s ON s.realm = :realm AND s.type = 'name' AND s.state_key = :sender_key
"""
# The message replied to, if the sender has a part in it.
REPLIED = f"""
    LEFT JOIN messages p ON p.seq = :reply_to AND p.realm = :realm AND p.status <> 'fact'
        AND (p.sender = COALESCE(s.inbox, :sender)
             OR (p.inbox = COALESCE(s.inbox, :sender) AND NOT {HIDDEN.replace("m.", "p.")})
             OR {WORKS_ON.replace("m.", "p.").format(name="COALESCE(s.inbox, :sender)")})
"""
# Always as (...) IS NULL: for NOT EXISTS, PostgreSQL may read all closed tasks to join with.
CLOSED = """
    SELECT c.seq FROM messages c
    WHERE c.realm = :realm AND c.type = 'closed' AND c.inbox = '' AND c.state_key = {task}
        AND c.status = 'fact'
"""
OPENED = """
    SELECT 1 FROM messages t WHERE t.realm = :realm AND t.task_id = {task}
        AND t.state_key IS NULL AND t.copy_of IS NULL LIMIT 1
"""

# Two agents that thank each other for ever: the last eight messages of the thread are all done
# or failed, all between these two, and at least two from either side. That a worker has finished
# eight requests one after the other, or eight workers one each, is no loop.
LOOP_OF = 8
LOOP_BACK = 2
LOOP = f"""
    (SELECT COUNT(*) = {LOOP_OF}
        AND SUM(CASE WHEN l.sender = {{sender}} THEN 1 ELSE 0 END) >= {LOOP_BACK}
        AND SUM(CASE WHEN l.sender = {{inbox}} THEN 1 ELSE 0 END) >= {LOOP_BACK}
        AND MIN(CASE WHEN l.type IN ('done', 'failed') AND (
            (l.sender = {{sender}} AND l.inbox = {{inbox}})
            OR (l.sender = {{inbox}} AND l.inbox = {{sender}})
        ) THEN 1 ELSE 0 END) = 1
    FROM (
        SELECT t.type, t.sender, t.inbox FROM messages t
        WHERE t.realm = :realm AND t.task_id = {{task}} AND t.state_key IS NULL
        AND t.copy_of IS NULL ORDER BY t.seq DESC LIMIT {LOOP_OF}
    ) l)
"""
ENDING = ("done", "failed")  # the types that it is about
CONSEQUENT = ("progress", "cancel")  # types that do something to another message


def _passed(reply: bool, ending: bool) -> str:
    """The message as it is to lie there, as ``k``; no row if anything stands in its way."""
    replied = ("p.task_id, ", REPLIED, "COALESCE(p.copy_of, p.seq)") if reply else ("", "", "NULL")
    fits = "p.seq IS NOT NULL AND (:task_id IS NULL OR p.task_id = :task_id)" if reply else "TRUE"
    loops = LOOP.format(sender="k.sender", inbox="k.inbox", task="k.task_id")
    return f"""
        FROM (
            SELECT COALESCE(r.inbox, :to) AS inbox, COALESCE(s.inbox, :sender) AS sender,
                CAST({replied[2]} AS BIGINT) AS reply_to,
                COALESCE(:task_id, {replied[0]}:new_task) AS task_id
            FROM {NAMES} {replied[1]}
            WHERE (r.seq IS NOT NULL OR :unknown)
              AND (r.seq IS NULL OR (r.content = :to_spelt AND r.settled_at IS NULL))
              AND (s.seq IS NULL OR s.content = :sender_spelt)
              AND {fits}
        ) k
        WHERE ({CLOSED.format(task="k.task_id")}) IS NULL AND k.task_id IS NOT NULL
          AND {f"NOT {loops}" if ending else "TRUE"}
    """


INTO = """
    INSERT INTO messages (realm, inbox, task_id, type, sender, content, reply_to, opens, status,
        visible_at, attempts, dedup_key, dedup_hash, created_at, expires_at, extends_by,
        settled_at)
"""
ONCE = "ON CONFLICT (realm, sender, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING"


@functools.lru_cache(4)
def _send(reply: bool, ending: bool) -> Statement:
    """Look and insert, for PostgreSQL; what it gives back is what the look has found."""
    return Statement(
        f"""
        {INTO} SELECT :realm, k.inbox, k.task_id, :type, k.sender, :content, k.reply_to,
            ({OPENED.format(task="k.task_id")}) IS NULL,
            :status, :visible_at, 0, :dedup_key, :dedup_hash, :now, :expires_at, :extends_by,
            :settled_at
        {_passed(reply, ending)} {ONCE}
        RETURNING seq, inbox, task_id, sender, reply_to
        """
    )


@functools.lru_cache(4)
def _look(reply: bool, ending: bool) -> Statement:
    """Look, for SQLite; the insert is to follow in the same transaction."""
    return Statement(
        f"""
        SELECT k.inbox, k.task_id, k.sender, k.reply_to,
            ({OPENED.format(task="k.task_id")}) IS NULL
        {_passed(reply, ending)}
        """
    )


# What has been inserted last, one row or several.
TAKE_BACK = "DELETE FROM messages WHERE seq > last_insert_rowid() - :changed"

INSERT = Statement(
    f"""
    {INTO} VALUES (:realm, :inbox, :task_id, :type, :sender, :content, :reply_to, :opens, :status,
        :visible_at, 0, :dedup_key, :dedup_hash, :now, :expires_at, :extends_by, :settled_at)
    {ONCE}
    """,
    undo=TAKE_BACK,
)

EXPLAIN = Statement(
    f"""
    SELECT r.inbox, r.content, r.settled_at, s.inbox, s.content, p.seq, p.task_id,
        ({CLOSED.format(task="COALESCE(:task_id, p.task_id)")}),
        {
        LOOP.format(
            sender="COALESCE(s.inbox, :sender)",
            inbox="COALESCE(r.inbox, :to)",
            task="COALESCE(:task_id, p.task_id)",
        )
    },
        m.dedup_hash, {COLUMNS}
    FROM {NAMES} {REPLIED}
    LEFT JOIN messages m ON m.seq = (
        SELECT d.seq FROM messages d WHERE d.realm = :realm
        AND d.sender = COALESCE(s.inbox, :sender) AND d.dedup_key = :dedup_key
    )
    """
)


class Draft(NamedTuple):
    """A message to be sent; names as the caller spelt them, times in ms since the epoch."""

    realm: str
    sender: str
    sender_key: str
    sender_spelt: str
    to: str
    to_key: str
    to_spelt: str
    type: str
    content: bytes | None
    task_id: str | None
    new_task: str | None
    reply_to: int | None
    visible_at: int
    expires_at: int | None
    dedup_key: str | None
    dedup_hash: bytes | None
    extends_by: int | None = None
    status: str = "unread"


FIELDS = Draft._fields


class Reason(NamedTuple):
    """What stood in the way of a draft: the facts, for the rules to judge."""

    recipient: str | None
    recipient_spelt: str | None
    recipient_retired_at: int | None
    sender: str | None
    sender_spelt: str | None
    replied_seq: int | None
    replied_task: str | None
    closed_seq: int | None
    loops: bool
    earlier_hash: bytes | None
    earlier: Row | None


def send(draft: Draft, unknown: bool, only: bool = False) -> Row | None:
    """Insert the draft; None when something stood in the way (see ``explain``).

    A recipient with no name on record stands in the way unless ``unknown``.
    ``only``: nothing else is written with it (see ``database.perform``).
    """
    now = clock.now()
    values = _values(draft, now, unknown)
    shape = draft.reply_to is not None, draft.type in ENDING
    if database.current().dialect == "sqlite":
        found = _look_and_insert(shape, values, only)
    else:
        found = database.perform(_send(*shape), values, only).fetchone()
    return inserted(draft, now, *found) if found is not None else None


def _look_and_insert(shape: tuple[bool, bool], values: dict[str, Any], only: bool) -> Any:
    found = database.perform(_look(*shape), values).fetchone()
    if found is None:
        return None
    values["inbox"], values["task_id"], values["sender"] = found[:3]
    values["reply_to"], values["opens"] = found[3:]
    done = database.perform(INSERT, values, only)
    return (done.lastrowid, *found[:4]) if done.rowcount else None


def _values(draft: Draft, now: int, unknown: bool) -> dict[str, Any]:
    values = dict(zip(FIELDS, draft, strict=True))
    values["content"] = stored(draft.content)
    values["now"] = now
    values["unknown"] = unknown
    values["settled_at"] = None if draft.status == "unread" else now
    return values


def inserted(
    draft: Draft, now: int, seq: int, inbox: str, task_id: str, sender: str, reply_to: int | None
) -> Row:
    """The row of a draft, with what the database has found out."""
    settled = None if draft.status == "unread" else now
    return Row(
        seq, inbox, task_id, draft.type, sender, draft.content, reply_to, draft.status,
        draft.visible_at, None, 0, now, settled, draft.expires_at, None,
    )  # fmt: skip


def explain(draft: Draft) -> Reason:
    """Read what ``send`` has checked, without changing anything."""
    wanted = ("realm", "sender", "sender_key", "to", "to_key", "task_id", "reply_to", "dedup_key")
    values = {name: getattr(draft, name) for name in wanted}
    found = database.run(EXPLAIN, now=clock.now(), **values).fetchone()
    facts, message = found[:-WIDTH], found[-WIDTH:]
    earlier_hash = bytes(facts[9]) if facts[9] is not None else None
    earlier = row(message) if earlier_hash is not None else None
    return Reason._make((*facts[:9], earlier_hash, earlier))
