"""Starting what is measured, each on a free port and with its data in one temporary folder.

Everything that is started here is stopped here, by process id, however the
run ends. Servers run as their documents say, with their own defaults but for
what is named in their title.
"""

import contextlib
import dataclasses
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from bench import client, processes
from bench.client import Address
from bench.dialects import Dialect, Hello, Original, Parley, Redis, Taskpost
from bench.floor import Floor
from tests import postgres

PROJECT = Path(__file__).parents[1]
START = 30.0  # seconds within which a server must answer
STOP = 15.0  # seconds within which it must end when asked to
LOG_LIMIT = 64 << 20


class Missing(Exception):
    """A server that is not installed here, in one line."""


@dataclasses.dataclass
class Server:
    """One running server, or the floor in this process."""

    key: str
    title: str
    address: Address | None = None
    dialect: Dialect | None = None
    roots: tuple[int, ...] = ()  # its processes are these and all below them
    helpers: tuple[int, ...] = ()  # and these: its database, whose memory is not the server's
    database: str = ""
    log: Path | None = None
    floor: Floor | None = None
    opened: set[str] = dataclasses.field(default_factory=set)  # boxes that are there

    def cpu(self) -> float:
        """Seconds of CPU taken so far, its database's included."""
        return sum(processes.cpu(pid) for pid in (*self.roots, *self.helpers))

    def memory(self) -> int:
        """Bytes of memory in use, its database's not included."""
        return sum(processes.memory(pid) for pid in self.roots)

    def trim(self) -> None:
        """Empty its log when it has become big."""
        if self.log is not None and self.log.stat().st_size > LOG_LIMIT:
            os.truncate(self.log, 0)  # it was opened to append


class Yard:
    """Where servers are started; ``close`` stops them all."""

    def __init__(self, folder: str | None, parley: str, delay: float) -> None:
        self.stack = contextlib.ExitStack()
        made = self.stack.enter_context(tempfile.TemporaryDirectory("-bench", dir=folder))
        self.folder, self.parley, self.delay = Path(made), parley, delay
        self.started = 0
        self.processes: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        """Stop everything and remove the folder; a second Ctrl-C does not hurry it."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for process in self.processes:
                process.terminate()  # all at once; the stack waits for each
            self.stack.close()
        finally:
            signal.signal(signal.SIGINT, before)

    def start(self, key: str) -> Server:
        """Start the server of this key, once more if it runs already; raises ``Missing``."""
        self.started += 1
        return SERVERS[key](self, key)

    @functools.cached_property
    def postgres(self) -> postgres.Server:
        """One PostgreSQL for all that need it."""
        return self.stack.enter_context(postgres.server())

    @functools.cached_property
    def slow_port(self) -> int:
        """The port under which PostgreSQL is a delay away."""
        port = postgres.free_port()
        command = ["bench.proxy", str(port), str(self.postgres.port), str(self.delay)]
        self.launch("proxy", [sys.executable, "-m", *command], {}, port)
        return port

    def database(self) -> str:
        """The URL of a new PostgreSQL database; it goes with its server."""
        name = f"bench_{self.started}"
        self.postgres.execute(f"CREATE DATABASE {name}")
        return self.postgres.url(name)

    def file(self, name: str) -> Path:
        """A new path in the folder."""
        return self.folder / f"{self.started}-{name}"

    def stop(self, server: Server) -> None:
        """Stop one server in an orderly way, and return when it has ended."""
        for process in self.processes:
            if process.pid in server.roots:
                _stop(process)

    def launch(
        self, key: str, command: list[str], environ: dict[str, str], port: int
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a process and return once its port answers; it is stopped at the end."""
        log = self.file(f"{key}.log")
        home = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)}
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**home, "PYTHONDONTWRITEBYTECODE": "1", **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the bench, which stops it in order
            )
        self.processes.append(process)
        self.stack.callback(_stop, process)
        _await(process, port, log)
        return process, log


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a session of its own: it and its workers
        process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + START
    while True:
        try:
            client.socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{process.args} did not start:\n{log.read_text()}") from None
            time.sleep(0.02)


# One function a server.


