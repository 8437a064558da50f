"""One run from start to end: which servers, which measurements in which order, how long each.

All servers run at once and are measured in turn, round after round, so that
what is compared was measured within seconds of each other. A server that fails
is left out of what it failed at, and the report says so.
"""

import contextlib
import dataclasses
import shutil
import sqlite3
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator

import psycopg2

from bench import claims, growth, machine, operations, queues, servers, sweeps, waits
from bench.client import Gone
from bench.operations import OPERATIONS, Operation, Unfit
from bench.report import Run
from bench.servers import SERVERS, SLOW, Missing, Server, Yard

STEPS = (*(operation.key for operation in OPERATIONS), "wake", "parked", "growth", "claim", "sweep")
CLAIMED = ("taskpost", "taskpost-pg1")  # whose claims are measured
BEGAN = time.monotonic()
OVERHEAD = 0.25  # seconds that one measurement takes beside its time
FAILURES = (Gone, Unfit, OSError, RuntimeError, psycopg2.Error, sqlite3.Error)


@dataclasses.dataclass(frozen=True)
class Mode:
    """How much is measured; times in seconds."""

    name: str
    rounds: int
    budget: float  # for the operations
    shortest: float  # one measurement
    longest: float
    backlog: int  # messages that a drain drains
    wakes: int
    parked: tuple[int, float]  # how many polls, and how long they are looked at
    sizes: growth.Sizes
    grown: tuple[str, ...]  # servers that are measured growing
    growing: tuple[int, float]  # rounds, and the time of one measurement
    claims: claims.Sizes
    sweep: sweeps.Sizes


QUICK = Mode(
    "quick run", rounds=3, budget=45, shortest=0.15, longest=1, backlog=1_600, wakes=20,
    parked=(200, 1.0), sizes=growth.QUICK, grown=("taskpost",), growing=(2, 0.3),
    claims=claims.QUICK, sweep=sweeps.QUICK,
)  # fmt: skip
FULL = Mode(
    "full run", rounds=5, budget=800, shortest=0.5, longest=3, backlog=8_000, wakes=400,
    parked=(900, 5.0), sizes=growth.FULL, grown=("taskpost", "taskpost-pg1"), growing=(3, 1.0),
    claims=claims.FULL, sweep=sweeps.FULL,
)  # fmt: skip


def say(text: str) -> None:
    """Tell how far it has come, after how many seconds."""
    print(f"{time.monotonic() - BEGAN:5.0f} s  {text}", file=sys.stderr, flush=True)


