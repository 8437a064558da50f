"""Units of work: what was committed is there, what was not is not, and whoever asks is answered."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import peewee
import pytest
from psycopg2 import extensions

from inbox import turn
from inbox.errors import OutcomeUnknown, StoreUnavailable
from models import batches, clock, database, facts, inboxes, outbox, postgres, settling
from models.errors import Contended, Frozen, Unavailable
from models.settling import Settling
from models.statement import Statement
from tests import postgres as postgres_server_of
from tests.models.others import Other, backend, draft, other, put, sent, together

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
only_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

MISTAKE = Statement("SELECT missing FROM messages")
PROCESSES = 4
SENDS = 60  # of each process

# What each of several processes does: read and write in one unit of work, many times.
WRITE = f"""
import json, sys
from models import database, inboxes
from tests.models.others import put

url, = map(json.loads, sys.argv[1:])
database.open(url)
print("ready", flush=True)
sys.stdin.readline()
seqs = []
for _ in range({SENDS}):
    database.begin()
    inboxes.count("main", "bob", "bob")
    seqs.append(put().seq)
    database.commit()
database.close()
print(json.dumps(seqs), flush=True)
"""


@pytest.fixture
def somebody(store: str) -> Iterator[Other]:
    """Somebody else who uses the database."""
    with other() as one:
        yield one


def seqs() -> list[int]:
    """What is committed, as somebody sees it who comes anew."""
    with other() as one:
        found = one.does(
            lambda: database.current().execute_sql("SELECT seq FROM messages").fetchall()
        )
    return [seq for (seq,) in found]


def kill(process: int) -> None:
    """End a backend of PostgreSQL; returns when it is gone."""
    with other() as one:
        one.does(
            lambda: database.current().execute_sql(
                "SELECT pg_terminate_backend(%s, 20000)", (process,)
            )
        )


def test_what_is_committed_is_there_and_what_is_abandoned_is_not(store: str) -> None:
    database.begin()
    put()
    database.abandon()
    database.begin()
    row = put()
    assert seqs() == []
    database.commit()
    assert seqs() == [row.seq]


class Changed(Exception):
    """Somebody thought better of it."""


def put_and_fail() -> None:
    put()
    raise Changed


def test_a_part_can_be_undone_by_itself(store: str) -> None:
    database.begin()
    first = put()
    with pytest.raises(Changed):
        database.part(put_and_fail)
    third = database.part(put)
    database.commit()
    assert seqs() == [first.seq, third.seq]


def test_a_part_that_failed_can_be_undone_by_itself(store: str) -> None:
    database.begin()
    with pytest.raises(Exception, match="missing"):
        database.part(lambda: database.run(MISTAKE))
    row = database.part(put)
    database.commit()
    assert seqs() == [row.seq]


def test_what_fails_after_its_only_statement_is_undone_by_itself(store: str) -> None:
    """On SQLite without a savepoint."""

    def sends() -> None:
        assert outbox.send(draft(), unknown=True, only=True)
        raise Changed

    def sends_many() -> None:
        assert batches.send([draft(to="carol")] * 3, only=True)
        raise Changed

    def acks(seq: int) -> None:
        assert settling.ack(Settling("main", seq, "bob", "bob", '"bob"', False, ""))
        raise Changed

    sent(to="carol")
    database.begin()
    facts.state("main", "name", "carol", "carol", '"carol"', key="carol")
    first = put()
    for work in (sends, sends_many, partial(acks, first.seq)):
        begun_on = database.connection()
        with pytest.raises(Changed):
            database.part(work)
        assert database.holds(begun_on)
    last = put()
    database.commit()
    assert seqs()[2:] == [first.seq, last.seq]
    found = inboxes.read("main", first.seq)
    assert found is not None
    assert (found.status, found.settled_at) == ("unread", None)


@only_sqlite
def test_a_second_write_after_an_only_one_is_refused(store: str) -> None:
    def write_twice() -> None:
        assert outbox.send(draft(), unknown=True, only=True)
        put()

    database.begin()
    first = put()
    with pytest.raises(peewee.InternalError, match="only"):
        database.part(write_twice)
    database.commit()
    assert seqs() == [first.seq]


def test_a_statement_that_is_the_only_one_and_does_nothing_may_be_followed(store: str) -> None:
    database.begin()
    first = put(dedup_key="k", dedup_hash=b"12345678")

    def again() -> None:
        same = draft(dedup_key="k", dedup_hash=b"12345678")
        assert outbox.send(same, unknown=True, only=True) is None
        put_and_fail()

    with pytest.raises(Changed):
        database.part(again)
    database.commit()
    assert seqs() == [first.seq]


def test_a_unit_of_work_in_which_nothing_is_done_leaves_nothing_behind(store: str) -> None:
    for end in (database.commit, database.abandon):
        database.begin()
        end()
    for work in (lambda: None, changed):
        database.begin()
        begun_on = database.connection()
        with contextlib.suppress(Changed):
            database.part(work)
        assert database.holds(begun_on)
        database.commit()
        assert not database.holds(begun_on)
    assert sent()


def changed() -> None:
    raise Changed


@only_sqlite
def test_a_transaction_that_sqlite_has_ended_is_not_said_to_be_committed(store: str) -> None:
    database.begin()
    put()
    begun_on = database.connection()
    database.current().connection().rollback()
    assert not database.holds(begun_on)
    with pytest.raises(peewee.OperationalError, match="no transaction"):
        database.commit()
    assert seqs() == []
    assert sent()


@only_postgresql
def test_a_transaction_with_a_failed_statement_is_not_said_to_be_committed(store: str) -> None:
    database.begin()
    put()
    with pytest.raises(peewee.PeeweeException):
        database.run(MISTAKE)
    with pytest.raises(Unavailable, match="rolled back"):
        database.commit()
    assert seqs() == []
    assert sent()


def test_a_commit_whose_connection_is_gone_is_not_made_on_another(store: str) -> None:
    database.begin()
    put()
    database.drop()
    with pytest.raises(Unavailable):
        database.commit()
    assert seqs() == []


def test_a_mistake_of_ours_is_raised_as_it_is(store: str) -> None:
    with pytest.raises(Exception, match="missing") as caught:
        database.run(MISTAKE)
    assert not isinstance(caught.value, Unavailable | Contended)
    assert sent()


def test_without_an_open_database_there_is_one_clear_error() -> None:
    with pytest.raises(Unavailable, match="no database is open"):
        database.begin()


def test_processes_that_read_and_write_at_once_never_find_the_database_locked(store: str) -> None:
    written = [seq for said in together(WRITE, PROCESSES, store) for seq in json.loads(said)]
    assert len(written) == PROCESSES * SENDS
    assert sorted(seqs()) == sorted(written)


@contextlib.contextmanager
def patience(url: str, seconds: float) -> Iterator[None]:
    """The database, opened by somebody who waits no longer than that."""
    database.close()
    database.open(url, seconds)
    yield
    database.close()
    database.open(url)


@only_sqlite
def test_who_writes_for_too_long_makes_others_contend(store: str) -> None:
    with patience(store, 0.2), other() as writer:
        writer.does(database.begin)
        writer.does(put)
        with pytest.raises(Contended):
            database.begin()
        writer.does(database.commit)
        assert sent()


@only_postgresql
def test_who_holds_a_row_or_a_key_for_too_long_makes_others_contend(store: str) -> None:
    row = sent()
    with patience(store, 0.4), other() as writer:
        writer.does(database.begin)
        writer.does(ack, row.seq)
        writer.does(put, dedup_key="key", dedup_hash=b"12345678")
        for work in (lambda: ack(row.seq), lambda: put(dedup_key="key", dedup_hash=b"87654321")):
            database.begin()
            with pytest.raises(Contended):
                work()
            database.abandon()
        writer.does(database.commit)
        assert sent()


@only_postgresql
def test_of_two_that_wait_for_each_other_one_contends(store: str, somebody: Other) -> None:
    database.current().execute_sql("SET deadlock_timeout = '20ms'")
    mine, theirs = sent(), sent()
    database.begin()
    ack(mine.seq)
    somebody.does(database.begin)
    somebody.does(ack, theirs.seq)
    waiting = somebody.starts(ack, mine.seq)
    with pytest.raises(Contended):
        ack(theirs.seq)
    database.abandon()
    assert waiting.result(10)
    somebody.does(database.commit)


def ack(seq: int) -> Any:
    """Settle a message in the unit of work that is open."""
    return settling.ack(Settling("main", seq, "", "", "", True, ""))


@only_sqlite
def test_a_full_disk_is_unavailable_and_nothing_is_half_written(store: str) -> None:
    kept = sent()
    pages = database.current().pragma("page_count")
    database.current().pragma("max_page_count", pages)
    database.begin()
    put()
    with pytest.raises(Unavailable, match="full"):
        put(content=b"1" * 100_000)
    database.abandon()
    assert seqs() == [kept.seq]
    assert sent()


def test_a_database_that_may_only_be_read_is_unavailable_for_writing(store: str) -> None:
    kept = sent()
    if store.startswith("sqlite"):
        database.current().pragma("query_only", 1)
    else:
        database.current().execute_sql("SET default_transaction_read_only = on")
    with pytest.raises(Unavailable):
        sent()
    database.abandon()
    assert seqs() == [kept.seq]


@only_postgresql
def test_after_a_backend_was_killed_between_two_units_the_next_request_works(store: str) -> None:
    turn.alone(put)
    kill(backend())
    turn.alone(put)
    assert len(seqs()) == 2
    kill(backend())
    assert turn.reading(lambda: inboxes.count("main", "bob", "bob"))[1].unread == 2


@only_postgresql
def test_a_unit_whose_backend_is_killed_is_unavailable_and_nothing_is_half_written(
    store: str,
) -> None:
    database.begin()
    put()
    kill(backend())
    with pytest.raises(Unavailable):
        put()
    database.abandon()
    assert seqs() == []
    assert sent()


@only_postgresql
def test_a_unit_whose_backend_is_killed_is_run_again_as_a_whole(store: str) -> None:
    tries = []

    def work() -> None:
        tries.append(put())
        if len(tries) == 1:
            kill(backend())
        tries.append(put())

    turn.alone(work)
    assert seqs() == [row.seq for row in tries[-2:]]


@only_postgresql
def test_a_commit_whose_backend_is_killed_is_not_said_to_have_happened(store: str) -> None:
    def work() -> None:
        put()
        kill(backend())

    with pytest.raises(OutcomeUnknown) as caught:
        turn.alone(work)
    assert caught.value.retryable
    assert seqs() == []
    assert turn.alone(put)


FROZEN = 0.7  # seconds that a statement may take in the tests of a server that is frozen
BOUND = 3.0  # seconds within which such a request must have been answered, on a busy machine


@pytest.fixture(scope="module")
def own_server() -> Iterator[postgres_server_of.Server]:
    """A server that may be stopped without harm to others."""
    with postgres_server_of.server() as running:
        yield running


@pytest.fixture
def freeze(own_server: postgres_server_of.Server) -> Iterator[Callable[[], None]]:
    """Stops a server and this thread's backend; they go on at the end of the test."""
    database.open(own_server.url(), FROZEN)
    processes = [own_server.process.pid, backend()]

    def stop() -> None:
        for process in processes:
            os.kill(process, signal.SIGSTOP)

    yield stop
    for process in processes:
        os.kill(process, signal.SIGCONT)
    assert turn_works_again()
    turn.close()


