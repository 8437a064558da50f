"""The operations that are measured, and one measurement of one of them on one server."""

import dataclasses
import time
from collections.abc import Iterator
from statistics import quantiles

from bench import client
from bench.client import Result, Unit, Units
from bench.dialects import SENDER, TEN
from bench.servers import Server

SHARED = 8  # boxes that the connections share where they cannot disturb each other
LONG = 600.0  # seconds for what ends by itself


class Unfit(Exception):
    """A server that does not do what it must before it can be measured."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """Something that is measured: ``key`` is the dialect's method."""

    key: str
    title: str
    counted: str
    clients: tuple[int, ...]
    quick: tuple[int, ...]
    own: bool = False  # each connection has a box of its own
    filled: int = 0  # messages that lie in a box before it begins
    drained: bool = False  # it goes on until the boxes are empty

    def box(self, number: int) -> str:
        """The box of a connection."""
        return f"{self.key}-{number if self.own else number % SHARED}"


MANY = (1, 8, 32, 256)
OPERATIONS = (
    Operation("send", "Send one message", "messages", MANY, (1, 32, 256)),
    Operation("empty", "Poll an empty inbox", "polls", MANY, (32, 256)),
    Operation("ten", "Poll ten messages", "polls", MANY, (1, 32), filled=TEN),
    Operation("cycle", "Send, poll, acknowledge", "cycles", MANY, (1, 32), own=True),
    Operation("batch", "Send in batches of 100", "messages", (1, 8, 32), (8,)),
    Operation("drain", "Drain a backlog", "messages", (1, 8), (8,), own=True, drained=True),
)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What came out; latencies in ms, times in seconds."""

    server: str
    operation: str
    clients: int
    round: int
    rate: float  # a second
    done: int
    p50: float
    p99: float
    client_cpu: float  # share of one core
    server_cpu: float | None  # seconds for all that was done; None: not known
    failures: int
    failure: str


def supports(server: Server, operation: Operation) -> bool:
    """Whether the server knows the operation."""
    if server.floor is not None:
        return operation.key in ("send", "batch")
    return hasattr(server.dialect, operation.key)


def measure(
    server: Server, operation: Operation, clients: int, seconds: float, backlog: int, turn: int
) -> Measurement:
    """One measurement; ``backlog`` is what a drain drains, in all boxes together."""
    if server.floor is not None:
        result = server.floor.run(operation.key, clients, seconds)
        return _measured(server, operation, clients, turn, result, result.cpu)
    each = backlog // clients if operation.drained else operation.filled
    boxes = sorted({operation.box(number) for number in range(clients)})
    prepare(server, boxes, each, again=operation.drained)
    time.sleep(0.05)  # let it come to rest
    before = server.cpu()
    result = work(
        server, _units(server, operation), clients, LONG if operation.drained else seconds
    )
    taken = server.cpu() - before if server.roots else None
    server.trim()
    return _measured(server, operation, clients, turn, result, taken)


def work(server: Server, units: Units, clients: int, seconds: float) -> Result:
    """Run units on a server."""
    assert server.address is not None
    assert server.dialect is not None
    return client.run(server.address, server.dialect.reader, units, clients, seconds)


def prepare(server: Server, boxes: list[str], each: int, again: bool = False) -> None:
    """Have these boxes there, with so many messages in each; ``again``: put them in every time."""
    new = [box for box in (SENDER, *boxes) if box not in server.opened]
    _all(server, [server.dialect.open(box) for box in new])
    server.opened.update(new)
    filled = [box for box in boxes if again or box in new] if each else []
    _all(server, [server.dialect.fill(box, each) for box in filled])


def _all(server: Server, units: list[Unit]) -> None:
    """Do all these units, eight at a time."""
    if not units:
        return
    waiting: Iterator[Unit] = iter(units)
    result = work(server, lambda number: next(waiting, None), min(8, len(units)), LONG)
    if result.failures:
        raise Unfit(f"{server.key}: {result.failure}")


def _units(server: Server, operation: Operation) -> Units:
    make = getattr(server.dialect, operation.key)
    if not operation.drained:
        return lambda number: make(operation.box(number))
    empty: set[int] = set()

    def page(number: int) -> Unit:
        taken = yield from make(operation.box(number))
        if not taken:
            empty.add(number)
        return taken

    return lambda number: None if number in empty else page(number)


def _measured(
    server: Server,
    operation: Operation,
    clients: int,
    turn: int,
    result: Result,
    server_cpu: float | None,
) -> Measurement:
    p50, p99 = percentiles(result.latencies)
    busy = result.cpu / result.seconds if result.seconds else 0.0
    return Measurement(
        server.key, operation.key, clients, turn, result.rate(clients), result.total,
        p50 * 1000, p99 * 1000, busy, server_cpu, result.failures, result.failure,
    )  # fmt: skip


def percentiles(values: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile; of nothing: zeros."""
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    cuts = quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98]
