"""The queues whose claims are measured: Taskpost, a table of pgmq's kind, and beanstalkd."""

import contextlib
import itertools
import json
import re
import shutil
import socket
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any

import psycopg2

from bench import client, growth, operations, processes, servers, wire
from bench.claims import Contender, Make
from bench.client import Result, Unit, now
from bench.dialects import CONTENT, SENDER
from bench.servers import Missing, Server, Yard
from tests import postgres

BOX = "claimed"
PAGE = 500  # messages in one request, where there are many
LEASE = 3600  # seconds
LONG = 600.0  # seconds for what ends by itself
RECEIPT = re.compile(rb'"receipt":\s*"([^"]+)"')
MESSAGE = b'{"from":"%s","task_id":"bench","type":"request","content":%s}' % (
    SENDER.encode(),
    CONTENT,
)


class Remote(ABC):
    """A queue behind a socket, driven by ``bench.client``."""

    def __init__(self, server: Server) -> None:
        self.server, self.key, self.title = server, server.key, server.title

    def cpu(self) -> float:
        """Seconds of CPU that the server has taken, its database's included."""
        return self.server.cpu()

    def settle(self) -> None:  # noqa: B027
        """Nothing to do."""

    def claim(self, clients: int, count: int) -> Result:
        """Let ``clients`` claim ``count`` messages, one by one."""
        left = iter(range(count))
        result = operations.work(
            self.server,
            lambda number: None if next(left, None) is None else self.unit(number),
            clients,
            LONG,
        )
        self.server.trim()
        return result

    @abstractmethod
    def unit(self, number: int) -> Unit:
        """One claim of the connection of this number."""