def served(  # type: ignore[no-untyped-def]
    yard: Yard, key: str, title: str, command: list[str], environ: dict[str, str], port: int, make,
    **more: object,
) -> Server:  # fmt: skip
    """Start a server; ``make`` gives its dialect for a host."""
    process, log = yard.launch(key, command, environ, port)
    dialect = make(f"127.0.0.1:{port}")
    made = Server(key, title, ("127.0.0.1", port), dialect, (process.pid,), log=log)
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def _gunicorn(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gunicorn", *arguments]


def taskpost(yard: Yard, key: str, title: str, *options: str, **settings: object) -> Server:
    """Start Taskpost with these options of gunicorn and these settings."""
    port = postgres.free_port()
    given = {"host": "127.0.0.1", "port": port, "database": f"sqlite:///{yard.file('taskpost.db')}"}
    given |= {name: value for name, value in settings.items() if name != "helpers"}
    environ = {f"TASKPOST_{name.upper()}": str(value) for name, value in given.items()}
    command = _gunicorn("-c", "wsgi.py", *options, "wsgi:create()")
    more = {"database": given["database"], "helpers": settings.get("helpers", ())}
    made = served(yard, key, title, command, environ, port, Taskpost, **more)
    return dataclasses.replace(made, title=f"{title} ({_worker(made.log)})")


def _worker(log: Path) -> str:
    """The gunicorn worker class that a log names; it comes a moment after the port is open."""
    ends = time.monotonic() + START
    while not (found := re.search(r"Using worker: (\S+)", log.read_text())):
        if time.monotonic() > ends:
            raise RuntimeError(f"gunicorn does not say which worker it uses:\n{log.read_text()}")
        time.sleep(0.02)
    return found[1].rpartition(".")[2]


def _on_sqlite(yard: Yard, key: str) -> Server:
    return taskpost(yard, key, "Taskpost, SQLite")


def _on_gthread(yard: Yard, key: str) -> Server:
    return taskpost(yard, key, "Taskpost, SQLite, stock", "-k", "gthread", "--threads", "8")


def _on_postgres(workers: int) -> Callable[[Yard, str], Server]:
    def start(yard: Yard, key: str) -> Server:
        title = f"Taskpost, PostgreSQL, {workers} process{'es' * (workers > 1)}"
        helpers = (yard.postgres.process.pid,)
        url = yard.database()
        return taskpost(yard, key, title, database=url, workers=workers, helpers=helpers)

    return start


def _on_slow_postgres(workers: int) -> Callable[[Yard, str], Server]:
    def start(yard: Yard, key: str) -> Server:
        near = yard.database()
        url = near.replace(f":{yard.postgres.port}/", f":{yard.slow_port}/")
        title = f"Taskpost, PostgreSQL {yard.delay:g} ms away, {workers} process"
        helpers = (yard.postgres.process.pid,)
        started = taskpost(
            yard, key, title + "es" * (workers > 1), database=url, workers=workers, helpers=helpers
        )
        return dataclasses.replace(started, database=near)

    return start


def _parley(yard: Yard, key: str) -> Server:
    if not shutil.which(yard.parley):
        raise Missing(f"{yard.parley} is not there (make bench installs it)")
    port, file = postgres.free_port(), str(yard.file("parley.db"))
    options = ["--host", "127.0.0.1", "--port", str(port), "--db", file, "--no-mcp"]
    return served(yard, key, "Parley", [yard.parley, "serve", *options], {}, port, Parley)


def _flask(*options: str) -> Callable[[Yard, str], Server]:
    def start(yard: Yard, key: str) -> Server:
        port = postgres.free_port()
        command = _gunicorn("-b", f"127.0.0.1:{port}", *options, "bench.hello:app")
        return served(yard, key, "Flask hello, " + " ".join(options), command, {}, port, Hello)

    return start


def _redis(yard: Yard, key: str) -> Server:
    binary = shutil.which("redis-server")
    if binary is None:
        raise Missing("redis-server is not installed")
    port, folder = postgres.free_port(), yard.file("redis")
    folder.mkdir()
    durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
    place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    title = "Redis Streams, AOF always"
    return served(yard, key, title, [binary, *place, *durable], {}, port, lambda host: Redis())


def _raw(yard: Yard, key: str) -> Server:
    floor = Floor(yard.file("floor.db"))
    yard.stack.callback(floor.close)
    return Server(key, "raw SQLite executemany, in process", floor=floor)


SERVERS: dict[str, Callable[[Yard, str], Server]] = {
    "taskpost": _on_sqlite,
    "taskpost-gthread": _on_gthread,
    "taskpost-pg1": _on_postgres(1),
    "taskpost-pg2": _on_postgres(2),
    "taskpost-slow-pg1": _on_slow_postgres(1),
    "taskpost-slow-pg2": _on_slow_postgres(2),
    "parley": _parley,
    "flask-gthread": _flask("-k", "gthread", "-w", "2", "--threads", "8"),
    "flask-sync": _flask("-k", "sync", "-w", "2"),
    "redis": _redis,
    "sqlite-raw": _raw,
}
SLOW = ("taskpost-slow-pg1", "taskpost-slow-pg2")


def other(name: str, url: str, headers: tuple[str, ...]) -> Server:
    """A server that somebody else has started and that speaks the original API."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Missing(f"{name}: {url} is not http://host:port")
    port = parts.port or 80
    pids = processes.roots(processes.listening(port))
    dialect = Original(f"{parts.hostname}:{port}", headers)
    return Server(name, name, (parts.hostname, port), dialect, pids)
