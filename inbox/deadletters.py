"""Dead letters: what failed too often is kept, and comes back only when somebody says so."""

from typing import NamedTuple

from inbox import bell, ids, retention, services
from inbox.errors import MessageNotFound, NotDead, NotYours
from inbox.message import Message, message
from inbox.names import Actor
from inbox.poll import resolve
from models import graves, inboxes
from models.rows import Row

MOST = 1000  # redriven by one request


class Redriven(NamedTuple):
    """How many dead letters can be claimed again, and how many are left."""

    redriven: int
    dead: int


def redrive(actor: Actor, text: str) -> Message:
    """Let a dead letter be claimed again, its attempts counted anew; no old receipt fits it.

    For its recipient and the operator. Raises ``NotDead`` and ``MessageNotFound``.
    """
    seq = _mine(actor, text)
    row = graves.redrive(actor.realm, seq, *retention.anew())
    if row is None:
        raise NotDead(f"The message {text} is no dead letter.")
    bell.written(actor.realm, row.inbox, row.task_id)
    return message(row)


def redrive_all(actor: Actor, address: str) -> Redriven:
    """Redrive the oldest 1,000 dead letters of an inbox."""
    home = resolve(actor.realm, address)
    rows = graves.redrive_all(actor.realm, home, MOST, *retention.anew())
    for row in rows:
        bell.written(actor.realm, row.inbox, row.task_id)
    _, counts = inboxes.count(actor.realm, home, home.lower())
    return Redriven(len(rows), counts.dead)


def discard(actor: Actor, text: str) -> Message:
    """Be done with a dead letter: it is acknowledged, with the reason for which it died."""
    row = graves.discard(actor.realm, _mine(actor, text))
    if row is None:
        raise NotDead(f"The message {text} is no dead letter.")
    return message(row)


def _mine(actor: Actor, text: str) -> int:
    seq = ids.read(text)
    row = inboxes.read(actor.realm, seq) if seq is not None else None
    if row is None:
        raise MessageNotFound(f"{text[:80]!r} is not the id of a message.")
    if actor.name is not None:
        _check(actor, row, text)
    return row.seq


def _check(actor: Actor, row: Row, text: str) -> None:
    home = resolve(actor.realm, str(actor.name))
    if row.inbox == home or services.works_for(actor.realm, row.inbox, home):
        return
    if row.sender == home:
        raise NotYours(f"The message {text} lies in the inbox of {row.inbox}.")
    raise MessageNotFound(f"{text[:80]!r} is not the id of a message of yours.")
