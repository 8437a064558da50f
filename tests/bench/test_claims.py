"""Claims: every contender claims each message once, and what grew stands beside what did not."""

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from bench import claims, goals, report
from bench.claims import Claimed, Cost
from bench.client import Result
from bench.dialects import Taskpost
from bench.operations import Unfit
from bench.queues import Inbox, QueueTable
from bench.report import Run
from bench.servers import Yard
from bench.wire import Reply, beanstalk


class Counted:
    """A queue that only counts; each claim takes a second of CPU and one of time."""

    key = title = "counted"

    def __init__(self) -> None:
        self.ready = self.held = self.settled = 0
        self.spent = 0.0
        self.seen: list[tuple[int, int, int]] = []

    def fill(self, count: int) -> None:
        self.ready += count

    def hold(self, count: int) -> None:
        self.ready -= count
        self.held += count

    def settle(self) -> None:
        self.settled += 1

    def claim(self, clients: int, count: int) -> Result:
        self.seen.append((self.ready, self.held, clients))
        taken = min(count, self.ready)
        self.ready -= taken
        self.spent += taken
        return Result(total=taken, elapsed=float(taken))

    def cpu(self) -> float:
        return self.spent


@pytest.fixture
def yard() -> Iterator[Yard]:
    """A place for servers."""
    made = Yard(None, "no-parley", 0)
    yield made
    made.close()


def claimed(ratio: float, dearer: float, clients: int = 1) -> Claimed:
    """A round of Taskpost at 100,000 messages."""
    grown, control = Cost(1000 * ratio, 200 * dearer), Cost(1000, 200)
    return Claimed("taskpost", "Taskpost", 100_000, 50_000, clients, 0, grown, control)


def test_a_queue_is_as_long_at_every_measurement(yard: Yard) -> None:
    made = []

    def make(_: Yard) -> Counted:
        made.append(Counted())
        return made[-1]

    found = list(claims.measure(yard, [make], claims.Sizes(100, 1000, 500, 60, 2), (1, 8), 2))
    grown, control = made
    assert {(c.held, c.clients, c.round) for c in found} == {
        (held, clients, turn) for held in (0, 500) for clients in (1, 8) for turn in (0, 1)
    }
    assert {ready for ready, _, _ in grown.seen} == {1000}
    assert {(ready, held) for ready, held, _ in control.seen} == {(100, 0)}
    assert {held for _, held, _ in grown.seen} == {0, 500}
    assert all(c.ratio == 1 and c.grown.cpu == 1e6 for c in found)
    assert claims.dearer(found) == 1


def test_a_queue_that_runs_dry_is_not_measured(yard: Yard) -> None:
    with pytest.raises(Unfit, match="100 messages came, not 101"):
        list(
            claims.measure(yard, [lambda _: Counted()], claims.Sizes(100, 100, 0, 101, 1), (1,), 1)
        )


def test_taskpost_is_done_with_the_message_before() -> None:
    server = SimpleNamespace(key="taskpost", title="Taskpost", dialect=Taskpost("a"))
    queue = Inbox(server)  # type: ignore[arg-type]
    for sent, came in ((b'"ack": []', b"r1"), (b'"ack": ["r1"]', b"r2")):
        unit = queue.unit(0)
        request = next(unit)
        assert request.startswith(b"POST /agents/claimed/inbox/claim ")
        assert sent in request
        with pytest.raises(StopIteration) as end:
            unit.send(Reply(200, b'{"messages": [{"receipt": "%s"}]}' % came, 0))
        assert end.value.value == 1
    assert queue.receipts[0] == ["r2"]


def test_the_queue_table_gives_each_message_once_in_order(yard: Yard) -> None:
    table = QueueTable(yard)
    table.fill(30)
    table.hold(5)
    result = table.claim(4, 20)
    assert (result.total, result.failures) == (20, 0)
    cursor = table.cursors[0]
    cursor.execute("SELECT msg_id, read_ct, vt > now() FROM q ORDER BY msg_id")
    left = cursor.fetchall()
    cursor.execute("SELECT msg_id, read_ct FROM a ORDER BY msg_id")
    archived = cursor.fetchall()
    assert len(left) + len(archived) == 30
    assert all(count == 1 for _, count in archived)
    taken = {number for number, _ in archived} | {n for n, count, hidden in left if hidden}
    assert taken == set(range(1, 26))
    assert {n for n, count, hidden in left if not hidden and count == 0} == set(range(26, 31))


def test_beanstalkd_gives_the_job_that_was_reserved() -> None:
    whole = b"RESERVED 17 4\r\n\r\n\r\n\r\n"
    assert beanstalk(whole) == Reply(200, b"17", len(whole))
    assert beanstalk(whole[:18]) == len(whole)
    assert beanstalk(b"DELET") == 6
    assert beanstalk(b"DELETED\r\n") == Reply(200, b"DELETED", 9)
    for refusal in (b"TIMED_OUT\r\n", b"NOT_FOUND\r\n"):
        found = beanstalk(refusal)
        assert isinstance(found, Reply)
        assert found.status == 500


def test_claims_are_judged_by_their_worst_size() -> None:
    run = Run("taskpost", {"taskpost": "Taskpost"})
    run.claims += [claimed(1.0, 1.0), claimed(0.9, 1.1), claimed(0.95, 1.0), claimed(0.7, 1.3, 8)]
    rows = [line.split() for line in goals.text(run).splitlines() if "claim, SQLite" in line]
    assert [row[-4:-1] for row in rows] == [["0.70", "|", "no"], ["1.30", "|", "no"]]
    assert "0.95 (0.90 to 1.00)" in report.text(run)
    assert claims.dearer([claimed(1.0, 1.0), claimed(1.0, 2.0)]) == 1.5
    nothing = Cost(5000, 20)
    assert claims.dearer([dataclasses.replace(claimed(1, 1), control=nothing)]) is None
    assert "claim, PostgreSQL" not in goals.text(run), "what was not measured is not judged"