def turn_works_again() -> bool:
    """Whether the server answers a request after it has been frozen."""
    database.drop()
    database.probe()
    return sent() is not None


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Fails when the block takes longer than a request may hang, deadline included."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < BOUND


def test_a_frozen_server_holds_no_statement_and_no_connection_beyond_the_deadline(
    freeze: Callable[[], None],
) -> None:
    sent()
    freeze()
    with in_time(), pytest.raises(Frozen):
        database.ping()
    with in_time(), pytest.raises(Unavailable):
        database.ping()


def test_a_server_that_freezes_in_the_middle_of_a_unit_holds_its_request_for_one_deadline(
    freeze: Callable[[], None],
) -> None:
    database.begin()
    put()
    freeze()
    with in_time():
        with pytest.raises(Frozen):
            put()
        database.abandon()


def test_a_server_that_freezes_before_the_commit_leaves_the_outcome_unknown_in_time(
    freeze: Callable[[], None],
) -> None:
    def work() -> None:
        put()
        freeze()

    with in_time(), pytest.raises(OutcomeUnknown):
        turn.alone(work)


def test_a_request_to_a_frozen_server_is_refused_in_time(freeze: Callable[[], None]) -> None:
    freeze()
    for ask in (turn.alone, turn.reading):
        with in_time(), pytest.raises(StoreUnavailable):
            ask(put)


