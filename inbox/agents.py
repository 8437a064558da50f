"""Agents: registering, reading, listing, retiring.

An agent's names (its own and its aliases) are facts of type ``name``, one a
name in lower case; its registration is a fact of type ``agent``.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from inbox import bell, names, presence, terms
from inbox.errors import AgentNotFound, NameDiffersInCase, NameTaken
from inbox.message import timestamp
from inbox.names import Actor
from inbox.poll import resolve
from models import clock, facts, moves, queues
from models.errors import Contended
from models.facts import Fact

FIELDS = ("description", "tags", "aliases", "status", "activity", "max_attempts", "lease_seconds")
TERMS = ("ttl", "task_id")
GRACE = 24 * 3600 * 1000  # ms in which a retired agent that comes back finds its requests
SCAN = 2000  # how many registrations one page of a filtered list looks through
BATCH = 200  # how many of them it reads at once, at least


class Agent(msgspec.Struct, omit_defaults=True):
    """One agent as it has registered."""

    id: str
    created_at: str
    description: str | None = None
    tags: list[str] = []
    aliases: list[str] = []
    status: str | None = None
    activity: str | None = None
    task_id: str | None = None
    ends_at: str | None = None
    max_attempts: int | None = None
    lease_seconds: float | None = None
    last_seen: str | None = None
    retired_at: str | None = None


def register(actor: Actor, name: str, fields: Mapping[str, Any]) -> tuple[Agent, bool]:
    """Register an agent, or change what is given of it; whether it is new comes back too.

    What is left out stays as it was, None clears. A retired agent comes back,
    with the requests that waited for it. Raises ``NameTaken`` and
    ``NameDiffersInCase``.
    """
    names.unreserved(name)
    realm, fields = actor.realm, _tidied(name, fields)
    bounds = {key: fields[key] for key in TERMS if key in fields}
    fields = {key: fields[key] for key in fields if key not in TERMS}
    aliases = [names.unreserved(alias) for alias in fields.get("aliases") or []]
    owned = _claim(realm, name, [name, *aliases])
    details = {key: value for key, value in fields.items() if value is not None}
    new = facts.state(realm, "agent", name, name, json.dumps(details), once=True)
    if not new:
        details = _amend(realm, name, fields)
    kept = [names.key(spelling) for spelling in [name, *details.get("aliases", [])]]
    facts.remove([fact.seq for fact in moves.names_of(realm, name) if fact.state_key not in kept])
    for alias in aliases:
        moves.inbox(realm, alias, name)
    _collect(realm, name, [name, *aliases])
    revived = any(fact.settled_at is not None for fact in owned)
    if revived:
        _revive(realm, name)
    terms.bind(realm, name, bounds, revived)
    if "max_attempts" in fields or "lease_seconds" in fields:
        _queue(realm, name, details)
    return read(actor, name), new


def _collect(realm: str, name: str, spellings: list[str]) -> None:
    """Bring in what was sent to these names in another case, before anybody had them."""
    waiting = facts.of(realm, "awaited", [names.key(spelling) for spelling in spellings])
    for fact in waiting.values():
        spelling = json.loads(fact.content or "null")
        if spelling not in spellings:
            moves.inbox(realm, spelling, name)
    facts.remove([fact.seq for fact in waiting.values()])
    bell.written(realm, name, "")  # whoever waits for the agent's mail may have some now


def _queue(realm: str, name: str, details: Mapping[str, Any]) -> None:
    """How claims of the inbox are limited, where the statements of claims read it."""
    attempts = details.get("max_attempts", queues.MAX_ATTEMPTS)
    lease = round(details.get("lease_seconds", queues.LEASE / 1000) * 1000)
    queues.state(realm, name, name, attempts, lease, {})


def _tidied(name: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields with each alias once, and without the agent's own name among them."""
    if not fields.get("aliases"):
        return fields
    return {
        **fields,
        "aliases": [each for each in dict.fromkeys(fields["aliases"]) if each != name],
    }


def _claim(realm: str, name: str, spellings: list[str]) -> list[Fact]:
    """Make sure that every spelling is a name of ``name``'s; the facts that were there before."""
    before = []
    # In one order for all, so that two registrations wait for each other in a line.
    for spelling in sorted(set(spellings), key=names.key):
        key, spelt = names.key(spelling), names.spelt(spelling)
        if facts.state(realm, "name", name, name, spelt, key=key):
            continue
        fact = facts.names(realm, [key]).get(key)
        if fact is None:
            raise Contended(f"{spelling} was given up at this moment")
        known = json.loads(fact.content or "null")
        if known != spelling:
            raise NameDiffersInCase(f"{spelling} differs from {known} in nothing but case.")
        if fact.inbox != name:
            raise NameTaken(f"{spelling} is a name of {fact.inbox}.")
        before.append(fact)
    return before


