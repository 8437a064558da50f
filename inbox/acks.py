"""Acknowledging: the recipient, or whoever has claimed it, says that it is done with a message."""

import contextlib
from collections.abc import Sequence

import msgspec

from inbox import ids, names
from inbox.errors import (
    LeaseLost,
    MessageDead,
    MessageExpired,
    MessageNotFound,
    NotYours,
    Problem,
)
from inbox.message import Message, leased, message, status, worker
from inbox.names import Actor
from inbox.poll import resolve
from models import clock, inboxes, settling
from models.rows import NONCE, Row
from models.settling import Settling


class Result(msgspec.Struct, omit_defaults=True):
    """What became of one id of a bulk ack; ``code`` says why it was refused."""

    id: str
    status: str  # acked, refused
    code: str | None = None


def ack(actor: Actor, text: str, receipt: str | None = None) -> Message:
    """Settle a message of the actor's; twice is as once.

    What is claimed needs its ``receipt``. Raises ``LeaseLost`` when that is
    missing or stale, and other errors when the message is not the actor's.
    """
    seq, nonce = held(text, receipt)
    name = actor.name
    row = settling.ack(_settling(actor, seq, nonce))
    if row is None:
        row = inboxes.read(actor.realm, seq)
        home = resolve(actor.realm, name) if name is not None else None
        fault = fault_of(row, home, nonce)
        if fault is NotYours and row is not None:
            raise NotYours(f"The message {text} is for {row.inbox} to acknowledge.")
        if fault is not None:
            raise fault(f"The message {text} cannot be acknowledged.")
    assert row is not None
    return message(row)


def ack_each(asked: Sequence[tuple[Actor, str, str | None]]) -> list[Message | None]:
    """Settle messages of several actors, each with its receipt; None for each that could not be.

    Why not, is said when it is acknowledged by itself.
    """
    wanted: dict[int, Settling] = {}  # by its place
    for place, (actor, text, receipt) in enumerate(asked):
        with contextlib.suppress(Problem):
            wanted[place] = _settling(actor, *held(text, receipt))
    rows = settling.ack_each(list(wanted.values())) if wanted else []
    made: list[Message | None] = [None] * len(asked)
    for place, row in zip(wanted, rows, strict=True):
        made[place] = message(row) if row is not None else None
    return made


def _settling(actor: Actor, seq: int, nonce: str) -> Settling:
    name = actor.name or ""
    return Settling(
        actor.realm, seq, name, names.key(name), names.spelt(name), actor.name is None, nonce
    )


def held(text: str, receipt: str | None) -> tuple[int, str]:
    """The seq of a message and the nonce of its receipt, '' without one.

    Raises ``MessageNotFound`` for what is no id, ``LeaseLost`` for a receipt
    that is not one of this message.
    """
    seq = ids.read(text)
    if seq is None:
        raise MessageNotFound(f"{text[:80]!r} is not the id of a message.")
    if receipt is None:
        return seq, ""
    found = ids.held(receipt)
    if found is None or found[0] != seq or not found[1]:
        raise LeaseLost(f"{receipt[:80]!r} is no receipt for the message {text}.")
    return found


def ack_many(actor: Actor, name: str, texts: Sequence[str]) -> list[Result]:
    """Settle messages of the address ``name``, by id or receipt; a result for each, in order."""
    home = resolve(actor.realm, name)
    given = {text: ids.held(text) for text in texts}
    wanted = [each for each in given.values() if each is not None]
    settled = settling.ack_many(actor.realm, home, wanted)
    rest = inboxes.read_many(actor.realm, [each[0] for each in wanted if each not in settled])
    return [_result(text, given[text], settled, rest, home) for text in texts]


def _result(
    text: str,
    given: tuple[int, str] | None,
    settled: set[tuple[int, str]],
    rest: dict[int, Row],
    home: str,
) -> Result:
    if given is None:
        return Result(text, "refused", MessageNotFound.code)
    if given in settled:
        return Result(text, "acked")
    fault = fault_of(rest.get(given[0]), home, given[1])
    return Result(text, "refused", fault.code) if fault else Result(text, "acked")


def fault_of(row: Row | None, home: str | None, nonce: str) -> type[Problem] | None:
    """Why ``home`` (None: the operator) cannot settle a message; None when it has been before."""
    if row is None:
        return MessageNotFound
    fits = bool(nonce) and (row.holder or "")[:NONCE] == nonce
    if home is not None and row.inbox != home and not fits:
        if worker(row) == home or (nonce and row.inbox.startswith(names.SERVICE)):
            return LeaseLost
        return NotYours if row.sender == home else MessageNotFound
    if nonce and not fits:
        return LeaseLost
    if row.status == "unread" and status(row) == "unread":
        if nonce or leased(row):
            return LeaseLost
        # What is unread and could not be settled has not been delivered yet, or, if it is a
        # service's, has to be claimed first.
        waits = row.visible_at > clock.now() or not row.inbox.startswith(names.SERVICE)
        return MessageNotFound if waits else LeaseLost
    return {"expired": MessageExpired, "dead": MessageDead}.get(status(row))
