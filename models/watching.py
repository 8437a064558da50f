"""What other processes have written: asked for by whoever keeps the waits of this one."""

import json
from collections.abc import Sequence

from models import clock, database
from models.rows import DUE, READY
from models.statement import Statement

NEWEST = Statement("SELECT MAX(seq) FROM messages")
ABOVE = Statement(
    """
    SELECT m.seq, m.realm, m.inbox, m.task_id, m.visible_at FROM messages m
    WHERE m.seq > :after ORDER BY m.seq LIMIT :fetch
    """
)
HAS_UNREAD = """
    SELECT b.value FROM {boxes} WHERE (
        SELECT 1 FROM messages m WHERE m.realm = :realm AND m.inbox = b.value AND {ready} LIMIT 1
    ) IS NOT NULL OR (
        SELECT 1 FROM messages m WHERE m.realm = :realm AND m.inbox = b.value AND {due} LIMIT 1
    ) IS NOT NULL
"""
UNREAD = Statement(
    HAS_UNREAD.format(boxes="json_each(:boxes) b", ready=READY, due=DUE),
    HAS_UNREAD.format(
        boxes="jsonb_array_elements_text(CAST(:boxes AS jsonb)) AS b(value)", ready=READY, due=DUE
    ),
)
BATCH = 2000


def newest() -> int:
    """The highest seq there is; 0 for an empty table."""
    return int(database.run(NEWEST).fetchone()[0] or 0)


def above(seq: int) -> tuple[int, set[tuple[str, str, str | None, int]]]:
    """The highest seq now (of at most 2,000 rows), and of what is above: realm, inbox, task and,
    where it is to be seen later, when, in ms; else 0.
    """
    found = database.run(ABOVE, after=seq, fetch=BATCH).fetchall()
    return (found[-1][0] if found else seq), {values[1:] for values in found}


def unread(realm: str, boxes: Sequence[str]) -> list[str]:
    """Those of these inboxes in which something is unread."""
    found = database.run(UNREAD, realm=realm, boxes=json.dumps(list(boxes)), now=clock.now())
    return [inbox for (inbox,) in found.fetchall()]
