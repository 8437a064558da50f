"""Sending: one message, or many that are all sent or none."""

import difflib
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from inbox import bell, names, presence
from inbox.errors import (
    AgentRetired,
    DeliversToNobody,
    InvalidRequest,
    KeyReused,
    Loop,
    NameDiffersInCase,
    Problem,
    ReplyAcrossTasks,
    ReplyNotFound,
    ReservedName,
    SenderRequired,
    StoreBusy,
    TaskClosed,
    TaskRequired,
)
from inbox.message import Message, Recipient, message
from inbox.names import Actor
from models import batches, clock, facts, graves, leases, outbox
from models.outbox import Draft, Reason
from models.rows import Row

Result = TypeVar("Result")

TRIES = 3  # how often a send looks again when what stood in the way is gone by the time it looks


class Sent(NamedTuple):
    """The answer to a send: the message, with its recipient, and whether it is a repeat."""

    message: Message
    replayed: bool = False
    answers: int | None = None  # the seq of the message that it replies to


class Letter(msgspec.Struct, kw_only=True):
    """What a sender hands over: names as spelt, durations in seconds."""

    to: str
    type: str
    content: bytes | None = None
    task_id: str | None = None
    reply_to: int | None = None
    expires_in: float | None = None
    deliver_in: float | None = None
    extend_on_progress: bool = False
    idempotency_key: str | None = None


def send(actor: Actor, letter: Letter, only: bool = False) -> Sent:
    """Put a message into an inbox, once a sender and idempotency key.

    ``only`` says that the caller writes nothing else in the same unit of work.
    Returns it as it lies there. Raises the errors of this module's imports:
    a task that is closed, a recipient who has retired, a key used before for
    something else, and so on.
    """
    draft = _draft(actor, letter)
    unknown = False
    for _ in range(TRIES):
        row = outbox.send(draft, unknown, only and draft.type not in outbox.CONSEQUENT)
        if row is not None:
            bell.written(actor.realm, row.inbox, row.task_id, row.visible_at)
            if draft.type in outbox.CONSEQUENT:
                _consequences(actor.realm, row)
            return Sent(_sent(row, draft, known=not unknown), answers=row.reply_to)
        reason = outbox.explain(draft)
        if reason.earlier is not None:
            return _replay(reason.earlier, reason, draft)
        _refuse(draft, letter, reason)
        unknown = reason.recipient is None
        if unknown:  # and stays so until the message is there
            facts.hold(draft.realm, draft.to, alone=False)
            _await(draft)
    raise StoreBusy("What stood in the way of the message kept changing.")


def _await(draft: Draft) -> None:
    """Keep the spelling under which mail waits for a name that is not on record.

    Mail under another spelling would never be found once the name registers.
    """
    waiting = facts.get(draft.realm, "awaited", draft.to_key)
    if waiting is None:
        facts.state(draft.realm, "awaited", draft.to_key, draft.sender, draft.to_spelt, once=True)
        waiting = facts.get(draft.realm, "awaited", draft.to_key)
    if waiting is not None and waiting.content != draft.to_spelt:
        known = json.loads(waiting.content or "null")
        raise NameDiffersInCase(f"Mail waits for {known}, which differs from {draft.to} in case.")


def _consequences(realm: str, row: Row) -> None:
    """What a message does to the request that it is about, in the same unit of work."""
    if row.type == "progress":
        if row.reply_to is not None:
            leases.progress(realm, row.reply_to, row.sender)
    elif row.status == "unread":
        graves.withdrawn(realm, row.task_id, row.sender, row.inbox, row.reply_to, ("request",))


def send_many(actor: Actor, letters: Sequence[Letter]) -> list[Sent]:
    """Send all, in order, or raise the first error, pointing at its message, and send none."""
    sent = _send_plain(actor, letters)
    if sent is None:
        sent = _each(letters, lambda letter: send(actor, letter))
    return sent


def _send_plain(actor: Actor, letters: Sequence[Letter]) -> list[Sent] | None:
    """Send them at once; None, and nothing is sent, if they are to be looked at one by one."""
    drafts = _each(letters, lambda letter: _draft(actor, letter))
    rows = batches.send(drafts, only=True) if all(map(batches.plain, drafts)) else None
    if rows is None:
        return None
    for row in rows:
        bell.written(actor.realm, row.inbox, row.task_id, row.visible_at)
    return [Sent(_sent(row, draft, known=True)) for row, draft in zip(rows, drafts, strict=True)]


def send_each(asked: Sequence[tuple[Actor, Letter | None]]) -> list[Sent | None]:
    """Send messages of several senders, each for itself; None for each that is to be sent alone.

    There is something special about that; or the database does not take all of them together.
    """
    drafts = [_plain_draft(actor, letter) for actor, letter in asked]
    plain = [draft for draft in drafts if draft is not None]
    rows = iter(batches.send_each(plain) if plain else ())
    return [_sent_plain(next(rows), draft) if draft is not None else None for draft in drafts]


def _plain_draft(actor: Actor, letter: Letter | None) -> Draft | None:
    try:
        draft = _draft(actor, letter) if letter is not None else None
    except Problem:  # it is raised again where the message is sent by itself
        return None
    return draft if draft is not None and batches.plain(draft) else None


def _sent_plain(row: Row | None, draft: Draft) -> Sent | None:
    if row is None:
        return None
    bell.written(draft.realm, row.inbox, row.task_id, row.visible_at)
    return Sent(_sent(row, draft, known=True))


def _each(letters: Sequence[Letter], work: Callable[[Letter], Result]) -> list[Result]:
    """What ``work`` makes of each; a problem points at the message that has it."""
    made: list[Result] = []
    try:
        for letter in letters:
            made.append(work(letter))
    except Problem as problem:
        faults = problem.errors or [{"pointer": "", "detail": problem.detail}]
        place = f"/messages/{len(made)}"
        problem.errors = [{**fault, "pointer": place + fault["pointer"]} for fault in faults]
        raise
    return made


