"""Which process sweeps, and what it has written down: one fact, of no realm."""

import json
from typing import Any, NamedTuple

from models import clock, database
from models.statement import Statement

LEASE = Statement(
    """
    INSERT INTO messages (realm, inbox, type, sender, content, opens, state_key, status,
        visible_at, holder, attempts, created_at)
    VALUES ('', '', 'sweep', 'postmaster', :content, FALSE, '', 'fact', :until, :holder, 0, :now)
    ON CONFLICT (realm, type, inbox, state_key) WHERE status = 'fact' DO UPDATE
    SET holder = excluded.holder, visible_at = excluded.visible_at, content = excluded.content
    WHERE messages.holder = excluded.holder OR messages.visible_at <= :now
    RETURNING seq
    """
)
LEASED = Statement(
    """
    SELECT m.holder, m.visible_at, m.content FROM messages m
    WHERE m.realm = '' AND m.type = 'sweep' AND m.inbox = '' AND m.state_key = ''
    AND m.status = 'fact'
    """
)


class Lease(NamedTuple):
    """Who sweeps, until when in ms, and what it has written down."""

    holder: str
    until: int
    report: dict[str, Any]


def lease(holder: str, until: int, report: dict[str, Any]) -> bool:
    """Be the one that sweeps, until then; False while another is. Keeps a report for all."""
    content = json.dumps(report)
    found = database.run(LEASE, holder=holder, until=until, content=content, now=clock.now())
    return found.fetchone() is not None


def leased() -> Lease | None:
    """Who sweeps and what it has reported; None where nobody ever has."""
    found = database.run(LEASED).fetchone()
    return Lease(found[0], found[1], json.loads(found[2] or "{}")) if found else None
