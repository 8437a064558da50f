"""SQLite: how its file is made and its connections are set up."""

import contextlib
import fcntl
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import SplitResult, unquote

import peewee

from models import migrations
from models.errors import Contended, StoreError, Unavailable, Unusable
from models.statement import Statement

FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM)
LOOK_AGAIN = (0.0002, 0.002)  # seconds until a writer looks again whether it is its turn
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Parts(threading.local):
    """The part of the transaction that is under way in a thread."""

    def __init__(self) -> None:
        self.saved: bool | None = None  # whether there is a savepoint; None outside of a part
        self.undo: str | None = None  # SQL that takes back what has been written without one
        self.values: dict[str, Any] = {}  # its parameters
        self.changes = 0  # rows that had been changed on the connection before


class SQLite(peewee.SqliteDatabase):
    """A database file, owner-only from its first byte; one connection a thread."""

    dialect = "sqlite"
    remote = False

    def __init__(self, url: SplitResult, timeout: float) -> None:
        path = unquote(url.path)[1:]  # sqlite:///relative.db, sqlite:////absolute.db
        if path in ("", ":memory:"):
            raise Unusable("a SQLite URL needs a file: sqlite:///taskpost.db")
        self.path = os.path.abspath(path)
        self.patience = timeout
        self.parts = _Parts()
        super().__init__(
            self.path,
            timeout=timeout,
            pragmas={
                "synchronous": "FULL",
                "journal_size_limit": 64 << 20,
                # Pages, 16 MB: whoever commits then writes them to the file, and others wait.
                "wal_autocheckpoint": 4000,
                "cache_size": -16 << 10,
                "temp_store": "MEMORY",
            },
        )

    def connection(self) -> sqlite3.Connection:
        """This thread's connection, opened if need be."""
        kept: sqlite3.Connection | None = self._state.conn  # type: ignore[attr-defined]
        return kept or super().connection()

    def prepare(self) -> None:
        """Make the file, and set what must be set before WAL and the first table."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.connect(reuse_if_open=True)
            if not self.execute_sql("SELECT 1 FROM sqlite_master").fetchone():
                self.pragma("auto_vacuum", "INCREMENTAL")
            self.pragma("journal_mode", "WAL")
        except OSError as error:
            raise self._unusable(error) from error
        except peewee.PeeweeException as error:
            raise Unusable(f"cannot use the SQLite file {self.path}: {error}") from error

    def _unusable(self, error: OSError) -> Unusable:
        return Unusable(
            f"cannot use the SQLite file {self.path}: {error.strerror};"
            " it must be a file in a folder that exists, and this user must be able to write both"
        )

    @contextlib.contextmanager
    def migration_lock(self) -> Iterator[None]:
        """Hold a lock beside the file, so that of several first starts one migrates."""
        try:
            lock = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            migrations.wait_for(lambda: _locked(lock))
            yield
        finally:
            os.close(lock)

    def start(self, alone: bool) -> None:
        """Begin a transaction: IMMEDIATE, or one that reads first could not wait its turn.

        SQLite itself looks again only every 100 ms whether others still write.
        Where several processes write one after the other, without a pause, one
        of them would then wait for seconds.
        """
        connection = self.connection()
        self.parts.saved = None
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            self._begin(connection, time.monotonic() + self.patience)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self.patience * 1000)}")

    def _begin(self, connection: sqlite3.Connection, ends: float) -> None:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in BUSY or time.monotonic() > ends:
                    raise
            time.sleep(random.uniform(*LOOK_AGAIN))

    def perform(self, statement: Statement, values: dict[str, Any], only: bool = False) -> Any:
        """Run a statement; the driver keeps it prepared.

        One that can be undone, and is the ``only`` one of its part that writes, needs no savepoint:
        that would cost as much as the statement, for copies of all pages that it changes.
        """
        connection = self.connection()
        if statement.writes and self.parts.saved is False:
            self._begin_part(statement if only else None, values)
        # Past peewee's own layer, which costs as much again as a small statement.
        return connection.execute(statement.for_sqlite(values), values)

    def perform_many(
        self, statement: Statement, rows: Sequence[tuple[Any, ...]], only: bool
    ) -> int:
        """Run a statement once for each row; the rowid of the last one inserted."""
        connection = self.connection()
        if self.parts.saved is False:
            self._begin_part(statement if only else None, {})
        connection.executemany(statement.numbered, rows)
        return int(connection.execute("SELECT last_insert_rowid()").fetchone()[0])

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run SQL of peewee's."""
        if self.parts.saved is False and not sql.startswith("SELECT"):
            self._begin_part(None, {})
        return super().execute_sql(sql, params)

    def _begin_part(self, only: Statement | None, values: dict[str, Any]) -> None:
        """Before a part's first write: note how that one is undone, or make a savepoint."""
        parts, connection = self.parts, self.connection()
        if parts.undo and connection.total_changes != parts.changes:
            raise peewee.InternalError("what was to be the only statement of its part is not")
        parts.undo = only.undo if only is not None else None
        if parts.undo:
            parts.values, parts.changes = values, connection.total_changes
        else:
            connection.execute("SAVEPOINT part")
            parts.saved = True

    def hurry(self) -> None:
        """Nothing to do: who writes holds the only lock, and not for long."""

    def hang_up(self) -> None:
        """Close the connection; its transaction would live on while a cursor is referred to."""
        connection = self.connection()
        try:
            if connection.in_transaction:
                connection.rollback()
        finally:
            connection.close()

    def translate(self, error: Exception) -> StoreError | None:
        """The store's error for a driver's, or None for a mistake of ours."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in BUSY:
            return Contended(str(error))
        if code in FULL or code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            return Unavailable(str(error))
        if isinstance(error, peewee.InterfaceError):
            return Unavailable(str(error))  # the connection was given up
        return None

    def part(self) -> None:
        """Begin a part of the transaction that can be undone by itself, once it writes."""
        self.parts.saved, self.parts.undo = False, None

    def keep(self) -> None:
        """The part stands."""
        if self.parts.saved:
            self.connection().execute("RELEASE SAVEPOINT part")
        self.parts.saved = None

    def undo(self) -> None:
        """Undo the part."""
        parts, connection = self.parts, self.connection()
        if parts.saved:
            connection.execute("ROLLBACK TO SAVEPOINT part")
            connection.execute("RELEASE SAVEPOINT part")
        elif parts.undo and (changed := connection.total_changes - parts.changes):
            connection.execute(parts.undo, {**parts.values, "changed": changed})
        parts.saved = None

    def in_unit(self) -> bool:
        """Whether a transaction is open; SQLite ends one itself on a full disk."""
        return bool(self.connection().in_transaction)

    def try_out(self) -> None:
        """Nothing to do: a file is not away."""

    def resync(self) -> None:
        """Nothing to do: one machine, one clock."""