class Inbox(Remote):
    """An inbox of Taskpost."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.receipts: dict[int, list[str]] = defaultdict(list)  # by connection, of the last claim

    def fill(self, count: int) -> None:
        """Put so many messages into the inbox, in batches."""
        operations.prepare(self.server, [BOX], count, again=True)

    def hold(self, count: int) -> None:
        """Claim so many of the oldest and never be done with them."""
        pages = iter([min(PAGE, count - begun) for begun in range(0, count, PAGE)])

        def page(number: int) -> Unit | None:
            limit = next(pages, None)
            return None if limit is None else self._claimed([], limit)

        result = operations.work(self.server, page, 1, LONG)
        if result.total != count:
            raise operations.Unfit(f"{self.title}: {result.failure or result.total} held")

    def settle(self) -> None:
        """Have done now what the database would sooner or later do by itself."""
        growth.tidy(self.server.database)

    def unit(self, number: int) -> Unit:
        """Claim one message, and be done with the last."""
        return self._claimed(self.receipts[number], 1)

    def _claimed(self, last: list[str], limit: int) -> Unit:
        wanted = {"limit": limit, "lease_seconds": LEASE, "ack": last}
        path = f"/agents/{BOX}/inbox/claim"
        reply = yield self.server.dialect.post(path, json.dumps(wanted).encode())
        last[:] = [found.decode() for found in RECEIPT.findall(reply.body)]
        return len(last)


class QueueTable:
    """A queue table of the kind that pgmq makes, driven from threads of this process.

    A claim and the archiving of the message before are one request and one
    transaction, as they are with Taskpost, and what is done with is kept.
    """

    key, title = "queue-table", "queue table as of pgmq, PostgreSQL, no server between"
    columns = (
        "(msg_id BIGINT {id} PRIMARY KEY, read_ct INT NOT NULL DEFAULT 0, enqueued_at TIMESTAMPTZ"
        " NOT NULL DEFAULT now(){more}, vt TIMESTAMPTZ NOT NULL, message JSONB)"
    )
    add = "INSERT INTO q (vt, message) SELECT clock_timestamp(), %s FROM generate_series(1, %s)"
    take = (
        f"UPDATE q SET vt = clock_timestamp() + interval '{LEASE} seconds', read_ct = read_ct + 1"
        " WHERE msg_id IN (SELECT msg_id FROM q WHERE vt <= clock_timestamp() ORDER BY msg_id"
        " LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING msg_id, read_ct, enqueued_at, vt, message"
    )
    archive = (
        "WITH done AS (DELETE FROM q WHERE msg_id = %s"
        " RETURNING msg_id, read_ct, enqueued_at, vt, message)"
        " INSERT INTO a (msg_id, read_ct, enqueued_at, vt, message) SELECT * FROM done; "
    )

    def __init__(self, yard: Yard) -> None:
        yard.started += 1
        self.url, self.root, self.stack = yard.database(), yard.postgres.process.pid, yard.stack
        self.cursors: list[Any] = []
        self.last: dict[int, int] = {}  # by connection, what it claimed last
        for name, column in (("q", "GENERATED ALWAYS AS IDENTITY"), ("a", "")):
            more = "" if column else ", archived_at TIMESTAMPTZ NOT NULL DEFAULT now()"
            self._cursor(0).execute(
                f"CREATE TABLE {name} {self.columns.format(id=column, more=more)}"
            )
        self._cursor(0).execute("CREATE INDEX q_vt ON q (vt)")

    def _cursor(self, number: int) -> Any:
        while len(self.cursors) <= number:
            connection = psycopg2.connect(self.url)
            connection.autocommit = True
            self.stack.callback(connection.close)
            self.cursors.append(connection.cursor())
        return self.cursors[number]

    def cpu(self) -> float:
        """Seconds of CPU that PostgreSQL has taken."""
        return processes.cpu(self.root)

    def fill(self, count: int) -> None:
        """Insert so many messages, in batches."""
        for begun in range(0, count, PAGE):
            batch = (MESSAGE.decode(), min(PAGE, count - begun))
            self._cursor(0).execute(self.add, batch)

    def hold(self, count: int) -> None:
        """Claim so many of the oldest and never be done with them."""
        for begun in range(0, count, PAGE):
            self._cursor(0).execute(self.take, (min(PAGE, count - begun),))

    def settle(self) -> None:
        """Have done now what autovacuum would sooner or later do."""
        self._cursor(0).execute("VACUUM ANALYZE q")

    def claim(self, clients: int, count: int) -> Result:
        """Let so many threads claim, each on a connection of its own."""
        result, turns, errors = Result(), itertools.count(), []
        self._cursor(clients - 1)

        def work(number: int) -> None:
            try:
                while next(turns) < count:
                    self._one(number)
            except psycopg2.Error as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
        began = now()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        result.elapsed = result.seconds = now() - began
        result.total = result.done = count
        if errors:
            result.failures, result.failure = len(errors), str(errors[0])
        return result

    def _one(self, number: int) -> None:
        cursor, last = self.cursors[number], self.last.get(number)
        if last is None:
            cursor.execute(self.take, (1,))
        else:
            cursor.execute(self.archive + self.take, (last, 1))
        ((self.last[number], *_),) = cursor.fetchall()


class Tube(Remote):
    """A tube of beanstalkd: reserve, then delete. What is reserved is its connection's."""

    class Dialect:
        """What the client must know of it."""

        reader = staticmethod(wire.beanstalk)

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        assert server.address is not None
        self.holding = socket.create_connection(server.address)  # gives back all when it closes

    def _said(self, command: bytes, count: int, answer: bytes) -> None:
        """Say it so many times, hundreds at a time, and await as many answers."""
        for begun in range(0, count, PAGE):
            number, data = min(PAGE, count - begun), b""
            self.holding.sendall(command * number)
            while data.count(answer) < number:
                more = self.holding.recv(client.CHUNK)
                if not more:
                    raise client.Gone(f"{self.title}: it hung up")
                data += more

    def fill(self, count: int) -> None:
        """Put so many jobs into the tube, in batches."""
        put = b"put 1 0 %d %d\r\n%s\r\n" % (LEASE, len(MESSAGE), MESSAGE)
        self._said(put, count, b"INSERTED ")

    def hold(self, count: int) -> None:
        """Reserve so many of the oldest."""
        self._said(b"reserve-with-timeout 0\r\n", count, MESSAGE + b"\r\n")

    def unit(self, number: int) -> Unit:
        """Reserve a job and delete it."""
        reply = yield b"reserve-with-timeout 0\r\n"
        yield b"delete %s\r\n" % reply.body
        return 1


def beanstalkd(yard: Yard) -> Contender:
    """Start beanstalkd; raises ``Missing``."""
    binary = shutil.which("beanstalkd")
    if binary is None:
        raise Missing("beanstalkd is not installed")
    yard.started += 1
    port, folder = postgres.free_port(), yard.file("beanstalkd")
    folder.mkdir()
    command = [binary, "-l", "127.0.0.1", "-p", str(port), "-b", str(folder)]
    title = "beanstalkd, binlog, fsync every 50 ms"
    server = servers.served(
        yard, "beanstalkd", title, command, {}, port, lambda host: Tube.Dialect()
    )
    tube = Tube(server)
    yard.stack.enter_context(contextlib.closing(tube.holding))
    return tube


def inbox(key: str) -> Make:
    """What starts a Taskpost of this key."""
    return lambda yard: Inbox(yard.start(key))