def test_a_connection_is_kept_and_each_thread_has_its_own(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    connect = type(database.current())._connect

    def counted(self: Any) -> Any:
        made.append(threading.get_ident())
        return connect(self)

    monkeypatch.setattr(type(database.current()), "_connect", counted)
    with other() as one, other() as two:
        for _ in range(5):
            for somebody in (one, two):
                somebody.does(sent)
                somebody.does(inboxes.count, "main", "bob", "bob")
    assert len(made) == len(set(made)) == 2


@pytest.fixture
def round_trips(store: str) -> Iterator[list[None]]:
    """Grows by one whenever PostgreSQL is waited for."""
    waits: list[None] = []

    def counting(connection: extensions.connection) -> None:
        waits.append(None)
        postgres.wait(connection)

    extensions.set_wait_callback(counting)
    yield waits
    extensions.set_wait_callback(postgres.wait)


@only_postgresql
def test_a_send_is_one_round_trip_and_its_commit_another(round_trips: list[None]) -> None:
    sent()  # prepares what is to be prepared
    round_trips.clear()
    sent()
    assert len(round_trips) == 2


@only_postgresql
def test_of_the_sends_of_a_turn_each_is_one_round_trip(round_trips: list[None]) -> None:
    turns = turn.Shared()
    for expected in (None, 4):
        round_trips.clear()
        for _ in range(3):
            turns.join(put)
        assert turns.end()
        assert expected in (None, len(round_trips))
    assert len(seqs()) == 6


@only_postgresql
def test_reads_and_acks_are_one_round_trip(round_trips: list[None]) -> None:
    row = sent()
    for work in (
        lambda: inboxes.page("main", "bob", "bob", inboxes.Filter(), 10),
        lambda: inboxes.count("main", "bob", "bob"),
        lambda: ack(row.seq),
    ):
        work()
        round_trips.clear()
        work()
        assert len(round_trips) == 1


class WrongClock(SimpleNamespace):
    """A clock of the process that is an hour ahead."""

    ahead = 3600

    def time(self) -> float:
        return time.time() + self.ahead

    def time_ns(self) -> int:
        return time.time_ns() + self.ahead * 10**9

    def monotonic(self) -> float:
        return time.monotonic()


@only_postgresql
def test_the_time_is_the_databases_whatever_the_processs_clock_says(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = WrongClock()
    for module in (clock, postgres):
        monkeypatch.setattr(module, "time", wrong)
    monkeypatch.setattr(database.current(), "synced", 0.0)
    row = sent()
    assert abs(row.created_at - time.time() * 1000) < 60_000
    monkeypatch.setattr(database.current(), "synced", 0.0)
    monkeypatch.undo()
    database.current().synced = 0.0
    sent()
    assert abs(clock.offset) < 60_000


@only_postgresql
def test_the_databases_clock_is_asked_for_twice_a_minute_only(round_trips: list[None]) -> None:
    sent()
    round_trips.clear()
    for _ in range(3):
        sent()
    assert len(round_trips) == 6
    database.current().synced -= clock.RESYNC_SECONDS
    sent()
    assert len(round_trips) == 9
