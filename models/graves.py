"""Where messages end that nobody is done with: dead or expired; and the way back.

Whatever ends a message here returns it as it was buried, for ``inbox.burial``
to tell its sender within the same unit of work.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models import clock, database
from models.leases import HELD, MOST, held
from models.rows import ANEW, LISTED, MESSAGE, RETURNED, Row, row
from models.statement import Statement

BURY = """
    UPDATE messages AS m SET status = '{status}', settled_at = :now, reason = {reason}
    WHERE {which} AND m.status = 'unread' RETURNING {returned}, copy_of
"""
LAPSED = f"m.visible_at <> 0 AND m.visible_at <= :now AND m.attempts >= {MOST}"


def _bury(status: str, which: str, reason: str) -> Statement:
    return Statement(BURY.format(status=status, which=which, reason=reason, returned=RETURNED))


MANY = f"m.realm = :realm AND m.seq IN :seqs AND {MESSAGE}"
GIVEN_BACK = _bury("dead", f"{HELD} AND m.attempts >= {MOST}", "COALESCE(:reason, 'released')")
LAPSED_OUT = _bury("dead", f"{MANY} AND {LAPSED}", "'lease_lapsed'")
EXPIRED = _bury(
    "expired",
    f"{MANY} AND COALESCE(m.expires_at, :now + 1) <= :now",
    "CASE WHEN m.reason = 'service_closed' THEN m.reason ELSE :reason END",
)
GONE = _bury("expired", MANY, ":reason")
WITHDRAWN = _bury(
    "expired",
    f"""
    m.realm = :realm AND m.task_id = :task_id AND {LISTED} AND m.copy_of IS NULL
    AND m.sender = :sender AND m.inbox = :inbox AND m.type IN :types
    AND (:reply_to IS NULL OR m.seq = :reply_to)
    AND NOT (m.visible_at > :now AND m.holder IS NOT NULL)
    """,
    "'cancelled'",
)
HOLDERS = Statement(
    f"""
    SELECT DISTINCT substr(m.holder, 18) FROM messages m
    WHERE m.realm = :realm AND m.task_id = :task_id AND {LISTED} AND m.copy_of IS NULL
    AND m.sender = :sender AND m.inbox = :inbox AND m.type IN :types
    AND (:reply_to IS NULL OR m.seq = :reply_to)
    AND m.holder IS NOT NULL AND m.status IN ('unread', 'acked')
    """
)
TELL = Statement(
    """
    INSERT INTO messages (realm, inbox, task_id, type, sender, content, reply_to, opens, status,
        visible_at, attempts, created_at)
    VALUES (:realm, :inbox, :task_id, :type, :sender, :content, :reply_to, FALSE, 'unread',
        0, 0, :now)
    """
)
# Of rows that are given by their seq conditions are said so that no index but the primary key
# comes into question.
DEAD = "m.status || '' = 'dead'"
RAISED = f"""
    status = 'unread', attempts = 0, visible_at = 0, holder = NULL, reason = NULL,
    settled_at = NULL,
    expires_at = CASE WHEN m.expires_at <= :now THEN NULL ELSE {ANEW} END
"""
REDRIVE = Statement(
    f"""
    UPDATE messages AS m SET {RAISED}
    WHERE m.seq = :seq AND m.realm = :realm AND {DEAD} RETURNING {RETURNED}
    """
)
REDRIVE_ALL = Statement(
    f"""
    UPDATE messages AS m SET {RAISED} WHERE m.seq IN (
        SELECT d.seq FROM messages d WHERE d.realm = :realm AND d.inbox = :inbox
        AND d.status = 'dead' ORDER BY d.seq LIMIT :fetch
    ) RETURNING {RETURNED}
    """
)
DISCARD = Statement(
    f"""
    UPDATE messages AS m SET status = 'acked', settled_at = :now
    WHERE m.seq = :seq AND m.realm = :realm AND {DEAD} RETURNING {RETURNED}
    """
)


class Buried(NamedTuple):
    """A message that has ended, and whether it was a member's copy of a post."""

    row: Row
    copy: bool


def _buried(statement: Statement, **values: object) -> list[Buried]:
    found = database.run(statement, now=clock.now(), **values).fetchall()
    made = [Buried(row(values[:-1]), values[-1] is not None) for values in found]
    return sorted(made, key=lambda each: each.row.seq)


def given_back(
    realm: str, seq: int, nonce: str, name: str | None, key: str, spelt: str, reason: str | None
) -> list[Buried]:
    """Bury a message that its holder gives back after its last claim."""
    return _buried(GIVEN_BACK, reason=reason, **held(realm, seq, nonce, name, key, spelt))


def lapsed_out(realm: str, seqs: Sequence[int]) -> list[Buried]:
    """Bury those of ``seqs`` whose last lease has ended."""
    return _buried(LAPSED_OUT, realm=realm, seqs=tuple(seqs))


def expired(realm: str, seqs: Sequence[int], reason: str) -> list[Buried]:
    """Bury those of ``seqs`` that are past their deadline."""
    return _buried(EXPIRED, realm=realm, seqs=tuple(seqs), reason=reason)


def gone(realm: str, seqs: Sequence[int], reason: str) -> list[Buried]:
    """Bury those of ``seqs`` that are still unread, for another reason than their deadline."""
    return _buried(GONE, realm=realm, seqs=tuple(seqs), reason=reason)


def withdrawn(
    realm: str, task_id: str, sender: str, inbox: str, seq: int | None, types: Sequence[str]
) -> tuple[list[Row], list[str]]:
    """Take back what ``sender`` asked of ``inbox`` and nobody holds; and who holds the rest.

    ``seq`` is the one request that is meant; None means all of that task.
    """
    asked = {"realm": realm, "task_id": task_id, "sender": sender, "inbox": inbox}
    taken = _buried(WITHDRAWN, **asked, reply_to=seq, types=tuple(types))
    found = database.run(HOLDERS, **asked, reply_to=seq, types=tuple(types)).fetchall()
    return [each.row for each in taken], [name for (name,) in found]


def tell(
    realm: str, inbox: str, task_id: str, type: str, sender: str, content: str, reply_to: int | None
) -> None:
    """Put a notice of the service's own into an inbox, whatever stands in the way of others."""
    database.run(
        TELL,
        realm=realm,
        inbox=inbox,
        task_id=task_id,
        type=type,
        sender=sender,
        content=content.encode() if database.current().dialect == "sqlite" else content,
        reply_to=reply_to,
        now=clock.now(),
    )


def redrive(realm: str, seq: int, before: int, until: int | None) -> Row | None:
    """Let a dead letter be claimed again, from the first attempt on; None if it is none.

    One sent ``before`` then, without a deadline, expires at ``until``; both in ms.
    """
    found = database.run(
        REDRIVE, realm=realm, seq=seq, now=clock.now(), deadline=before, until=until
    ).fetchone()
    return row(found) if found else None


def redrive_all(realm: str, inbox: str, limit: int, before: int, until: int | None) -> list[Row]:
    """Redrive the oldest ``limit`` dead letters of an inbox, likewise."""
    found = database.run(
        REDRIVE_ALL,
        realm=realm,
        inbox=inbox,
        fetch=limit,
        now=clock.now(),
        deadline=before,
        until=until,
    )
    return sorted(row(values) for values in found.fetchall())


def discard(realm: str, seq: int) -> Row | None:
    """Be done with a dead letter; None if it is none."""
    found = database.run(DISCARD, realm=realm, seq=seq, now=clock.now()).fetchone()
    return row(found) if found else None
