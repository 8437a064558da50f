"""Claiming: one statement takes the oldest messages of an inbox that nobody holds.

A lease that has ended needs no process to end it: its message is due again,
and the statement looks at both what is ready and what is due.
"""

import functools
from typing import NamedTuple

from models import clock, database
from models.queues import lease_length, most_attempts
from models.rows import COLUMNS, DUE, HIDDEN, HOLDER_NAME, RETURNED, UNEXPIRED, Row, row
from models.statement import Statement

BOX = "m.realm = :realm AND m.inbox = :inbox"
LOOK = 1000  # of what is due, so much is put in order; the sweeper makes it ready within seconds
LOOK_EXCLUSIVELY = 5000  # how far a claim of whole tasks looks past those that others have
CLAIMABLE = f"m.attempts < {most_attempts()}"
# Of the same task nothing earlier waits, or is held by anybody else. What has not been delivered
# yet holds nothing up.
EARLIER = f"""
    SELECT 1 FROM messages e WHERE e.realm = :realm AND e.inbox = :inbox
    AND e.task_id = m.task_id AND e.seq < m.seq AND e.status = 'unread'
    AND {UNEXPIRED.replace("m.", "e.")}
"""
NEXT_OF_TASK = f"""
    NOT EXISTS ({EARLIER} AND e.visible_at = 0)
    AND NOT EXISTS ({EARLIER} AND e.visible_at + 0 > 0 AND NOT {HIDDEN.replace("m.", "e.")}
        AND NOT (e.visible_at > :now AND e.holder IS NOT NULL
            AND {HOLDER_NAME.replace("m.", "e.")} = :worker))
"""


class Wanted(NamedTuple):
    """Which messages are claimed; ``exclusive`` means that one worker has a task to itself."""

    task_id: str | None = None
    types: tuple[str, ...] = ()
    exclusive: bool = False


def _arms(task: bool, types: bool, exclusive: bool) -> list[str]:
    """The two heads of the queue, each in order of seq; ``{lock}`` is for PostgreSQL."""
    narrowed = [
        CLAIMABLE,
        *(["m.task_id = :task_id"] if task else []),
        *(["m.type IN :types"] if types else []),
    ]
    # Of one task, what is due is found by an index of its own, named by its words.
    due_head = DUE.replace("m.visible_at > 0", "m.visible_at + 0 > 0") if task else DUE
    ready, due = ([BOX, head, *narrowed] for head in (READY_HEAD, due_head))
    if not task:
        # Of many that are due at once, those that have been due longest: sorting all would take
        # longer the more there are.
        due.append(_first(due, "m.visible_at, m.seq", LOOK))
    if exclusive:
        ready = [BOX, READY_HEAD, _first(ready, "m.seq", LOOK_EXCLUSIVELY), NEXT_OF_TASK]
        due.append(NEXT_OF_TASK)
    return [
        f"SELECT m.seq FROM messages m WHERE {' AND '.join(arm)}"
        " ORDER BY m.seq LIMIT :fetch{lock}"
        for arm in (ready, due)
    ]


READY_HEAD = f"m.status = 'unread' AND m.visible_at = 0 AND {UNEXPIRED}"


def _first(conditions: list[str], order: str, count: int) -> str:
    inner = " AND ".join(conditions)
    found = f"SELECT m.seq FROM messages m WHERE {inner} ORDER BY {order} LIMIT {count}"
    return "m.seq IN (" + found.replace("m.", "d.").replace("messages m", "messages d") + ")"


@functools.lru_cache(16)
def _claim(task: bool, types: bool, exclusive: bool) -> Statement:
    ready, due = _arms(task, types, exclusive)
    taken = f"""
        visible_at = :now + {lease_length()}, holder = :holder, attempts = m.attempts + 1
    """
    plain = f"SELECT * FROM ({ready}) a UNION ALL SELECT * FROM ({due}) b"
    return Statement(
        f"""
        UPDATE messages AS m SET {taken} WHERE m.seq IN (
            SELECT seq FROM ({plain.format(lock="")}) c ORDER BY seq LIMIT :fetch
        )
        RETURNING {RETURNED}
        """,
        # Rows that others are about to take are passed over, not waited for.
        f"""
        WITH a AS MATERIALIZED ({ready}), b AS MATERIALIZED ({due}), c AS MATERIALIZED (
            SELECT seq FROM (SELECT seq FROM a UNION ALL SELECT seq FROM b) u
            ORDER BY seq LIMIT :fetch
        )
        UPDATE messages AS m SET {taken} FROM c WHERE m.seq = c.seq RETURNING {COLUMNS}
        """.format(lock=" FOR UPDATE OF m SKIP LOCKED"),
    )


def claim(
    realm: str,
    inbox: str,
    wanted: Wanted,
    nonce: str,
    worker: str,
    lease: int | None,
    limit: int,
    only: bool = False,
) -> list[Row]:
    """Take at most ``limit`` messages for ``worker``, oldest first.

    ``lease`` is in ms; None means the inbox's own. ``only``: nothing else is
    written with it (see ``database.perform``).
    """
    statement = _claim(wanted.task_id is not None, bool(wanted.types), wanted.exclusive)
    values = {
        "realm": realm,
        "inbox": inbox,
        "task_id": wanted.task_id,
        "types": wanted.types or ("",),
        "holder": f"{nonce}/{worker}",
        "worker": worker,
        "lease": lease,
        "fetch": limit,
        "now": clock.now(),
    }
    found = database.perform(statement, values, only)
    return sorted(row(values) for values in found.fetchall())
