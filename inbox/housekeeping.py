"""What is done beside requests, in a thread of its own with a connection of its own."""

import threading

from inbox import presence, turn
from inbox.errors import Problem


class Housekeeping:
    """The thread that writes presence down, until ``stop``.

    ``report`` is called with what went wrong in a round; the next round tries
    again.
    """

    def __init__(self, report) -> None:  # type: ignore[no-untyped-def]
        self.report = report
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.stopped.wait(presence.INTERVAL):
            self._round()
        self._round()

    def _round(self) -> None:
        try:
            presence.settled(turn.alone(presence.flush))
        except Problem as problem:
            self.report(problem)

    def stop(self) -> None:
        """Write down what there is, and end; returns within a few seconds."""
        self.stopped.set()
        self.thread.join(5)
