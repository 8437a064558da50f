"""What the holder of a lease may do: push its end back, give the message back."""

from models import clock, database
from models.inboxes import NAME
from models.queues import most_attempts
from models.rows import IN_SERVICE, LEASED, MESSAGE, RETURNED, UNEXPIRED, WORKS_ON, Row, row
from models.settling import RECEIVED
from models.statement import Statement

HELD = f"""
    m.seq = :seq AND m.realm = :realm AND {MESSAGE} AND {UNEXPIRED} AND {LEASED} AND {RECEIVED}
    AND (:anyone OR {IN_SERVICE} OR m.inbox = :name OR m.inbox = (
        SELECT n.inbox FROM messages n WHERE {NAME} AND n.content = :spelt
    ))
"""
MOST = most_attempts(inbox="m.inbox")
EXTEND = Statement(
    f"""
    UPDATE messages AS m SET visible_at = :until WHERE {HELD} RETURNING {RETURNED}
    """
)
BACK_OFF = 1000  # ms after the first claim; doubled with each
LONGEST = 9  # doublings
RELEASE = Statement(
    f"""
    UPDATE messages AS m SET holder = NULL, reason = :reason, visible_at = CASE
        WHEN :delay = 0 THEN 0
        WHEN :delay > 0 THEN :now + :delay
        ELSE :now + {BACK_OFF} * (1 << (CASE WHEN m.attempts > {LONGEST} THEN {LONGEST}
            ELSE m.attempts - 1 END))
    END
    WHERE {HELD} AND m.attempts < {MOST} RETURNING {RETURNED}
    """
)
PROGRESS = Statement(
    f"""
    UPDATE messages AS m SET expires_at = :now + m.extends_by
    WHERE m.seq = :seq AND m.realm = :realm AND {MESSAGE} AND m.status = 'unread' AND {UNEXPIRED}
    AND m.extends_by IS NOT NULL AND (m.inbox = :name OR {WORKS_ON.format(name=":name")})
    """
)


def extend(
    realm: str, seq: int, nonce: str, name: str | None, key: str, spelt: str, lease: int
) -> Row | None:
    """Let a lease end ``lease`` ms from now; None when it is not held with this nonce."""
    now = clock.now()
    found = database.run(
        EXTEND, until=now + lease, now=now, **held(realm, seq, nonce, name, key, spelt)
    ).fetchone()
    return row(found) if found else None


def release(
    realm: str,
    seq: int,
    nonce: str,
    name: str | None,
    key: str,
    spelt: str,
    delay: int | None,
    reason: str | None,
) -> Row | None:
    """Give a message back for a later claim; None when it is not held so, or had its last.

    ``delay`` in ms; None backs off the longer the more often it was claimed.
    """
    found = database.run(
        RELEASE,
        delay=-1 if delay is None else delay,
        reason=reason,
        now=clock.now(),
        **held(realm, seq, nonce, name, key, spelt),
    ).fetchone()
    return row(found) if found else None


def held(
    realm: str, seq: int, nonce: str, name: str | None, key: str, spelt: str
) -> dict[str, object]:
    """The parameters of ``HELD``."""
    return {
        "realm": realm,
        "seq": seq,
        "nonce": nonce,
        "name": name or "",
        "key": key,
        "spelt": spelt,
        "anyone": name is None,
    }


def progress(realm: str, seq: int, name: str) -> None:
    """Push back the deadline of a request that asked for it, if it is ``name`` that works on it."""
    database.run(PROGRESS, realm=realm, seq=seq, name=name, now=clock.now())
