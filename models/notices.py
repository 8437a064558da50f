"""The line on which the processes of one PostgreSQL database tell each other what has changed.

SQLite has none: there the line only keeps time. What is told is a short hash
of an address, or ``*`` when there are too many: never a message.
"""

import functools
import os
import select
import threading
import zlib
from collections.abc import Iterable

import psycopg2
from psycopg2 import extensions

from models import database
from models.errors import Unavailable
from models.postgres import PostgreSQL

CHANNEL = "taskpost"
MOST = 800  # hashes in one notice; a payload holds 8,000 bytes
EVERYTHING = "*"


@functools.lru_cache(1 << 14)
def short(address: tuple[object, ...]) -> str:
    """The hash under which an address is told."""
    return f"{zlib.crc32(repr(tuple(address)).encode()):08x}"


class Line:
    """One end of the line. ``listen`` is for one thread, ``tell`` and ``wake`` for any."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pending: set[tuple[object, ...]] = set()
        self.bell, self.clapper = os.pipe()
        os.set_blocking(self.clapper, False)
        self.connection: extensions.connection | None = None

    def tell(self, addresses: Iterable[tuple[object, ...]]) -> None:
        """Have the others told that something was committed for these addresses."""
        if isinstance(database.database, PostgreSQL):
            with self.lock:
                quiet = not self.pending
                self.pending.update(addresses)
            if quiet:
                self.wake()

    def wake(self) -> None:
        """Let ``listen`` return."""
        try:
            os.write(self.clapper, b"!")
        except BlockingIOError:  # full of wakes that have not been heard yet: one is enough
            return

    def listen(self, seconds: float) -> set[str] | None:
        """The hashes told by others within ``seconds``, telling meanwhile; None means everything.

        Raises ``Unavailable`` when the database is away.
        """
        opened = database.current()
        if not isinstance(opened, PostgreSQL):
            self._pause(seconds)
            return set()
        try:
            return self._listened(opened, seconds)
        except psycopg2.Error as error:
            self.close()
            raise opened.translate(error) or Unavailable(str(error)) from error

    def _listened(self, opened: PostgreSQL, seconds: float) -> set[str] | None:
        line = self.connection or self._open(opened)
        self._pause(seconds, line.fileno())
        self._send(line)
        line.poll()
        heard = [notice.payload for notice in line.notifies if notice.pid != line.info.backend_pid]
        line.notifies.clear()
        return None if EVERYTHING in heard else {each for text in heard for each in text.split(",")}

    def _open(self, opened: PostgreSQL) -> extensions.connection:
        self.connection = opened._connect()
        with self.connection.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")
        return self.connection

    def _pause(self, seconds: float, *lines: int) -> None:
        """Return when something has come, on a line or from ``wake``, or the time is up."""
        poller = select.poll()  # select() knows no file above 1023, and there are many sockets
        for file in (self.bell, *lines):
            poller.register(file, select.POLLIN)
        if (self.bell, select.POLLIN) in poller.poll(seconds * 1000):
            os.read(self.bell, 4096)

    def _send(self, line: extensions.connection) -> None:
        with self.lock:
            told, self.pending = self.pending, set()
        if told:
            hashes = sorted(short(address) for address in told)
            payload = ",".join(hashes) if len(hashes) <= MOST else EVERYTHING
            with line.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))

    def close(self) -> None:
        """Hang up; ``listen`` opens the line again."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
