"""Requests whose answers are long in coming, and what they cost the process that holds them."""

import contextlib
import http.client
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2

from tests.acceptance.clients import Client
from tests.acceptance.server import Server

PATIENCE = 60.0  # seconds that a test waits for what must happen


class Answer(NamedTuple):
    """One response, and when it was read (``time.monotonic``)."""

    status: int
    headers: http.client.HTTPMessage
    json: Any
    at: float


class Asked:
    """A request that has been sent, on a connection of its own."""

    def __init__(
        self, port: int, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        raw = None if body is None else json.dumps(body)
        self.connection.request("GET" if body is None else "POST", path, raw, headers or {})

    @classmethod
    def through(cls, client: Client) -> "Asked":
        """With the connection of a client, to ask ``again`` through."""
        made = cls.__new__(cls)
        assert client.connection is not None
        made.connection = client.connection
        return made

    @property
    def socket(self) -> socket.socket:
        """What it is asked through."""
        return self.connection.sock

    def answer(self) -> Answer:
        """Its answer; waits for it."""
        response = self.connection.getresponse()
        raw = response.read()
        at = time.monotonic()
        return Answer(response.status, response.headers, json.loads(raw) if raw else None, at)

    def again(self, path: str, headers: dict[str, str] | None = None) -> None:
        """Ask anew, once it has been answered."""
        self.connection.request("GET", path, None, headers or {})

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def leave(self, abruptly: bool = False) -> None:
        """Go away without the answer; ``abruptly`` resets the connection."""
        if abruptly:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


@contextlib.contextmanager
def asked(port: int, paths: Iterable[str], headers: dict[str, str] | None = None) -> Iterator[Any]:
    """A list of such requests; they end with the block."""
    with contextlib.ExitStack() as stack:
        made = []
        for path in paths:
            made.append(Asked(port, path, headers=headers))
            stack.callback(made[-1].leave)
        yield made


def answered(requests: list[Asked], within: float = 0.0) -> list[Asked]:
    """Those of them whose answers have come, or come within so many seconds."""
    poller = select.poll()
    by_file = {each.socket.fileno(): each for each in requests}
    for file in by_file:
        poller.register(file, select.POLLIN)
    return [by_file[file] for file, _ in poller.poll(within * 1000)]


def taken_in(server: Server) -> None:
    """Return once a server of one process has read what was sent to it before."""
    for _ in range(2):  # a new connection is accepted after those that came before it
        with Client(server.port, "nobody") as client:
            assert client.call("GET", "/health")[0] == 200


def until(happened: Callable[[], Any], what: str) -> Any:
    """What ``happened`` returns once that is true; raises when it takes too long."""
    ends = time.monotonic() + PATIENCE
    while not (result := happened()):
        assert time.monotonic() < ends, f"waited in vain for {what}"
        time.sleep(0.02)
    return result


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Bytes of a process that are resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def files(pid: int) -> int:
    """How many files and sockets a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def is_watched(database: str) -> bool:
    """Whether a process watches a PostgreSQL database, ten times a second, for those who wait."""
    seen: dict[int, set[Any]] = {}
    asks = (
        "SELECT pid, query_start FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with contextlib.closing(psycopg2.connect(database)) as connection:
        connection.autocommit = True
        for _ in range(40):
            with connection.cursor() as cursor:
                cursor.execute(asks)
                for pid, began in cursor.fetchall():
                    seen.setdefault(pid, set()).add(began)
            time.sleep(0.025)
    return max(map(len, seen.values()), default=0) > 4  # the sweeper asks once a second


@contextlib.contextmanager
def client_of_each_worker(server: Server) -> Iterator[dict[int, Client]]:
    """A connected client for each worker, by its process id; the kernel deals connections out."""
    found: dict[int, Client] = {}
    with contextlib.ExitStack() as stack:
        for number in range(1000):
            client = stack.enter_context(Client(server.port, f"client-{number}"))
            assert client.call("GET", "/health")[0] == 200
            assert client.connection is not None
            found.setdefault(worker_of(server, client.connection.sock), client)
            if sorted(found) == sorted(server.workers()):
                break
        else:
            raise AssertionError("one of the workers takes no connections")
        yield found


def worker_of(server: Server, client: socket.socket) -> int:
    """The process id of the worker that has accepted a client's connection."""
    near, far = (f"0100007F:{port:04X}" for port in (server.port, client.getsockname()[1]))
    (inode,) = {
        fields[9]
        for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines())
        if fields[1:4] == [near, far, "01"]  # established
    }
    (pid,) = (pid for pid in server.workers() if f"socket:[{inode}]" in open_files(pid))
    return pid


def open_files(pid: int) -> set[str]:
    """What a process has open."""
    found = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            found.add(os.readlink(file))
    return found
