"""What an inbox says about claiming from it: how often, for how long, how many at once.

A fact of type ``queue`` about the address. Its columns are numbers that the
statements of claims read: ``attempts`` holds the most claims of a message,
``visible_at`` the length of a lease in ms. Its content holds the rest.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from models import clock, database
from models.statement import Statement

MAX_ATTEMPTS = 5
LEASE = 60_000  # ms

ABOUT = (
    "FROM messages q WHERE q.realm = {realm} AND q.type = 'queue' AND q.inbox = {inbox}"
    " AND q.state_key = '' AND q.status = 'fact'"
)


def most_attempts(realm: str = ":realm", inbox: str = ":inbox") -> str:
    """SQL for the number of claims after which a message of an inbox dies."""
    about = ABOUT.format(realm=realm, inbox=inbox)
    return f"COALESCE((SELECT q.attempts {about}), {MAX_ATTEMPTS})"


def lease_length() -> str:
    """SQL for the length of a lease: ``:lease`` if it is given, or the inbox's own, in ms."""
    about = ABOUT.format(realm=":realm", inbox=":inbox")
    return f"COALESCE(:lease, (SELECT q.visible_at {about}), {LEASE})"


STATE = Statement(
    """
    INSERT INTO messages (realm, inbox, type, sender, content, opens, state_key, status,
        visible_at, attempts, created_at)
    VALUES (:realm, :inbox, 'queue', :sender, :content, FALSE, '', 'fact', :lease, :attempts, :now)
    ON CONFLICT (realm, type, inbox, state_key) WHERE status = 'fact' DO UPDATE
    SET content = excluded.content, visible_at = excluded.visible_at, attempts = excluded.attempts,
        settled_at = NULL
    """
)
READ = Statement(
    f"""
    SELECT q.inbox, q.attempts, q.visible_at, q.content, q.created_at, q.settled_at
    {ABOUT.format(realm=":realm", inbox=":inbox")}
    """
)
LOCK = Statement(READ.sqlite, READ.sqlite + " FOR UPDATE")
LIST = Statement(
    """
    SELECT q.inbox, q.attempts, q.visible_at, q.content, q.created_at, q.settled_at
    FROM messages q WHERE q.realm = :realm AND q.type = 'queue' AND q.status = 'fact'
    AND q.inbox > :after_inbox AND q.inbox < :before_inbox ORDER BY q.inbox LIMIT :fetch
    """
)
# With fewer claims allowed, what has had as many is due for the sweeper, which buries it.
OVERDUE = Statement(
    """
    UPDATE messages SET visible_at = 1
    WHERE realm = :realm AND inbox = :inbox AND status = 'unread' AND visible_at = 0
    AND attempts >= :attempts
    """
)


class Queue(NamedTuple):
    """What is stated of an inbox; times in ms."""

    inbox: str
    max_attempts: int
    lease: int
    details: dict[str, Any]  # title, deadline, capacity
    created_at: int
    closed_at: int | None


def _queue(values: Any) -> Queue:
    made = Queue._make(values)
    return made._replace(details=json.loads(values[3] or "{}"))


def state(
    realm: str, inbox: str, sender: str, attempts: int, lease: int, details: Mapping[str, Any]
) -> None:
    """State all of it about an inbox, and let what has had its last claim be buried."""
    database.run(
        STATE,
        realm=realm,
        inbox=inbox,
        sender=sender,
        content=json.dumps(details),
        lease=lease,
        attempts=attempts,
        now=clock.now(),
    )
    database.run(OVERDUE, realm=realm, inbox=inbox, attempts=attempts)


def read(realm: str, inbox: str, lock: bool = False) -> Queue | None:
    """What is stated of an inbox; with ``lock`` others who ask so wait for this unit of work."""
    found = database.run(LOCK if lock else READ, realm=realm, inbox=inbox).fetchone()
    return _queue(found) if found else None


def listed(realm: str, after: str, before: str, limit: int) -> list[Queue]:
    """What is stated of the inboxes whose address lies between, by address."""
    found = database.run(LIST, realm=realm, after_inbox=after, before_inbox=before, fetch=limit)
    return [_queue(values) for values in found.fetchall()]
