"""Sending: one statement checks and inserts, another says why it did not."""

from typing import Any, NamedTuple

from models import clock, database
from models.rows import COLUMNS, HIDDEN, WIDTH, WORKS_ON, Row, row, stored
from models.statement import Statement

# Who the names belong to, and the message replied to if the sender has a part in it.
LOOKED_UP = f"""
    (SELECT 1 AS one) o
    LEFT JOIN messages r ON r.realm = :realm AND r.type = 'name' AND r.state_key = :to_key
    LEFT JOIN messages s ON s.realm = :realm AND s.type = 'name' AND s.state_key = :sender_key
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
LOOPS = LOOP.format(sender="k.sender", inbox="k.inbox", task="k.task_id")

SEND = Statement(
    f"""
    INSERT INTO messages (realm, inbox, task_id, type, sender, content, reply_to, opens, status,
        visible_at, attempts, dedup_key, dedup_hash, created_at, expires_at, extends_by,
        settled_at)
    SELECT :realm, k.inbox, k.task_id, :type, k.sender, :content, k.reply_to,
        (SELECT 1 FROM messages t WHERE t.realm = :realm AND t.task_id = k.task_id
            AND t.state_key IS NULL AND t.copy_of IS NULL LIMIT 1) IS NULL,
        :status, :visible_at, 0, :dedup_key, :dedup_hash, :now, :expires_at, :extends_by,
        CASE WHEN :status = 'unread' THEN NULL ELSE CAST(:now AS BIGINT) END
    FROM (
        SELECT COALESCE(r.inbox, :to) AS inbox, COALESCE(s.inbox, :sender) AS sender,
            COALESCE(p.copy_of, p.seq) AS reply_to,
            COALESCE(:task_id, p.task_id, :new_task) AS task_id
        FROM {LOOKED_UP}
        WHERE (r.seq IS NOT NULL OR :unknown)
          AND (r.seq IS NULL OR (r.content = :to_spelt AND r.settled_at IS NULL))
          AND (s.seq IS NULL OR s.content = :sender_spelt)
          AND (:reply_to IS NULL
               OR (p.seq IS NOT NULL AND (:task_id IS NULL OR p.task_id = :task_id)))
    ) k
    WHERE ({CLOSED.format(task="k.task_id")}) IS NULL AND k.task_id IS NOT NULL
      AND NOT (:type IN ('done', 'failed') AND {LOOPS})
    ON CONFLICT (realm, sender, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
    RETURNING seq, inbox, task_id, sender, reply_to
    """
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
    FROM {LOOKED_UP}
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


def send(draft: Draft, unknown: bool) -> Row | None:
    """Insert the draft; None when something stood in the way (see ``explain``).

    A recipient with no name on record stands in the way unless ``unknown``.
    """
    values: dict[str, Any] = draft._asdict()
    values["content"] = stored(draft.content)
    now = clock.now()
    found = database.run(SEND, now=now, unknown=unknown, **values).fetchone()
    return _row(draft, now, *found) if found else None


def _row(
    draft: Draft, now: int, seq: int, inbox: str, task_id: str, sender: str, reply_to: int | None
) -> Row:
    """The row of a draft, with what the database has found out; the rest need not come back."""
    return Row(
        seq=seq,
        inbox=inbox,
        task_id=task_id,
        type=draft.type,
        sender=sender,
        content=draft.content,
        reply_to=reply_to,
        status=draft.status,
        visible_at=draft.visible_at,
        holder=None,
        attempts=0,
        created_at=now,
        settled_at=None if draft.status == "unread" else now,
        expires_at=draft.expires_at,
        reason=None,
    )


def explain(draft: Draft) -> Reason:
    """Read what ``send`` has checked, without changing anything."""
    wanted = ("realm", "sender", "sender_key", "to", "to_key", "task_id", "reply_to", "dedup_key")
    values = {name: getattr(draft, name) for name in wanted}
    found = database.run(EXPLAIN, now=clock.now(), **values).fetchone()
    facts, message = found[:-WIDTH], found[-WIDTH:]
    earlier_hash = bytes(facts[9]) if facts[9] is not None else None
    earlier = row(message) if earlier_hash is not None else None
    return Reason._make((*facts[:9], earlier_hash, earlier))
