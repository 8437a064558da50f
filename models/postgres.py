"""PostgreSQL: kept connections, a deadline on the client's side, the database's clock.

``statement_timeout`` is the server's to keep: when the server is frozen,
psycopg2 would block for ever. So the client waits by itself, with an end.
"""

import contextlib
import functools
import os
import select
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import SplitResult

import peewee
import psycopg2
from psycopg2 import errorcodes, extensions

from models import clock, migrations
from models.errors import Contended, Frozen, StoreError, Unavailable, Unusable
from models.statement import Statement

MIGRATION_LOCK = 0x7461736B  # 'task': the advisory lock of migrations
ALONE = "SELECT pg_advisory_xact_lock(1097625454)"  # 'Alon'
MARK_CLASS = 0x7470  # 'tp': the high 16 bits of a writer's mark, its sequence value the low 48
LAST_VALUE = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM messages_seq_seq"
MARK = Statement(
    f"SELECT pg_advisory_xact_lock_shared((CAST({MARK_CLASS} AS bigint) << 48) | ({LAST_VALUE}))"
)
LOWEST_MARK = f"""
SELECT min(((classid::bigint << 32) | objid::bigint) & ((1::bigint << 48) - 1))
FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint >> 16) = {MARK_CLASS}
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
TRANSIENT = (
    errorcodes.DEADLOCK_DETECTED,
    errorcodes.LOCK_NOT_AVAILABLE,
    errorcodes.SERIALIZATION_FAILURE,
)


class DeadlinePassed(psycopg2.OperationalError):
    """The server did not answer before the connection's deadline."""


def wait(connection: extensions.connection) -> None:
    """Wait for the server, but not beyond the deadline of a connection of ours.

    At what this raises psycopg2 closes the connection. It holds the
    connection's lock meanwhile: to close it here would wait for ever.
    """
    ends = time.monotonic() + getattr(connection, "patience", NO_DEADLINE)
    while (state := connection.poll()) != extensions.POLL_OK:
        poller = select.poll()  # a new one: while it connects, a connection may change its socket
        poller.register(
            connection.fileno(),
            select.POLLIN if state == extensions.POLL_READ else select.POLLOUT,
        )
        left = ends - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            raise DeadlinePassed("the database did not answer in time")


AWAY = (
    psycopg2.OperationalError,
    psycopg2.InterfaceError,
    peewee.OperationalError,
    peewee.InterfaceError,
)
HURRY = 0.02  # seconds
NO_DEADLINE = 3600.0  # seconds: of a connection that is not ours
UNKNOWN = """
SELECT 1 FROM pg_class WHERE oid = to_regclass('messages') AND reltuples < 0
  AND pg_relation_size(oid) > 1000000
"""
BEGIN, PART = "BEGIN", "SAVEPOINT part"


class Connection(extensions.connection):
    """A connection that knows what it has prepared, and what is still to be sent.

    What begins a transaction or a part of one goes ahead of the next
    statement, in the same round trip.
    """

    def __init__(self, patience: float, *arguments: Any, **options: Any) -> None:
        self.patience = patience  # seconds that one wait for the server may take
        self.prepared: set[str] = set()
        self.ahead: list[str] = []
        super().__init__(*arguments, **options)


