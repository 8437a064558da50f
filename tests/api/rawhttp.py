"""Servers and clients of the worker's tests: gunicorn as a process, sockets without a library."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PATIENCE = 15.0  # seconds that a test waits for what must happen

SETTINGS = """
from api.worker import LoopWorker
bind = {bind!r}
worker_class = "api.worker.LoopWorker"
control_socket_disable = True
graceful_timeout = 10
keepalive = 30
limit_request_line = 8190
"""


def until(happened: Callable[[], Any], what: str = "it", patience: float = PATIENCE) -> Any:
    """What ``happened`` returns once that is true."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if result := happened():
            return result
        time.sleep(0.01)
    raise AssertionError(f"waited in vain for {what}")


class Answer(NamedTuple):
    """One answer, taken apart; names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """gunicorn with one loop worker on a free port, or on a Unix socket."""

    def __init__(
        self,
        directory: Path,
        settings: str = "",
        app: str = "tests.api.worker_app:app",
        unix: bool = False,
        args: tuple[str, ...] = (),
    ) -> None:
        self.directory = directory
        self.clients: list[Client] = []
        self.path = str(directory / "socket") if unix else None
        self.log = directory / "log"
        bind = f"unix:{self.path}" if unix else "127.0.0.1:0"
        file = directory / "settings.py"
        file.write_text(SETTINGS.format(bind=bind) + settings)
        command = [sys.executable, "-m", "gunicorn", "-c", str(file), *args, app]
        environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{directory}", "GATES": str(directory)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdout=log, stderr=subprocess.STDOUT
            )
        self.port = 0
        try:
            if not unix:
                self.port = int(until(self._listening, "a port")[1])
            until(self._answers, "an answer")
        except BaseException:
            self.close()
            raise

    def _listening(self) -> re.Match[str] | None:
        assert self.process.poll() is None, self.log.read_text()
        return re.search(r"Listening at: http://127.0.0.1:(\d+)", self.log.read_text())

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError), self.client() as client:
            return client.get("/").status == 200
        return False

    def client(self) -> "Client":
        """A connection. The server's end closes it, if nobody has before."""
        client = Client(self)
        self.clients.append(client)
        return client

    def get(self, path: str) -> Answer:
        """What a client of its own gets."""
        with self.client() as client:
            return client.get(path)

    def worker(self) -> int:
        """The process id of the worker."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return int(Path(children).read_text().split()[0])

    def worker_memory(self) -> int:
        """Bytes that are resident."""
        status = Path(f"/proc/{self.worker()}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]

    def worker_seconds(self) -> float:
        """Processor time that the worker has used."""
        fields = Path(f"/proc/{self.worker()}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def gate(self, name: str) -> None:
        """Make a gate at which the application waits."""
        os.mkfifo(self.directory / name)

    def at_gate(self, name: str) -> None:
        """Wait until the application stands there."""
        until((self.directory / f"{name}.reached").exists, f"somebody at {name}")

    def open_gate(self, name: str) -> None:
        """Let it go on; fails if nobody comes."""

        def opened() -> bool:
            try:
                os.close(os.open(self.directory / name, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                return False
            return True

        until(opened, f"somebody at {name}")
        (self.directory / f"{name}.reached").unlink()

    def terminate(self, sig: int = signal.SIGTERM) -> float:
        """Seconds that it took to end, with a status of 0."""
        began = time.monotonic()
        self.process.send_signal(sig)
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()
        return time.monotonic() - began

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def serving(directory: Path, settings: str = "", **how: Any) -> Iterator[Server]:
    """A server for a while."""
    server = Server(directory, settings, **how)
    try:
        yield server
    finally:
        server.close()


class Client:
    """One connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = b""
        if server.path:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(server.path)
            except OSError:
                self.socket.close()
                raise
        else:
            self.socket = socket.create_connection(("127.0.0.1", server.port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, *parts: bytes | str) -> None:
        for part in parts:
            self.socket.sendall(part.encode() if isinstance(part, str) else part)

    def get(self, path: str, *headers: str, method: str = "GET", version: str = "1.1") -> Answer:
        """Ask and be answered."""
        lines = [f"{method} {path} HTTP/{version}", "Host: test", *headers, "", ""]
        self.send("\r\n".join(lines))
        return self.answer(bodiless=method == "HEAD")

    def post(self, path: str, body: bytes, *headers: str) -> Answer:
        length = f"Content-Length: {len(body)}"
        self.send("\r\n".join([f"POST {path} HTTP/1.1", "Host: test", length, *headers, "", ""]))
        self.send(body)
        return self.answer()

    def answer(self, bodiless: bool = False) -> Answer:
        """Read one answer. Fails if there is none, or one that HTTP/1.1 does not allow."""
        status, headers = self.head()
        if bodiless or status in (204, 304) or status < 200:
            return Answer(status, headers, b"")
        if "content-length" in headers:
            assert "transfer-encoding" not in headers
            return Answer(status, headers, self.exactly(int(headers["content-length"])))
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.line(), 16):
                body += self.exactly(size)
                assert self.line() == b""
            assert self.line() == b""
            return Answer(status, headers, body)
        assert headers["connection"] == "close"
        return Answer(status, headers, self.rest())

    def head(self) -> tuple[int, dict[str, str]]:
        version, status, _ = self.line().split(b" ", 2)
        assert version == b"HTTP/1.1"
        headers: dict[str, str] = {}
        while line := self.line():
            name, value = line.decode("latin-1").split(": ", 1)
            assert name.lower() not in headers
            headers[name.lower()] = value
        assert headers.get("server", "taskpost") == "taskpost"
        return int(status), headers

    def line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            self._more()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self._more()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def _more(self) -> None:
        data = self.socket.recv(65536)
        assert data, f"closed after {self.buffer!r}"
        self.buffer += data

    def rest(self) -> bytes:
        """All until the server closes."""
        while data := self.socket.recv(65536):
            self.buffer += data
        taken, self.buffer = self.buffer, b""
        return taken

    def ended(self) -> bool:
        """True once the server has closed without another byte."""
        try:
            return self.rest() == b""
        except ConnectionResetError:
            return True

    def silent(self, seconds: float = 0.2) -> bool:
        """Whether nothing comes."""
        return not self.buffer and not select.select([self.socket], [], [], seconds)[0]
