"""The shared turn: an answer of success is a row, whatever ends the transaction, and wherever."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import psycopg2
import pytest

from api.service import Service
from inbox import bell, ids, turn
from inbox.errors import StoreUnavailable
from inbox.names import MESSAGE_TYPES
from models import database, postgres
from models.errors import Contended

REQUESTS = 6


class Round:
    """A server's loop, as far as turns go: requests share one, answers wait for its end."""

    def __init__(self) -> None:
        self.service = Service(1 << 20)
        self.turns = turn.Shared()

    def serve(self, *requests: tuple[str, Any]) -> list[int]:
        """Post each body to its path in one turn; the statuses that are sent in the end."""
        answers = [self._one(path, body) for path, body in requests]
        if self.turns.open and not self.turns.end():
            return [503 for _ in answers]
        return answers

    def _one(self, path: str, body: Any) -> int:
        raw = json.dumps(body).encode()
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "CONTENT_LENGTH": str(len(raw)),
            "HTTP_HOST": "localhost",
            "wsgi.url_scheme": "http",
            "wsgi.multithread": False,
            "wsgi.input": BytesIO(raw),
            "taskpost.run": self.turns.join,
        }
        statuses: list[str] = []
        list(self.service(environ, lambda status, headers: statuses.append(status)))
        return int(statuses[0][:3])

    def send(self, count: int = REQUESTS, first: int = 0) -> list[int]:
        """Send so many messages in one turn, numbered from ``first``."""
        bodies = [
            {"from": "alice", "type": "request", "task_id": "t", "content": first + number}
            for number in range(count)
        ]
        return self.serve(*(("/agents/bob/inbox", body) for body in bodies))


@pytest.fixture
def round(store: str) -> Round:
    made = Round()
    assert made.serve(("/agents", {"id": "alice"}), ("/agents", {"id": "bob"})) == [201, 201]
    return made


def contents() -> list[int]:
    """What lies in the table, in order, as another connection sees it."""
    database.drop()
    found = database.current().execute_sql(
        "SELECT content FROM messages WHERE state_key IS NULL ORDER BY seq"
    )
    return [int(content) for (content,) in found.fetchall()]


