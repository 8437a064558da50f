"""The database of this process: opened once, a connection a thread, units of work.

A unit of work is one transaction. The statements of the daily verbs are
written once, with named parameters (``:name``), and run on either database;
rarer queries are built with peewee from ``models.table``.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import peewee
import psycopg2

from models import migrations
from models.errors import StoreError, Unavailable, Unusable
from models.postgres import PostgreSQL
from models.sqlite import SQLite
from models.statement import Statement
from models.table import Message

Opened = SQLite | PostgreSQL

KINDS: Mapping[str, type[SQLite] | type[PostgreSQL]] = {
    "sqlite": SQLite,
    "postgresql": PostgreSQL,
    "postgres": PostgreSQL,
}

UNREADABLE = "not a database URL: special characters of user and password must be %-encoded"

Result = TypeVar("Result")

DRIVERS = (peewee.PeeweeException, sqlite3.Error, psycopg2.Error)

database: Opened | None = None
watchers: list[Callable[[Any, dict[str, Any]], None]] = []  # told every statement before it runs


def open(url: str, timeout: float = 5.0) -> None:
    """Open the database at ``url`` and bring its schema up to date.

    ``timeout`` is how long one statement may take, in seconds. Raises
    ``Unusable``, with one readable line, when it cannot be opened or was
    migrated by a newer version.
    """
    global database
    opened = _of(url, timeout)
    try:
        with opened.migration_lock():
            opened.prepare()
            migrations.migrate(opened)
    except Unusable:
        _hang_up(opened)
        raise
    except peewee.PeeweeException as error:
        _hang_up(opened)
        raise Unusable(f"cannot use the database: {' '.join(str(error).split())}") from error
    Message.bind(opened)
    database = opened


def _of(url: str, timeout: float) -> Opened:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Unusable(UNREADABLE) from None  # its text may show a part of the password
    if parts.scheme not in KINDS:
        raise Unusable("a database URL begins with sqlite:/// or postgresql://")
    if parts.scheme != "sqlite" and "@" in url and "@" not in parts.netloc:
        raise Unusable(UNREADABLE)
    return KINDS[parts.scheme](parts, timeout)


def close() -> None:
    """Close this thread's connection and forget the database."""
    global database
    if database is not None:
        drop()
        database = None


def current() -> Opened:
    """The open database; raises ``Unavailable`` before ``open``."""
    if database is None:
        raise Unavailable("no database is open")
    return database


def begin(alone: bool = False) -> None:
    """Begin a unit of work on this thread's connection, opening it if need be.

    What is begun may reach the database with the first statement: only then
    does a connection that broke while it was idle show. One that is ``alone``
    waits until no other such is under way.
    """
    opened = current()
    with translated():
        opened.resync()
        opened.start(alone)


def commit() -> None:
    """Commit; returns once it is durable. After an error nothing is known to be written."""
    try:
        with translated():
            current().commit()
    except Exception:
        drop()
        raise


def abandon() -> None:
    """Roll the unit of work back; a connection that cannot is given up."""
    try:
        current().rollback()
    except DRIVERS:
        drop()


def hurry() -> None:
    """From now on, and on a new connection, wait for other transactions only briefly."""
    current().hurry()
    drop()


def part(work: Callable[[], Result]) -> Result:
    """Do ``work`` as a part of the unit of work; what it has written is undone if it raises.

    Where that cannot be done, the connection is given up and with it the whole unit.
    """
    opened = current()
    try:
        try:
            opened.part()
            result = work()
            opened.keep()
        except DRIVERS as error:
            _fail(error)
    except Unavailable:
        raise  # the connection is gone, and the unit with it
    except BaseException:
        _undo(opened)
        raise
    return result


def _undo(opened: Opened) -> None:
    try:
        opened.undo()
    except DRIVERS:
        drop()


def connection() -> object:
    """This thread's connection, by which a transaction is told from a later one; or None."""
    opened = current()
    return None if opened.is_closed() else opened.connection()


def holds(begun_on: object) -> bool:
    """Whether this thread's connection is still that one, and has its transaction open."""
    opened = current()
    return not opened.is_closed() and opened.connection() is begun_on and opened.in_unit()


def probe() -> None:
    """Connect anew and ask for nothing; raises ``Unavailable`` while the database is away."""
    opened = current()
    with translated():
        opened.try_out()


def drop() -> None:
    """Give up this thread's connection; the next unit of work opens another."""
    _hang_up(current())


def _hang_up(opened: Opened) -> None:
    if not opened.is_closed():
        # A broken connection may fail to close; it is forgotten all the same.
        with contextlib.suppress(sqlite3.Error, psycopg2.Error):
            opened.hang_up()
    opened.dispose()


def run(statement: Statement, **values: Any) -> Any:
    """Run a statement on this thread's connection; returns the driver's cursor."""
    return perform(statement, values)


def perform(statement: Statement, values: dict[str, Any], only: bool = False) -> Any:
    """Run a statement; ``only`` when nothing else is written in its part of the unit of work."""
    for watcher in watchers:
        watcher(statement, dict(values))
    opened = current()
    try:
        return opened.perform(statement, values, only)
    except DRIVERS as error:
        _fail(error)


def perform_many(statement: Statement, rows: Sequence[tuple[Any, ...]], only: bool = False) -> int:
    """Run a statement once for each of some rows, on SQLite; the seq of the last one inserted.

    A row's values are in the order in which the statement first names its parameters.
    """
    for watcher in watchers:
        watcher(statement, dict(zip(statement.names, rows[0], strict=True)))
    opened = current()
    assert isinstance(opened, SQLite), "elsewhere each would be a round trip"
    try:
        return opened.perform_many(statement, rows, only)
    except DRIVERS as error:
        _fail(error)


def query(built: Any) -> Any:
    """Run a query built with peewee; returns the driver's cursor."""
    for watcher in watchers:
        watcher(built, {})
    with translated():
        return current().execute(built)


@contextlib.contextmanager
def translated() -> Any:
    """Turn a driver's error into the store's; a connection that broke is given up."""
    try:
        yield
    except DRIVERS as error:
        _fail(error)


def watched(work: Callable[[], Result]) -> Result:
    """Do ``work``; what a driver raises while rows are fetched is the store's error too."""
    try:
        return work()
    except DRIVERS as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    """Raise the store's error for a driver's; a mistake of ours is raised as it is."""
    found: StoreError | None = current().translate(getattr(error, "orig", error))
    if found is None:
        raise error
    if isinstance(found, Unavailable):
        drop()
    raise found from error


PING = Statement("SELECT 1")


def ping() -> None:
    """Ask the database for nothing, to see that it answers."""
    run(PING).fetchone()
