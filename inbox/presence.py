"""Presence: when each agent was last heard of.

Kept in memory and written every half minute by ``flush``, for all agents at
once, so that asking costs no write. It is the one thing that a GET leaves
behind. An agent that has been heard of without registering gets its name on
record, so that sending to it is not called a guess.
"""

from collections.abc import Sequence

from inbox import names
from models import clock, facts

INTERVAL = 30.0  # seconds between two flushes
MOST = 10_000  # names kept between two flushes; further ones are not noted

_heard: dict[tuple[str, str], int] = {}


def note(realm: str, name: str) -> None:
    """Remember that an agent has just been heard of, under any of its names."""
    heard = (realm, name)
    if heard in _heard or len(_heard) < MOST:
        _heard[heard] = clock.now()


def heard(realm: str, name: str) -> bool:
    """Whether this process has heard of an agent and has not yet written it down."""
    return (realm, name) in _heard


def flush() -> dict[tuple[str, str], int]:
    """Write down who has been heard of; what it wrote, to be ``settled`` after the commit.

    Needs a unit of work, which may be run again.
    """
    noted = dict(_heard)
    for realm in {realm for realm, _ in noted}:
        spellings = {name: at for (other, name), at in noted.items() if other == realm}
        known = facts.names(realm, [names.key(name) for name in spellings])
        # In the order in which registrations take names: two then wait in a line.
        for name, at in sorted(spellings.items(), key=lambda item: names.key(item[0])):
            fact = known.get(names.key(name))
            if fact is None:
                facts.state(realm, "name", name, name, names.spelt(name), key=names.key(name))
            if fact is None or fact.content == names.spelt(name):
                _write(realm, fact.inbox if fact else name, at)
    return noted


def settled(written: dict[tuple[str, str], int]) -> None:
    """Forget what has been written down, unless the agent has been heard of again since."""
    for heard, at in written.items():
        if _heard.get(heard) == at:
            _heard.pop(heard, None)


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
