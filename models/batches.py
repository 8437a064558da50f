"""Sending many messages at once, as long as there is nothing special about any of them.

What is special, a key, a reply, an end, a name that nobody has, is sent one by
one (``models.outbox``). Of the rest it is asked once for each sender, recipient
and thread what stands in the way; on PostgreSQL all of it is one statement.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from models import clock, database
from models.outbox import (
    CLOSED,
    CONSEQUENT,
    ENDING,
    INTO,
    NAMES,
    OPENED,
    TAKE_BACK,
    Draft,
    inserted,
)
from models.rows import Row, stored
from models.statement import Statement, as_records, records

# The fields that differ from message to message.
VARYING = (
    *("sender", "sender_key", "sender_spelt", "to", "to_key", "to_spelt", "type", "content"),
    *("task_id", "new_task", "visible_at", "expires_at", "extends_by"),
)
NAMED = "n.realm = :realm AND n.type = 'name' AND n.state_key"
# With LIMIT each name is looked up by itself; else PostgreSQL may read all there are to join with.
SEND_ALL = Statement(
    f"""
    WITH k AS MATERIALIZED (
        SELECT d.*, r.inbox, COALESCE(s.inbox, d.sender) AS from_name,
            COALESCE(d.task_id, d.new_task) AS task
        FROM {records(VARYING)}
        CROSS JOIN LATERAL (
            SELECT n.inbox FROM messages n WHERE {NAMED} = d.to_key
                AND n.content = d.to_spelt AND n.settled_at IS NULL LIMIT 1
        ) r
        LEFT JOIN LATERAL (
            SELECT n.inbox, n.content FROM messages n WHERE {NAMED} = d.sender_key LIMIT 1
        ) s ON TRUE
        WHERE (s.inbox IS NULL OR s.content = d.sender_spelt)
          AND ({CLOSED.format(task="COALESCE(d.task_id, d.new_task)")}) IS NULL
    )
    {INTO} SELECT :realm, k.inbox, k.task, k.type, k.from_name, k.content, NULL,
        ROW_NUMBER() OVER (PARTITION BY k.task ORDER BY k.ordinality) = 1
            AND ({OPENED.format(task="k.task")}) IS NULL,
        'unread', k.visible_at, 0, NULL, NULL, :now, k.expires_at, k.extends_by,
        NULL
    FROM k WHERE (SELECT COUNT(*) FROM k) = :fetch ORDER BY k.ordinality
    RETURNING seq, inbox, task_id, sender
    """
)
# On SQLite: who the names of a message belong to, if nothing about them stands in its way, and of
# each of some threads whether it takes messages and has any.
LOOK_AT_NAMES = Statement(
    f"""
    SELECT r.inbox, COALESCE(s.inbox, :sender) FROM {NAMES}
    WHERE r.content = :to_spelt AND r.settled_at IS NULL
      AND (s.seq IS NULL OR s.content = :sender_spelt)
    """
)
LOOK_AT_TASKS = Statement(
    f"""
    SELECT j.value, ({CLOSED.format(task="j.value")}) IS NULL,
        ({OPENED.format(task="j.value")}) IS NULL
    FROM json_each(:tasks) j
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
        and draft.type not in ENDING
        and draft.type not in CONSEQUENT
    )


def send(drafts: Sequence[Draft], only: bool = False) -> list[Row] | None:
    """Insert plain drafts, in order; None when something stood in the way of one.

    Then nothing has been inserted. ``only``: nothing else is written with them.
    """
    if database.current().dialect != "sqlite":
        return _send_all(drafts)
    looks = _looks(drafts)
    free = [found for found in looks if found is not None]
    return _insert(drafts, free, only) if len(free) == len(drafts) else None


def send_each(drafts: Sequence[Draft]) -> list[Row | None]:
    """Insert those plain drafts of one realm in whose way nothing stands; None for the others.

    On PostgreSQL none is inserted if anything stands in the way of one.
    """
    made: list[Row | None] = [None] * len(drafts)
    if database.current().dialect != "sqlite":
        return [*(_send_all(drafts) or made)]
    looks = _looks(drafts)
    free = [place for place, found in enumerate(looks) if found is not None]
    found = [look for look in looks if look is not None]
    rows = _insert([drafts[place] for place in free], found, only=False) if free else []
    for place, row in zip(free, rows, strict=True):
        made[place] = row
    return made


def _send_all(drafts: Sequence[Draft]) -> list[Row] | None:
    now = clock.now()
    rows: list[dict[str, Any]] = [
        {name: getattr(draft, name) for name in VARYING} for draft in drafts
    ]
    for each in rows:
        each["content"] = stored(each["content"])
    values = {"realm": drafts[0].realm, "now": now, "fetch": len(rows), "rows": as_records(rows)}
    found = sorted(database.perform(SEND_ALL, values).fetchall())
    if not found:
        return None
    return [
        inserted(draft, now, seq, inbox, task_id, sender, None)
        for draft, (seq, inbox, task_id, sender) in zip(drafts, found, strict=True)
    ]


class Look(NamedTuple):
    """Where a message is to lie."""

    inbox: str
    sender: str
    task_id: str
    opens: bool


def _looks(drafts: Sequence[Draft]) -> list[Look | None]:
    """What has been found out about each draft; None where something stands in its way."""
    realm = drafts[0].realm
    tasks = [draft.task_id or draft.new_task or "" for draft in drafts]
    given = json.dumps(list(set(tasks)))
    found = database.run(LOOK_AT_TASKS, realm=realm, tasks=given).fetchall()
    opens = {task: opens for task, takes, opens in found if takes}
    names: dict[tuple[str, str], tuple[str, str] | None] = {}
    looks: list[Look | None] = []
    for draft, task in zip(drafts, tasks, strict=True):
        parties = draft.sender, draft.to
        if parties not in names:
            names[parties] = database.run(
                LOOK_AT_NAMES,
                realm=realm,
                sender=draft.sender,
                sender_key=draft.sender_key,
                sender_spelt=draft.sender_spelt,
                to_key=draft.to_key,
                to_spelt=draft.to_spelt,
            ).fetchone()
        owners = names[parties]
        if owners is None or task not in opens:
            looks.append(None)
        else:
            looks.append(Look(*owners, task, opens[task]))
            opens[task] = False  # this one does
    return looks


def _insert(drafts: Sequence[Draft], looks: Sequence[Look], only: bool) -> list[Row]:
    now = clock.now()
    rows = [
        (
            *(draft.realm, look.inbox, look.task_id, draft.type, look.sender, draft.content),
            *(look.opens, draft.visible_at, now, draft.expires_at, draft.extends_by),
        )
        for draft, look in zip(drafts, looks, strict=True)
    ]
    # Nobody else inserts meanwhile, so the new rows are numbered one after the other.
    last = database.perform_many(INSERT_ALL, rows, only)
    seqs = range(last - len(rows) + 1, last + 1)
    return [
        inserted(draft, now, seq, look.inbox, look.task_id, look.sender, None)
        for seq, draft, look in zip(seqs, drafts, looks, strict=True)
    ]
