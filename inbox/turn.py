"""Units of work: the seam through which whoever serves opens, begins, commits and abandons.

A server that has nothing better runs each request that writes as a unit of
its own (``alone``). A server with one thread and a loop lets all the requests
of one round share a transaction (``Shared``). Reads run without one: each is
a single statement, or does not mind a commit between two.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from inbox import bell, breaker
from inbox.errors import OutcomeUnknown, Problem, StoreBusy, StoreUnavailable
from models import database
from models.errors import Contended, Frozen, Unavailable, Unusable

Result = TypeVar("Result")

TRIES = 5

__all__ = ["Shared", "Unusable", "alone", "close", "open", "reading", "ready"]

open = database.open


def close() -> None:
    """Close this thread's connection and forget the database."""
    breaker.reset()
    bell.forget()
    database.close()


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
    breaker.check()
    for attempt in range(TRIES):
        try:
            return database.watched(work)
        except Contended:
            time.sleep(random.uniform(0, 0.02) * attempt)
        except Unavailable as error:
            # A kept connection may have broken while it was idle: a fresh one gets one try.
            if attempt or isinstance(error, Frozen):
                _trip_if_frozen(error)
                raise StoreUnavailable("The database could not be reached.") from error
    raise StoreBusy(f"Other transactions stood in the way {TRIES} times.")


def _once(work: Callable[[], Result]) -> Result:
    database.begin()
    try:
        result = database.watched(work)
    except BaseException:
        bell.abandoned()
        database.abandon()
        raise
    try:
        _commit()
    except Unavailable as error:
        _trip_if_frozen(error)
        raise OutcomeUnknown("The database broke while committing.") from error
    return result


def _trip_if_frozen(error: Exception) -> None:
    # One that refuses a connection does so at once; and another thread's may be well.
    if isinstance(error, Frozen):
        breaker.trip(error)


def _commit() -> None:
    """Commit, and ring for what was written: the one place where that happens."""
    try:
        database.commit()
    except BaseException:
        bell.abandoned()
        raise
    bell.committed()


class Shared:
    """The turn of a server with one thread: one transaction for all the writes of a round.

    ``join`` runs a request in it, each as a part that can be undone by itself,
    so that one failure takes no other with it. No answer given while it is ``open`` may be
    sent before ``end`` has said that the transaction is committed.
    """

    def __init__(self) -> None:
        database.hurry()
        self.open = False
        self.again = False  # the last request met a lock: it is to be run again, by itself
        self.alone = False  # the next one is such: no two of them, of all processes, at once
        self.connection: object = None  # the one that the transaction was begun on

    def join(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` as a part of the turn; begins the turn with the first."""
        breaker.check()
        try:
            if not self.open:
                return self._first(work)
            if not database.holds(self.connection):
                raise Unavailable("the turn's transaction has ended")
            return database.part(work)
        except Contended as error:
            self.again = True
            raise StoreBusy("Another transaction stood in the way.") from error
        except Unavailable as error:
            _trip_if_frozen(error)
            raise StoreUnavailable("The database could not be reached.") from error
        finally:
            self.alone = False

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """As ``join``, for what can be done in smaller parts as well: None, if it cannot be now."""
        try:
            return self.join(work)
        except Problem:
            self.again = False
            return None

    def _first(self, work: Callable[[], Result]) -> Result:
        try:
            return self._begun(work)
        except Frozen:
            self.open = False
            raise
        except Unavailable:
            # A kept connection may have broken while it was idle: a fresh one gets one try.
            self.open = False
        try:
            return self._begun(work)
        except Unavailable:
            self.open = False
            raise

    def _begun(self, work: Callable[[], Result]) -> Result:
        database.begin(self.alone)
        self.connection = database.connection()
        self.open = True
        return database.part(work)

    def end(self) -> bool:
        """Commit; whether all that was answered meanwhile is known to be durable."""
        self.open = False
        try:
            if not database.holds(self.connection):
                raise Unavailable("the turn's transaction has ended")
            _commit()
        except (Unavailable, Contended) as error:
            _trip_if_frozen(error)
            bell.abandoned()
            database.drop()
            return False
        return True


def ready() -> None:
    """Return when the database answers; raises ``StoreUnavailable``."""
    reading(database.ping)
