"""What the sweeper costs those who send: their latency before it has work, and while it works.

The same database file is served twice, by one server after the other: one
keeps everything for ever, the other removes what lies there.
"""

import contextlib
import dataclasses
import sqlite3
import time
from typing import Any

from bench import growth, servers
from bench.operations import SHARED, Unfit, percentiles, prepare, work
from bench.servers import Server, Yard

CLIENTS = 8
SLICE = 0.5  # seconds; after each it is seen whether anything is left to remove
FIRST = 8  # of the rows, the first with which a task begins
PATIENCE = 30.0  # seconds within which the sweeper must begin
AGE = 2 * 24 * 3600  # seconds that have passed since the last that happened in what is removed
KEPT = 24 * 3600  # seconds that the second server keeps it
OLD = {name: f"t.{name} - {AGE * 1000}" for name in ("created_at", "settled_at")}
BOXES = [f"sweep-{number}" for number in range(SHARED)]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How many rows lie there, and for how long it is measured at most; seconds."""

    rows: int
    seconds: float


QUICK = Sizes(30_000, 4)
FULL = Sizes(1_000_000, 60)


@dataclasses.dataclass(frozen=True)
class Sends:
    """Sends a second, and their latencies in ms."""

    rate: float
    p50: float
    p99: float


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Sends before and during a sweep, and what it did meanwhile."""

    rows: int  # that lay there
    removed: int
    seconds: float  # in which they were
    before: Sends
    during: Sends

    @property
    def slower(self) -> float:
        """How many times as long the 99th percentile was."""
        return self.during.p99 / self.before.p99


def measure(yard: Yard, sizes: Sizes) -> Sweep:
    """Fill a file, and send to it without the sweeper's work and with it."""
    file = f"sqlite:///{yard.file('swept.db')}"
    first = _start(yard, file, 0)
    prepare(first, BOXES, 0)
    growth.sample(first)
    yard.stop(first)
    growth.insert(file, sizes.rows, OLD)
    with _reading(file) as database:
        (last,) = database.execute("SELECT MAX(seq) FROM messages").fetchone()
        keeping = _start(yard, file, 0)
        before, _ = _sends(keeping, database, last, sizes.seconds)
        yard.stop(keeping)
        sweeping = _start(yard, file, KEPT)
        began = _begun(database, last - sizes.rows + FIRST)
        during, ended = _sends(sweeping, database, last, sizes.seconds)
        removed = sizes.rows - _left(database)
    yard.stop(sweeping)
    return Sweep(sizes.rows, removed, ended - began, before, during)


def _start(yard: Yard, file: str, keep: int) -> Server:
    yard.started += 1
    return servers.taskpost(yard, "taskpost", "Taskpost, SQLite", database=file, keep_acked=keep)


def _sends(server: Server, database: Any, last: int, seconds: float) -> tuple[Sends, float]:
    """Send for so long, or until the last old row is gone; and when that was."""
    latencies: list[float] = []
    spent, ends = 0.0, time.monotonic() + seconds
    _slice(server)  # what is slow only at first
    while True:
        result = _slice(server)
        if not _there(database, last):
            break  # it may have come to its end long before the slice did
        latencies += result.latencies
        spent += result.elapsed
        if time.monotonic() >= ends:
            break
    if not latencies:
        raise Unfit("all was removed before a send was measured: put in more rows")
    p50, p99 = percentiles(latencies)
    return Sends(len(latencies) / spent, p50 * 1000, p99 * 1000), time.monotonic()


def _slice(server: Server) -> Any:
    dialect = server.dialect
    result = work(server, lambda number: dialect.send(BOXES[number % SHARED]), CLIENTS, SLICE)
    server.trim()
    if result.failures:
        raise Unfit(f"sends beside the sweeper: {result.failure}")
    return result


def _there(database: Any, seq: int) -> bool:
    found = database.execute("SELECT 1 FROM messages WHERE seq = ?", (seq,))
    return found.fetchone() is not None


def _begun(database: Any, first: int) -> float:
    """When the sweeper has removed the first task, which it does soon after the start."""
    ends = time.monotonic() + PATIENCE
    while _there(database, first):
        if time.monotonic() > ends:
            raise Unfit(f"the sweeper removed nothing within {PATIENCE:g} s")
        time.sleep(0.02)
    return time.monotonic()


def _left(database: Any) -> int:
    found = database.execute("SELECT COUNT(*) FROM messages WHERE inbox LIKE 'history-%'")
    return int(found.fetchone()[0])


@contextlib.contextmanager
def _reading(url: str) -> Any:
    file = url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as made:
        yield made
