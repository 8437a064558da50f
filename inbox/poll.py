"""Polling: what waits in an inbox, how much, and whether it has changed."""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from inbox import ids, names
from inbox.bell import Address
from inbox.errors import NameDiffersInCase
from inbox.message import Message, message
from inbox.names import Actor
from models import facts, inboxes, pages
from models.inboxes import Box, Filter, Page

__all__ = [
    "Asked",
    "Count",
    "Filter",
    "Found",
    "Look",
    "addresses",
    "ahead",
    "count",
    "owner",
    "poll",
    "resolve",
]

Found = tuple[Box, Page]


class Look(NamedTuple):
    """One look into an inbox: a page, oldest first, the next page's cursor, and what to compare."""

    messages: list[Message]
    next: str | None
    tag: str  # changes when the page or the newest unread message of the inbox does


class Count(msgspec.Struct):
    """How much lies in an inbox: unread, not yet due, held by claims, dead."""

    unread: int
    delayed: int
    in_flight: int
    dead: int


class Asked(NamedTuple):
    """A look that is asked for."""

    actor: Actor
    name: str
    wanted: Filter
    limit: int


def ahead(asked: Sequence[Asked]) -> list[Found | None]:
    """What is found for each of some looks of one realm, to be given to ``poll``.

    None for one that is to be made by itself, because that costs as little or its page is large.
    """
    if not asked:
        return []
    look_ups = [
        pages.Asked(each.name, names.key(each.name), each.wanted, each.limit) for each in asked
    ]
    return pages.pages(asked[0].actor.realm, look_ups)


def poll(actor: Actor, name: str, wanted: Filter, limit: int, found: Found | None = None) -> Look:
    """At most ``limit`` messages of the agent ``name`` (an alias means its owner).

    Changes nothing: the same look twice finds the same. ``found`` is what has been found ``ahead``.
    """
    box, page = found or inboxes.page(actor.realm, name, names.key(name), wanted, limit)
    home = owner(name, box)
    if home != name:
        _, page = inboxes.page(actor.realm, home, names.key(home), wanted, limit)
    messages = [message(row) for row in page.rows]
    return Look(messages, messages[-1].id if page.more else None, _tag(page, messages))


def addresses(actor: Actor, name: str) -> tuple[Address, ...]:
    """What to wait for when waiting for mail to ``name``."""
    return (Address(actor.realm, resolve(actor.realm, name)),)


def count(actor: Actor, name: str) -> Count:
    """How many messages poll would list as unread, and how many it does not list yet, or now."""
    box, counts = inboxes.count(actor.realm, name, names.key(name))
    home = owner(name, box)
    if home != name:
        _, counts = inboxes.count(actor.realm, home, names.key(home))
    return Count(*counts)


def owner(name: str, box: Box) -> str:
    """The agent whose inbox ``name`` is; raises ``NameDiffersInCase``."""
    if box.owner is None:
        return name
    if box.spelt != names.spelt(name):
        raise NameDiffersInCase(f"{name} is not known, {json.loads(box.spelt or 'null')} is.")
    return box.owner


def resolve(realm: str, name: str) -> str:
    """The agent whose name or alias this is; raises ``NameDiffersInCase``."""
    fact = facts.names(realm, [names.key(name)]).get(names.key(name))
    return owner(name, Box(fact.inbox, fact.content) if fact else Box(None, None))


def _tag(page: Page, messages: list[Message]) -> str:
    marks = [f"{message.id}.{message.attempts}.{message.status}" for message in messages]
    text = ",".join([ids.written(page.newest), str(page.more), *marks])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
