"""The turn: answers wait here for the commit of the transaction that they were made in.

The transaction itself is the application's (``Turns``); nothing here knows a database.
"""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from api.connection import Connection

if TYPE_CHECKING:
    from api.worker import LoopWorker

RERUNS = 5  # how often a request is run again after its turn; then it is answered 503
YIELD = (0.001, 0.01)  # seconds before the second of these; twice as long before the third


class Turns(Protocol):
    """The application's side: the transaction that the requests of one turn share."""

    open: bool  # there is one at this moment
    again: bool  # the request that has just run must run again, alone, after the commit
    alone: bool  # set before it does

    def join(self, work: Any) -> Any:
        """What the application does its work with."""

    def end(self) -> bool:
        """Commit; false if the outcome of anything since the last end is not known."""


class Turn:
    """The worker's side. With no ``turns`` every answer goes out at once."""

    def __init__(self, worker: "LoopWorker", turns: Turns | None) -> None:
        self.worker = worker
        self.turns = turns
        self.held: list[Connection] = []
        # Of a round: those whose answers may go at once, those whose jobs are to be done.
        self.loose: list[Connection] | None = None
        self.jobs: list[Connection] | None = None
        self.whole = False  # the turn does not end now
        self.lain: list[tuple[Connection, Any]] = []  # parked after writing in this turn
        self.ending: asyncio.Handle | None = None  # of one that no round ends
        self.began = 0.0
        self.requests = 0  # answered in the turn

    def settle(self, connection: Connection, payload: bytes) -> None:
        """Decide on the answer to a connection's current request: now, later, or not this one."""
        turns = self.turns
        if turns is not None:
            if turns.again:
                turns.again = False
                connection.wait = None
                if self._run_again(connection):
                    return
                if connection.succeeded():
                    detail = f"Other transactions stood in the way {RERUNS} times."
                    payload = connection.problem("store_busy", detail)
            if turns.open:
                if connection.wait is None:
                    connection.payload = payload
                    self.held.append(connection)
                else:
                    connection.lie_down()
                    self.lain.append((connection, connection.wait))
                self._one_more(connection)
                return
            if self.held:
                self.end()  # its transaction has ended in some other way: ask how
        if connection.wait is not None:
            connection.lie_down()
        elif self.loose is None:
            connection.deliver(payload)
        else:
            connection.payload = payload
            self.loose.append(connection)

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Around a round: what can be done together is, and answers that may go at once go last."""
        self.loose, self.jobs = [], []
        try:
            yield
            jobs, self.jobs = self.jobs, None
            most = self.worker.together_requests
            for start in range(0, len(jobs), most):
                self._finish(jobs[start : start + most])
        finally:
            loose, self.loose, self.jobs = self.loose, None, None
            for connection in loose:
                connection.release(True)

    def _finish(self, connections: list[Connection]) -> None:
        """Do the jobs of these connections, and settle the answers."""
        together = self.worker.together
        done: list[Connection] = []
        if together is not None and len(connections) > 1:
            by_job = {each.job: each for each in connections if each.job is not None}
            try:
                done = [by_job[job] for job in together(list(by_job))]
            except Exception:  # each is done by itself then
                self.worker.log.exception("Error in what was to be done together")
        # All that was done in the transaction that is open is held by it before it can end.
        self.whole = True
        for connection in done:
            connection.safely(connection.finish)
        self.whole = False
        self._end_if_full()
        for connection in connections:
            if connection.job is not None:
                connection.safely(connection.finish)

    def _run_again(self, connection: Connection) -> bool:
        request = connection.current
        assert request is not None
        if request.reruns == RERUNS:
            return False
        request.reruns += 1
        self.end()
        pause = random.uniform(*YIELD) * (request.reruns - 1)
        self.worker.loop.call_later(pause, self._rerun, self.turns, connection)
        return True

    def _rerun(self, turns: Turns, connection: Connection) -> None:
        self.end()
        turns.alone = True
        connection.rerun()
        turns.alone = False

    def _one_more(self, connection: Connection) -> None:
        """Count a request of the turn, and see to it that the turn ends."""
        if not self.requests:
            self.began = monotonic()
            if self.loose is None:  # else it ends with the rounds
                self.ending = self.worker.loop.call_soon(self.end)
        self.requests += 1
        if connection.current is not None and connection.current.reruns > 0:
            self.end()  # it is alone
        elif not self.whole:
            self._end_if_full()

    def _end_if_full(self) -> None:
        full = self.requests >= self.worker.turn_requests
        if full or (self.requests and monotonic() - self.began > self.worker.turn_seconds):
            self.end()

    def end(self) -> None:
        """Commit, then let go of the answers held."""
        if self.turns is None:
            return
        self.requests = 0
        if self.ending is not None:
            self.ending.cancel()
            self.ending = None
        held, self.held = self.held, []
        lain, self.lain = self.lain, []
        if not held and not self.turns.open:
            return
        try:
            durable = self.turns.end()
        except Exception:
            self.worker.log.exception("Error at the end of a turn")
            durable = False
        for connection in held:
            connection.release(durable)
        if not durable:
            for connection, wait in lain:
                if connection.wait is wait:
                    connection.rise()
                    wait.cancel()
                    connection.release(durable)
