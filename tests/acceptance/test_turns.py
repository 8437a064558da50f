"""Turns under load, whatever ends them: an answer of 201 is a row, and every row is whole.

The service is killed, its database stands still, its connections are cut, its
disk is full, its workers stand in each other's way.
"""

import contextlib
import resource
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2
import pytest

from tests import postgres
from tests.acceptance import test_crash
from tests.acceptance.asking import (
    Asked,
    asked,
    client_of_each_worker,
    is_watched,
    taken_in,
    until,
)
from tests.acceptance.clients import Client, Refused, Unanswered
from tests.acceptance.server import Server, running

PATIENCE = 10.0  # seconds within which a request is answered, on a busy machine too

# --- kill -9, again and again

PROCESSES = 16  # each with two clients: one sends single messages, one batches
EACH = 75  # messages of a client
BATCHES = 25
CRASHES = 5


def send_both(port: int, number: int) -> tuple[dict[str, Any], dict[int, list[str] | None]]:
    """What a process of two clients sends, and is told."""
    with ThreadPoolExecutor(1) as thread:
        batches = thread.submit(send_batches, port, number)
        return test_crash.send_all(port, number, EACH), batches.result()


def send_batches(port: int, number: int) -> dict[int, list[str] | None]:
    """Send batches of three, whatever happens to the server.

    Those with an even number have keys and are repeated until they are
    answered. The ids of each batch; None where there was no answer.
    """
    answered: dict[int, list[str] | None] = {}
    with Client(port, f"batcher-{number}") as client:
        for index in range(BATCHES):
            answered[index] = send_batch(client, number, index)
    return answered


def send_batch(client: Client, number: int, index: int) -> list[str] | None:
    """One batch."""
    messages = [
        {"to": "batched", "type": "request", "content": [number, index, place]}
        for place in range(3)
    ]
    headers = {"Idempotency-Key": f"{number}-{index}"} if index % 2 == 0 else {}
    for _ in client.tries():
        try:
            body = {"from": client.name, "messages": messages}
            status, answer = client.call("POST", "/messages", body, headers)
        except Refused:
            continue
        except Unanswered:
            if headers:
                continue
            return None
        assert status in (200, 201), answer
        return [message["id"] for message in answer["messages"]]
    raise AssertionError("the service was away for too long")


