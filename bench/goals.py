"""The goals of the project, held against what a run has found."""

from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple

from bench import claims
from bench.report import Run, number, table


class Goal(NamedTuple):
    """One goal: what is found must be ``least`` or more, or ``most`` or less."""

    text: str
    find: Callable[[Run], float | None]
    least: float | None = None
    most: float | None = None

    def met(self, found: float) -> bool:
        """Whether that is enough."""
        enough = self.least is None or found >= self.least
        return enough and (self.most is None or found <= self.most)


def _times(one: str, other: str, operation: str, clients: int) -> Callable[[Run], float | None]:
    return lambda run: _median(run.ratios(one, other, operation, clients))


def _p99(operation: str, clients: int) -> Callable[[Run], float | None]:
    return lambda run: _median(m.p99 for m in run.of("taskpost", operation, clients))


def _wake(server: str, loaded: bool) -> Callable[[Run], float | None]:
    return lambda run: _median(
        w.p99 for w in run.wakes if w.server == server and bool(w.load) == loaded
    )


def _grown(kind: str) -> Callable[[Run], float | None]:
    def find(run: Run) -> float | None:
        found = [median(g.ratios) for g in run.growth
                 if (g.server, g.kind, g.operation) == ("taskpost", kind, "ten")]  # fmt: skip
        return min(found, default=None)

    return find


def _flat(server: str) -> Callable[[Run], float | None]:
    """The worst rate of a grown queue to that of a short one, each the median of its rounds."""

    def find(run: Run) -> float | None:
        of = claims.cells([c for c in run.claims if c.server == server])
        return min((median(c.ratio for c in found) for found in of), default=None)

    return find


def _dearer(server: str) -> Callable[[Run], float | None]:
    """The worst CPU of a claim from a grown queue to that from a short one."""

    def find(run: Run) -> float | None:
        of = claims.cells([c for c in run.claims if c.server == server])
        ratios = [claims.dearer(found) for found in of]
        return max((ratio for ratio in ratios if ratio is not None), default=None)

    return find


def _sweep(run: Run) -> float | None:
    return _median(s.slower for s in run.sweeps)


def _parked(field: str) -> Callable[[Run], float | None]:
    return lambda run: _median(getattr(p, field) for p in run.parked if p.server == "taskpost")


def _batch(run: Run) -> float | None:
    rates = [run.rate("taskpost", "batch", clients) for clients in (1, 8, 32)]
    return max((rate for rate in rates if rate is not None), default=None)


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def polling(run: Run) -> float | None:
    """The share of two cores that 10,000 agents take that look every 3 s and find nothing."""
    cost = run.cost("taskpost", "empty", 256)
    return None if cost is None else 10_000 / 3 * cost / 2e6


GOALS = (
    Goal("send, 32 clients: times Parley", _times("taskpost", "parley", "send", 32), 8),
    Goal("send, 32 clients: times a Flask hello on gthread, 2 processes of 8 threads",
         _times("taskpost", "flask-gthread", "send", 32), 1.9),
    Goal("send-poll-ack cycle, 32 clients: times Parley",
         _times("taskpost", "parley", "cycle", 32), 12),
    Goal("send-poll-ack cycle, 32 clients: Redis Streams is how many times as fast",
         _times("redis", "taskpost", "cycle", 32), None, 2),
    Goal("send, 32 clients: p99 in ms", _p99("send", 32), None, 10),
    Goal("poll of ten: from few to most unread, worst ratio", _grown("unread"), 0.85),
    Goal("poll of ten: from an empty to the biggest table, worst ratio", _grown("rows"), 0.85),
    Goal("wake, idle: p99 in ms", _wake("taskpost", False), None, 2),
    Goal("wake, others sending: p99 in ms", _wake("taskpost", True), None, 8),
    Goal("wake, two processes on PostgreSQL, idle: p99 in ms",
         _wake("taskpost-pg2", False), None, 5),
    Goal("a parked wait: bytes", _parked("memory"), None, 4096),
    Goal("all parked waits: share of one core", _parked("cpu"), None, 0.01),
    Goal("batches of 100: messages a second", _batch, 30_000),
    Goal("claim, SQLite: from a short queue to a long one and much in flight, worst ratio",
         _flat("taskpost"), 0.85),
    Goal("claim, PostgreSQL: from a short queue to a long one and much in flight, worst ratio",
         _flat("taskpost-pg1"), 0.85),
    Goal("claim, SQLite: CPU of a long queue to that of a short one, worst ratio",
         _dearer("taskpost"), None, 1.2),
    Goal("claim, PostgreSQL: CPU of a long queue to that of a short one, worst ratio",
         _dearer("taskpost-pg1"), None, 1.2),
    Goal("sweep: p99 of sends during / before", _sweep, None, 2),
    Goal("PostgreSQL, two processes, send, 32 clients: times Parley on SQLite",
         _times("taskpost-pg2", "parley", "send", 32), 7),
)  # fmt: skip


def text(run: Run) -> str:
    """A table of all goals that this run can judge, and what it says of idle polling; Markdown."""
    rows = []
    for goal in GOALS:
        found = goal.find(run)
        if found is not None:
            needed = f"at least {goal.least:,g}" if goal.most is None else f"at most {goal.most:,g}"
            rows.append([goal.text, needed, number(found), "yes" if goal.met(found) else "no"])
    parts = ["### Goals", table(["goal", "needed", "found", "met"], rows)] if rows else []
    share = polling(run)
    if share is not None:
        parts.append(
            "10,000 agents that poll every 3 seconds and find nothing would take"
            f" {share:.0%} of two cores: 3,333 polls a second at the server's CPU time for each,"
            " measured with 256 clients."
        )
    return "\n\n".join(parts) + "\n"
