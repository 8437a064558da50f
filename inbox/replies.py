"""Replies: what a requester that holds its request open is waiting for."""

from inbox import ids
from inbox.message import Message, message
from models import inboxes
from models.inboxes import Filter

TYPES = ("done", "failed", "question")


def first(realm: str, sent: Message) -> Message | None:
    """The first done, failed or question on the task that reached the sender after ``sent``.

    Whoever sent it; it stays unread. None while there is none.
    """
    wanted = Filter("all", (sent.task_id,), TYPES, after=ids.read(sent.id))
    _, page = inboxes.page(realm, sent.sender, sent.sender.lower(), wanted, 1)
    return message(page.rows[0]) if page.rows else None
