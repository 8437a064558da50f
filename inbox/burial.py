"""Burying: what nobody is done with ends as dead or expired, and its sender learns it.

The one way to such an end, from a release and from the sweep alike. Called
within the unit of work that has buried: the notices are committed with it.
"""

import json
from collections.abc import Sequence
from itertools import groupby

from inbox import bell, ids, names
from inbox.message import holder
from inbox.names import POSTMASTER
from models import facts, graves
from models.graves import Buried
from models.rows import Row

BOUNCED = ("request", "question")  # each is answered; of other mail senders get a summary
UNTOLD = ("progress", "cancel")
LISTED = 100  # ids that one notice names at most


def expire(realm: str, seqs: Sequence[int]) -> int:
    """Bury those of ``seqs`` that are past their deadline; how many."""
    return tell(realm, graves.expired(realm, seqs, "expired"))


def lapse(realm: str, seqs: Sequence[int]) -> int:
    """Bury those of ``seqs`` whose last lease has ended; how many."""
    return tell(realm, graves.lapsed_out(realm, seqs))


def drop(realm: str, seqs: Sequence[int], reason: str) -> int:
    """Bury unread messages for ``reason``, in one word; how many."""
    return tell(realm, graves.gone(realm, seqs, reason))


def tell(realm: str, buried: Sequence[Buried]) -> int:
    """Tell the senders of what has been buried; how many messages that was.

    A request or a question is answered with `failed`. Of what else has ended
    a sender gets one notice for each recipient. Copies and the service's own
    mail are not told of: members see receipts, and a bounce is never bounced.
    """
    mine = [each.row for each in buried if not each.copy and each.row.sender != POSTMASTER]
    closed = _closed(realm, mine)
    for row in mine:
        if row.type in BOUNCED:
            _bounce(realm, row, closed.get(row.inbox, row.reason or row.status))
    rest = [row for row in mine if row.type not in BOUNCED and row.type not in UNTOLD]
    for _, group in groupby(sorted(rest, key=_parties), _parties):
        _notice(realm, list(group))
    return len(buried)


def _closed(realm: str, rows: Sequence[Row]) -> dict[str, str]:
    """Why mail of these inboxes expired, where it is because nobody is there any more."""
    inboxes = {row.inbox for row in rows if row.status == "expired" and row.reason == "expired"}
    found = facts.names(realm, [names.key(inbox) for inbox in sorted(inboxes)])
    return {
        fact.inbox: "service_closed" if fact.inbox.startswith(names.SERVICE) else "agent_retired"
        for fact in found.values()
        if fact.settled_at is not None
    }


def _parties(row: Row) -> tuple[str, str]:
    return row.sender, row.inbox


def _bounce(realm: str, row: Row, reason: str) -> None:
    said = {
        "reason": reason,
        "status": row.status,
        "message_id": ids.written(row.seq),
        "type": row.type,
        "to": row.inbox,
        "attempts": row.attempts,
    }
    if row.holder is not None:
        said["last_holder"] = holder(row)
    _put(realm, row.sender, row.task_id, "failed", said, row.seq)


def _notice(realm: str, rows: Sequence[Row]) -> None:
    """One message about all the mail of one sender to one recipient, on the task of the last."""
    last = rows[-1]
    said = {
        "reason": last.reason or last.status,
        "status": last.status,
        "to": last.inbox,
        "count": len(rows),
        "message_ids": [ids.written(row.seq) for row in rows[:LISTED]],
    }
    _put(realm, last.sender, last.task_id, "message", said, last.seq)


def _put(
    realm: str, to: str, task_id: str, type: str, said: dict[str, object], reply_to: int
) -> None:
    graves.tell(realm, to, task_id, type, POSTMASTER, json.dumps(said), reply_to)
    bell.written(realm, to, task_id)
