"""Retention: how long what is done with is kept, and removing it.

A task goes whole: once it has been closed for long enough, or once nothing
has happened in it for long enough and nothing in it waits. The log of a room or
a direct thread never ends: it is trimmed from its old end, a post with all its
copies. Nothing unread goes without its sender being told.
"""

from typing import NamedTuple

from inbox import burial
from models import clock, sweeping
from models.logs import Ages
from models.sweeping import Ended

DAY = 24 * 3600
KEYS = DAY * 1000  # ms in which a message with an idempotency key stays
AGAIN = 3600 * 1000  # ms after which a task of which something had to stay is looked at again
LOGS = ("room:", "dm:")  # what the ids of such threads begin with
BATCH = 100  # rows deleted in one transaction


class Lifetimes(NamedTuple):
    """How long rows are kept, in seconds; 0 keeps them for ever."""

    acked: float = 30 * DAY
    unread: float = 30 * DAY
    dead: float = 90 * DAY
    closed: float = 7 * DAY


class Configured:
    """The lifetimes of this process, from its settings."""

    lifetimes = Lifetimes()


configured = Configured()


def configure(lifetimes: Lifetimes) -> None:
    """Keep things for as long as the settings say."""
    configured.lifetimes = lifetimes


def closed_until(seconds: float | None) -> int | None:
    """When a task that is closed now is removed, in ms: after ``seconds`` or the setting."""
    kept = configured.lifetimes.closed if seconds is None else seconds
    return clock.now() + round(kept * 1000) if kept else None


def cutoff(seconds: float) -> int:
    """The time before which is old, in ms; with 0 nothing is."""
    return clock.now() - round(seconds * 1000) if seconds else -1


def anew() -> tuple[int, int | None]:
    """What is too old to wait any longer, and how long it may if it begins to wait only now."""
    kept = configured.lifetimes.unread
    return cutoff(kept), clock.now() + round(kept * 1000) if kept else None


def may_go(realm: str, task_id: str) -> bool:
    """Whether a task has been silent for long enough, with nothing in it that waits."""
    kept = configured.lifetimes
    silent = cutoff(kept.acked)
    newest = sweeping.last(realm, task_id)
    if newest is None or newest > silent:
        return False
    found = sweeping.thread(realm, task_id)
    if found.unread or max(found.settled_at or 0, newest) > silent:
        return False
    if found.keyed_at is not None and found.keyed_at > clock.now() - KEYS:
        return False
    return found.died_at is None or found.died_at <= cutoff(kept.dead)


def is_log(task_id: str) -> bool:
    """Whether a thread is a room's log or a direct one: such are trimmed, not removed."""
    return task_id.startswith(LOGS)


def ages() -> Ages:
    """From when on the posts of a log are not old yet."""
    kept = configured.lifetimes
    return Ages(cutoff(kept.acked), cutoff(kept.dead), clock.now() - KEYS)


def remove_some(realm: str, task_id: str) -> int:
    """Remove a batch of a task, and tell the senders of what was unread; how many rows."""
    unread = sweeping.unread_of(realm, task_id, BATCH)
    if unread:
        return burial.drop(realm, unread, "task_closed")
    return sweeping.delete(realm, task_id, BATCH, clock.now() - KEYS)


def remove_closed(realm: str, closed: Ended) -> int:
    """Remove a batch of a closed task, and the mark that it is closed once nothing is left."""
    removed = remove_some(realm, closed.state_key)
    if removed:
        return removed
    if sweeping.thread(realm, closed.state_key).messages:
        sweeping.later(closed.seq, clock.now() + AGAIN)
        return 0
    sweeping.remove(closed.seq)
    return 1
