"""What a claim costs: with a short queue and a long one, with much in flight, alone and crowded.

Of each contender two start together. One grows, the other keeps a short queue, and both are
measured in turn, as in ``bench.growth``. A claim takes one message and is done with the one before.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from bench.client import Result
from bench.operations import Unfit
from bench.servers import Yard

SEEN = 100.0  # microseconds of CPU: a claim that takes less is not compared by them
WARM = 50  # claims that are not counted, before the first that are


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How far to go."""

    few: int  # messages that wait in the short queue
    backlog: int  # and in the long one
    held: int  # messages that are in flight beside them
    claims: int  # in one round; fewer than ``few``
    rounds: int  # many short ones: what else the machine does is spread over all
    clients: tuple[int, ...] = (1, 8)


QUICK = Sizes(1_000, 20_000, 5_000, 100, 3)
FULL = Sizes(1_000, 100_000, 50_000, 200, 12)


class Contender(Protocol):
    """One queue on one server."""

    key: str
    title: str

    def fill(self, count: int) -> None:
        """Put so many messages into the queue, some hundreds at a time."""

    def hold(self, count: int) -> None:
        """Claim so many of the oldest and never be done with them."""

    def settle(self) -> None:
        """Have done now what the database would sooner or later do by itself."""

    def claim(self, clients: int, count: int) -> Result:
        """Let ``clients`` claim ``count`` messages, one by one."""

    def cpu(self) -> float:
        """Seconds of CPU that the server has taken, its database's included."""


Make = Callable[[Yard], Contender]


@dataclasses.dataclass(frozen=True)
class Cost:
    """Claims a second, and microseconds of the server's CPU for each."""

    rate: float
    cpu: float


@dataclasses.dataclass(frozen=True)
class Claimed:
    """One round of one contender: what grew, and beside it what did not."""

    server: str
    title: str
    backlog: int
    held: int
    clients: int
    round: int
    grown: Cost
    control: Cost

    @property
    def ratio(self) -> float:
        """How many times as fast as with a short queue; 1 is flat."""
        return self.grown.rate / self.control.rate


def dearer(found: Sequence[Claimed]) -> float | None:
    """How many times the CPU of a short queue, over all rounds; None where it was hardly any.

    The kernel counts in hundredths of a second: one round alone would say little.
    """
    short = sum(c.control.cpu for c in found)
    return sum(c.grown.cpu for c in found) / short if short >= len(found) * SEEN else None


def cells(claims: Sequence[Claimed]) -> list[list[Claimed]]:
    """The rounds of each contender at each size, with each number of claimers, in order."""
    found: dict[tuple[int, int, str], list[Claimed]] = {}
    for c in claims:
        found.setdefault((c.held, c.clients, c.server), []).append(c)
    return list(found.values())


def measure(
    yard: Yard, makes: Sequence[Make], sizes: Sizes, clients: Sequence[int], rounds: int
) -> Iterator[Claimed]:
    """Every contender at every size, in turn."""
    pairs = [(make(yard), make(yard)) for make in makes]
    for grown, control in pairs:
        control.fill(sizes.few)
        grown.fill(sizes.backlog)
        for one in (grown, control):
            _claim(one, 1, WARM)
    yield from _stage(pairs, sizes, 0, clients, rounds)
    for grown, _ in pairs:
        grown.fill(sizes.held)
        grown.hold(sizes.held)
    yield from _stage(pairs, sizes, sizes.held, clients, rounds)


def _stage(
    pairs: list[tuple[Contender, Contender]],
    sizes: Sizes,
    held: int,
    clients: Sequence[int],
    rounds: int,
) -> Iterator[Claimed]:
    for pair in pairs:
        for one in pair:
            one.settle()
    for number in clients:
        for turn in range(rounds):
            for place in range(len(pairs)):
                grown, control = pairs[(place + turn) % len(pairs)]
                order = (grown, control) if turn % 2 else (control, grown)
                cost = {id(one): _claim(one, number, sizes.claims) for one in order}
                yield Claimed(
                    grown.key, grown.title, sizes.backlog, held, number, turn,
                    cost[id(grown)], cost[id(control)],
                )  # fmt: skip


def _claim(one: Contender, clients: int, count: int) -> Cost:
    """Claim so many, and put as many in again."""
    before = one.cpu()
    result = one.claim(clients, count)
    taken = one.cpu() - before
    if result.failures or result.total != count:
        failed = result.failure or f"{result.total} messages came, not {count}"
        raise Unfit(f"{one.title}, claim: {failed}")
    one.fill(count)
    return Cost(count / result.elapsed, taken / count * 1e6)
