"""Stopping: requests in flight are answered, presence is written, nothing is left behind."""

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.clients import Client, Refused
from tests.acceptance.server import (
    COMMAND,
    PROJECT,
    await_gone,
    environment,
    running,
    started,
)

STOPS = [signal.SIGINT, signal.SIGTERM]
GRACE = 10.0  # seconds that a stop with nothing to wait for may take


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the service as ``make run`` leaves it, its virtual environment this one."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("app.py", "wsgi.py", "openapi.yaml", "Makefile", "requirements.txt"):
        shutil.copy(PROJECT / name, folder)
    for name in ("api", "inbox", "models"):
        shutil.copytree(PROJECT / name, folder / name)
    (folder / ".venv" / "bin").mkdir(parents=True)
    gunicorn = folder / ".venv" / "bin" / "gunicorn"
    gunicorn.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND[:3])} "$@"\n')
    gunicorn.chmod(0o755)
    (folder / ".venv" / ".installed").touch()
    return folder


@pytest.mark.parametrize("number", STOPS)
def test_make_run_stops_cleanly(installed: Path, number: int) -> None:
    environ = environment("sqlite:///taskpost.db")
    del environ["TASKPOST_DATABASE"]
    with started(environ, args=["make", "run"], cwd=installed) as server:
        with Client(server.port, "alice") as alice:
            assert alice.send("bob", "hello")[0] == 201
        inside = server.workers()
        assert len(inside) == 2  # gunicorn and its worker
        if number == signal.SIGINT:  # Ctrl-C reaches all that run in the terminal
            os.killpg(server.process.pid, number)
        else:
            server.process.send_signal(number)
        code = server.process.wait(GRACE)
        await_gone(inside)
        log = server.log()
    assert code in (0, 2, -number)  # make says itself how it was ended
    assert "Shutting down: Master" in log
    assert "Traceback" not in log
    assert (installed / "taskpost.db").exists()


@pytest.mark.parametrize("number", STOPS)
def test_every_process_ends_and_the_exit_code_is_0(tmp_path: Path, number: int) -> None:
    with running(f"sqlite:///{tmp_path}/a.db", workers=3) as server:
        with Client(server.port, "alice") as idle:
            assert idle.call("GET", "/health")[0] == 200
            workers = server.workers()
            assert server.stop(number, within=GRACE) == 0
        await_gone(workers, within=0.5)
        assert "Traceback" not in server.log()
        with Client(server.port, "alice") as alice, pytest.raises(Refused):
            alice.call("GET", "/health")


def test_the_port_is_free_again_at_once(tmp_path: Path) -> None:
    with (
        running(f"sqlite:///{tmp_path}/a.db") as server,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(Client(server.port, f"client-{n}")) for n in range(8)]
        for client in clients:  # their connections are still open when the service ends
            assert client.send("bob", "hello")[0] == 201
        server.restart()
        with Client(server.port, "bob") as bob:
            assert len(list(bob.pages("/agents/bob/inbox"))) == len(clients)
        assert "taskpost:" not in server.log()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nothing can be written to a SQLite file as long as the block runs."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.parametrize("number", STOPS)
def test_a_request_in_flight_is_answered(tmp_path: Path, number: int) -> None:
    with (
        running(f"sqlite:///{tmp_path}/a.db", database_timeout=20) as server,
        ThreadPoolExecutor(1) as thread,
        Client(server.port, "alice") as alice,
    ):
        assert alice.call("GET", "/health")[0] == 200
        with locked(tmp_path / "a.db"):
            sending = thread.submit(alice.send, "bob", "in flight")
            time.sleep(0.5)  # by now it waits for the lock
            server.process.send_signal(number)
            time.sleep(0.5)
            assert not sending.done()
        status, message = sending.result(30)
        assert status == 201
        assert server.process.wait(GRACE) == 0
        server.restart()
        with Client(server.port, "bob") as bob:
            assert [each["id"] for each in bob.pages("/agents/bob/inbox")] == [message["id"]]


@pytest.mark.parametrize("number", STOPS)
def test_a_client_that_waits_is_answered(tmp_path: Path, number: int) -> None:
    with (
        running(f"sqlite:///{tmp_path}/a.db") as server,
        ThreadPoolExecutor(1) as thread,
        Client(server.port, "bob") as bob,
    ):
        assert bob.call("GET", "/health")[0] == 200
        polling = thread.submit(bob.call, "GET", "/agents/bob/inbox?wait=30")
        time.sleep(0.5)  # by now it waits
        assert server.stop(number, within=GRACE) == 0
        assert polling.result() == (200, {"messages": []})


def test_a_request_that_never_ends_holds_a_stop_no_longer_than_the_grace(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/a.db", graceful_timeout=2) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"POST /agents/bob/inbox HTTP/1.1\r\nHost: localhost\r\n")
            client.sendall(b"Content-Length: 100\r\n\r\n{")
            time.sleep(0.5)
            workers = server.workers()
            assert server.stop(within=2 + GRACE) == 0
        await_gone(workers, within=0.5)


@pytest.mark.parametrize("number", STOPS)
def test_presence_is_written_at_the_end(database_url: str, number: int) -> None:
    with running(database_url) as server:
        with Client(server.port, "alice") as alice:
            assert alice.call("POST", "/agents", {"id": "alice"})[0] == 201
            assert alice.call("GET", "/agents/alice/inbox")[0] == 200
            polled = alice.call("GET", "/agents/alice")[1]["last_seen"]
        assert server.stop(number) == 0
        server.restart()
        with Client(server.port, "alice") as alice:
            assert alice.call("GET", "/agents/alice")[1]["last_seen"] == polled
