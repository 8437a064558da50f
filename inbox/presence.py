"""Presence: when each agent was last heard of.

Kept in memory and written every half minute by ``flush``, for all agents at
once, so that asking costs no write. It is the one thing that a GET leaves
behind. An agent that has been heard of without registering gets its name on
record, so that sending to it is not called a guess.
"""

import threading
from collections.abc import Sequence

from inbox import names
from models import clock, facts

INTERVAL = 30.0  # seconds between two flushes
MOST = 10_000  # names kept between two flushes; further ones are not noted

_lock = threading.Lock()
_heard: dict[tuple[str, str], int] = {}


def note(realm: str, name: str) -> None:
    """Remember that an agent has just been heard of, under any of its names."""
    heard = (realm, name)
    if heard in _heard or len(_heard) < MOST:
        _heard[heard] = clock.now()


def flush() -> None:
    """Write down who has been heard of since the last time. Needs a unit of work."""
    with _lock:
        heard = dict(_heard)
        _heard.clear()
    for realm in {realm for realm, _ in heard}:
        spellings = {name: at for (other, name), at in heard.items() if other == realm}
        known = facts.names(realm, [names.key(name) for name in spellings])
        for name, at in sorted(spellings.items()):
            fact = known.get(names.key(name))
            if fact is None:
                facts.state(realm, "name", name, name, names.spelt(name), key=names.key(name))
            if fact is None or fact.content == names.spelt(name):
                _write(realm, fact.inbox if fact else name, at)


def _write(realm: str, name: str, at: int) -> None:
    facts.state(realm, "seen", name, name, at=at)


def last_seen(realm: str, agents: Sequence[str]) -> dict[str, int]:
    """When each of these agents was last heard of, in ms; left out where never."""
    seen = {name: fact.created_at for name, fact in facts.of(realm, "seen", agents).items()}
    for name in agents:
        if (realm, name) in _heard:
            seen[name] = max(seen.get(name, 0), _heard[realm, name])
    return seen


def forget() -> None:
    """Forget who has been heard of without writing it down."""
    _heard.clear()
