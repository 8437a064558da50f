"""What happens to an inbox as a whole: it moves under another name, its requests get deadlines."""

from collections.abc import Sequence

from models import clock, database, facts
from models.facts import FACT, Fact
from models.statement import Statement

UNREAD_REQUEST = (
    "realm = :realm AND inbox = :inbox AND status = 'unread' AND state_key IS NULL"
    " AND type = 'request'"
)

# The type is a parameter: written out, the index of names would do as well while there are few.
NAMES_OF = Statement(f"{FACT} AND n.inbox = :inbox ORDER BY n.state_key")
MOVE = Statement(
    """
    UPDATE messages SET inbox = :home
    WHERE realm = :realm AND inbox = :inbox AND state_key IS NULL
    """
)
LATER = Statement(
    f"SELECT seq, expires_at FROM messages WHERE {UNREAD_REQUEST} AND expires_at > :deadline"
)
SHORTEN = Statement(
    f"""
    UPDATE messages SET expires_at = :deadline
    WHERE {UNREAD_REQUEST} AND (expires_at IS NULL OR expires_at > :deadline)
    """
)
LENGTHEN = Statement(
    f"""
    UPDATE messages SET expires_at = NULL
    WHERE {UNREAD_REQUEST} AND expires_at = :deadline AND expires_at > :now
    """
)
RESTORE = Statement(
    """
    UPDATE messages SET expires_at = :deadline
    WHERE seq = :seq AND status = 'unread' AND expires_at > :now
    """
)


def names_of(realm: str, inbox: str) -> list[Fact]:
    """The names on record of an agent, its own and its aliases."""
    found = database.run(NAMES_OF, realm=realm, type="name", inbox=inbox)
    return [Fact._make(values) for values in found.fetchall()]


def inbox(realm: str, name: str, home: str) -> None:
    """Bring what was sent to ``name`` before it was an alias to the inbox of its owner."""
    facts.hold(realm, name, alone=True)
    database.run(MOVE, realm=realm, inbox=name, home=home)


def shorten(realm: str, inbox: str, deadline: int) -> list[list[int]]:
    """Let the unread requests of an inbox expire at ``deadline`` (ms) at the latest.

    Returns the seq and the earlier deadline of each that had a later one.
    """
    found = database.run(LATER, realm=realm, inbox=inbox, deadline=deadline).fetchall()
    database.run(SHORTEN, realm=realm, inbox=inbox, deadline=deadline)
    return [list(values) for values in found]


def restore(realm: str, inbox: str, deadline: int, before: Sequence[Sequence[int]]) -> None:
    """Take ``shorten`` back, for what has not expired: the same deadline, and what it returned."""
    now = clock.now()
    for seq, earlier in before:
        database.run(RESTORE, seq=seq, deadline=earlier, now=now)
    database.run(LENGTHEN, realm=realm, inbox=inbox, deadline=deadline, now=now)
