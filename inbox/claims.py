"""Claiming: taking messages for a while, so that nobody else works on them meanwhile.

What has been claimed is settled with its receipt, or it comes again when its
lease has ended.
"""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from inbox import acks, bell, ids, services
from inbox.acks import Result
from inbox.bell import Address
from inbox.message import Message, message
from inbox.names import Actor
from inbox.poll import resolve
from models import claims, inboxes, queues
from models.claims import Wanted
from models.rows import NONCE, Row

__all__ = ["Claim", "Claimed", "Wanted", "addresses", "claim", "settle"]


class Claim(NamedTuple):
    """What is asked for; the lease in seconds, None for the inbox's own."""

    wanted: Wanted
    limit: int = 1
    lease_seconds: float | None = None
    worker: str | None = None  # which of the agent's processes; by default just the agent


class Claimed(NamedTuple):
    """What a claim has got, oldest first, each with its receipt."""

    messages: list[Message]


def settle(actor: Actor, address: str, texts: Sequence[str]) -> list[Result] | None:
    """Acknowledge what the claimer is done with, by id or receipt; None when it names nothing."""
    return acks.ack_many(actor, address, texts) if texts else None


def addresses(actor: Actor, address: str) -> tuple[Address, ...]:
    """What to wait for when nothing can be claimed from ``address``."""
    return (Address(actor.realm, resolve(actor.realm, address)),)


def claim(actor: Actor, address: str, asked: Claim, only: bool = False) -> list[Message]:
    """Take messages from an agent's inbox, or from a service's, for the actor.

    ``only`` says that the caller writes nothing else in the same unit of work.

    One worker of a service holds no more than the service's capacity allows.
    """
    home = resolve(actor.realm, address)
    limit = _room(actor.realm, home, asked.limit) if services.is_service(home) else asked.limit
    if not limit:
        return []
    nonce = secrets.token_hex(NONCE // 2)
    lease = None if asked.lease_seconds is None else round(asked.lease_seconds * 1000)
    holder = asked.worker or actor.name or home
    rows = claims.claim(actor.realm, home, asked.wanted, nonce, holder, lease, limit, only)
    if rows:
        # Those who wait hear of it when the lease ends, not now: there is nothing to claim.
        bell.later(actor.realm, home, rows[0].visible_at)
    return [_claimed(row, nonce) for row in rows]


def _claimed(row: Row, nonce: str) -> Message:
    made = message(row)
    made.receipt = ids.receipt(row.seq, nonce)
    return made


def _room(realm: str, home: str, limit: int) -> int:
    """How many of ``limit`` a service may still have in work at once."""
    queue = queues.read(realm, home)
    capacity = queue.details.get("capacity") if queue is not None else None
    if capacity is None:
        return limit
    queues.read(realm, home, lock=True)  # those who claim now wait here, so that the sum is right
    _, counts = inboxes.count(realm, home, home.lower())
    return max(0, min(limit, int(capacity) - counts.in_flight))
