"""Acknowledging: the recipient says that it is done with a message."""

from collections.abc import Sequence

import msgspec

from inbox import ids, names
from inbox.errors import MessageDead, MessageExpired, MessageNotFound, NotYours, Problem
from inbox.message import Message, message, status
from inbox.names import Actor
from inbox.poll import resolve
from models import inboxes
from models.rows import Row


class Result(msgspec.Struct, omit_defaults=True):
    """What became of one id of a bulk ack; ``code`` says why it was refused."""

    id: str
    status: str  # acked, refused
    code: str | None = None


def ack(actor: Actor, text: str) -> Message:
    """Settle a message of the actor's; twice is as once. Raises when it is not the actor's."""
    seq = ids.read(text)
    if seq is None:
        raise MessageNotFound(f"{text[:80]!r} is not the id of a message.")
    name = actor.name
    row = inboxes.ack(actor.realm, seq, name, names.key(name or ""), names.spelt(name or ""))
    if row is None:
        row = inboxes.read(actor.realm, seq)
        home = resolve(actor.realm, name) if name is not None else None
        fault = _fault(row, home)
        if fault is NotYours and row is not None:
            raise NotYours(f"The message {text} is for {row.inbox} to acknowledge.")
        if fault is not None:
            raise fault(f"The message {text} cannot be acknowledged.")
    assert row is not None
    return message(row)


def ack_many(actor: Actor, name: str, texts: Sequence[str]) -> list[Result]:
    """Settle messages of the agent ``name``; a result for each id, in order."""
    home = resolve(actor.realm, name)
    seqs = {text: ids.read(text) for text in texts}
    wanted = [seq for seq in seqs.values() if seq is not None]
    settled = inboxes.ack_many(actor.realm, home, wanted)
    rest = inboxes.read_many(actor.realm, [seq for seq in wanted if seq not in settled])
    return [_result(text, seqs[text], settled, rest, home) for text in texts]


def _result(
    text: str, seq: int | None, settled: set[int], rest: dict[int, Row], home: str
) -> Result:
    if seq is not None and seq in settled:
        return Result(text, "acked")
    fault = _fault(rest.get(seq) if seq is not None else None, home)
    return Result(text, "refused", fault.code) if fault else Result(text, "acked")


def _fault(row: Row | None, home: str | None) -> type[Problem] | None:
    """Why a message could not be acked; None when it has been before."""
    if row is None:
        return MessageNotFound
    if home is not None and row.inbox != home:
        return NotYours if row.sender == home else MessageNotFound
    # What is unread and could not be acked has not been delivered yet.
    faults = {"unread": MessageNotFound, "expired": MessageExpired, "dead": MessageDead}
    return faults.get(status(row))
