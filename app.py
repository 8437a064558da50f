"""The application: opens the database that the settings name and makes the WSGI application."""

import asyncio
import functools
from collections.abc import Callable

from api import log
from api.service import Service
from api.worker import LoopWorker
from inbox import retention, turn
from inbox.errors import Problem
from inbox.housekeeping import Housekeeping
from inbox.retention import Lifetimes
from inbox.settings import Settings
from inbox.watch import Watch

__all__ = ["LoopWorker", "Service", "create_app", "fit", "start_beside"]


def create_app(settings: Settings) -> Service:
    """The WSGI application with its database open; raises ``turn.Unusable``."""
    turn.open(settings.database, settings.database_timeout)
    retention.configure(
        Lifetimes(
            settings.keep_acked, settings.keep_unread, settings.keep_dead, settings.keep_closed
        )
    )
    return Service(settings.max_body, max(1, settings.threads // 2))


def fit(worker: LoopWorker, settings: Settings) -> None:
    """Give a loop worker what it needs to let requests share turns and wait without threads."""
    worker.turns = turns = turn.Shared()  # type: ignore[misc]
    worker.together = functools.partial(worker.wsgi.together, turns)
    worker.max_body = settings.max_body
    worker.max_parked = settings.max_waiting
    log.soon = _in_this_round


def _in_this_round(flush: Callable[[], None]) -> None:
    try:
        asyncio.get_running_loop().call_soon(flush)
    except RuntimeError:  # a thread beside the loop has something to say
        flush()


def start_beside() -> list[Housekeeping | Watch]:
    """Start what a serving process does beside requests; each is to be stopped at its end."""
    return [Housekeeping(_report), Watch(_report)]


def _report(error: Exception) -> None:
    if isinstance(error, Problem):
        log.write(level="error", event=error.code)
    else:
        log.failure(error)