def _amend(realm: str, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    fact = facts.get(realm, "agent", name, lock=True)
    assert fact is not None
    merged = {**json.loads(fact.content or "{}"), **fields}
    details = {key: value for key, value in merged.items() if value is not None}
    facts.amend(fact.seq, json.dumps(details))
    return details


def read(actor: Actor, name: str) -> Agent:
    """The agent of this name or alias; raises ``AgentNotFound`` and ``NameDiffersInCase``."""
    fact = facts.get(actor.realm, "agent", resolve(actor.realm, name))
    if fact is None:
        raise AgentNotFound(f"No agent {name} has registered.")
    return _agents(actor.realm, [fact])[0]


def listed(
    actor: Actor, tag: str | None, text: str | None, after: str | None, limit: int
) -> tuple[list[Agent], str | None]:
    """Agents by name that have not retired, and the cursor of the next page.

    ``tag`` is one of the agent's tags, ``text`` a part of its name, aliases,
    description or activity, in any case. A filtered page may be short and
    still have a next.
    """
    found: list[Fact] = []
    place, scanned, size = after or "", 0, max(BATCH, limit + 1)
    while len(found) <= limit and scanned < SCAN:
        batch = facts.listed(actor.realm, "agent", place, size)
        found += [fact for fact in batch if _fits(fact, tag, text)]
        scanned += len(batch)
        if len(batch) < size:
            break
        place = batch[-1].inbox
    else:
        if len(found) <= limit:
            return _agents(actor.realm, found), place
    page = found[:limit]
    return _agents(actor.realm, page), page[-1].inbox if len(found) > limit else None


def _fits(fact: Fact, tag: str | None, text: str | None) -> bool:
    if fact.settled_at is not None:
        return False
    details = json.loads(fact.content or "{}")
    if tag is not None and tag not in details.get("tags", []):
        return False
    shown = [fact.inbox, *details.get("aliases", [])]
    shown += [details.get("description", ""), details.get("activity", "")]
    return text is None or text.lower() in "\n".join(shown).lower()


def _agents(realm: str, found: list[Fact]) -> list[Agent]:
    seen = presence.last_seen(realm, [fact.inbox for fact in found])
    return [_agent(fact, seen.get(fact.inbox)) for fact in found]


def _agent(fact: Fact, seen: int | None) -> Agent:
    return Agent(
        fact.inbox,
        timestamp(fact.created_at),
        **json.loads(fact.content or "{}"),
        task_id=fact.task_id,
        ends_at=timestamp(fact.expires_at) if fact.expires_at and not fact.settled_at else None,
        last_seen=timestamp(seen) if seen else None,
        retired_at=timestamp(fact.settled_at) if fact.settled_at else None,
    )


def retire(actor: Actor, name: str) -> Agent:
    """Retire an agent: it takes no more mail, and its unread requests expire within a day.

    Retiring twice is as once. Raises ``AgentNotFound``.
    """
    agent = read(actor, name)
    fact = facts.get(actor.realm, "agent", agent.id, lock=True)
    assert fact is not None
    if fact.settled_at is None:
        now = clock.now()
        owned = moves.names_of(actor.realm, agent.id)
        facts.withdraw([fact.seq, *(name.seq for name in owned)], now)
        shortened = moves.shorten(actor.realm, agent.id, now + GRACE)
        details = json.dumps({"deadline": now + GRACE, "before": shortened})
        facts.state(actor.realm, "retired", agent.id, agent.id, details)
    return read(actor, agent.id)


def _revive(realm: str, name: str) -> None:
    """Undo a retirement: the names stand again, the requests have their own deadlines back."""
    owned = moves.names_of(realm, name)
    agent = facts.get(realm, "agent", name)
    assert agent is not None
    facts.withdraw([agent.seq, *(fact.seq for fact in owned)], None)
    retired = facts.get(realm, "retired", name)
    if retired is not None:
        details = json.loads(retired.content or "{}")
        moves.restore(realm, name, details["deadline"], details["before"])
        facts.remove([retired.seq])
