"""Units of work: the seam through which whoever serves opens, begins, commits and abandons.

A server that has nothing better runs each request that writes as a unit of
its own (``alone``). Reads run without one: each is a single statement, or
does not mind a commit between two.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from inbox.errors import OutcomeUnknown, StoreBusy, StoreUnavailable
from models import database
from models.errors import Contended, Frozen, Unavailable, Unusable

Result = TypeVar("Result")

TRIES = 5

__all__ = ["Unusable", "abandon", "alone", "begin", "close", "commit", "open", "reading", "ready"]

open = database.open
close = database.close
begin = database.begin
commit = database.commit
abandon = database.abandon


def alone(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a transaction of its own; it returns once that is committed.

    ``work`` is run again when another transaction stood in the way, so it
    must have no effect outside the database.
    """
    return _patiently(lambda: _once(work))


def reading(work: Callable[[], Result]) -> Result:
    """Run ``work``, which only reads."""
    return _patiently(work)


def _patiently(work: Callable[[], Result]) -> Result:
    for attempt in range(TRIES):
        try:
            return work()
        except Contended:
            time.sleep(random.uniform(0, 0.02) * attempt)
        except Unavailable as error:
            # A kept connection may have broken while it was idle: a fresh one gets one try.
            if attempt or isinstance(error, Frozen):
                raise StoreUnavailable("The database could not be reached.") from error
    raise StoreBusy(f"Other transactions stood in the way {TRIES} times.")


def _once(work: Callable[[], Result]) -> Result:
    begin(writes=True)
    try:
        result = work()
    except BaseException:
        abandon()
        raise
    try:
        commit()
    except Unavailable as error:
        raise OutcomeUnknown("The database broke while committing.") from error
    return result


def ready() -> None:
    """Return when the database answers; raises ``StoreUnavailable``."""
    reading(database.ping)
