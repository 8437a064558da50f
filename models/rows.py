"""The shape of a message's row as every verb reads it, and how content enters and leaves.

SQLite keeps content as a BLOB: the length of a blob is known without reading
it, which is what ends a page at its size; PostgreSQL knows that of its TEXT.
"""

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


NAMES = Row._fields
COLUMNS = ", ".join("m." + name for name in NAMES)
RETURNED = ", ".join(NAMES)

MESSAGE = "m.state_key IS NULL"
UNEXPIRED = "(m.expires_at IS NULL OR m.expires_at > :now)"
# Promise 6: poll, count, ack and the tasks' sums take these two and nothing else for "unread".
READY = f"m.status = 'unread' AND m.visible_at = 0 AND {UNEXPIRED}"
DUE = f"m.status = 'unread' AND m.visible_at > 0 AND m.visible_at <= :now AND {UNEXPIRED}"
HIDDEN = "(m.status = 'unread' AND m.visible_at > :now AND m.holder IS NULL)"


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


SIZE = {"sqlite": "length", "postgresql": "octet_length"}


def page_of(candidates: str, extra: str = "NULL") -> Statement:
    """A page cut by number and by size: the rows of ``candidates`` with one that always comes.

    ``candidates`` selects ``seq`` and ``{size}``, in order, at most ``:fetch``.
    Each row of the answer is ``extra``, how many candidates there were, and
    the message; an empty page is one row without a message.
    """
    sql = f"""
        SELECT {extra}, k.found, {COLUMNS}
        FROM (SELECT 1 AS one) o
        LEFT JOIN (
            SELECT p.seq, p.found FROM (
                SELECT c.seq, c.size, SUM(c.size) OVER (ORDER BY c.seq) AS upto,
                       COUNT(*) OVER () AS found
                FROM ({candidates}) c
            ) p WHERE p.upto <= :bytes OR p.upto = p.size
        ) k ON TRUE
        LEFT JOIN messages m ON m.seq = k.seq
        ORDER BY k.seq
    """
    texts = [
        sql.replace("{size}", f"COALESCE({length}(m.content), 0) AS size")
        for length in SIZE.values()
    ]
    return Statement(*texts)