class PostgreSQL(peewee.PostgresqlDatabase):
    """One PostgreSQL database; one connection a thread, opened again when it broke."""

    dialect = "postgresql"
    remote = True

    def __init__(self, url: SplitResult, timeout: float) -> None:
        self.place = url.netloc.rpartition("@")[2] or "its socket"
        self.synced = 0.0
        self.lock_patience = timeout / 2  # seconds a statement waits for somebody's lock
        extensions.set_wait_callback(wait)
        asked = f"?{url.query}" if url.query else ""
        # Not geturl(), which loses the slashes of a URL without a host.
        text = f"{url.scheme}://{url.netloc}{url.path}{asked}"
        super().__init__(text, connection_factory=functools.partial(Connection, timeout))

    def connection(self) -> Connection:
        """This thread's connection, opened if need be."""
        kept: Connection | None = self._state.conn  # type: ignore[attr-defined]
        return kept or super().connection()

    def _connect(self) -> extensions.connection:
        connection: Connection = super()._connect()  # type: ignore[misc]
        with connection.cursor() as cursor:
            cursor.execute(
                "SET client_min_messages = warning; SET TimeZone = 'UTC'; SET jit = off;"
                " SET default_transaction_isolation = 'read committed';"
                # Every statement has its index, also on a table that is still small.
                " SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
                f" SET lock_timeout = '{int(self.lock_patience * 1000)}ms'"
            )
        return connection

    def prepare(self) -> None:
        """Measure the database's clock; have a table analyzed that has just been restored."""
        self.resync()
        if self.execute_sql(UNKNOWN).fetchone():
            self.execute_sql("ANALYZE messages")

    @contextlib.contextmanager
    def migration_lock(self) -> Iterator[None]:
        """Hold the database's advisory lock, so that of several first starts one migrates."""
        try:
            self.connect(reuse_if_open=True)
        except peewee.PeeweeException as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise Unusable(
                f"cannot connect to PostgreSQL at {self.place}: {said}"
                " Start it, or correct the database's URL."
            ) from error
        asked = f"SELECT pg_try_advisory_lock({MIGRATION_LOCK})"
        migrations.wait_for(lambda: bool(self.execute_sql(asked).fetchone()[0]))
        try:
            yield
        finally:
            self.execute_sql(f"SELECT pg_advisory_unlock({MIGRATION_LOCK})")

    def start(self, alone: bool) -> None:
        """Begin a transaction; it leaves its mark for the readers of histories."""
        self._prepare(MARK)
        self.connection().ahead[:] = [BEGIN, MARK.execute]
        if alone:
            self._alone()

    def _alone(self) -> None:
        ahead = self.connection().ahead
        ahead[:] = [BEGIN]
        try:
            self.execute_sql(ALONE)
        except peewee.PeeweeException:
            self.rollback()
            raise
        ahead[:] = [MARK.execute]

    def commit(self) -> None:
        """Commit what has been begun; a transaction that has broken cannot be."""
        if self.is_closed():
            raise peewee.InterfaceError("the transaction's connection is gone")
        ahead = self.connection().ahead
        begun = BEGIN not in ahead
        ahead.clear()  # to commit releases every savepoint
        if begun and self.execute_sql("COMMIT").statusmessage != "COMMIT":
            raise peewee.OperationalError("the transaction had failed and was rolled back")

    def rollback(self) -> None:
        """Undo what has been begun; where the connection is gone, so is the transaction."""
        if self.is_closed():
            return
        ahead = self.connection().ahead
        begun = BEGIN not in ahead
        ahead.clear()
        if begun:
            super().rollback()

    def part(self) -> None:
        """Begin a part of the transaction that can be undone by itself."""
        self.connection().ahead.append(PART)

    def keep(self) -> None:
        """The part stands."""
        ahead = self.connection().ahead
        if PART in ahead:
            ahead.remove(PART)
        else:
            ahead.append("RELEASE SAVEPOINT part")

    def undo(self) -> None:
        """Undo the part."""
        ahead = self.connection().ahead
        if PART in ahead:
            ahead.remove(PART)
        else:
            self.execute_sql("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part")

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run SQL, with what is to be sent ahead of it; returns the cursor of the last of it."""
        return super().execute_sql(self._with_ahead(sql), params)

    def _with_ahead(self, sql: str) -> str:
        ahead = self.connection().ahead
        if ahead:
            sql = "; ".join([*ahead, sql])
            ahead.clear()
        return sql

    def _prepare(self, statement: Statement) -> None:
        connection = self.connection()
        if statement.name not in connection.prepared:
            super().execute_sql(statement.prepare)
            connection.prepared.add(statement.name)

    def perform(self, statement: Statement, values: dict[str, Any], only: bool = False) -> Any:
        """Run a statement, prepared on this connection when it is first run there.

        Here also the ``only`` one of its part needs the savepoint, which rides along.
        """
        self._prepare(statement)
        for name in statement.lists:
            values[name] = list(values[name])
        # Past peewee's own layer, as on SQLite.
        cursor = self.connection().cursor()
        cursor.execute(self._with_ahead(statement.execute), values)
        return cursor

    def hurry(self) -> None:
        """Wait for other transactions' locks no longer than a turn may be held up.

        Of two that wait for each other one must give up first, or both start anew and meet again.
        """
        self.lock_patience = HURRY * (2 + os.getpid() % 4) / 5

    def hang_up(self) -> None:
        """Close the connection, which ends its transaction."""
        self.connection().close()

    def translate(self, error: Exception) -> StoreError | None:
        """The store's error for a driver's, or None for a mistake of ours."""
        code = getattr(error, "pgcode", None) or ""
        if isinstance(error, DeadlinePassed):
            return Frozen(str(error))
        if code in TRANSIENT:
            return Contended(str(error))
        away = isinstance(error, AWAY)
        if (away and not code) or code[:2] in ("08", "53", "57", "58"):
            return Unavailable(str(error))
        if code == errorcodes.READ_ONLY_SQL_TRANSACTION:
            return Unavailable(str(error))
        return None

    def in_unit(self) -> bool:
        """Whether a transaction is open, or about to be, and not broken."""
        connection = self.connection()
        status = connection.info.transaction_status
        return BEGIN in connection.ahead or status == extensions.TRANSACTION_STATUS_INTRANS

    def try_out(self) -> None:
        """Connect on the side and ask for nothing."""
        try:
            connection = self._connect()
            with contextlib.closing(connection), connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except psycopg2.Error as error:
            raise peewee.OperationalError(error) from error

    def resync(self) -> None:
        """Measure how far the database's clock is from ours, at most every 30 s."""
        if self.synced and time.monotonic() - self.synced < clock.RESYNC_SECONDS:
            return
        before = time.time()
        theirs = self.execute_sql("SELECT extract(epoch FROM clock_timestamp())").fetchone()[0]
        ours = (before + time.time()) / 2
        clock.offset = round((float(theirs) - ours) * 1000)
        self.synced = time.monotonic()
