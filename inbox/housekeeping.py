"""What is done beside requests, in a thread of its own with a connection of its own."""

import threading
import time
from collections.abc import Callable

from inbox import presence, turn
from inbox.sweeper import Sweeper

TICK = 1.0  # seconds between two rounds of the sweeper


class Housekeeping:
    """The thread that sweeps and writes presence down, until ``stop``.

    ``report`` is called with what went wrong in a round; the next round tries
    again.
    """

    def __init__(self, report: Callable[[Exception], None]) -> None:
        self.report = report
        self.sweeper = Sweeper(report)
        self.noted = time.monotonic()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.stopped.wait(TICK):
            self.sweeper.round()
            if time.monotonic() - self.noted >= presence.INTERVAL:
                self._note()
        self._note()
        self.sweeper.leave()

    def _note(self) -> None:
        self.noted = time.monotonic()
        try:
            presence.settled(turn.alone(presence.flush))
        except Exception as error:  # the next round is to come in any case
            self.report(error)

    def stop(self) -> None:
        """Write down what there is, and end; returns within a few seconds."""
        self.stopped.set()
        self.thread.join(5)
