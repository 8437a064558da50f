"""Sending many messages at once, as long as there is nothing special about any of them.

What is special, a key, a reply, an end, a name that nobody has, is sent one by
one (``models.outbox``). Of the rest it is asked once for each recipient and
thread what stands in the way; on PostgreSQL all of it is one statement.
"""

from collections.abc import Sequence
from typing import Any

from models import clock, database
from models.outbox import CLOSED, ENDING, INTO, OPENED, TAKE_BACK, Draft, inserted, look
from models.rows import Row, stored
from models.statement import Statement

# The fields that differ from message to message: an array each.
VARYING = (
    *("to", "to_key", "to_spelt", "type", "content", "task_id", "new_task"),
    *("visible_at", "expires_at", "extends_by"),
)
ARRAYS = ", ".join(f":many_{name}" for name in VARYING)
COLUMNS = ", ".join(f"many_{name}" for name in VARYING)
SEND_ALL = Statement(
    f"""
    WITH k AS MATERIALIZED (
        SELECT d.*, r.inbox, COALESCE(s.inbox, :sender) AS from_name,
            COALESCE(d.many_task_id, d.many_new_task) AS task
        FROM unnest({ARRAYS}) WITH ORDINALITY AS d({COLUMNS}, place)
        CROSS JOIN LATERAL (
            SELECT n.inbox FROM messages n WHERE n.realm = :realm AND n.type = 'name'
                AND n.state_key = d.many_to_key AND n.content = d.many_to_spelt
                AND n.settled_at IS NULL LIMIT 1
        ) r
        LEFT JOIN messages s ON s.realm = :realm AND s.type = 'name' AND s.state_key = :sender_key
        WHERE (s.seq IS NULL OR s.content = :sender_spelt)
          AND ({CLOSED.format(task="COALESCE(d.many_task_id, d.many_new_task)")}) IS NULL
    )
    {INTO} SELECT :realm, k.inbox, k.task, k.many_type, k.from_name, k.many_content, NULL,
        ROW_NUMBER() OVER (PARTITION BY k.task ORDER BY k.place) = 1
            AND ({OPENED.format(task="k.task")}) IS NULL,
        'unread', k.many_visible_at, 0, NULL, NULL, :now, k.many_expires_at, k.many_extends_by,
        NULL
    FROM k WHERE (SELECT COUNT(*) FROM k) = :fetch ORDER BY k.place
    RETURNING seq, inbox, task_id, sender
    """
)
INSERT_ALL = Statement(
    f"""
    {INTO} VALUES (:realm, :inbox, :task_id, :type, :sender, :content, NULL, :opens, 'unread',
        :visible_at, 0, NULL, NULL, :now, :expires_at, :extends_by, NULL)
    """,
    undo=TAKE_BACK,
)


def plain(draft: Draft) -> bool:
    """Whether there is nothing special about a draft."""
    return (
        draft.dedup_key is None
        and draft.reply_to is None
        and draft.status == "unread"
        and draft.type not in ENDING
    )


def send(drafts: Sequence[Draft], only: bool = False) -> list[Row] | None:
    """Insert plain drafts of one sender, in order; None when something stood in the way of one.

    Then nothing has been inserted. ``only``: nothing else is written with them.
    """
    now = clock.now()
    if database.current().dialect == "sqlite":
        return _look_and_insert(drafts, now, only)
    first = drafts[0]
    values: dict[str, Any] = {
        f"many_{name}": [getattr(draft, name) for draft in drafts] for name in VARYING
    }
    values["many_content"] = [stored(content) for content in values["many_content"]]
    values.update(realm=first.realm, sender=first.sender, sender_key=first.sender_key)
    values.update(sender_spelt=first.sender_spelt, now=now, fetch=len(drafts))
    found = sorted(database.perform(SEND_ALL, values).fetchall())
    if not found:
        return None
    return [
        inserted(draft, now, seq, inbox, task_id, sender, None)
        for draft, (seq, inbox, task_id, sender) in zip(drafts, found, strict=True)
    ]


def _look_and_insert(drafts: Sequence[Draft], now: int, only: bool) -> list[Row] | None:
    looks: dict[tuple[str, str | None, str | None], Any] = {}
    opened: set[str] = set()
    places, values = [], []
    for draft in drafts:
        asked = draft.to, draft.task_id, draft.new_task
        found = looks[asked] if asked in looks else looks.setdefault(asked, look(draft, now))
        if found is None:
            return None
        inbox, task_id, sender, _, opens = found
        places.append((inbox, task_id, sender))
        values.append(
            {
                "realm": draft.realm,
                "inbox": inbox,
                "task_id": task_id,
                "type": draft.type,
                "sender": sender,
                "content": draft.content,
                "opens": opens and task_id not in opened,
                "visible_at": draft.visible_at,
                "now": now,
                "expires_at": draft.expires_at,
                "extends_by": draft.extends_by,
            }
        )
        opened.add(task_id)
    # Nobody else inserts meanwhile, so the new rows are numbered one after the other.
    first = database.perform_many(INSERT_ALL, values, only) - len(values) + 1
    return [
        inserted(draft, now, seq, inbox, task_id, sender, None)
        for seq, (draft, (inbox, task_id, sender)) in enumerate(
            zip(drafts, places, strict=True), first
        )
    ]
