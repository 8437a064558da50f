"""The application: opens the database that the settings name and makes the WSGI application."""

from api import log
from api.service import Service
from inbox import turn
from inbox.housekeeping import Housekeeping
from inbox.settings import Settings


def create_app(settings: Settings) -> Service:
    """The WSGI application with its database open; raises ``turn.Unusable``."""
    turn.open(settings.database, settings.database_timeout)
    return Service(settings.max_body)


def keep_house() -> Housekeeping:
    """Start what a serving process does beside requests."""
    return Housekeeping(lambda problem: log.write(level="error", event=problem.code))
