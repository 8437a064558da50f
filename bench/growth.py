"""What stays the same when there is more: deeper inboxes, a bigger table, more live inboxes.

Two servers of one kind start together. One grows, the other does not, and both
are measured in turn: their ratio says what growth costs, whatever else the
machine is doing meanwhile.
"""

import contextlib
import dataclasses
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import psycopg2

from bench.dialects import TEN
from bench.operations import Unfit, prepare, work
from bench.servers import Server, Yard

CLIENTS = 32
# Of each row that is made up, what is not as in its model: a thousand inboxes, tasks of eight.
SHAPE = {
    "inbox": "'history-' || (n.i % 1000)",
    "task_id": "'history-' || (n.i / 8)",
    "opens": "(n.i % 8 = 0)",
}
# What the database would sooner or later do by itself, so that it does not do it meanwhile.
TIDY = {"sqlite": "PRAGMA wal_checkpoint(TRUNCATE)", "postgresql": "VACUUM ANALYZE messages"}
Box = Callable[[int], str]


@dataclasses.dataclass(frozen=True)
class Growth:
    """One operation at one size, on the server that grew and on the one that did not."""

    server: str
    kind: str
    size: int
    operation: str
    rate: float  # a second, of the server that grew
    ratios: tuple[float, ...]  # to the other, round by round


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How far to go."""

    unread: tuple[int, ...]
    rows: tuple[int, ...]
    inboxes: int


QUICK = Sizes((10, 1_000, 10_000), (0, 100_000), 200)
FULL = Sizes((10, 1_000, 10_000, 100_000), (0, 10_000, 100_000, 1_000_000), 1_000)


class Pair:
    """A server that grows and one that does not."""

    def __init__(self, yard: Yard, key: str, rounds: int, seconds: float) -> None:
        self.grown, self.control = yard.start(key), yard.start(key)
        self.rounds, self.seconds = rounds, seconds

    def compare(self, kind: str, size: int, key: str, grown: Box, control: Box) -> Growth:
        """Measure one operation on both, in turn."""
        rates, ratios = [], []
        for turn in range(self.rounds):
            if turn % 2:  # neither always comes first
                one = self._rate(self.grown, key, grown)
                other = self._rate(self.control, key, control)
            else:
                other = self._rate(self.control, key, control)
                one = self._rate(self.grown, key, grown)
            rates.append(one)
            ratios.append(one / other)
        return Growth(self.grown.key, kind, size, key, median(rates), tuple(ratios))

    def _rate(self, server: Server, key: str, box: Box) -> float:
        make = getattr(server.dialect, key)
        result = work(server, lambda number: make(box(number)), CLIENTS, self.seconds)
        server.trim()
        if result.failures or not result.done:
            raise Unfit(f"{server.key}, growing: {result.failure or key + ' did nothing'}")
        return result.rate(CLIENTS)


def measure(yard: Yard, key: str, sizes: Sizes, rounds: int, seconds: float) -> Iterator[Growth]:
    """All that grows, on servers of this key."""
    yield from _unread(Pair(yard, key, rounds, seconds), sizes.unread)
    yield from _live(Pair(yard, key, rounds, seconds), sizes.inboxes)
    yield from _rows(Pair(yard, key, rounds, seconds), sizes.rows)


def _unread(pair: Pair, sizes: tuple[int, ...]) -> Iterator[Growth]:
    """More and more unread mail in one inbox."""
    deep, shallow, fresh = _around(["deep"]), _around(["shallow"]), _around(["fresh"])
    prepare(pair.control, ["shallow"], TEN)
    prepare(pair.control, ["fresh"], 0)
    had = 0
    for size in sizes:
        prepare(pair.grown, ["deep"], size - had, again=True)
        had = size
        yield pair.compare("unread", size, "ten", deep, shallow)
    yield pair.compare("unread", had, "send", deep, fresh)


def _live(pair: Pair, number: int) -> Iterator[Growth]:
    """Many inboxes in use, each with mail, beside one for each client."""
    many, few = [f"live-{n}" for n in range(number)], [f"live-{n}" for n in range(CLIENTS)]
    prepare(pair.grown, many, TEN)
    prepare(pair.control, few, TEN)
    for key in ("send", "ten", "cycle"):
        yield pair.compare("inboxes", number, key, _around(many), _around(few))


def _rows(pair: Pair, sizes: tuple[int, ...]) -> Iterator[Growth]:
    """More and more messages that have been read long ago."""
    own, ten = [f"own-{n}" for n in range(CLIENTS)], [f"ten-{n}" for n in range(CLIENTS)]
    for server in (pair.grown, pair.control):
        prepare(server, [*own, "empty"], 0)
        prepare(server, ten, TEN)
    had = 0
    for size in sizes:
        multiply(pair.grown, size - had)
        had = size
        for key, boxes in (("send", own), ("empty", ["empty"]), ("ten", ten)):
            yield pair.compare("rows", size, key, _around(boxes), _around(boxes))


def _around(boxes: list[str]) -> Box:
    """Whoever comes next gets the next box, round and round."""
    turn = itertools.cycle(boxes)
    return lambda number: next(turn)


def multiply(server: Server, count: int) -> None:
    """Add so many rows to the server's table, made after one message that was sent and read.

    They are written to the database directly, or a million would take all
    day on a slow server; what was sent first shows what a row looks like.
    """
    if count:
        sample(server)
        insert(server.database, count, {})


def sample(server: Server) -> None:
    """Send and read the one message after which the others are made."""
    prepare(server, ["history"], 0)
    once = iter([server.dialect.cycle("history")])
    work(server, lambda number: next(once, None), 1, 60)


def insert(database: str, count: int, shape: dict[str, str]) -> None:
    """Add so many rows like the sample; ``shape`` is what is different, beside ``SHAPE``."""
    shape = SHAPE | shape
    with _cursor(database) as cursor:
        cursor.execute("SELECT * FROM messages LIMIT 0")
        names = [column[0] for column in cursor.description if column[0] != "seq"]
        values = ", ".join(shape.get(name, f"t.{name}") for name in names)
        cursor.execute(
            f"INSERT INTO messages ({', '.join(names)}) WITH RECURSIVE n(i) AS"
            f" (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
            f" SELECT {values} FROM n, (SELECT * FROM messages WHERE inbox = 'history'"
            " AND status = 'acked' LIMIT 1) t"
        )
        if cursor.rowcount != count:
            raise Unfit(f"{cursor.rowcount} rows were added, not {count}")
    tidy(database)


def tidy(database: str) -> None:
    """Have a database do now what it would sooner or later do by itself."""
    with _cursor(database) as cursor:
        cursor.execute(TIDY[database.partition(":")[0]])


@contextlib.contextmanager
def _cursor(url: str) -> Iterator[Any]:
    connection: Any
    if url.startswith("sqlite"):
        file = url.removeprefix("sqlite:///")
        connection = sqlite3.connect(file, timeout=60, isolation_level=None)
        connection.execute("PRAGMA cache_size = -200000")
    else:
        connection = psycopg2.connect(url)
        connection.autocommit = True
    with contextlib.closing(connection):
        yield connection.cursor()
