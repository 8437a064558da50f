"""Waits that another process ends: two workers, and two servers as on two hosts, on one database.

Losing a wake costs time, never a message. The bounds are generous; what was
measured is printed.
"""

import contextlib
import random
import resource
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psycopg2
import pytest

from tests.acceptance.asking import (
    PATIENCE,
    Asked,
    answered,
    asked,
    client_of_each_worker,
    is_watched,
    processor_seconds,
    taken_in,
    until,
)
from tests.acceptance.clients import Client
from tests.acceptance.server import Server, running

MOST = 5.0  # seconds until a wake that was lost must have been made good


class Hosts(NamedTuple):
    """Two services on one database: their processes share nothing else."""

    here: Server
    there: Server
    database: str

    @property
    def times(self) -> int:
        """How often to measure: SQLite has no line on which processes tell each other."""
        return 20 if self.database.startswith("sqlite") else 100


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def hosts(request: pytest.FixtureRequest, databases: Callable[[str], str]) -> Iterator[Hosts]:
    """For the tests of this file, each with agents of its own."""
    database = databases(request.param)
    with running(database) as here, running(database) as there:
        workers = here.workers(), there.workers()
        yield Hosts(here, there, database)
        assert (here.workers(), there.workers()) == workers
        for each in (here, there):
            assert "Traceback" not in each.log()
            assert '"status":503' not in each.log()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An agent's name that is this test's own."""
    return f"agent-{abs(hash(request.node.nodeid))}"


def wakes(hosts: Hosts, name: str, times: int, pauses: tuple[float, float]) -> list[float]:
    """How many seconds after it was sent here a message was had there, over and over.

    Between the poll and the sending lies a pause of a length between the two given.
    """
    chance, took = random.Random(7), []
    with (
        Client(hosts.here.port, "alice") as alice,
        asked(hosts.there.port, [f"/agents/{name}/inbox"]) as (polling,),
    ):
        polling.answer()
        for number in range(times):
            polling.again(f"/agents/{name}/inbox?wait=25")
            time.sleep(chance.uniform(*pauses))
            took.append(woken(alice, name, polling, number))
    return took


def woken(alice: Client, name: str, polling: Asked, content: Any) -> float:
    """Send a message to who waits; how many seconds after it was accepted it was there."""
    assert alice.send(name, content)[0] == 201
    accepted = time.monotonic()
    answer = polling.answer()
    page = answer.json["messages"]
    assert [message["content"] for message in page] == [content]
    ids = {"ids": [message["id"] for message in page]}
    assert alice.call("POST", f"/agents/{name}/inbox/ack", ids)[0] == 200
    return max(0.0, answer.at - accepted)


def tell(what: str, seconds: list[float]) -> None:
    """Print what was measured."""
    times = sorted(second * 1000 for second in seconds)
    last = times[min(len(times) - 1, len(times) * 99 // 100)]
    print(f"{what}: p50 {statistics.median(times):.1f} ms, p99 {last:.1f} ms of {len(times)}")


def test_a_wait_at_one_host_ends_with_a_message_sent_through_another(
    hosts: Hosts, name: str
) -> None:
    took = wakes(hosts, name, hosts.times, pauses=(0.01, 0.02))
    tell("from host to host", took)
    assert statistics.median(took) < 0.5
    assert max(took) < MOST


def test_a_message_that_another_host_commits_between_the_look_and_the_wait_is_not_missed(
    hosts: Hosts, name: str
) -> None:
    """Case 36, from host to host."""
    took = wakes(hosts, name, hosts.times, pauses=(0, 0.003))
    tell("from host to host, racing", took)
    assert statistics.median(took) < 0.5
    assert max(took) < MOST


def test_a_history_at_one_host_hears_of_a_message_sent_through_another(
    hosts: Hosts, name: str
) -> None:
    with Client(hosts.here.port, "alice") as alice:
        first = alice.send("bob", "first", task_id=name)[1]
        path = f"/tasks/{name}/messages?after={first['id']}&wait=25&as=bob"
        with asked(hosts.there.port, [path]) as (reading,):
            taken_in(hosts.there)
            began = time.monotonic()
            second = alice.send("bob", "second", task_id=name)[1]
            answer = reading.answer()
    assert [message["id"] for message in answer.json["messages"]] == [second["id"]]
    assert answer.at - began < MOST


def test_a_claim_at_one_host_hears_of_a_message_and_of_a_lease_that_lapses_at_another(
    hosts: Hosts, name: str
) -> None:
    path, body = f"/agents/{name}/inbox/claim", {"wait": 25, "lease_seconds": 1}
    with (
        Client(hosts.here.port, "alice") as alice,
        contextlib.closing(Asked(hosts.here.port, path, body)) as here,
        contextlib.closing(Asked(hosts.there.port, path, body)) as there,
    ):
        taken_in(hosts.there)
        sent = alice.send(name, "who is first?")[1]
        quick = answered([here, there], within=PATIENCE)[0]
        first, second = quick.answer(), (there if quick is here else here).answer()
    for attempts, answer in enumerate((first, second), 1):
        claimed = [(each["id"], each["attempts"]) for each in answer.json["messages"]]
        assert claimed == [(sent["id"], attempts)]
    print(f"the lease lapsed, {(second.at - first.at - 1) * 1000:.0f} ms later it was had")
    assert second.at - first.at < 1 + MOST


def test_a_delayed_message_sent_through_one_host_is_had_at_another_when_it_is_due(
    hosts: Hosts, name: str
) -> None:
    with asked(hosts.there.port, [f"/agents/{name}/inbox?wait=25"]) as (polling,):
        taken_in(hosts.there)
        with Client(hosts.here.port, "alice") as alice:
            began = time.monotonic()
            assert alice.send(name, "later", deliver_in=0.5)[0] == 201
        answer = polling.answer()
    late = answer.at - began - 0.5
    print(f"{late * 1000:.0f} ms after it was due")
    assert len(answer.json["messages"]) == 1
    assert -0.01 < late < MOST


def test_who_begins_to_wait_later_has_a_delayed_message_when_it_is_due(
    hosts: Hosts, name: str
) -> None:
    """Its host has never heard of it: it is found by looking every two seconds."""
    with Client(hosts.here.port, "alice") as alice:
        assert alice.send(name, "later", deliver_in=1)[0] == 201
        began = time.monotonic()
    with asked(hosts.there.port, [f"/agents/{name}/inbox?wait=25"]) as (polling,):
        answer = polling.answer()
    print(f"{(answer.at - began - 1) * 1000:.0f} ms after it was due")
    assert len(answer.json["messages"]) == 1
    assert answer.at - began - 1 < MOST


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_wait_in_one_worker_ends_with_a_message_sent_through_the_other(
    kind: str, databases: Callable[[str], str]
) -> None:
    with (
        running(databases(kind), workers=2) as server,
        client_of_each_worker(server) as senders,
        client_of_each_worker(server) as waiters,
    ):
        workers = server.workers()
        polls = {pid: Asked.through(client) for pid, client in waiters.items()}
        took = []
        for number in range(10):
            for place, other in (workers, workers[::-1]):
                polls[place].again(f"/agents/agent-{place}/inbox?wait=25")
                time.sleep(0.02)
                took.append(woken(senders[other], f"agent-{place}", polls[place], number))
        tell("from worker to worker", took)
        assert max(took) < MOST
        assert server.workers() == workers
        assert "Traceback" not in server.log()


# --- the line between the processes of a PostgreSQL database


@pytest.mark.parametrize("hosts", ["postgresql"], indirect=True)
def test_a_line_that_is_cut_again_and_again_costs_time_and_nothing_else(
    hosts: Hosts, name: str
) -> None:
    took = []
    for _ in range(5):
        cut(hosts)
        took += wakes(hosts, name, times=2, pauses=(0, 0.01))
        until(lambda: len(listening(hosts)) == 2, "the line to be there again")
    tell("while the line was cut", took)
    assert max(took) < MOST
    for each in (hosts.here, hosts.there):
        assert '"level":"error"' not in each.log()


@pytest.mark.parametrize("hosts", ["postgresql"], indirect=True)
def test_without_a_connection_for_the_line_the_watch_goes_on_and_so_do_requests(
    hosts: Hosts, name: str
) -> None:
    """A line that cannot be opened again is no reason to call the database away."""
    took = wakes(hosts, name, times=2, pauses=(0.3, 0.3))  # every other connection is there
    database = hosts.database.rpartition("/")[2]
    run(hosts, f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS false')
    # The line then gets a number above 1023, where so many files may be open.
    sockets = min(1100, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    try:
        cut(hosts)
        took = wakes(hosts, name, times=10, pauses=(0, 0.05))
        tell("without the line", took)
        assert max(took) < MOST
        with contextlib.ExitStack() as stack:
            for _ in range(sockets):
                client = socket.create_connection(("127.0.0.1", hosts.there.port))
                stack.enter_context(client)
            taken_in(hosts.there)
            run(hosts, f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS true')
            until(lambda: len(listening(hosts)) == 2, "the line to be there again")
            took = wakes(hosts, name, times=20, pauses=(0.01, 0.02))
    finally:
        run(hosts, f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS true')
    tell("with a new line", took)
    assert max(took) < MOST
    for each in (hosts.here, hosts.there):
        assert each.log().count('"level":"error"') == 1  # it is said once


def run(hosts: Hosts, sql: str) -> list[Any]:
    """Run a statement, though not in the database of the hosts; its rows."""
    server = hosts.database.rpartition("/")[0]
    with contextlib.closing(psycopg2.connect(f"{server}/postgres")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []


def listening(hosts: Hosts) -> list[int]:
    """The backends through which the processes hear each other."""
    database = hosts.database.rpartition("/")[2]
    last = "query LIKE 'LISTEN%' OR query LIKE 'SELECT pg_notify%'"
    where = f"datname = '{database}' AND ({last})"
    return [pid for (pid,) in run(hosts, f"SELECT pid FROM pg_stat_activity WHERE {where}")]


def cut(hosts: Hosts) -> None:
    """End these backends."""
    for pid in listening(hosts):
        run(hosts, f"SELECT pg_terminate_backend({pid}, 5000)")


# --- at rest


def test_nobody_watches_while_nobody_waits(hosts: Hosts, name: str) -> None:
    remote = hosts.database.startswith("postgresql")
    with asked(hosts.there.port, [f"/agents/{name}/inbox?wait=25"]) as (polling,):
        taken_in(hosts.there)
        assert not answered([polling], 0.5)
        assert not remote or is_watched(hosts.database)  # now it does
    if remote:
        until(lambda: not is_watched(hosts.database), "the watch to rest")
    (worker,) = hosts.there.workers()
    before = processor_seconds(worker)
    time.sleep(1)
    assert processor_seconds(worker) - before < 0.1
