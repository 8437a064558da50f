"""Receipts: what became of a message, for those who have a part in it."""

from inbox import ids
from inbox.errors import MessageNotFound
from inbox.message import Message, message, worker
from inbox.names import Actor
from inbox.poll import resolve
from models import clock, inboxes
from models.rows import Row


def receipt(actor: Actor, text: str) -> Message:
    """The message with its status, to its sender and its recipient."""
    seq = ids.read(text)
    row = inboxes.read(actor.realm, seq) if seq is not None else None
    if row is None or not _has_part(actor, row):
        raise MessageNotFound(f"{text[:80]!r} is not the id of a message of yours.")
    return message(row)


def _has_part(actor: Actor, row: Row) -> bool:
    if actor.name is None:
        return True
    home = resolve(actor.realm, actor.name)
    hidden = row.status == "unread" and row.visible_at > clock.now() and row.attempts == 0
    return home in (row.sender, worker(row)) or (row.inbox == home and not hidden)