def test_five_crashes_under_full_load_lose_nothing_and_leave_nothing_half_done(
    database_url: str, pool: ProcessPoolExecutor
) -> None:
    messages = PROCESSES * EACH
    with running(database_url) as server, Client(server.port, "reader") as reader:
        sending = [pool.submit(send_both, server.port, number) for number in range(PROCESSES)]
        for crash in range(1, CRASHES + 1):
            test_crash.await_count(reader, messages * crash // (CRASHES + 1))
            server.kill()
            reader.close()
            server.restart()
        results = [each.result(120) for each in sending]
        singles = list(reader.pages(test_crash.INBOX))
        batched = list(reader.pages("/agents/batched/inbox"))
    assert any(single["unanswered"] for single, _ in results), "the crashes hit nobody"
    test_crash.judge(singles, [single for single, _ in results], EACH)
    judge_batches(batched, [batches for _, batches in results])


def judge_batches(stored: list[Any], results: list[dict[int, list[str] | None]]) -> None:
    """Each batch lies there whole or not at all; those that were answered do."""
    found: dict[tuple[int, int], list[Any]] = {}
    for message in stored:
        number, index, _ = message["content"]
        found.setdefault((number, index), []).append(message)
    for (number, index), messages in found.items():
        assert [message["content"] for message in messages] == [
            [number, index, place] for place in range(3)
        ]
        told = results[number][index]
        assert told in (None, [message["id"] for message in messages])
    for number, batches in enumerate(results):
        for index, ids in batches.items():
            assert ids is None or (number, index) in found


# --- a database that fails while clients send


class Said(NamedTuple):
    """What a client was told of one message, and after how many seconds."""

    content: tuple[int, int]
    status: int
    code: str | None
    seconds: float


class Load:
    """Clients that send without pause, each on a connection that it keeps, while the block runs."""

    def __init__(self, server: Server, clients: int = 8) -> None:
        self.server, self.stopped = server, threading.Event()
        self.said: list[list[Said]] = [[] for _ in range(clients)]
        self.threads = ThreadPoolExecutor(clients)

    def __enter__(self) -> "Load":
        self.sending = [self.threads.submit(self._send, *each) for each in enumerate(self.said)]
        return self

    def __exit__(self, *error: object) -> None:
        self.stopped.set()
        self.threads.shutdown()
        for each in self.sending:
            each.result()

    def _send(self, number: int, said: list[Said]) -> None:
        with Client(self.server.port, f"sender-{number}") as client:
            while not self.stopped.is_set():
                began, content = time.monotonic(), (number, len(said))
                status, answer = client.send("reader", content)
                took = time.monotonic() - began
                said.append(Said(content, status, answer.get("code"), took))
                if status == 503:
                    self.stopped.wait(0.02)

    def await_success(self) -> float:
        """Seconds until each of the clients has sent a message again."""
        began, before = time.monotonic(), list(map(len, self.said))
        until(
            lambda: all(
                any(each.status == 201 for each in said[old + 1 :])
                for said, old in zip(self.said, before, strict=True)
            ),
            "the service to recover",
        )
        return time.monotonic() - began


def judge(load: Load) -> None:
    """Hold what lies in the inbox against what the senders were told."""
    server, said = load.server, [each for said in load.said for each in said]
    with Client(server.port, "reader") as reader:
        stored = [message["content"] for message in reader.pages("/agents/reader/inbox")]
    times = Counter(map(tuple, stored))
    assert set(times.values()) <= {1}
    assert {each.status for each in said} <= {201, 503}
    for each in said:
        if each.status == 201:
            assert each.content in times
        elif each.code != "outcome_unknown":  # then nothing was written, it says
            assert each.content not in times, each
    assert max(each.seconds for each in said) < PATIENCE
    told = Counter(each.code or each.status for each in said)
    print(f"{dict(told)}, slowest {max(each.seconds for each in said):.2f} s")


@pytest.fixture(scope="module")
def own() -> Iterator[postgres.Server]:
    """A PostgreSQL that these tests may freeze."""
    with postgres.server() as server:
        yield server


def test_a_database_that_stands_still_is_survived_by_every_worker(own: postgres.Server) -> None:
    with (
        own.database("taskpost_frozen") as url,
        running(url, workers=2, database_timeout=1) as server,
    ):
        paths = [f"/agents/sleeper-{number}/inbox?wait=30" for number in range(20)]
        with asked(server.port, paths) as waits:
            taken_in(server)
            workers = server.workers()
            with Load(server) as load:
                load.await_success()
                own.freeze()
                try:
                    time.sleep(3.5)  # each worker finds out for itself, and waits a second for it
                    looks = [health(server) for _ in range(20)]
                finally:
                    own.thaw()
                recovery = load.await_success()
            print(f"/health: {max(looks) * 1000:.0f} ms at most; recovery: {recovery:.2f} s")
            assert max(looks) < 1
            with Client(server.port, "alice") as alice:
                for number, waiting in enumerate(waits):
                    assert alice.send(f"sleeper-{number}", "wake up")[0] == 201
                    assert len(waiting.answer().json["messages"]) == 1
        judge(load)
        assert server.workers() == workers
        assert "Traceback" not in server.log()
        until(lambda: not is_watched(url), "the watch to rest")


def health(server: Server) -> float:
    """Seconds that /health takes."""
    began = time.monotonic()
    with Client(server.port, "nobody") as client:
        assert client.call("GET", "/health")[0] == 200
    return time.monotonic() - began


def test_connections_that_are_cut_again_and_again_lose_nothing(
    databases: Callable[[str], str],
) -> None:
    database = databases("postgresql")
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with running(database, workers=2) as server:
        workers = server.workers()
        with Load(server) as load:
            for _ in range(15):
                time.sleep(0.1)
                run(
                    database,
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}",
                )
            load.await_success()
        judge(load)
        assert server.workers() == workers
        assert "Traceback" not in server.log()


def run(database: str, sql: str) -> None:
    """Run a statement."""
    with contextlib.closing(psycopg2.connect(database)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)


