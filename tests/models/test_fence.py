"""Reading on from the last row seen skips nothing, in whatever order the writers commit."""

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator

import psycopg2
import pytest

from models import database, postgres, threads
from models.rows import Row, cut
from tests.models.others import Other, backend, other, put, sent

WRITERS = 6
MESSAGES = 150  # of each writer


@pytest.fixture
def late(store: str) -> Iterator[Other]:
    """Somebody who begins before us and commits after us."""
    with other() as somebody:
        yield somebody


def history(after: int = 0, task_id: str = "t") -> tuple[list[int], bool]:
    """The seqs of a thread above a place, and whether more is held back."""
    rows, _, hidden = threads.history("main", task_id, None, after, 500)
    return [row.seq for row in rows], hidden


def history_without_fence(after: int) -> list[int]:
    """What a reader sees who takes all that is committed."""
    seen = {"realm": "main", "task_id": "t", "anyone": True, "name": "", "now": 0}
    found = database.run(
        threads.HISTORY, **seen, after=after, fence=threads.END, fetch=501, bytes=1 << 20
    )
    rows, _ = cut(found, 500, 1 << 20)
    return [row.seq for row in rows]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_message_that_commits_late_is_read_before_those_above_it(late: Other) -> None:
    late.does(database.begin)
    first = late.does(put)
    second = sent()
    assert first.seq < second.seq
    assert history() == ([], True)
    late.does(database.commit)
    assert history() == ([first.seq, second.seq], False)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_without_the_fence_a_message_that_commits_late_would_be_skipped(late: Other) -> None:
    late.does(database.begin)
    first = late.does(put)
    second = sent()
    seen = history_without_fence(0)
    late.does(database.commit)
    assert seen == [second.seq]
    assert first.seq not in seen + history_without_fence(seen[-1])


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_what_is_below_every_open_transaction_is_shown_at_once(late: Other) -> None:
    first = sent()
    late.does(database.begin)
    late.does(put)
    assert history() == ([first.seq], False)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("end", [database.commit, database.abandon, database.drop])
def test_what_is_committed_shows_as_soon_as_the_transaction_below_it_ends(
    late: Other, end: Callable[[], None]
) -> None:
    late.does(database.begin)
    late.does(put, task_id="another")
    mine = sent()
    assert history() == ([], True)
    late.does(end)
    # Of a connection that is closed the server learns a moment later.
    ends = time.monotonic() + 10
    while history() == ([], True) and time.monotonic() < ends:
        database.ping()
    assert history() == ([mine.seq], False)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_writer_whose_backend_is_killed_holds_nothing_back(late: Other) -> None:
    late.does(database.begin)
    late.does(put)
    process = late.does(backend)
    mine = sent()
    # With a timeout the call returns when the backend is gone.
    database.current().execute_sql("SELECT pg_terminate_backend(%s, 20000)", (process,))
    assert history() == ([mine.seq], False)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_slow_writer_holds_back_its_readers_but_no_sender(late: Other) -> None:
    late.does(database.begin)
    late.does(put)
    mine = [sent().seq for _ in range(3)]
    assert history() == ([], True)
    assert history_without_fence(0) == mine


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_transaction_that_has_written_nothing_yet_holds_back_what_comes_after(
    late: Other,
) -> None:
    """It may take its number, which is a lower one, long before it inserts its row."""
    late.does(database.begin)
    late.does(database.ping)
    mine = sent()
    assert history() == ([], True)
    late.does(database.commit)
    assert history() == ([mine.seq], False)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_locks_that_are_no_marks_of_this_database_hold_nothing_back(store: str) -> None:
    mine = sent()
    elsewhere = store.rpartition("/")[0] + "/postgres"
    mark = (postgres.MARK_CLASS << 48) | 0
    with (
        contextlib.closing(psycopg2.connect(elsewhere)) as foreign,
        contextlib.closing(psycopg2.connect(store)) as own,
        foreign.cursor() as of_foreign,
        own.cursor() as of_own,
    ):
        of_foreign.execute("SELECT pg_advisory_lock_shared(%s)", (mark,))
        of_own.execute("SELECT pg_advisory_lock_shared(1), pg_advisory_lock_shared(2, 3)")
        assert history() == ([mine.seq], False)
        of_own.execute("SELECT pg_advisory_lock_shared(%s)", (mark,))
        assert history() == ([], True)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sqlite_needs_no_fence(late: Other) -> None:
    """It has one writer at a time."""
    assert threads.fence() == threads.END
    mine = sent()
    late.does(database.begin)
    late.does(put)
    assert history() == ([mine.seq], False)


class Reader:
    """Reads on from the last row seen, again and again, until told to stop."""

    def __init__(self, look: Callable[[int], list[int]], stop: threading.Event) -> None:
        self.look, self.stop, self.seen = look, stop, [0]
        self.looks = 0

    def run(self) -> None:
        """Read until there is nothing new after the end."""
        for self.looks in itertools.count(1):
            ended = self.stop.is_set()
            found = self.look(self.seen[-1])
            self.seen += found
            if ended and not found:
                return


def write(number: int) -> list[Row]:
    """Send messages in transactions, some of which take a while to commit."""
    dice = random.Random(number)
    rows: list[Row] = []
    while len(rows) < MESSAGES:
        database.begin()
        rows += [put(sender=f"writer-{number}") for _ in range(dice.randint(1, 3))]
        if dice.random() < 0.3:
            database.current().execute_sql("SELECT pg_sleep(%s)", (dice.random() / 100,))
        database.commit()
    return rows


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_reader_beside_many_writers_misses_nothing_and_one_without_the_fence_would(
    store: str,
) -> None:
    stop = threading.Event()
    fenced = Reader(lambda after: history(after)[0], stop)
    unfenced = Reader(history_without_fence, stop)
    with contextlib.ExitStack() as stack:
        *writers, one, two = [stack.enter_context(other()) for _ in range(WRITERS + 2)]
        readers = [one.starts(fenced.run), two.starts(unfenced.run)]
        written = [each.starts(write, number) for number, each in enumerate(writers)]
        committed = {row.seq for future in written for row in future.result(60)}
        stop.set()
        for reader in readers:
            reader.result(60)
    assert fenced.looks > 20
    assert fenced.seen[1:] == sorted(committed)
    assert committed - set(unfenced.seen)
