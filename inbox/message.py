"""The message as the world sees it, made from a row."""

import functools
from datetime import UTC, datetime

import msgspec

from inbox import ids
from inbox.names import SERVICE
from models import clock
from models.rows import NONCE, Row


class Recipient(msgspec.Struct, omit_defaults=True):
    """What is known of the agent that a message waits for."""

    known: bool
    did_you_mean: str | None = None
    served: bool | None = None  # of a service: whether a worker is there


class Message(msgspec.Struct, omit_defaults=True, rename={"sender": "from"}):
    """One message; what does not apply is left out."""

    id: str
    task_id: str
    sender: str
    to: str
    type: str
    status: str
    attempts: int
    created_at: str
    content: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    reply_to: str | None = None
    deliver_at: str | None = None
    acked_at: str | None = None
    expires_at: str | None = None
    leased_until: str | None = None
    leased_by: str | None = None
    receipt: str | None = None  # in the answer to a claim
    reason: str | None = None
    recipient: Recipient | None = None  # in the answer to a send


@functools.lru_cache(1024)
def timestamp(ms: int) -> str:
    """A time in ms since the epoch as RFC 3339, in UTC, with milliseconds."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


@functools.lru_cache(256)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def status(row: Row) -> str:
    """What became of a message; one past its deadline has expired, swept or not."""
    if row.status == "unread" and row.expires_at is not None and row.expires_at <= clock.now():
        return "expired"
    return row.status


def leased(row: Row) -> bool:
    """Whether a message is held by somebody at this moment."""
    return row.holder is not None and row.status == "unread" and row.visible_at > clock.now()


def holder(row: Row) -> str | None:
    """Who has claimed a message last, in the name given with the claim."""
    return row.holder[NONCE + 1 :] if row.holder is not None else None


def worker(row: Row) -> str | None:
    """The worker that has claimed what was sent to a service."""
    return holder(row) if row.inbox.startswith(SERVICE) else None


def message(row: Row) -> Message:
    """The message of a row."""
    state = row.status
    made = Message(
        ids.written(row.seq),
        row.task_id,
        row.sender,
        row.inbox,
        row.type,
        state,
        row.attempts,
        timestamp(row.created_at),
    )
    if row.content is not None:
        made.content = msgspec.Raw(row.content)
    if row.reply_to is not None:
        made.reply_to = ids.written(row.reply_to)
    if row.reason is not None:
        made.reason = row.reason
    if row.expires_at is not None:
        made.status = status(row)
        made.expires_at = timestamp(row.expires_at)
    if state == "unread":
        if row.visible_at and row.visible_at > clock.now():
            _later(made, row)
    elif state == "acked":
        if row.settled_at is not None:
            made.acked_at = timestamp(row.settled_at)
    elif state == "dead":
        made.leased_by = holder(row)
    return made


def _later(made: Message, row: Row) -> None:
    if row.holder is None:
        made.deliver_at = timestamp(row.visible_at)
    else:
        made.leased_until, made.leased_by = timestamp(row.visible_at), holder(row)
