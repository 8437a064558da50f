"""The floor under everything that keeps its mail in SQLite: raw executemany, in this process.

One transaction holds what all clients would have sent at once, and is fsynced
(synchronous=FULL, WAL) before the next begins. No server, no HTTP, no rules,
one index: nothing that stores messages in SQLite as durably can be faster.
"""

import itertools
import sqlite3
import time
from pathlib import Path

from bench.client import Result, now
from bench.dialects import BATCH, CONTENT

INSERT = "INSERT INTO messages (inbox, task_id, type, sender, content) VALUES (?, ?, ?, ?, ?)"
PER_CLIENT = {"send": 1, "batch": BATCH}  # rows that a client has in one transaction


class Floor:
    """The database file of the floor."""

    def __init__(self, file: Path) -> None:
        self.connection = sqlite3.connect(file, isolation_level=None)
        self.count = itertools.count()
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self.connection.execute(f"PRAGMA {pragma}")
        self.connection.execute(
            "CREATE TABLE messages (seq INTEGER PRIMARY KEY AUTOINCREMENT, inbox TEXT NOT NULL,"
            " task_id TEXT, type TEXT NOT NULL, sender TEXT NOT NULL, content BLOB)"
        )
        self.connection.execute("CREATE INDEX messages_inbox ON messages (inbox, seq)")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def run(self, operation: str, clients: int, seconds: float) -> Result:
        """Insert for ``seconds``; the latencies are those of the transactions."""
        rows, result = clients * PER_CLIENT[operation], Result()
        started, cpu = now(), time.process_time()
        while now() < started + seconds:
            began = now()
            self._insert(rows)
            result.latencies.append(now() - began)
            result.units += 1
            result.done += rows
        result.total = result.done
        result.seconds = result.elapsed = now() - started
        result.cpu = time.process_time() - cpu
        return result

    def _insert(self, rows: int) -> None:
        numbers = itertools.islice(self.count, rows)
        values = [(f"box-{n % 32}", f"task-{n // 8}", "request", "bench", CONTENT) for n in numbers]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(INSERT, values)
        self.connection.execute("COMMIT")
