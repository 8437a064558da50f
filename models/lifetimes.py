"""The end of agents and of closed tasks: times kept in the facts about them."""

from models import clock, database
from models.statement import Statement

BIND = Statement(
    """
    UPDATE messages SET task_id = :task_id, expires_at = :until
    WHERE realm = :realm AND type = 'agent' AND inbox = :inbox AND state_key = ''
    AND status = 'fact'
    """
)
BOUND = Statement(
    """
    SELECT a.task_id, a.expires_at FROM messages a
    WHERE a.realm = :realm AND a.type = 'agent' AND a.inbox = :inbox AND a.state_key = ''
    AND a.status = 'fact'
    """
)
WITH_TASK = Statement(
    """
    UPDATE messages SET expires_at = :now
    WHERE realm = :realm AND status = 'fact' AND type = 'agent' AND task_id = :task_id
    """
)
CLOSED = Statement(
    """
    UPDATE messages SET expires_at = :until
    WHERE realm = :realm AND type = 'closed' AND inbox = '' AND state_key = :task_id
    AND status = 'fact'
    """
)


def bind(realm: str, inbox: str, task_id: str | None, until: int | None) -> None:
    """Let an agent end with a task, or at a time in ms, or not (None)."""
    database.run(BIND, realm=realm, inbox=inbox, task_id=task_id, until=until)


def bound(realm: str, inbox: str) -> tuple[str | None, int | None]:
    """The task with which an agent ends, and the time."""
    found = database.run(BOUND, realm=realm, inbox=inbox).fetchone()
    return (found[0], found[1]) if found else (None, None)


def end_with_task(realm: str, task_id: str) -> None:
    """Let the agents of a task end now; the sweeper does it."""
    database.run(WITH_TASK, realm=realm, task_id=task_id, now=clock.now())


def remove_task_at(realm: str, task_id: str, at: int | None) -> None:
    """Let a closed task be removed at a time in ms, or kept (None)."""
    database.run(CLOSED, realm=realm, task_id=task_id, until=at)
