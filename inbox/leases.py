"""Leases: pushing back the end of one, and giving a message back."""

from typing import Any

from inbox import acks, bell, burial, names
from inbox.errors import LeaseLost
from inbox.message import Message, message
from inbox.names import Actor
from inbox.poll import resolve
from models import graves, inboxes, leases


def extend(actor: Actor, text: str, receipt: str, seconds: float) -> Message:
    """Let the lease end ``seconds`` from now. Raises ``LeaseLost`` when it has ended."""
    held = _held(actor, text, receipt)
    row = leases.extend(actor.realm, **held, lease=round(seconds * 1000))
    if row is None:
        raise _refusal(actor, text, held)
    bell.later(actor.realm, row.inbox, row.visible_at)
    made = message(row)
    made.receipt = receipt
    return made


def release(
    actor: Actor, text: str, receipt: str, delay: float | None, reason: str | None
) -> Message:
    """Give a claimed message back: it can be claimed again after ``delay`` seconds.

    Without a delay it comes back the later the more often it was claimed.
    After its last attempt it is a dead letter, and its sender is told. Raises
    ``LeaseLost``.
    """
    held = _held(actor, text, receipt)
    later = None if delay is None else round(delay * 1000)
    row = leases.release(actor.realm, **held, delay=later, reason=reason)
    if row is not None:
        bell.written(actor.realm, row.inbox, row.task_id, row.visible_at)
        return message(row)
    buried = graves.given_back(actor.realm, **held, reason=reason)
    if not buried:
        raise _refusal(actor, text, held)
    burial.tell(actor.realm, buried)
    return message(buried[0].row)


def _held(actor: Actor, text: str, receipt: str) -> dict[str, Any]:
    seq, nonce = acks.held(text, receipt)
    name = actor.name or ""
    key, spelt = names.key(name), names.spelt(name)
    return {"seq": seq, "nonce": nonce, "name": actor.name, "key": key, "spelt": spelt}


def _refusal(actor: Actor, text: str, held: dict[str, Any]) -> Exception:
    row = inboxes.read(actor.realm, held["seq"])
    home = resolve(actor.realm, actor.name) if actor.name is not None else None
    fault = acks.fault_of(row, home, held["nonce"]) or LeaseLost
    return fault(f"The message {text} is not held with this receipt.")