class Session:
    """The servers that are up, and what is found out about them."""

    def __init__(self, yard: Yard, asked: Namespace, mode: Mode, run: Run) -> None:
        self.yard, self.asked, self.mode, self.run = yard, asked, mode, run
        self.servers: list[Server] = []
        self.rounds = asked.rounds or mode.rounds
        self.steps = asked.operations or STEPS
        self.whole = True  # until something fails

    def start(self) -> None:
        """Start the servers; what is not installed is left out, and said."""
        keys = self.asked.servers or [key for key in SERVERS if key not in SLOW]
        if self.asked.postgres_delay_ms:
            keys += [key for key in SLOW if key not in keys]
        for key in keys:
            self._add(key, lambda key=key: self.yard.start(key))
        headers = tuple(self.asked.also_header)
        for name, _, url in (also.partition("=") for also in self.asked.also):
            self._add(name, lambda name=name, url=url: servers.other(name, url, headers))
        self.run.facts = machine.facts(self.yard, self.mode.name, [*self.run.titles])

    def _add(self, key: str, start: Callable[[], Server]) -> None:
        try:
            server = start()
        except Missing as missing:
            self._leave_out(f"{key}: {missing}")
            return
        say(f"started: {server.title}")
        self.servers.append(server)
        self.run.titles[server.key] = server.title

    def measure(self) -> None:
        """Everything that was asked for."""
        self._operations()
        if {"wake", "parked"} & {*self.steps}:
            self._waiting()
        if "growth" in self.steps:
            for key in self.mode.grown:
                if key in self.run.titles:
                    self._growth(key)
        if "claim" in self.steps:
            self._claims()
        if "sweep" in self.steps and "taskpost" in self.run.titles:
            with self._leaving_out("taskpost", "sweep"):
                say("sweep")
                self.run.sweeps.append(sweeps.measure(self.yard, self.mode.sweep))
        self.run.facts.append(f"all of it took {time.monotonic() - BEGAN:.0f} s")

    def _leave_out(self, what: str) -> None:
        say(f"not measured: {what}")
        self.run.left_out.append(f"not measured: {what}")

    @contextlib.contextmanager
    def _leaving_out(self, server: str, what: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            self.whole = False
            self._leave_out(f"{self.run.titles[server]}, {what}: {error}")

    def _blocks(self) -> list[tuple[Operation, int, list[Server]]]:
        """What is measured beside each other: an operation, how many clients, which servers."""
        only = [int(number) for number in self.asked.clients or ()]
        return [
            (operation, clients, [s for s in self.servers if operations.supports(s, operation)])
            for operation in OPERATIONS
            if operation.key in self.steps
            for clients in only or (operation.quick if self.mode is QUICK else operation.clients)
        ]

    def _operations(self) -> None:
        blocks = self._blocks()
        count = sum(len(among) for _, _, among in blocks)
        fitting = self.mode.budget / max(count * self.rounds, 1) - OVERHEAD
        fitting = min(self.mode.longest, max(self.mode.shortest, fitting))
        seconds, began, turn = self.asked.seconds or fitting, time.monotonic(), 0
        while count and turn < self.rounds and self._in_time(turn, time.monotonic() - began):
            for operation, clients, among in blocks:
                say(f"round {turn + 1} of {self.rounds}: {operation.key}, {clients} clients")
                for server in _rotated(among, turn):
                    self._one(server, operation, clients, seconds, turn)
            turn += 1
        if count:
            self.run.facts.append(f"{turn} rounds of {count} measurements of {seconds:.2f} s")

    def _in_time(self, turn: int, took: float) -> bool:
        """Whether there is time for another round, after ``turn`` of them; always for one."""
        chosen = self.asked.rounds or self.asked.seconds
        return bool(chosen or not turn or took * (turn + 1) / turn <= self.mode.budget * 1.25)

    def _one(
        self, server: Server, operation: Operation, clients: int, seconds: float, turn: int
    ) -> None:
        backlog = self.mode.backlog
        with self._leaving_out(server.key, f"{operation.key}, {clients} clients"):
            found = operations.measure(server, operation, clients, seconds, backlog, turn)
            self.run.measurements.append(found)

    def _waiting(self) -> None:
        for server in self.servers:
            with self._leaving_out(server.key, "waiting"):
                if not waits.possible(server):
                    continue
                say(f"waiting: {server.title}")
                if "wake" in self.steps:
                    for load in (0, waits.LOAD):
                        self.run.wakes.append(waits.wake(server, self.mode.wakes, load))
                if "parked" in self.steps:
                    self._park(server)

    def _park(self, server: Server) -> None:
        # A fresh one, where we can: one that has worked has memory left over from that.
        fresh = self.yard.start(server.key) if server.key in SERVERS else server
        if fresh.roots:  # of others we see neither memory nor CPU
            self.run.parked.append(waits.park(fresh, *self.mode.parked))

    def _growth(self, key: str) -> None:
        rounds, seconds = self.mode.growing
        with self._leaving_out(key, "growth"):
            for found in growth.measure(self.yard, key, self.mode.sizes, rounds, seconds):
                say(f"growth, {key}: {found.size} {found.kind}, {found.operation}")
                self.run.growth.append(found)

    def _claims(self) -> None:
        """Of Taskpost what is up, and beside it what claims in other ways."""
        makes = [queues.inbox(key) for key in CLAIMED if key in self.run.titles]
        if not makes:
            return
        if "taskpost-pg1" in self.run.titles:
            makes.append(queues.QueueTable)
        if shutil.which("beanstalkd"):
            makes.append(queues.beanstalkd)
        else:
            self._leave_out("beanstalkd, claim: it is not installed")
        sizes, rounds = self.mode.claims, self.asked.rounds or self.mode.claims.rounds
        try:
            for found in claims.measure(
                self.yard, makes, sizes, self.asked.clients or sizes.clients, rounds
            ):
                say(f"claim, {found.server}: {found.held} in flight, {found.clients} claimers")
                self.run.claims.append(found)
        except FAILURES as error:
            self.whole = False
            self._leave_out(f"claim: {error}")


def _rotated(among: list[Server], turn: int) -> Iterator[Server]:
    """The servers, each round beginning with another, so that none always comes first."""
    for place in range(len(among)):
        yield among[(place + turn) % len(among)]
