"""Waiting: how soon a parked poll hears of a message, and what a parked poll costs its server."""

import contextlib
import dataclasses
import itertools
import select
import socket
import time
from statistics import median

from bench import operations
from bench.client import SETTLE, Unit, now
from bench.operations import Unfit, percentiles, work
from bench.servers import Server

LOAD = 32  # connections that send while wakes are measured under load
PARK = 5  # seconds that a poll waits for its wake
STEPS = 5  # in which polls are parked
LIMIT = 30.0  # seconds for all wakes
HOLD = 30  # seconds that a parked poll waits, while it is measured


@dataclasses.dataclass(frozen=True)
class Wake:
    """How soon the poll that waited had its answer, after the send had its own; ms.

    A poll that was answered first counts as 0; ``sent`` is the median from
    the sending of the request instead.
    """

    server: str
    load: int
    samples: int
    sent: float
    p50: float
    p99: float
    missed: int  # polls that heard nothing


@dataclasses.dataclass(frozen=True)
class Parked:
    """So many polls parked at once."""

    server: str
    asked: int
    parked: int  # that had not been answered at once
    memory: float | None  # bytes of the server for each, its connection included; None: not all
    cpu: float  # share of one core that all of them took together


def possible(server: Server) -> bool:
    """Whether the server lets a poll wait: asked for a second, it takes about one."""
    if not hasattr(server.dialect, "park"):
        return False
    operations.prepare(server, ["park-0"], 0)
    once = iter([server.dialect.park("park-0", 1)])
    result = work(server, lambda number: next(once, None), 1, SETTLE)
    return not result.failures and 0.8 < result.elapsed < 5


class _Pair:
    """A poll that waits and a sender that sends once it does, over and over."""

    def __init__(self, server: Server, samples: int) -> None:
        self.dialect, self.samples = server.dialect, samples
        self.box, self.ends = "wake-0", now() + LIMIT
        self.waiting = False
        self.answered = 0  # polls
        self.woken = 0.0  # when the last of them was
        self.missed = 0
        self.after: list[float] = []
        self.since: list[float] = []

    def unit(self, number: int) -> Unit | None:
        """The next unit of a connection: the first polls, the second sends, others are load."""
        polled, sent = self.answered - self.missed, len(self.after)
        if now() > self.ends or (sent, polled)[number == 0] >= self.samples:
            return None
        if number > 1:
            return self.dialect.send(f"send-{number % operations.SHARED}")
        return (self._poll, self._send)[number]()

    def _poll(self) -> Unit:
        self.waiting = True
        unit = self.dialect.park(self.box, PARK)
        reply = yield next(unit)
        self.woken, self.waiting, self.answered = now(), False, self.answered + 1
        while True:  # the acknowledgement
            try:
                reply = yield unit.send(reply)
            except StopIteration as end:
                self.missed += not end.value
                return end.value

    def _send(self) -> Unit:
        while not self.waiting:
            if now() > self.ends:
                return 0
            yield 0.001
        yield 0.005  # on its way, it comes to be parked
        answered, sent = self.answered, now()
        yield from self.dialect.send(self.box)
        accepted = now()
        while self.answered == answered:
            yield 0.001
        self.after.append(max(0.0, self.woken - accepted))
        self.since.append(self.woken - sent)
        return 1


def wake(server: Server, samples: int, load: int) -> Wake:
    """Wake one poll so many times, or for some time, while ``load`` other connections send."""
    others = [f"send-{number}" for number in range(operations.SHARED)]
    operations.prepare(server, ["wake-0", *others], 0)
    pair = _Pair(server, samples)
    result = work(server, pair.unit, 2 + load, LIMIT)
    server.trim()
    if result.failures:
        raise Unfit(f"{server.key}, waking: {result.failure}")
    p50, p99 = (value * 1000 for value in percentiles(pair.after))
    sent = percentiles(pair.since)[0] * 1000
    return Wake(server.key, load, len(pair.after), sent, p50, p99, pair.missed)


def park(server: Server, count: int, seconds: float) -> Parked:
    """Park ``count`` polls, each at an inbox of its own, and look at the server for a while."""
    boxes = [f"park-{number}" for number in range(count)]
    operations.prepare(server, boxes, 0)
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as held:
        filled = [server.memory()]
        for step in range(STEPS):
            sockets += _hold(server, boxes[step::STEPS], held)
            filled.append(server.memory())
        before, began = server.cpu(), now()
        time.sleep(seconds)
        cpu = (server.cpu() - before) / (now() - began)
        parked = count - _answered(sockets)
    time.sleep(0.5)  # for the server to see that they are gone
    # The median: what each process needs but once shows in one or two of the steps.
    added = median(after - before for before, after in itertools.pairwise(filled))
    each = added / (count / STEPS) if parked == count else None
    return Parked(server.key, count, parked, each, cpu)


def _hold(server: Server, boxes: list[str], held: contextlib.ExitStack) -> list[socket.socket]:
    """Send a poll that waits from a connection for each box; return when they are parked."""
    sockets = []
    for box in boxes:
        made = held.enter_context(socket.create_connection(server.address, timeout=10))
        made.sendall(server.dialect.waiting(box, HOLD))
        sockets.append(made)
    time.sleep(0.5)
    return sockets


def _answered(held: list[socket.socket]) -> int:
    look = select.poll()
    for each in held:
        look.register(each, select.POLLIN)
    return len(look.poll(0))
