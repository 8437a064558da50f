"""The service as its users run it: a real gunicorn on a free port, ended by process id.

``running`` is for tests that talk to it, ``ended`` for starts that must be
refused. Nothing here knows what the service does but that it answers /health.
"""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tests.postgres import free_port

PROJECT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "gunicorn", "-c", "wsgi.py", "wsgi:create()")
START = 30.0  # seconds within which the service must answer, or end


class Server:
    """One service: its arbiter and its workers, on one port and one database for all its starts."""

    def __init__(self, environ: dict[str, str], output: IO[bytes], options: dict[str, Any]) -> None:
        self.environ, self.output, self.options = environ, output, options
        self.port = int(environ["TASKPOST_PORT"])
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {"args": COMMAND, "cwd": PROJECT, **self.options}
        return subprocess.Popen(
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, to be killed as one
            **options,
        )

    def await_health(self) -> None:
        """Return once it answers; raises with its log when it ends or is silent for too long."""
        ends = time.monotonic() + START
        while not self._healthy():
            if self.process.poll() is not None or time.monotonic() > ends:
                raise AssertionError(f"the service did not start:\n{self.log()}")
            time.sleep(0.02)

    def _healthy(self) -> bool:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            asked.request("GET", "/health")
            return asked.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()

    def workers(self) -> list[int]:
        """The process ids of its workers, also when the arbiter has ended."""
        return [pid for pid in _session(self.process.pid) if pid != self.process.pid]

    def log(self) -> str:
        """All that it has written, on either stream, since the first start."""
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def kill(self) -> None:
        """kill -9 of arbiter and workers; returns when they are gone."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        left = self.workers()
        for pid in left:  # of an arbiter that had ended before
            _signal(pid, signal.SIGKILL)
        await_gone(left)

    def stop(self, sig: int = signal.SIGTERM, within: float = 60.0) -> int:
        """Ask it to end, wait until it has; its exit code. Raises when it takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(within)

    def restart(self) -> None:
        """Start it again, after ``stop`` unless it has ended, on the same port and database."""
        self.stop()
        self.process = self._started()
        self.await_health()


@contextlib.contextmanager
def running(database_url: str, **settings: Any) -> Iterator[Server]:
    """A service that answers, for as long as the block runs; it is killed at its end.

    ``settings`` become TASKPOST_ variables (``workers=4``); there are no other
    variables but PATH.
    """
    with started(environment(database_url, **settings)) as server:
        yield server


@contextlib.contextmanager
def started(environ: dict[str, str], **options: Any) -> Iterator[Server]:
    """As ``running``, with ``environ`` as it is and ``options`` for its process."""
    with begun(environ, **options) as server:
        server.await_health()
        yield server


@contextlib.contextmanager
def begun(environ: dict[str, str], **options: Any) -> Iterator[Server]:
    """As ``started``, before it answers."""
    with tempfile.TemporaryFile() as output:
        server = Server(environ, output, options)
        try:
            yield server
        finally:
            server.kill()


def ended(
    environ: dict[str, str], within: float = START, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A service that must end by itself: its exit code and what it has written."""
    given: dict[str, Any] = {"args": COMMAND, "cwd": PROJECT, **options}
    with subprocess.Popen(
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        **given,
    ) as process:
        try:
            output, errors = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            raise AssertionError(f"the service did not end:\n{output}\n{errors}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def environment(database_url: str, **settings: Any) -> dict[str, str]:
    """A clean environment with these settings, and with a free port unless one is given."""
    given = {"database": database_url, "port": free_port(), **settings}
    made = {f"TASKPOST_{name.upper()}": str(value) for name, value in given.items()}
    return {"PATH": os.environ.get("PATH", os.defpath), **made}


def await_gone(pids: list[int], within: float = 10.0) -> None:
    """Return when none of these processes runs any more; raises when one still does."""
    ends = time.monotonic() + within
    while left := [pid for pid in pids if runs(pid)]:
        if time.monotonic() > ends:
            raise AssertionError(f"the processes {left} are still there")
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether a process is there and is not just waiting to be reaped."""
    return bool(_state(pid)) and _state(pid)[0] != "Z"


def _session(leader: int) -> list[int]:
    """The processes that run in the session that ``leader`` began."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _state(pid)[3:4] == [str(leader)] and runs(pid)]


def _state(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
