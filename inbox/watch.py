"""The watch: rings the bell of this process for what others have written.

A thread with a connection of its own. While anybody waits it asks ten times a
second what has been written above the last row seen; every two seconds it
looks into every inbox that is waited for, which finds what a look at the end
of the table misses: mail that has become due, a row that committed late. On
PostgreSQL processes also notify each other (``models.notices``), which is
faster. Losing a wake costs time, never a message.
"""

import threading
import time
from collections.abc import Callable

from inbox import bell, turn
from inbox.bell import Address
from models import notices, watching

TICK = 0.1  # seconds between two looks at the end of the table
SWEEP = 2.0  # seconds between two looks into everything that is waited for


class Watch:
    """The thread, until ``stop``. ``report`` is told what goes wrong, once until all is well."""

    def __init__(self, report: Callable[[Exception], None]) -> None:
        self.report = report
        self.stopping = False
        self.well = True
        self.seen: int | None = None  # the last row looked at; None while nobody waits
        self.looked = 0.0
        self.swept = 0.0
        self.line = notices.Line()
        self.thread = threading.Thread(target=self._run, name="watch", daemon=True)
        bell.listeners.append(self._tell)
        self.thread.start()

    def stop(self) -> None:
        """End the thread; returns within a few seconds."""
        self.stopping = True
        bell.listeners.remove(self._tell)
        self.line.wake()
        self.thread.join(5)

    def _tell(self, addresses: set[Address]) -> None:
        self.line.tell(addresses)

    def _run(self) -> None:
        while not self.stopping:
            heard = self._tried(self._hear)
            looked = self._tried(self._look)  # also without the line
            if not looked:
                self.seen = None
            if heard and looked:
                self.well = True
            else:
                time.sleep(TICK)
        self.line.close()

    def _tried(self, work: Callable[[], None]) -> bool:
        try:
            turn.reading(work)
        except Exception as error:  # without the thread, all who wait would be deaf
            if self.well:
                self.report(error)
            self.well = False
            return False
        return True

    def _hear(self) -> None:
        heard = self.line.listen(TICK)
        if heard is None or heard:
            waited = bell.waited_for()
            bell.ring(each for each in waited if heard is None or notices.short(each) in heard)

    def _look(self) -> None:
        now = time.monotonic()
        waited = bell.waited_for()
        if not waited:
            self.seen = None
        elif self.seen is None:
            # Somebody may have written between the first wait's look and this one.
            self.seen, self.looked, self.swept = watching.newest(), now, now
            bell.ring(waited)
        elif now - self.looked >= TICK:  # it may have been a notice that has ended the pause
            self.looked = now
            self._look_above(self.seen)
            if now - self.swept >= SWEEP:
                self.swept = now
                self._sweep(waited)

    def _look_above(self, seen: int) -> None:
        self.seen, rows = watching.above(seen)
        for realm, inbox, task_id, visible_at in rows:
            if visible_at:
                bell.expect(Address(realm, inbox), visible_at)
            bell.ring((Address(realm, inbox), Address(realm, task_id=task_id)))

    def _sweep(self, waited: list[Address]) -> None:
        bell.ring(each for each in waited if each.inbox is None)
        for realm in {each.realm for each in waited}:
            boxes = [each.inbox for each in waited if each.realm == realm and each.inbox]
            found = watching.unread(realm, boxes) if boxes else []
            bell.ring(Address(realm, inbox) for inbox in found)
