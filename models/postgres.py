"""PostgreSQL: kept connections, a deadline on the client's side, the database's clock.

``statement_timeout`` is the server's to keep: when the server is frozen,
psycopg2 would block for ever. So the client waits by itself, with an end.
"""

import contextlib
import select
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import SplitResult

import peewee
import psycopg2
from psycopg2 import errorcodes, extensions

from models import clock
from models.errors import Contended, Frozen, StoreError, Unavailable, Unusable
from models.statement import Statement

MIGRATION_LOCK = 0x7461736B  # 'task': the advisory lock of migrations
MARK_CLASS = 0x7470  # 'tp': the high 16 bits of a writer's mark, its sequence value the low 48
LAST_VALUE = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM messages_seq_seq"
MARK = f"SELECT pg_advisory_xact_lock_shared(({MARK_CLASS}::bigint << 48) | ({LAST_VALUE}))"
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

deadline = threading.local()


class DeadlinePassed(psycopg2.OperationalError):
    """The server did not answer before the thread's deadline."""


def wait(connection: extensions.connection) -> None:
    """Wait for the server, but not beyond the thread's deadline; then the connection is closed."""
    ends = time.monotonic() + getattr(deadline, "seconds", 5.0)
    poller = select.poll()
    while (state := connection.poll()) != extensions.POLL_OK:
        poller.register(
            connection.fileno(),
            select.POLLIN if state == extensions.POLL_READ else select.POLLOUT,
        )
        if not poller.poll(max(0.0, ends - time.monotonic()) * 1000):
            connection.close()
            raise DeadlinePassed("the database did not answer in time")


class Connection(extensions.connection):
    """A connection that knows which statements it has prepared."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared: set[str] = set()


class PostgreSQL(peewee.PostgresqlDatabase):
    """One PostgreSQL database; one connection a thread, opened again when it broke."""

    dialect = "postgresql"
    remote = True

    def __init__(self, url: SplitResult, timeout: float) -> None:
        self.place = f"{url.hostname or 'its local socket'}{f':{url.port}' if url.port else ''}"
        self.deadline = timeout
        self.synced = 0.0
        extensions.set_wait_callback(wait)
        super().__init__(url.geturl(), connection_factory=Connection)

    def _connect(self) -> extensions.connection:
        deadline.seconds = self.deadline
        connection: Connection = super()._connect()  # type: ignore[misc]
        with connection.cursor() as cursor:
            cursor.execute(
                "SET client_min_messages = warning; SET TimeZone = 'UTC'; SET jit = off;"
                " SET default_transaction_isolation = 'read committed';"
                # Every statement has its index, also on a table that is still small.
                " SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
                f" SET lock_timeout = '{int(self.deadline * 500)}ms'"
            )
        return connection

    def prepare(self) -> None:
        """Measure the database's clock."""
        self.resync()

    @contextlib.contextmanager
    def migration_lock(self) -> Iterator[None]:
        """Hold the database's advisory lock, so that of several first starts one migrates."""
        try:
            self.connect(reuse_if_open=True)
        except peewee.PeeweeException as error:
            said = str(error).strip() or type(error).__name__
            raise Unusable(
                f"cannot connect to PostgreSQL at {self.place}: {said}"
                " Start it, or correct the database's URL."
            ) from error
        ends = time.monotonic() + 60
        while not self.execute_sql(f"SELECT pg_try_advisory_lock({MIGRATION_LOCK})").fetchone()[0]:
            if time.monotonic() > ends:
                raise Unusable("another process has held the migration lock for a minute")
            time.sleep(0.05)
        try:
            yield
        finally:
            self.execute_sql(f"SELECT pg_advisory_unlock({MIGRATION_LOCK})")

    def start(self, writes: bool) -> None:
        """Begin a transaction; one that may write leaves its mark for the readers of histories."""
        self.execute_sql("BEGIN; " + MARK if writes else "BEGIN READ ONLY")

    def perform(self, statement: Statement, values: dict[str, Any]) -> Any:
        """Run a statement, prepared on this connection when it is first run there."""
        prepared = self.connection().prepared
        if statement.name not in prepared:
            self.execute_sql(statement.prepare)
            prepared.add(statement.name)
        for name in statement.lists:
            values[name] = list(values[name])
        return self.execute_sql(statement.execute, values)

    def translate(self, error: peewee.PeeweeException) -> StoreError | None:
        """The store's error for a driver's, or None for a mistake of ours."""
        cause = error.args[0] if error.args else None
        code = getattr(cause, "pgcode", None) or ""
        if isinstance(cause, DeadlinePassed):
            return Frozen(str(error))
        if code in TRANSIENT:
            return Contended(str(error))
        away = isinstance(error, peewee.OperationalError | peewee.InterfaceError)
        if (away and not code) or code[:2] in ("08", "53", "57", "58"):
            return Unavailable(str(error))
        if code == errorcodes.READ_ONLY_SQL_TRANSACTION:
            return Unavailable(str(error))
        return None

    def mark(self) -> None:
        """Set a savepoint."""
        self.execute_sql("SAVEPOINT part")

    def unmark(self) -> None:
        """Release the savepoint."""
        self.execute_sql("RELEASE SAVEPOINT part")

    def in_unit(self) -> bool:
        """Whether a transaction is open and not broken."""
        status = self.connection().info.transaction_status
        return bool(status == extensions.TRANSACTION_STATUS_INTRANS)

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
