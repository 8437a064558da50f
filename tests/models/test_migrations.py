"""Opening a database: made and migrated once, whoever starts; refused in one line if it must be."""

import contextlib
import os
import socket
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
import pytest

from models import database, migrations, sqlite
from models.errors import Unusable
from models.table import Message
from tests import postgres
from tests.models import rows
from tests.models.others import other, sent, together

STARTS = 8

# What each of several processes does at the same moment: open, send a message, close.
START = """
import json, sys
from models import database, migrations
from tests.models.others import sent

url, further = map(json.loads, sys.argv[1:])
migrations.MIGRATIONS += tuple(map(tuple, further))
print("ready", flush=True)
sys.stdin.readline()
database.open(url)
row = sent(task_id=None, new_task="t")
database.close()
print(row.seq, flush=True)
"""
FURTHER = (
    "ALTER TABLE messages ADD COLUMN extra TEXT",
    "UPDATE messages SET extra = 'moved'",
)


@pytest.fixture(params=("sqlite", "postgresql"))
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database in which there is nothing at all."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/taskpost.db"
    else:
        server: postgres.Server = request.getfixturevalue("postgres_server")
        with server.database("taskpost_new") as url:
            yield url


@contextlib.contextmanager
def opened(url: str) -> Iterator[Any]:
    """The database, open."""
    database.open(url)
    try:
        yield database.current()
    finally:
        database.close()


def select(sql: str) -> list[Any]:
    """Rows of the open database."""
    return list(database.current().execute_sql(sql).fetchall())


def start_together(url: str, *further: tuple[str, ...]) -> list[int]:
    """Have several processes open the database at once; the seq of the message each has sent."""
    return [int(said) for said in together(START, STARTS, url, further)]


def test_an_empty_database_is_brought_to_the_newest_schema(new_url: str) -> None:
    with opened(new_url) as there:
        assert migrations.version(there) == len(migrations.MIGRATIONS)
        assert select("SELECT * FROM messages") == []


def test_opening_again_changes_nothing(new_url: str) -> None:
    with opened(new_url):
        row = sent()
    with opened(new_url) as there:
        assert migrations.version(there) == len(migrations.MIGRATIONS)
        assert select("SELECT seq FROM messages") == [(row.seq,)]


def test_processes_that_start_at_once_on_an_empty_database_migrate_it_once(new_url: str) -> None:
    seqs = start_together(new_url)
    with opened(new_url):
        assert select("SELECT seq FROM messages ORDER BY seq") == [(seq,) for seq in sorted(seqs)]
        assert select("SELECT COUNT(*) FROM messages WHERE opens") == [(1,)]


def test_processes_that_start_at_once_on_an_older_database_migrate_it_once_and_lose_nothing(
    new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(new_url):
        before = [sent(task_id="before").seq for _ in range(50)]
    seqs = start_together(new_url, FURTHER)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, FURTHER))
    with opened(new_url) as there:
        assert migrations.version(there) == len(migrations.MIGRATIONS)
        moved = select("SELECT seq FROM messages WHERE extra = 'moved' ORDER BY seq")
        assert moved == [(seq,) for seq in before]
        assert len(select("SELECT * FROM messages")) == len(before) + len(seqs)


def test_a_newer_schema_is_refused_in_one_line_and_left_alone(
    new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations.MIGRATIONS
    monkeypatch.setattr(migrations, "MIGRATIONS", (*known, FURTHER))
    with opened(new_url):
        row = sent()
    monkeypatch.setattr(migrations, "MIGRATIONS", known)
    newer = f"the database has schema {len(known) + 1}, this version knows {len(known)}"
    assert refused(new_url).startswith(newer)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*known, FURTHER))
    with opened(new_url):
        assert select("SELECT seq FROM messages") == [(row.seq,)]


def test_a_migration_that_fails_is_undone_as_a_whole(
    new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations.MIGRATIONS
    with opened(new_url):
        sent()
    broken = ((FURTHER[0], "UPDATE messages SET missing = 1"),)
    monkeypatch.setattr(migrations, "MIGRATIONS", known + broken)
    assert "missing" in refused(new_url)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*known, FURTHER))
    with opened(new_url):
        assert select("SELECT extra FROM messages") == [("moved",)]


def test_a_lock_that_another_process_never_gives_back_is_told_of(
    new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "PATIENCE", 0.1)
    with other() as somebody:
        somebody.does(database.open, new_url)
        lock = database.current().migration_lock()
        somebody.does(lock.__enter__)
        assert "held the migration lock" in refused(new_url)
        somebody.does(lock.__exit__, None, None, None)


def test_a_table_that_has_just_been_restored_is_analyzed_when_it_is_opened(
    postgres_server: postgres.Server,
) -> None:
    known = "SELECT reltuples FROM pg_class WHERE oid = 'messages'::regclass"
    with postgres_server.database("taskpost_restored") as url:
        with opened(url) as there:
            there.execute_sql("ALTER TABLE messages SET (autovacuum_enabled = off)")
            rows.messages(10_000)
            assert select(known) == [(-1.0,)]
        with opened(url):
            assert select(known) == [(10_000.0,)]


def test_a_table_of_somebody_else_is_refused(new_url: str) -> None:
    with opened(new_url) as there:
        there.execute_sql("DROP TABLE messages")
        there.execute_sql("CREATE TABLE messages (id INTEGER)")
        if there.dialect == "sqlite":
            there.execute_sql("PRAGMA user_version = 0")
        else:
            there.execute_sql("COMMENT ON TABLE messages IS 'the first 5'")
    assert "already exists" in refused(new_url)


