"""The worker and the turn: no answer leaves before the commit that it depends on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.rawhttp import Client, Server, serving, until

APP = "tests.api.worker_app:create_sharing()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), app=APP) as server:
        for gate in ("gate", "second"):
            server.gate(gate)
        yield server


@pytest.fixture
def clients(server: Server) -> Iterator[list[Client]]:
    clients = [server.client() for _ in range(10)]
    for client in clients:
        client.get("/events")
    yield clients
    for client in clients:
        client.close()


def ask(client: Client, *paths: str, body: str = "") -> None:
    for path in paths:
        client.send(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}")


def ask_together(server: Server, clients: list[Client], *paths: str) -> None:
    """Have all asked before the worker looks: it stands at a gate meanwhile."""
    with server.client() as blocker:
        ask(blocker, "/gate/gate")
        server.at_gate("gate")
        for client, path in zip(clients, paths, strict=False):
            ask(client, path)
        server.open_gate("gate")
        blocker.answer()


def numbers(clients: list[Client]) -> list[int]:
    return [int(client.answer().body.split()[0]) for client in clients]


def test_an_answer_waits_for_its_commit(server: Server, clients: list[Client]) -> None:
    ask(clients[0], "/join?gate=gate")
    assert clients[0].silent()
    server.open_gate("gate")
    assert clients[0].answer().status == 201


def test_requests_of_one_round_share_one_commit(server: Server, clients: list[Client]) -> None:
    ask_together(server, clients, *["/join"] * 10)
    assert len(set(numbers(clients))) == 1
    assert len(server.get("/events").json) == 1


def test_a_reader_waits_for_what_it_may_have_seen(server: Server, clients: list[Client]) -> None:
    ask_together(server, clients, "/join?gate=second", "/read")
    assert all(client.silent(0.1) for client in clients[:2])
    server.open_gate("second")
    assert clients[0].answer().status == 201
    assert clients[1].answer().body.endswith(b"True")  # it was open while it read


def test_an_answer_with_nothing_open_goes_out_at_once(clients: list[Client]) -> None:
    assert clients[0].get("/read").body.endswith(b"False")
    assert clients[0].get("/events").json == []


@pytest.mark.parametrize("end", ["False", "raise"])
def test_a_failed_commit_is_told_to_all_that_it_held(
    server: Server, clients: list[Client], end: str
) -> None:
    ask_together(server, clients, "/join", f"/join?end={end}", "/read")
    for client in clients[:3]:
        answer = client.answer()
        assert (answer.status, answer.json["code"]) == (503, "outcome_unknown")
        assert answer.json["retryable"]
        assert answer.headers["retry-after"] == "1"
        assert client.ended()
    assert server.get("/join").status == 201
    if end == "raise":
        assert "the disk is full" in server.log.read_text()


def test_a_transaction_that_ends_itself_takes_only_its_own_answers(
    server: Server, clients: list[Client]
) -> None:
    ask_together(server, clients, "/join", "/lost", "/join")
    assert clients[0].answer().json["code"] == "outcome_unknown"
    assert clients[1].answer().body == b"lost"
    assert clients[2].answer().status == 201


def test_a_crash_in_a_turn_is_one_answer_among_others(
    server: Server, clients: list[Client]
) -> None:
    ask_together(server, clients, "/join", "/crash", "/join")
    assert [client.answer().status for client in clients[:3]] == [201, 500, 201]
    assert len(server.get("/events").json) == 1


def test_pipelined_answers_stay_in_order(clients: list[Client]) -> None:
    paths = ["/join", "/read", "/join", "/x", "/join", "/read"] * 10
    ask(clients[0], *paths)
    statuses = [clients[0].answer().status for _ in paths]
    assert statuses == [201 if path == "/join" else 200 for path in paths]


def test_a_pipelined_answer_does_not_overtake_a_held_one(
    server: Server, clients: list[Client]
) -> None:
    ask(clients[0], "/join?gate=gate", "/x")
    assert clients[0].silent()
    server.open_gate("gate")
    assert [clients[0].answer().status, clients[0].answer().status] == [201, 200]


def test_a_failed_commit_ends_what_was_pipelined_behind_it(clients: list[Client]) -> None:
    ask(clients[0], "/join?end=False", "/join", "/join")
    assert clients[0].answer().status == 503
    assert clients[0].ended()


def test_a_client_that_leaves_does_not_disturb_the_turn(
    server: Server, clients: list[Client]
) -> None:
    ask_together(server, clients, "/join?gate=second", "/join")
    clients[0].close()
    server.open_gate("second")
    assert clients[1].answer().status == 201
    assert len(server.get("/events").json) == 1


@pytest.mark.parametrize(
    ("settings", "turns"),
    [
        ("LoopWorker.turn_requests = 4; LoopWorker.turn_seconds = 9", 2),
        ("LoopWorker.turn_seconds = -1", 8),
    ],
    ids=["requests", "seconds"],
)
def test_a_turn_ends_after_so_many_requests_or_seconds(
    tmp_path: Path, settings: str, turns: int
) -> None:
    with serving(tmp_path, settings, app=APP) as server:
        server.gate("gate")
        clients = [server.client() for _ in range(8)]
        for client in clients:
            client.get("/")
        ask_together(server, clients, *["/join"] * 8)
        assert len(set(numbers(clients))) == turns


@pytest.mark.parametrize(("seconds", "turns"), [(60, 1), (0, 2)])
def test_what_comes_while_a_turn_has_room_joins_it(
    tmp_path: Path, seconds: int, turns: int
) -> None:
    with serving(tmp_path, f"LoopWorker.turn_seconds = {seconds}", app=APP) as server:
        server.gate("gate")
        with server.client() as first, server.client() as second:
            second.get("/")
            ask(first, "/join?stands=gate")
            server.at_gate("gate")
            ask(second, "/join")
            server.open_gate("gate")
            assert len(set(numbers([first, second]))) == turns


def test_a_request_runs_again_alone_after_the_commit(server: Server, clients: list[Client]) -> None:
    ask(clients[3], "/reset")
    ask_together(server, clients, "/join", "/again/2", "/join")
    first, last = int(clients[0].answer().body), int(clients[2].answer().body)
    runs, number = clients[1].answer().body.split()
    assert runs == b"3"
    assert len({first, last, int(number)}) == 3  # what it met ends at once, and it is alone then
    told = server.get("/events").json
    assert told.index(f"end {first}") < next(n for n, e in enumerate(told) if e.startswith("run 2"))


def test_nobody_joins_a_request_that_runs_again(clients: list[Client]) -> None:
    clients[0].get("/reset")
    ask(clients[0], "/again/3")
    for client in clients[1:]:
        ask(client, *["/join"] * 100)
    _, number = clients[0].answer().body.split()
    for client in clients[1:]:
        assert number not in [client.answer().body for _ in range(100)]


def test_a_request_that_runs_again_is_as_it_came(server: Server, clients: list[Client]) -> None:
    clients[0].get("/reset")
    ask(clients[0], "/again/1", body="the body")
    assert clients[0].answer().status == 201
    told = [event for event in server.get("/events").json if event.startswith("run")]
    assert [event.split(" ", 4)[4] for event in told] == ["the body"] * 2


def test_a_request_is_run_again_five_times_at_most(server: Server, clients: list[Client]) -> None:
    clients[0].get("/reset")
    ask(clients[0], "/again/99")
    answer = clients[0].answer()
    assert (answer.status, answer.json["code"]) == (503, "store_busy")
    assert answer.headers["retry-after"] == "1"
    told = [event for event in server.get("/events").json if event.startswith("run")]
    assert len(told) == 6
    clients[1].get("/reset")
    ask(clients[1], "/again/99?status=409%20Conflict")
    assert clients[1].answer().status == 409  # an error of the application's stands


def test_a_request_that_parks_and_must_run_again_does_not_wait(clients: list[Client]) -> None:
    clients[0].get("/reset")
    ask(clients[0], "/again/1?park=1")
    assert clients[0].answer().status == 201


def test_a_client_that_leaves_is_not_run_again(server: Server, clients: list[Client]) -> None:
    clients[1].get("/reset")
    with server.client() as blocker:
        ask(blocker, "/gate/gate")
        server.at_gate("gate")
        ask(clients[0], "/again/1?status=200%20OK")
        clients[0].close()
        server.open_gate("gate")
        blocker.answer()
    until(lambda: clients[1].get("/x").status == 200)


def test_a_generator_is_read_within_its_turn(clients: list[Client]) -> None:
    answer = clients[0].get("/pieces?piece=one&piece=two")
    assert (answer.body, answer.headers["content-length"]) == (b"onetwo", "6")
