"""Settling: messages that their recipients are done with."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from models import clock, database
from models.inboxes import NAME
from models.rows import (
    COLUMNS,
    HIDDEN,
    IN_SERVICE,
    LEASED,
    NONCE,
    RETURNED,
    UNEXPIRED,
    Row,
    row,
)
from models.statement import Statement, as_records, records

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
EACH = re.sub(r"(?<!:):(seq|name|key|spelt|anyone|nonce)\b", r"d.\1", MAY_ACK)
PLACES = ("seq", "name", "key", "spelt", "anyone", "nonce")
ACK_EACH = Statement(
    f"""
    UPDATE messages AS m SET {SETTLED}
    FROM {records(PLACES)}
    WHERE m.seq IN :seqs AND {EACH} RETURNING {COLUMNS}
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
        values: dict[str, Any] = {"realm": asked[0].realm, "now": now}
        values["seqs"] = [each.seq for each in asked]
        values["rows"] = as_records([each._asdict() for each in asked])
        found = {each[0]: row(each) for each in database.perform(ACK_EACH, values).fetchall()}
        return [found.pop(each.seq, None) for each in asked]
    looks = [
        database.perform(LOOK_TO_ACK, {**each._asdict(), "now": now}).fetchone() for each in asked
    ]
    settled = [(now, each[0]) for each in looks if each is not None]
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
