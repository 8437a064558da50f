"""The report: medians, ratios pair by pair, and the tables that they go into.

Nothing here measures anything or knows a server by name.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from statistics import mean, median

from bench import claims
from bench.claims import Claimed
from bench.growth import Growth
from bench.operations import OPERATIONS, Measurement, Operation
from bench.sweeps import Sweep
from bench.waits import Parked, Wake

BEGIN = "<!-- bench: begin -->"
END = "<!-- bench: end -->"
BOUND = 0.9  # of a core: from here on the client may be what is slow
GROWN = {
    "unread": "unread messages in one inbox",
    "inboxes": "inboxes in use",
    "rows": "rows of old mail in the table",
}


@dataclasses.dataclass
class Run:
    """All that one run has found out."""

    reference: str  # the server that all others are compared with
    titles: dict[str, str] = dataclasses.field(default_factory=dict)
    facts: list[str] = dataclasses.field(default_factory=list)  # machine, versions, date
    left_out: list[str] = dataclasses.field(default_factory=list)
    measurements: list[Measurement] = dataclasses.field(default_factory=list)
    wakes: list[Wake] = dataclasses.field(default_factory=list)
    parked: list[Parked] = dataclasses.field(default_factory=list)
    growth: list[Growth] = dataclasses.field(default_factory=list)
    claims: list[Claimed] = dataclasses.field(default_factory=list)
    sweeps: list[Sweep] = dataclasses.field(default_factory=list)

    def of(self, server: str, operation: str, clients: int) -> list[Measurement]:
        """The measurements of one cell of the tables, one a round."""
        wanted = (server, operation, clients)
        return [m for m in self.measurements if (m.server, m.operation, m.clients) == wanted]

    def rate(self, server: str, operation: str, clients: int) -> float | None:
        """The median rate of a cell."""
        found = self.of(server, operation, clients)
        return median(m.rate for m in found) if found else None

    def ratios(self, one: str, other: str, operation: str, clients: int) -> list[float]:
        """How many times as fast ``one`` was as ``other``, in each round that has both."""
        rates = {m.round: m.rate for m in self.of(other, operation, clients)}
        return [
            m.rate / rates[m.round] for m in self.of(one, operation, clients) if rates.get(m.round)
        ]

    def cost(self, server: str, operation: str, clients: int) -> float | None:
        """Microseconds of the server's CPU for each thing done, over all rounds."""
        found = self.of(server, operation, clients)
        done = sum(m.done for m in found)
        if not done or any(m.server_cpu is None for m in found):
            return None
        return sum(m.server_cpu or 0.0 for m in found) / done * 1e6


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table that can be read as it is: the first column left, others right."""
    lines = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(line[n]) for line in lines) for n in range(len(heads))]
    rule = [("-" * width) + ("" if not n else ":") for n, width in enumerate(widths)]
    rule = [rule[0], *[mark[1:] for mark in rule[1:]]]
    shown = [_padded(line, widths) for line in lines]
    return "\n".join([shown[0], "| " + " | ".join(rule) + " |", *shown[1:]])


def _padded(line: list[str], widths: list[int]) -> str:
    cells = [line[0].ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
    return "| " + " | ".join(cells) + " |"


def number(value: float | None) -> str:
    """Three significant digits at least, thousands apart; a dash for what is not known."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values: Sequence[float]) -> str:
    """The median, and the smallest and largest in brackets."""
    if not values:
        return "-"
    middle = number(median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({number(min(values))} to {number(max(values))})"


def text(run: Run) -> str:
    """The whole report, as Markdown."""
    parts = ["\n".join(f"- {fact}" for fact in [*run.facts, *run.left_out])]
    parts += _summary(run)
    for operation in OPERATIONS:
        parts += _detail(run, operation)
    parts += _waking(run) + _parking(run) + _growing(run)
    parts += _claiming(run) + _sweeping(run) + _failures(run)
    return "\n\n".join(parts) + "\n"


def _servers(run: Run, operation: str) -> list[str]:
    measured = {m.server for m in run.measurements if m.operation == operation}
    return [server for server in run.titles if server in measured]


def _clients(run: Run, operation: str) -> list[int]:
    return sorted({m.clients for m in run.measurements if m.operation == operation})


def _summary(run: Run) -> list[str]:
    """One line a server: the rates at 32 clients, or at what is nearest to them."""
    columns = []
    for operation in OPERATIONS:
        if clients := _clients(run, operation.key):
            columns.append((operation, min(clients, key=lambda n: abs(n - 32))))
    if not columns:
        return []
    heads = ["a second", *[f"{operation.key}, {clients}" for operation, clients in columns]]
    rows = [
        [title, *[number(run.rate(server, op.key, clients)) for op, clients in columns]]
        for server, title in run.titles.items()
    ]
    kinds = "; ".join(f"{op.key}: {op.title.lower()}, {op.counted} a second" for op, _ in columns)
    return ["### At a glance", f"Medians. The number is that of clients. {kinds}.",
            table(heads, rows)]  # fmt: skip


def _detail(run: Run, operation: Operation) -> list[str]:
    key = operation.key
    rows = [
        _row(run, server, key, clients)
        for clients in _clients(run, key)
        for server in _servers(run, key)
        if run.of(server, key, clients)
    ]
    if not rows:
        return []
    heads = ["server", "clients", f"{operation.counted} a second", "p50 ms", "p99 ms",
             "server us each", "client CPU", f"times: {run.reference} / it"]  # fmt: skip
    return [f"### {operation.title}", table(heads, rows)]


def _row(run: Run, server: str, key: str, clients: int) -> list[str]:
    found = run.of(server, key, clients)
    busy = median(m.client_cpu for m in found)
    return [
        run.titles[server],
        str(clients),
        spread([m.rate for m in found]),
        number(median(m.p50 for m in found)),
        number(median(m.p99 for m in found)),
        number(run.cost(server, key, clients)),
        f"{busy:.0%}{' !' if busy >= BOUND else ''}",
        spread(run.ratios(run.reference, server, key, clients)) if server != run.reference else "",
    ]


def _waking(run: Run) -> list[str]:
    if not run.wakes:
        return []
    heads = [
        "server",
        "others sending",
        "wakes",
        "p50 ms",
        "p99 ms",
        "p50 ms from sending",
        "missed",
    ]
    rows = []
    for w in run.wakes:
        times = [number(w.p50), number(w.p99), number(w.sent)]
        rows.append([run.titles[w.server], str(w.load), str(w.samples), *times, str(w.missed)])
    intro = (
        "From the answer to a send to the answer of the poll that was waiting for it; 0 where the"
        " poll had its answer first."
    )
    return ["### Waking", intro, table(heads, rows)]


def _parking(run: Run) -> list[str]:
    if not run.parked:
        return []
    heads = ["server", "polls sent", "parked", "KiB each", "CPU of one core, all"]
    rows = []
    for p in run.parked:
        each = number(None if p.memory is None else p.memory / 1024)
        rows.append([run.titles[p.server], str(p.asked), str(p.parked), each, f"{p.cpu:.1%}"])
    intro = (
        "Polls parked at once, each at an inbox and on a connection of its own; the others were"
        " answered at once."
    )
    return ["### Parked waits", intro, table(heads, rows)]


def _growing(run: Run) -> list[str]:
    if not run.growth:
        return []
    rows = [
        [run.titles[g.server], f"{g.size:,} {GROWN[g.kind]}", g.operation, number(g.rate),
         spread(g.ratios)]
        for g in run.growth
    ]  # fmt: skip
    heads = ["server", "grown to", "operation", "a second", "times: grown / not grown"]
    intro = (
        "Two servers of a kind, measured in turn with 32 clients: one has grown, the other has"
        " not. 1 means that growth costs nothing."
    )
    return ["### Growth", intro, table(heads, rows)]


def _claiming(run: Run) -> list[str]:
    rows = []
    for found in claims.cells(run.claims):
        one, grown, short = found[0], [c.grown for c in found], [c.control for c in found]
        rows.append([
            one.title, f"{one.backlog:,}", f"{one.held:,}", str(one.clients),
            number(median(c.rate for c in short)), number(median(c.rate for c in grown)),
            spread([c.ratio for c in found]),
            number(mean(c.cpu for c in short)), number(mean(c.cpu for c in grown)),
            number(claims.dearer(found)),
        ])  # fmt: skip
    if not rows:
        return []
    heads = ["queue", "backlog", "in flight", "claimers", "a second, short", "a second, grown",
             "times: grown / short", "us each, short", "us each, grown",
             "us: grown / short"]  # fmt: skip
    intro = (
        "Claims of one message, each with the acknowledgement of the one before. Beside the queue"
        " with this backlog and so much in flight is measured, in turn, a short one of about 1,000,"
        " with nothing in flight. us: the server's CPU, its database's included. 1 means flat."
    )
    return ["### Claims", intro, table(heads, rows)]


def _sweeping(run: Run) -> list[str]:
    if not run.sweeps:
        return []
    rows = []
    for s in run.sweeps:
        for what, sends in (("before", s.before), ("during", s.during)):
            rows.append([what, *map(number, (sends.rate, sends.p50, sends.p99))])
    s = run.sweeps[-1]
    intro = (
        f"Sends of 8 clients to a SQLite file with {s.rows:,} rows of old mail, before the sweeper"
        f" removes them and while it does: {s.removed:,} in {s.seconds:.0f} s,"
        f" {number(s.removed / s.seconds)} a second. p99 during / before: {number(s.slower)}."
    )
    return ["### Sweeper", intro, table(["sends", "a second", "p50 ms", "p99 ms"], rows)]


def _failures(run: Run) -> list[str]:
    failed = [m for m in run.measurements if m.failures]
    lines = [
        f"- {run.titles[m.server]}, {m.operation}, {m.clients} clients, round {m.round + 1}:"
        f" {m.failures} requests failed, the first with `{m.failure}`"
        for m in failed
    ]
    return ["### Requests that failed", "\n".join(lines)] if lines else []


def placed(document: str, section: str) -> str:
    """The document with ``section`` between its markers; raises ValueError without markers."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} and {END}")
    return f"{before}{begin}\n\n{section.strip()}\n\n{end}{after}"
