"""What the bench starts it also stops; what it reads of processes is theirs; the proxy delays."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bench import operations, processes
from bench.operations import OPERATIONS
from bench.servers import PROJECT, Yard
from tests.acceptance.server import runs
from tests.postgres import free_port


@pytest.fixture
def yard() -> Iterator[Yard]:
    """A place for servers."""
    made = Yard(None, "no-parley", 0)
    yield made
    made.close()


def test_a_server_is_measured_and_then_stopped(yard: Yard) -> None:
    server = yard.start("flask-sync")
    pids = [pid for root in server.roots for pid in processes.tree(root)]
    found = operations.measure(server, OPERATIONS[0], 4, 0.2, 0, 0)
    assert found.done > 0
    assert found.rate > 0
    assert not found.failures
    assert server.memory() > 1 << 20
    yard.close()
    assert not any(runs(pid) for pid in pids)
    assert not yard.folder.exists()


def test_the_floor_inserts_what_it_says(yard: Yard) -> None:
    server = yard.start("sqlite-raw")
    found = operations.measure(server, OPERATIONS[0], 32, 0.05, 0, 0)
    assert server.floor is not None
    rows = server.floor.connection.execute("SELECT COUNT(*) FROM messages").fetchone()[0]
    assert found.done == rows > 0
    assert rows % 32 == 0


def test_the_processor_time_of_a_process_is_counted() -> None:
    before, ends = processes.cpu(os.getpid()), time.process_time() + 0.1
    while time.process_time() < ends:
        pass
    assert processes.cpu(os.getpid()) > before
    assert processes.memory(os.getpid()) > 1 << 20


def test_the_one_who_listens_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pids = processes.listening(listener.getsockname()[1])
        assert os.getpid() in pids
        assert processes.roots(pids) != ()


def test_the_proxy_delays_both_ways_and_changes_nothing() -> None:
    port, delay, parcel = free_port(), 0.02, os.urandom(1 << 16)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-m", "bench.proxy", str(port), str(listener.getsockname()[1])]
        proxy = subprocess.Popen([*command, str(delay * 1000)], cwd=PROJECT)
        try:
            with _connected(port) as near, listener.accept()[0] as far:
                began = time.monotonic()
                near.sendall(parcel)
                assert _read(far, len(parcel)) == parcel
                far.sendall(parcel)
                assert _read(near, len(parcel)) == parcel
                assert time.monotonic() - began >= 2 * delay
                far.close()
                assert near.recv(1) == b""
        finally:
            proxy.terminate()
            proxy.wait()


def _connected(port: int) -> socket.socket:
    ends = time.monotonic() + 30
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=30)
        assert time.monotonic() < ends
        time.sleep(0.02)


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += source.recv(size - len(data))
    return data
