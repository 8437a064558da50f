"""The shape of a message's row as every verb reads it, and how content enters and leaves.

SQLite keeps content as a BLOB, PostgreSQL as TEXT; here it is always bytes.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from models import database
from models.statement import Statement


class Row(NamedTuple):
    """One message as it lies in the table; times in ms since the epoch."""

    seq: int
    inbox: str
    task_id: str
    type: str
    sender: str
    content: bytes | None
    reply_to: int | None
    status: str
    visible_at: int
    holder: str | None
    attempts: int
    created_at: int
    settled_at: int | None
    expires_at: int | None
    reason: str | None


NAMES = Row._fields
COLUMNS = ", ".join("m." + name for name in NAMES)
RETURNED = ", ".join(NAMES)

# No fact. Of a row that is looked up by its seq it is said so that no other index comes into
# question: PostgreSQL would else skip through that of all inboxes while the table is small.
MESSAGE = "m.status <> 'fact'"
LISTED = "m.state_key IS NULL"  # the same, as the indexes of inboxes and threads have it
UNEXPIRED = "(m.expires_at IS NULL OR m.expires_at > :now)"
# Promise 6: poll, count, ack and the tasks' sums take these two and nothing else for "unread".
READY = f"m.status = 'unread' AND m.visible_at = 0 AND {UNEXPIRED}"
DUE = f"m.status = 'unread' AND m.visible_at > 0 AND m.visible_at <= :now AND {UNEXPIRED}"
# Not delivered yet. What was claimed once has been seen, also while it waits to be tried again.
HIDDEN = "(m.status = 'unread' AND m.visible_at > :now AND m.attempts = 0)"
# What comes back to life after longer than it would have waited gets a deadline of its own, or
# the sweeper would end it the next minute.
ANEW = """
    CASE WHEN m.expires_at IS NULL AND m.created_at <= :deadline THEN :until
        ELSE m.expires_at END
"""
# Held by a claim: ``holder`` is its nonce, a slash, and who claimed.
LEASED = "(m.status = 'unread' AND m.visible_at > :now AND m.holder IS NOT NULL)"
NONCE = 16  # characters
HOLDER_NAME = f"substr(m.holder, {NONCE + 2})"
IN_SERVICE = "substr(m.inbox, 1, 8) = 'service:'"
# A worker has part in what it holds of a service, and in what it has done with that.
WORKS_ON = f"({IN_SERVICE} AND {HOLDER_NAME} = {{name}})"


WIDTH = len(NAMES)


def row(values: Any) -> Row:
    """A row of the driver's as a Row."""
    found = Row._make(values)
    content: Any = found.content
    return found._replace(content=content.encode()) if isinstance(content, str) else found


def stored(content: bytes | None) -> bytes | str | None:
    """Content as the open database keeps it."""
    if content is None or database.current().dialect == "sqlite":
        return content
    return content.decode()


def page_of(candidates: str, beside: str = "(SELECT 1 AS one) o", extra: str = "") -> Statement:
    """A page of messages, to be ended by ``cut``.

    ``candidates`` selects ``seq`` (and on PostgreSQL ``{size}``), in order, at
    most ``:fetch``. Each row of the answer is ``extra``, which is taken from
    ``beside``, and a message; an empty page is one row without a message.
    """
    sql = f"""
        SELECT {extra} {COLUMNS} FROM {beside} LEFT JOIN ({{chosen}}) k ON TRUE
        LEFT JOIN messages m ON m.seq = k.seq
    """
    # SQLite makes row after row as it is asked for them, in the order of the candidates; to have
    # it sort them again would be to have it read them all. PostgreSQL sends all that it has found:
    # what fits, and one more, by which it is seen that more follow.
    sized = f"""
        SELECT w.seq FROM (
            SELECT f.seq, SUM(f.size) OVER (
                ORDER BY f.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING
            ) AS before FROM ({candidates}) f
        ) w WHERE COALESCE(w.before, 0) <= :bytes
    """.replace("{size}", ", COALESCE(octet_length(m.content), 0) AS size")
    return Statement(
        sql.format(chosen=candidates.replace("{size}", "")),
        sql.format(chosen=sized) + "ORDER BY k.seq",
    )


def cut(found: Iterable[Any], limit: int, size: int) -> tuple[list[Row], bool]:
    """The page's messages: at most ``limit``, ``size`` bytes of content, at least one if there is.

    Also whether more follow. Takes no more of ``found`` than it needs.
    """
    rows: list[Row] = []
    for values in found:
        if values[-WIDTH] is None:
            break
        following = row(values[-WIDTH:])
        size -= len(following.content or b"")
        if len(rows) == limit or (rows and size < 0):
            return rows, True
        rows.append(following)
    return rows, False