def _draft(actor: Actor, letter: Letter) -> Draft:
    if actor.name is None:
        raise SenderRequired("A message needs a sender.")
    sender, to = names.unreserved(actor.name), letter.to
    sender_key, sender_spelt = names.forms(sender)
    to_key, to_spelt = names.forms(to)
    if to_key == names.POSTMASTER:
        raise DeliversToNobody("postmaster is the service itself and reads no mail.")
    if letter.type not in names.MESSAGE_TYPES:
        raise _no_type(letter.type)
    if letter.expires_in is not None and letter.expires_in <= (letter.deliver_in or 0):
        raise _never_seen()
    if letter.extend_on_progress and letter.expires_in is None:
        raise _no_deadline()
    now = clock.now()
    return Draft(
        realm=actor.realm,
        sender=sender,
        sender_key=sender_key,
        sender_spelt=sender_spelt,
        to=to,
        to_key=to_key,
        to_spelt=to_spelt,
        type=letter.type,
        content=letter.content,
        task_id=letter.task_id,
        new_task=_new_task(letter),
        reply_to=letter.reply_to,
        visible_at=_later(now, letter.deliver_in) or 0,
        expires_at=_later(now, letter.expires_in),
        dedup_key=letter.idempotency_key,
        dedup_hash=_hash(letter) if letter.idempotency_key is not None else None,
        extends_by=_later(0, letter.expires_in) if letter.extend_on_progress else None,
        # A service's own copy of a cancel is for the record: its workers get theirs.
        status="acked" if letter.type == "cancel" and to.startswith(names.SERVICE) else "unread",
    )


def _no_type(text: str) -> Problem:
    if text in names.FACT_TYPES:
        return ReservedName(f"{text!r} is a type of the service's own records.")
    close = difflib.get_close_matches(text, names.MESSAGE_TYPES, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    known = ", ".join(names.MESSAGE_TYPES)
    detail = f"is {text[:80]!r}, which is not one of {known}{meant}"
    return InvalidRequest(f"/type {detail}", errors=[{"pointer": "/type", "detail": detail}])


def _never_seen() -> InvalidRequest:
    detail = "ends before deliver_in, so that nobody would ever see the message"
    return InvalidRequest(
        f"/expires_in {detail}.", errors=[{"pointer": "/expires_in", "detail": detail}]
    )


def _no_deadline() -> InvalidRequest:
    detail = "needs expires_in: there is no deadline to push back"
    errors = [{"pointer": "/extend_on_progress", "detail": detail}]
    return InvalidRequest(f"/extend_on_progress {detail}.", errors=errors)


def _new_task(letter: Letter) -> str | None:
    if letter.task_id is not None or letter.reply_to is not None:
        return None
    if letter.type not in names.OPENING_TYPES:
        raise TaskRequired(f"A message of type {letter.type} belongs to a task.")
    return names.new_task()


def _later(now: int, seconds: float | None) -> int | None:
    return now + round(seconds * 1000) if seconds else None


def _hash(letter: Letter) -> bytes:
    """What a repeat must share with the first: the recipient and all of the message."""
    said = (letter.to, letter.type, letter.content, letter.task_id, letter.reply_to)
    more = (True,) if letter.extend_on_progress else ()
    text = msgspec.msgpack.encode((*said, letter.expires_in, letter.deliver_in, *more))
    return hashlib.sha256(text).digest()[:8]


def _replay(earlier: Row, reason: Reason, draft: Draft) -> Sent:
    if reason.earlier_hash != draft.dedup_hash:
        raise KeyReused(
            f"The key {draft.dedup_key!r} was used for the message {message(earlier).id},"
            " to another recipient or with other contents."
        )
    return Sent(_sent(earlier, draft, known=reason.recipient is not None), replayed=True)


def _sent(row: Row, draft: Draft, known: bool) -> Message:
    sent = message(row)
    seen = known or presence.heard(draft.realm, draft.to)
    sent.recipient = Recipient(known=True) if seen else _stranger(draft)
    return sent


def _refuse(draft: Draft, letter: Letter, reason: Reason) -> None:
    """Raise what stood in the way of the draft, if it still stands there."""
    for name, spelt, known in (
        (draft.to, draft.to_spelt, reason.recipient_spelt),
        (draft.sender, draft.sender_spelt, reason.sender_spelt),
    ):
        if known is not None and known != spelt:
            raise NameDiffersInCase(f"{name} is not known, {json.loads(known)} is.")
    if reason.recipient_retired_at is not None:
        raise AgentRetired(f"{reason.recipient} has retired.")
    if letter.reply_to is not None:
        if reason.replied_seq is None:
            raise ReplyNotFound("`reply_to` is no message that was sent by you or to you.")
        if letter.task_id is not None and letter.task_id != reason.replied_task:
            raise ReplyAcrossTasks(f"`reply_to` belongs to the task {reason.replied_task}.")
    if reason.closed_seq is not None:
        raise TaskClosed(f"The task {letter.task_id or reason.replied_task} has been closed.")
    if letter.type in ("done", "failed") and reason.loops:
        raise Loop(
            f"{draft.sender} and {draft.to} have sent each other nothing but done and failed."
        )


def _stranger(draft: Draft) -> Recipient:
    """What to say of a recipient that has never been seen: the nearest known name, if near."""
    known = [json.loads(spelt) for spelt in facts.near(draft.realm, draft.to_key)]
    close = difflib.get_close_matches(draft.to, known, n=1, cutoff=0.75)
    return Recipient(known=False, did_you_mean=close[0] if close else None)