def test_a_disk_that_is_full_again_and_again_loses_nothing(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/a.db") as server:
        grow(server)
        workers = server.workers()
        with Load(server) as load:
            for _ in range(8):
                load.await_success()
                with full_disk(server):
                    time.sleep(0.1)
            load.await_success()
        judge(load)
        assert {each.status for said in load.said for each in said} == {201, 503}
        assert server.workers() == workers
        assert "Traceback" not in server.log()


def grow(server: Server) -> None:
    """Make the write-ahead log longer than what ``full_disk`` allows."""
    with Client(server.port, "alice") as alice:
        assert alice.send("carol", "x" * 600_000)[0] == 201


@contextlib.contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """No worker may write beyond 512 KiB of a file; the database's are longer, the log is not."""
    for pid in server.workers():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (512 << 10, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in server.workers():
            resource.prlimit(
                pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )


# --- a commit that fails


REFUSAL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON messages DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refuse()
"""


@contextlib.contextmanager
def no_commits(server: Server) -> Iterator[None]:
    """Every statement succeeds, and no commit."""
    database = server.environ["TASKPOST_DATABASE"]
    if database.startswith("sqlite"):
        with full_disk(server):
            yield
        return
    run(database, REFUSAL)
    yield
    run(database, "DROP FUNCTION refuse() CASCADE")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_who_asks_and_holds_does_not_wait_for_what_was_not_committed(
    kind: str, databases: Callable[[str], str]
) -> None:
    with running(databases(kind)) as server:
        grow(server)
        with no_commits(server):
            body = {"from": "alice", "type": "request", "task_id": "t", "content": "held"}
            began = time.monotonic()
            for path in ("/agents/bob/inbox?wait=25", "/agents/bob/inbox"):
                with contextlib.closing(Asked(server.port, path, body)) as asking:
                    answer = asking.answer()
                assert (answer.status, answer.json["code"]) == (503, "outcome_unknown")
                assert answer.headers["Retry-After"]
            assert time.monotonic() - began < PATIENCE
            assert health(server) < PATIENCE
        with Client(server.port, "alice") as alice:
            assert alice.send("bob", "afterwards")[0] == 201
            page = alice.call("GET", "/agents/bob/inbox")[1]["messages"]
        assert [message["content"] for message in page] == ["afterwards"]
        assert "Traceback" not in server.log()


# --- two workers in each other's way


ROUNDS = 150


def test_workers_that_cross_on_two_keys_do_not_stall(
    postgres_server: postgres.Server, databases: Callable[[str], str]
) -> None:
    """Each holds one key and wants the other, until one of them lets go and tries again."""
    together = threading.Barrier(2)
    before = lock_timeouts(postgres_server)
    with (
        running(databases("postgresql"), workers=2) as server,
        client_of_each_worker(server) as clients,
        ThreadPoolExecutor(2) as threads,
    ):
        sending = [
            threads.submit(send_crossing, client, together, order)
            for client, order in zip(clients.values(), ("ab", "ba"), strict=True)
        ]
        took = sorted(seconds for each in sending for seconds in each.result(120))
        with Client(server.port, "reader") as reader:
            stored = [message["content"] for message in reader.pages("/agents/reader/inbox")]
        assert "Traceback" not in server.log()
    assert Counter(stored) == dict.fromkeys(
        (f"{number}-{key}" for number in range(ROUNDS) for key in "ab"), 1
    )
    crossed = lock_timeouts(postgres_server) - before
    shown = [f"{value * 1000:.0f}" for value in (statistics.median(took), took[-3], took[-1])]
    print(f"{crossed} crossed; median, third worst, worst, in ms: {shown}")
    assert crossed
    assert statistics.median(took) < 0.1
    assert took[-1] < 1  # what a deadlock would take to be found


def send_crossing(client: Client, together: threading.Barrier, order: str) -> list[float]:
    """Send batches whose two messages have the keys of the other's, in this order."""
    took, busy = [], 0
    for number in range(ROUNDS):
        names = [f"{number}-{key}" for key in order]
        kind = {"to": "reader", "type": "request", "task_id": "t"}
        messages = [{**kind, "content": name, "idempotency_key": name} for name in names]
        body = {"from": "alice", "messages": messages}
        together.wait(60)
        began, status = time.monotonic(), 503
        while status == 503:
            status, answer = client.call("POST", "/messages", body)
            busy += status == 503
        took.append(time.monotonic() - began)
        assert status in (200, 201), answer
        assert [message["content"] for message in answer["messages"]] == names
    assert busy < ROUNDS / 10
    return took


def lock_timeouts(server: postgres.Server) -> int:
    """How often a statement has given up waiting for a lock."""
    return (server.folder / "log").read_text(errors="replace").count("due to lock timeout")
