"""The worker and parked requests: they wait without a thread, and end when they must."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.rawhttp import Client, Server, serving, until

APP = "tests.api.worker_app:waiting"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), app=APP) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        client.get("/events")
        yield client


@pytest.fixture
def other(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def ask(client: Client, path: str, body: str = "") -> None:
    client.send(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}")


def parked(other: Client, number: int = 1) -> None:
    """Return when so many requests wait."""
    until(lambda: int(other.get("/waits").body) == number, f"{number} waits")


def test_the_bell_runs_the_request_again(client: Client, other: Client) -> None:
    ask(client, "/wait/mail", body="as it came")
    parked(other)
    assert other.get("/post/mail").body == b"1"
    assert client.answer().json == {"found": ["mail"], "final": False, "waited": True}
    assert other.get("/events").json == ["look as it came"] * 2
    assert client.get("/").status == 200


def test_a_request_may_park_again(client: Client, other: Client) -> None:
    ask(client, "/wait/again")
    for _ in range(5):
        parked(other)
        assert other.get("/ring/again").body == b"1"
    parked(other)
    other.get("/post/again")
    assert client.answer().json["found"] == ["mail"]
    assert other.get("/events").json == ["look"] * 7


def test_at_its_deadline_a_request_runs_again(client: Client, other: Client) -> None:
    ask(client, "/wait/nothing?seconds=0.2")
    assert client.silent(0.15)
    assert client.answer().json == {"found": [], "final": False, "waited": True}
    assert other.get("/events").json == ["look", "cancelled nothing", "look"]
    assert client.get("/").status == 200


def test_a_client_that_leaves_is_forgotten(client: Client, other: Client) -> None:
    with client:
        ask(client, "/wait/left")
        parked(other)
    parked(other, 0)
    assert other.get("/events").json == ["look", "cancelled left"]


def test_a_client_that_ends_its_side_has_left(client: Client, other: Client) -> None:
    ask(client, "/wait/half")
    parked(other)
    client.socket.shutdown(1)
    parked(other, 0)
    assert client.ended()


def test_a_client_that_leaves_with_more_in_the_line_is_forgotten(
    client: Client, other: Client
) -> None:
    with client:
        ask(client, "/wait/pipelined")
        for _ in range(5):
            ask(client, "/next")
        parked(other)
    parked(other, 0)


def test_what_is_pipelined_behind_a_wait_stays_behind_it(client: Client, other: Client) -> None:
    ask(client, "/wait/order")
    for number in range(50):
        ask(client, f"/{number}")
    parked(other)
    assert client.silent(0.1)
    other.get("/post/order")
    assert client.answer().json["found"] == ["mail"]
    assert [client.answer().json["PATH_INFO"] for _ in range(50)] == [f"/{n}" for n in range(50)]


def test_a_request_that_parks_and_crashes_is_answered(client: Client, other: Client) -> None:
    assert client.get("/parks/and/crashes").status == 500
    parked(other, 0)


def test_many_wait_for_one_bell(server: Server, other: Client) -> None:
    clients = [server.client() for _ in range(300)]
    for client in clients:
        ask(client, "/wait/many")
    parked(other, 300)
    assert other.get("/post/many").body == b"300"
    assert all(client.answer().json["found"] for client in clients)
    for client in clients:
        client.close()


def test_waits_cost_little_and_no_time(server: Server, other: Client) -> None:
    warm = [server.client() for _ in range(100)]
    for client in warm:
        ask(client, "/wait/warm")
    parked(other, 100)
    before = server.worker_memory()
    clients = [server.client() for _ in range(800)]
    for client in clients:
        ask(client, "/wait/cheap")
    parked(other, 900)
    assert (server.worker_memory() - before) / 800 < 8192
    used = server.worker_seconds()
    assert clients[0].silent(1)
    assert server.worker_seconds() - used < 0.1
    for client in (*warm, *clients):
        client.close()
    parked(other, 0)


def test_waits_that_are_abandoned_leak_nothing(server: Server, other: Client) -> None:
    files = Path(f"/proc/{server.worker()}/fd")
    before = len(list(files.iterdir()))
    for _ in range(10):
        clients = [server.client() for _ in range(100)]
        for client in clients:
            ask(client, "/wait/abandoned")
        parked(other, 100)
        for client in clients:
            client.close()
        parked(other, 0)
    assert until(lambda: len(list(files.iterdir())) <= before)


def test_beyond_the_bound_nobody_parks(tmp_path: Path) -> None:
    with serving(tmp_path, "LoopWorker.max_parked = 3", app=APP) as server:
        clients = [server.client() for _ in range(4)]
        with server.client() as other:
            for client in clients[:3]:
                ask(client, "/wait/bound")
            parked(other, 3)
            ask(clients[3], "/wait/bound")
            assert clients[3].answer().json == {"found": [], "final": False, "waited": False}
            clients[0].close()
            parked(other, 2)
            ask(clients[3], "/wait/bound")
            parked(other, 3)


def test_sigterm_answers_those_who_wait(tmp_path: Path) -> None:
    with serving(tmp_path, app=APP) as server:
        clients = [server.client() for _ in range(20)]
        with server.client() as other:
            for client in clients:
                ask(client, "/wait/stop")
            parked(other, 20)
        server.process.send_signal(signal.SIGTERM)
        for client in clients:
            answer = client.answer()
            assert answer.json == {"found": [], "final": True, "waited": True}
            assert answer.headers["connection"] == "close"
            client.close()
        assert server.terminate() < 5
