"""The command: ``python -m bench``, which ``make bench`` runs. It starts, measures, reports, stops.

All servers run at once and are measured in turn, round after round, so that
what is compared was measured within seconds of each other.
"""

import argparse
import dataclasses
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import goals, growth, machine, operations, report, servers, waits
from bench.client import Gone
from bench.operations import OPERATIONS, Operation, Unfit
from bench.report import Run
from bench.servers import SERVERS, SLOW, Missing, Server, Yard

DOCUMENT = servers.PROJECT / "docs" / "performance.md"
STEPS = (*(operation.key for operation in OPERATIONS), "wake", "parked", "growth")
REFERENCE = "taskpost"


@dataclasses.dataclass(frozen=True)
class Mode:
    """How much is measured."""

    name: str
    rounds: int
    budget: float  # seconds for the operations
    window: tuple[float, float]  # shortest and longest time of one measurement, seconds
    backlog: int
    wakes: int
    parked: int
    sizes: growth.Sizes
    grown: tuple[str, ...]  # servers that are measured growing


QUICK = Mode("quick run", 3, 85, (0.2, 1), 1_600, 40, 200, growth.QUICK, ("taskpost",))
FULL = Mode(
    "full run", 5, 720, (0.5, 3), 8_000, 400, 900, growth.FULL, ("taskpost", "taskpost-pg1")
)
OVERHEAD = 0.2  # seconds that one measurement takes beside its time


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="under three minutes, and rougher")
    add("--servers", type=_list, help=f"only these, of: {', '.join(SERVERS)}")
    add("--operations", type=_list, help=f"only these, of: {', '.join(STEPS)}")
    add("--clients", type=_list, help="only these numbers of clients")
    add("--rounds", type=int, help="how often everything is measured")
    add("--seconds", type=float, help="how long one measurement takes")
    add(
        "--also",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="a running server that speaks the original API; may be repeated",
    )
    add(
        "--also-header",
        action="append",
        default=[],
        metavar="LINE",
        help="a header for those servers, such as 'Authorization: Bearer ...'",
    )
    add(
        "--postgres-delay-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="also measure with PostgreSQL so far away, each way",
    )
    add("--parley", default=".venv-parley/bin/parley", help="the command of Parley")
    add("--folder", help="where databases are put; not on a tmpfs")
    add(
        "--write",
        action=argparse.BooleanOptionalAction,
        help=f"put the report into {DOCUMENT.name}; a run of everything does so by itself",
    )
    return parser.parse_args()  # fmt: skip


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def main() -> int:
    """Run the benchmark; 0 when everything that was asked for was measured."""
    asked = arguments()
    mode = QUICK if asked.quick else FULL
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it came ignored
    yard = Yard(asked.folder, str(Path(asked.parley).absolute()), asked.postgres_delay_ms)
    run, whole = Run(REFERENCE), False
    try:
        bench = Bench(yard, asked, mode, run)
        bench.start()
        bench.measure()
        whole = True
    except KeyboardInterrupt:
        say("interrupted; this is what was measured")
    finally:
        yard.close()
    found = report.text(run) + "\n" + goals.text(run)
    print(f"\n{found}")
    chosen = asked.servers or asked.operations or asked.clients
    if whole and (asked.write or (asked.write is None and not chosen)):
        DOCUMENT.write_text(report.placed(DOCUMENT.read_text(), found))
        say(f"written to {DOCUMENT.relative_to(servers.PROJECT)}")
    return 0 if whole else 130


def say(text: str) -> None:
    """Tell how far it has come."""
    print(text, file=sys.stderr, flush=True)


class Bench:
    """One run: the servers that are up, and what is found out about them."""

    def __init__(self, yard: Yard, asked: argparse.Namespace, mode: Mode, run: Run) -> None:
        self.yard, self.asked, self.mode, self.run = yard, asked, mode, run
        self.servers: list[Server] = []
        self.rounds = asked.rounds or mode.rounds
        self.steps = asked.operations or STEPS
        if unknown := {*self.steps} - {*STEPS} | {*(asked.servers or ())} - {*SERVERS}:
            sys.exit(f"bench: not known: {', '.join(sorted(unknown))}")

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
            say(f"left out: {key}: {missing}")
            self.run.left_out.append(f"left out: {key}: {missing}")
            return
        say(f"started: {server.title}")
        self.servers.append(server)
        self.run.titles[server.key] = server.title

    def measure(self) -> None:
        """Everything that was asked for."""
        began = time.monotonic()
        self._operations()
        waiting = [
            s for s in self.servers if {"wake", "parked"} & {*self.steps} and waits.possible(s)
        ]
        if "wake" in self.steps:
            self._wakes(waiting)
        if "parked" in self.steps:
            self._parked(waiting)
        if "growth" in self.steps:
            self._growth()
        self.run.facts.append(
            f"{self.rounds} rounds; the whole run took {time.monotonic() - began:.0f} s"
        )

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
        count = sum(len(block[2]) for block in blocks) * self.rounds
        least, most = self.mode.window
        fitting = self.mode.budget / max(count, 1) - OVERHEAD
        seconds = self.asked.seconds or min(most, max(least, fitting))
        self.run.facts.append(f"{seconds:.2f} s for each of {count} measurements")
        for turn in range(self.rounds):
            for operation, clients, among in blocks:
                say(f"round {turn + 1} of {self.rounds}: {operation.key}, {clients} clients")
                for server in _rotated(among, turn):
                    self._one(server, operation, clients, seconds, turn)

    def _one(
        self, server: Server, operation: Operation, clients: int, seconds: float, turn: int
    ) -> None:
        backlog = self.mode.backlog
        try:
            found = operations.measure(server, operation, clients, seconds, backlog, turn)
        except (Gone, Unfit) as error:
            self._gave_up(server, f"{operation.key}, {clients} clients: {error}")
        else:
            self.run.measurements.append(found)

    def _gave_up(self, server: Server, why: str) -> None:
        say(f"{server.title}: {why}")
        self.run.left_out.append(f"not measured: {server.title}, {why}")

    def _wakes(self, waiting: list[Server]) -> None:
        for server in waiting:
            say(f"wakes: {server.title}")
            for load in (0, waits.LOAD):
                try:
                    self.run.wakes.append(waits.wake(server, self.mode.wakes, load))
                except (Gone, Unfit) as error:
                    self._gave_up(server, str(error))

    def _parked(self, waiting: list[Server]) -> None:
        for server in waiting:
            say(f"parked waits: {server.title}")
            # A fresh one, where we can: what has worked has memory left over from that.
            fresh = self.yard.start(server.key) if server.key in SERVERS else server
            if fresh.roots:  # of others we see neither memory nor CPU
                self.run.parked.append(waits.park(fresh, self.mode.parked, 3.0))

    def _growth(self) -> None:
        seconds, rounds = (0.3, 2) if self.mode is QUICK else (1.0, 3)
        for key in self.mode.grown:
            if key not in self.run.titles:
                continue
            for found in growth.measure(self.yard, key, self.mode.sizes, rounds, seconds):
                say(f"growth, {key}: {found.size} {found.kind}, {found.operation}")
                self.run.growth.append(found)


def _rotated(among: list[Server], turn: int) -> Iterator[Server]:
    """The servers, each round beginning with another, so that none always comes first."""
    for place in range(len(among)):
        yield among[(place + turn) % len(among)]


if __name__ == "__main__":
    sys.exit(main())