@pytest.fixture
def at_statement() -> Iterator[Callable[[int, Callable[[], None]], None]]:
    """Does something just before the nth statement from now."""
    watchers: list[Any] = []

    def arrange(number: int, act: Callable[[], None]) -> None:
        left = [number]

        def watch(statement: Any, values: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                act()

        watchers.append(watch)
        database.watchers.append(watch)

    yield arrange
    for watch in watchers:
        database.watchers.remove(watch)


def test_a_turn_is_one_transaction_and_every_answer_a_row(round: Round) -> None:
    assert round.send() == [201] * REQUESTS
    assert contents() == list(range(REQUESTS))


def test_one_failure_takes_no_other_with_it(round: Round) -> None:
    good = {"from": "alice", "type": "request", "content": 1}
    bad = {"from": "alice", "messages": [{"to": "bob", **good}, {"to": "Bob", **good}]}
    statuses = round.serve(
        ("/agents/bob/inbox", good),
        ("/messages", bad),
        ("/agents/bob/inbox", {**good, "content": 2}),
    )
    assert statuses == [201, 409, 201]
    assert contents() == [1, 2]


def test_nothing_is_committed_before_the_end_of_the_turn(round: Round, store: str) -> None:
    service, turns = round.service, round.turns
    assert service
    assert not turns.open
    round._one("/agents/bob/inbox", {"from": "alice", "type": "request", "content": 1})
    assert turns.open
    if store.startswith("postgresql"):
        other = psycopg2.connect(store)
        with other.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM messages WHERE state_key IS NULL")
            assert cursor.fetchone() == (0,)
        other.close()
    assert turns.end()
    assert contents() == [1]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("number", range(1, REQUESTS + 1))
def test_a_backend_killed_at_any_statement_confirms_nothing_that_is_not_there(
    round: Round, store: str, number: int, at_statement: Callable
) -> None:
    def kill() -> None:
        pid = database.current().connection().info.backend_pid
        other = psycopg2.connect(store)
        other.autocommit = True
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        other.close()

    at_statement(number, kill)
    first = round.send()
    second = round.send(first=100)
    assert set(first) <= {201, 503}
    assert second == [201] * REQUESTS
    # Killed before anything was sent to it, a connection is replaced, and nothing is lost.
    confirmed = [each for each, status in enumerate(first) if status == 201]
    assert contents() == [*confirmed, *range(100, 100 + REQUESTS)]
    assert not confirmed or number == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_backend_killed_before_the_commit_confirms_nothing(round: Round, store: str) -> None:
    round._one("/agents/bob/inbox", {"from": "alice", "type": "request", "content": 1})
    pid = database.current().connection().info.backend_pid
    other = psycopg2.connect(store)
    other.autocommit = True
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    other.close()
    assert not round.turns.end()
    assert contents() == []
    assert round.send(1) == [201]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("number", range(1, 2 * REQUESTS + 1))  # each looks, and inserts
def test_a_full_disk_at_any_statement_confirms_nothing_that_is_not_there(
    round: Round, number: int, at_statement: Callable
) -> None:
    """SQLite ends the transaction by itself; the answers it held must not be sent."""

    def fill() -> None:
        pages = database.current().execute_sql("PRAGMA page_count").fetchone()[0]
        database.current().execute_sql(f"PRAGMA max_page_count = {pages}")

    big = {"from": "alice", "type": "request", "task_id": "t", "content": "x" * 20000}
    at_statement(number, fill)
    statuses = round.serve(*(("/agents/bob/inbox", big) for _ in range(REQUESTS)))
    # The first has nothing to lose: it gets a fresh connection.
    assert 503 in statuses or number <= 2
    confirmed = statuses.count(201)
    assert rows() == confirmed
    assert round.send(1) == [201]
    assert rows() == confirmed + 1


@pytest.mark.parametrize("type", ["request", "progress", "cancel", "done", "to nobody", "many"])
def test_what_fails_after_it_has_written_takes_no_other_with_it(
    round: Round, type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody foresees it."""

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    to = "nobody" if type == "to nobody" else "bob"
    body = {"type": type if type in MESSAGE_TYPES else "request", "task_id": "t", "to": to}
    first = round._one("/agents/bob/inbox", {"from": "alice", "type": "request", "content": 1})
    with monkeypatch.context() as patched:
        patched.setattr("inbox.send._sent", fail)
        if type == "many":
            failed = round._one("/messages", {"from": "alice", "messages": [body] * 3})
        else:
            del body["to"]
            failed = round._one(f"/agents/{to}/inbox", {"from": "alice", **body})
    last = round._one("/agents/bob/inbox", {"from": "alice", "type": "request", "content": 2})
    assert round.turns.end()
    assert (first, failed, last) == (201, 500, 201)
    assert contents() == [1, 2]


def test_an_ack_that_fails_after_it_has_written_is_no_ack(
    round: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    assert round.send(2) == [201, 201]
    seqs = [seq for (seq,) in database.current().execute_sql(UNREAD).fetchall()]
    with monkeypatch.context() as patched:
        patched.setattr("inbox.acks.message", fail)
        assert round._one(f"/inbox/messages/{ids.written(seqs[0])}/ack", {"from": "bob"}) == 500
    assert round._one(f"/inbox/messages/{ids.written(seqs[1])}/ack", {"from": "bob"}) == 200
    assert round.turns.end()
    database.drop()
    left = [seq for (seq,) in database.current().execute_sql(UNREAD).fetchall()]
    assert left == seqs[:1]


UNREAD = "SELECT seq FROM messages WHERE status = 'unread' ORDER BY seq"


def rows() -> int:
    """How many messages there are."""
    database.drop()
    found = database.current().execute_sql("SELECT count(*) FROM messages WHERE state_key IS NULL")
    return int(found.fetchone()[0])


WRITER = """
import resource, signal, sys
from tests.inbox.test_turn import Round
from inbox import turn

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
turn.open(sys.argv[1])
round = Round()
round.send(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
confirmed = 0
for first in range(10, 400, 6):
    confirmed += round.send(first=first).count(201)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(confirmed + 1, round.send(1, 1000))
"""


@pytest.mark.parametrize("limit", [120_000, 123_456, 150_000, 200_123])
def test_a_write_error_at_any_byte_confirms_nothing_that_is_not_there(
    tmp_path: Any, limit: int
) -> None:
    """The system refuses to let the file grow: to SQLite that is an I/O error."""
    url = f"sqlite:///{tmp_path}/taskpost.db"
    done = subprocess.run(
        [sys.executable, "-c", WRITER, url, str(limit)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    confirmed, _, last = done.stdout.partition(" ")
    assert last.strip() == "[201]"
    turn.open(url)
    assert rows() == int(confirmed) + 1
    turn.close()


def test_a_request_that_meets_a_lock_is_to_be_run_again(
    round: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contended(*values: Any, **options: Any) -> None:
        raise Contended("somebody else holds it")

    with monkeypatch.context() as patched:
        patched.setattr("inbox.send.send", contended)
        assert round._one("/agents/bob/inbox", {"from": "alice", "type": "request"}) == 503
    assert round.turns.again
    round.turns.again = False
    assert round.send() == [201] * REQUESTS
    assert contents() == list(range(REQUESTS))


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_of_those_that_run_again_one_is_under_way_at_a_time(round: Round, store: str) -> None:
    """Of two that stood in each other's way, both would else meet again, and again."""
    body = {"from": "alice", "type": "request", "content": 1}
    other = psycopg2.connect(store)
    with other.cursor() as cursor:
        cursor.execute(postgres.ALONE)  # another process runs one again
        round.turns.alone = True
        assert round._one("/agents/bob/inbox", body) == 503
        assert round.turns.again
        assert not round.turns.open
        round.turns.again = False
        assert round.serve(("/agents/bob/inbox", body)) == [201]  # a first run needs no leave
        other.commit()
    other.close()
    round.turns.alone = True
    assert round.serve(("/agents/bob/inbox", body)) == [201]
    assert contents() == [1, 1]


def test_the_end_of_a_turn_rings_for_what_was_written(round: Round) -> None:
    wait = bell.Wait([bell.Address("default", "bob")], 20)
    round._one("/agents/bob/inbox", {"from": "alice", "type": "request"})
    assert not wait.rung
    round.turns.end()
    assert wait.rung
    wait.cancel()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_error_while_rows_are_fetched_is_a_database_that_is_not_available(
    round: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*values: Any, **more: Any) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("inbox.send.send", broken)
        assert round.serve(("/agents/bob/inbox", {"from": "alice", "type": "request"})) == [503]
    with pytest.raises(StoreUnavailable):
        turn.reading(broken)
    assert round.send() == [201] * REQUESTS
