"""Case 70: the database goes away, or stands still, or is full; and comes back.

Meanwhile every request is answered within the deadline, and afterwards the
service works again by itself.
"""

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg2
import pytest

from tests import postgres
from tests.acceptance.clients import Client
from tests.acceptance.server import Server, running

DEADLINE = 1.0  # the service's database_timeout, in seconds
EACH = 100  # messages of each sender
PATIENCE = 10.0  # a request that finds no database is answered within this, on a busy machine too


class Answer(NamedTuple):
    """One response, and how long it took in seconds."""

    status: int
    headers: http.client.HTTPMessage
    json: Any
    seconds: float


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Server]:
    """A PostgreSQL of these tests' own, which they may stop; it takes few connections."""
    with postgres.server(max_connections="12") as server:
        yield server


@pytest.fixture
def service(database: postgres.Server) -> Iterator[Server]:
    """A service on an empty database of it, with a message waiting for bob."""
    with (
        database.database("taskpost_gone") as url,
        running(url, database_timeout=DEADLINE, threads=4) as server,
    ):
        assert send(server).status == 201
        yield server


def ask(server: Server, method: str, path: str, body: Any = None) -> Answer:
    """One request on a connection of its own."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        raw = answer.read()
    return Answer(answer.status, answer.headers, json.loads(raw), time.monotonic() - began)


def send(server: Server, key: str | None = None) -> Answer:
    """Alice sends a message to bob."""
    body = {"from": "alice", "type": "request", "content": "hello", "idempotency_key": key}
    return ask(server, "POST", "/agents/bob/inbox", body)


def poll(server: Server) -> Answer:
    """Bob looks into his inbox."""
    return ask(server, "GET", "/agents/bob/inbox")


def count(server: Server) -> Answer:
    """Bob counts what waits."""
    return ask(server, "GET", "/agents/bob/inbox/count")


def ready(server: Server) -> Answer:
    """Whether the service is ready."""
    return ask(server, "GET", "/ready")


def check_away(answer: Answer) -> None:
    """Fail when this is not what a request without a database is told, and told in time."""
    assert answer.status == 503, answer
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json["code"] in ("store_unavailable", "outcome_unknown", "store_busy")
    assert answer.json["retryable"] is True
    assert answer.seconds < PATIENCE


def await_recovery(server: Server) -> None:
    """Return once a message can be sent again."""
    ends = time.monotonic() + 30
    while (answer := send(server, "again")).status not in (200, 201):
        check_away(answer)
        assert time.monotonic() < ends, answer
        time.sleep(0.1)


@contextlib.contextmanager
def away(database: postgres.Server, how: str) -> Iterator[None]:
    """The database is stopped, or frozen, as long as the block runs."""
    if how == "stopped":
        database.stop()
    else:
        database.freeze()
    try:
        yield
    finally:
        if how == "stopped":
            database.start()
        else:
            database.thaw()


@pytest.mark.parametrize("how", ["stopped", "frozen"])
class TestAway:
    """What a stopped database refuses at once, a frozen one leaves unanswered."""

    def test_requests_are_refused_in_time_and_served_again_afterwards(
        self, service: Server, database: postgres.Server, how: str
    ) -> None:
        with away(database, how):
            for request in (send, poll, count, ready, send, poll, ready):
                check_away(request(service))
            for path in ("/health", "/openapi.json"):
                answer = ask(service, "GET", path)
                assert answer.status == 200
                assert answer.seconds < PATIENCE
        await_recovery(service)
        assert ready(service).status == 200
        assert count(service).json["unread"] >= 2
        assert len(poll(service).json["messages"]) >= 2
        assert '"failure"' not in service.log()
        assert "Traceback" not in service.log()

    def test_many_requests_at_once_are_refused_in_time(
        self, service: Server, database: postgres.Server, how: str
    ) -> None:
        with away(database, how), ThreadPoolExecutor(16) as threads:
            asked = [threads.submit(each, service) for each in [send, poll, count, ready] * 8]
            answers = [each.result(60) for each in asked]
            for answer in answers:
                check_away(answer)
        await_recovery(service)

    def test_a_send_that_was_not_answered_well_is_done_once(
        self, service: Server, database: postgres.Server, how: str
    ) -> None:
        with away(database, how):
            check_away(send(service, "a key"))
        ends = time.monotonic() + 30
        while (answer := send(service, "a key")).status == 503 and time.monotonic() < ends:
            time.sleep(0.1)
        assert answer.status in (200, 201)
        assert send(service, "a key").status == 200
        assert len(poll(service).json["messages"]) == 2

    def test_sends_under_way_are_done_once(
        self, service: Server, database: postgres.Server, how: str
    ) -> None:
        with ThreadPoolExecutor(8) as threads:
            sending = [threads.submit(persist, service.port, number) for number in range(8)]
            await_count(service, 40)
            with away(database, how):
                time.sleep(2 * DEADLINE)
            ids = [id for each in sending for id in each.result(120)]
        with Client(service.port, "reader") as reader:
            found = list(reader.pages("/agents/reader/inbox"))
        assert sorted(ids) == [message["id"] for message in found]
        assert sorted(message["content"] for message in found) == sorted(
            [number, index] for number in range(8) for index in range(EACH)
        )


def persist(port: int, number: int) -> list[str]:
    """Send one message after the other, each with a key until it is accepted; their ids."""
    ids = []
    with Client(port, f"sender-{number}") as client:
        for index in range(EACH):
            for _ in client.tries():
                status, answer = client.send("reader", [number, index], f"key-{index}")
                assert status in (200, 201, 503), answer
                if status != 503:
                    ids.append(answer["id"])
                    break
    return ids


def await_count(server: Server, least: int) -> None:
    """Return once so many messages wait for the reader."""
    ends = time.monotonic() + 30
    while ask(server, "GET", "/agents/reader/inbox/count").json["unread"] < least:
        assert time.monotonic() < ends


def test_a_service_stops_in_time_while_its_database_stands_still(
    service: Server, database: postgres.Server
) -> None:
    with away(database, "frozen"):
        check_away(send(service))
        assert service.stop(within=20) == 0


def test_connections_that_are_all_taken_are_no_hang(
    service: Server, database: postgres.Server
) -> None:
    service.restart()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(psycopg2.OperationalError):  # there are no more
            while True:
                stack.enter_context(contextlib.closing(psycopg2.connect(database.url())))
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(send, service) for _ in range(8)]
            for each in asked:
                answer = each.result(60)
                assert answer.status in (201, 503)
                assert answer.seconds < PATIENCE
    await_recovery(service)


def test_a_connection_that_was_cut_while_idle_is_not_noticed(
    service: Server, database: postgres.Server
) -> None:
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'taskpost_gone'"
    )
    assert send(service).status == 201
    assert len(poll(service).json["messages"]) == 2