def refused(url: str) -> str:
    """The one line that says why a database cannot be opened."""
    with pytest.raises(Unusable) as caught:
        database.open(url, 1.0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_model_has_the_columns_of_the_table(store: str) -> None:
    columns = database.current().get_columns("messages")
    seq, *others = Message._meta.sorted_fields
    assert [column.name for column in columns if column.primary_key] == [seq.column_name]
    assert {column.name: column.null for column in columns if not column.primary_key} == {
        field.column_name: field.null for field in others
    }


def test_a_seq_is_never_used_again(store: str) -> None:
    rows = [sent() for _ in range(3)]
    database.current().execute_sql("DELETE FROM messages")
    after = sent()
    assert after.seq > max(row.seq for row in rows)


@pytest.mark.parametrize("status", ["unknown", "fact", "", None])
def test_a_message_has_one_of_the_known_statuses(store: str, status: str | None) -> None:
    row = sent()
    with pytest.raises(Exception, match=r"(?i)constraint"):
        Message.update(status=status).where(Message.seq == row.seq).execute()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sqlite_is_set_up_to_survive_a_power_cut_and_to_give_space_back(store: str) -> None:
    expected = {
        "auto_vacuum": 2,  # incremental
        "journal_mode": "wal",
        "synchronous": 2,  # full
        "busy_timeout": 5000,
        "journal_size_limit": 64 << 20,
    }

    def found() -> dict[str, Any]:
        return {name: database.current().pragma(name) for name in expected}

    assert found() == expected
    with other() as somebody:
        assert somebody.does(found) == expected


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_every_connection_to_postgresql_is_set_up(store: str) -> None:
    expected = {
        "timezone": "UTC",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "default_transaction_isolation": "read committed",
    }

    def found() -> dict[str, Any]:
        return {name: select(f"SHOW {name}")[0][0] for name in expected}

    assert found() == expected
    with other() as somebody:
        assert somebody.does(found) == expected


@pytest.fixture
def open_mask() -> Iterator[None]:
    """A process that lets everybody read what it makes."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_the_files_of_sqlite_are_their_owners_alone_from_the_first_byte(
    tmp_path: Path, open_mask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, int] = {}
    really_open = os.open

    def watched(path: str, flags: int, mode: int = 0o777) -> int:
        file = really_open(path, flags, mode)
        found = os.fstat(file)
        if found.st_size == 0:
            made[Path(path).name] = stat.S_IMODE(found.st_mode)
        return file

    monkeypatch.setattr(sqlite.os, "open", watched)
    with opened(f"sqlite:///{tmp_path}/taskpost.db"):
        sent()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert made == {"taskpost.db": 0o600, "taskpost.db.lock": 0o600}
    names = ("taskpost.db", "taskpost.db-wal", "taskpost.db-shm", "taskpost.db.lock")
    assert modes == dict.fromkeys(names, 0o600)


def a_folder(path: Path) -> str:
    """Where a file should be there is a folder."""
    path.mkdir()
    return "directory"


def in_no_folder(path: Path) -> str:
    """The folder is missing."""
    return "" if path.parent.exists() else "No such file or directory"


def a_text(path: Path) -> str:
    """The file is of another kind."""
    path.write_text("These are no messages. " * 100)
    return "not a database"


def a_torn_file(path: Path) -> str:
    """The file is a database of which the greater part is gone."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (value)")
        connection.execute("INSERT INTO other VALUES (zeroblob(100000))")
        connection.commit()
    path.write_bytes(path.read_bytes()[:5000])
    return "malformed"


@pytest.mark.parametrize("make", [a_folder, a_text, a_torn_file])
def test_a_path_at_which_there_is_no_database_is_refused(
    tmp_path: Path, make: Callable[[Path], str]
) -> None:
    path = tmp_path / "taskpost.db"
    said = make(path)
    line = refused(f"sqlite:///{path}")
    assert said in line
    assert str(path) in line


def test_a_path_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "taskpost.db"
    assert f"{path}: No such file or directory" in refused(f"sqlite:///{path}")
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "taskpost.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "mysql://localhost/taskpost",
        "postgresql://[::1/taskpost",
    ],
)
def test_what_is_no_url_of_a_database_is_refused(url: str) -> None:
    assert "URL" in refused(url)


def test_a_server_that_is_not_there_is_refused_without_its_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        line = refused(f"postgresql://taskpost:secret@127.0.0.1:{port}/taskpost")
    assert f"127.0.0.1:{port}" in line
    assert "refused" in line
    assert "secret" not in line


def test_a_database_that_the_server_does_not_have_is_refused(
    postgres_server: postgres.Server,
) -> None:
    assert 'database "missing" does not exist' in refused(postgres_server.url("missing"))


def test_a_server_that_says_nothing_is_refused_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        line = refused(f"postgresql://taskpost@127.0.0.1:{silent.getsockname()[1]}/taskpost")
    assert "did not answer in time" in line


def test_a_refused_database_leaves_no_connection_open(
    new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations.MIGRATIONS
    with opened(new_url) as there:
        migrations._record(there, len(known) + 1)
    assert "schema" in refused(new_url)
    with opened_by_hand(new_url) as connections:
        assert connections() == 0


@contextlib.contextmanager
def opened_by_hand(url: str) -> Iterator[Callable[[], int]]:
    """How many others have the database open."""
    if url.startswith("sqlite"):
        path = urlsplit(url).path[1:]

        def files() -> int:
            links = [Path(each) for each in Path("/proc/self/fd").iterdir()]
            return sum(link.exists() and str(link.readlink()) == path for link in links)

        yield files
        return
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:

        def backends() -> int:
            cursor.execute(
                "SELECT COUNT(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
            return int(cursor.fetchone()[0])

        yield backends
