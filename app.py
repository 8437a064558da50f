"""The application: opens the database that the settings name and makes the WSGI application."""

from api import log
from api.service import Service
from inbox import turn
from inbox.errors import Problem
from inbox.housekeeping import Housekeeping
from inbox.settings import Settings
from inbox.watch import Watch


def create_app(settings: Settings) -> Service:
    """The WSGI application with its database open; raises ``turn.Unusable``."""
    turn.open(settings.database, settings.database_timeout)
    return Service(settings.max_body, max(1, settings.threads // 2))


def start_beside() -> list[Housekeeping | Watch]:
    """Start what a serving process does beside requests; each is to be stopped at its end."""
    return [Housekeeping(_report), Watch(_report)]


def _report(problem: Problem) -> None:
    log.write(level="error", event=problem.code)
