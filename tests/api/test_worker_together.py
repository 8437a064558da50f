"""The worker and what is done together: in one round, in one turn, and its answers after that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.rawhttp import Answer, Client, Server, serving
from tests.api.test_worker_turns import ask, ask_together

APP = "tests.api.worker_app:create_gathering()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = (
        "LoopWorker.turn_seconds = 60\n"
        "LoopWorker.turn_requests = LoopWorker.together_requests = 8\n"
    )
    with serving(tmp_path_factory.mktemp("server"), settings, app=APP) as server:
        server.gate("gate")
        yield server


@pytest.fixture
def clients(server: Server) -> Iterator[list[Client]]:
    clients = [server.client() for _ in range(20)]
    for client in clients:
        client.get("/events")
    yield clients
    for client in clients:
        client.close()


def answers(clients: list[Client]) -> list[Answer]:
    return [client.answer() for client in clients]


def test_what_comes_in_one_round_is_done_together(server: Server, clients: list[Client]) -> None:
    ask_together(server, clients, *["/later/join"] * 5)
    bodies = [answer.body.split() for answer in answers(clients[:5])]
    assert {body[1] for body in bodies} == {b"together"}
    assert len({body[0] for body in bodies}) == 1
    number = bodies[0][0].decode()
    assert clients[0].get("/events").json == ["5 together", f"end {number}"]


def test_one_request_alone_is_done_by_itself(clients: list[Client]) -> None:
    ask(clients[0], "/later/join")
    assert b"together" not in clients[0].answer().body
    assert len(clients[0].get("/events").json) == 1


def test_what_is_not_done_together_is_done_by_itself(server: Server, clients: list[Client]) -> None:
    paths = ["/later/join", "/later/join?alone=1", "/join", "/later/crash", "/later/join"]
    ask_together(server, clients, *paths)
    found = answers(clients[:5])
    assert [answer.status for answer in found] == [201, 201, 201, 500, 201]
    assert [b"together" in answer.body for answer in found] == [True, False, False, False, True]


def test_what_fails_together_is_done_one_by_one(server: Server, clients: list[Client]) -> None:
    ask_together(server, clients, "/later/join", "/later/join?fail=1", "/later/join")
    found = answers(clients[:3])
    assert [answer.status for answer in found] == [201] * 3
    assert not any(b"together" in answer.body for answer in found)
    assert "Error in what was to be done together" in server.log.read_text()


def test_a_commit_that_fails_is_told_to_all_that_it_held(
    server: Server, clients: list[Client]
) -> None:
    """Also to those whose answers were made after others of the same round."""
    paths = ["/later/join"] * 3 + ["/later/join?end=False"] + ["/later/join"] * 3
    ask_together(server, clients, *paths)
    assert {answer.status for answer in answers(clients[:7])} == {503}


def test_a_round_that_is_longer_than_a_turn_has_several(
    server: Server, clients: list[Client]
) -> None:
    ask_together(server, clients, *["/later/join"] * 20)
    numbers = {answer.body.split()[0] for answer in answers(clients)}
    assert len(numbers) == 3
    said = [each for each in clients[0].get("/events").json if "together" in each]
    assert said == ["8 together", "8 together", "4 together"]


def test_pipelined_requests_are_answered_in_order(server: Server, clients: list[Client]) -> None:
    with server.client() as blocker:
        ask(blocker, "/gate/gate")
        server.at_gate("gate")
        ask(clients[0], "/later/join", "/read", "/later/join?alone=1")
        ask(clients[1], "/later/join")
        server.open_gate("gate")
        blocker.answer()
    statuses = [clients[0].answer().status for _ in range(3)]
    assert statuses == [201, 200, 201]
    assert clients[1].answer().status == 201


def test_a_client_that_is_gone_disturbs_nobody(server: Server, clients: list[Client]) -> None:
    before = server.log.read_text().count("Traceback")
    with server.client() as blocker, server.client() as leaving:
        ask(blocker, "/gate/gate")
        server.at_gate("gate")
        ask(leaving, "/later/join")
        ask(clients[0], "/later/join")
        leaving.close()
        server.open_gate("gate")
        blocker.answer()
    assert clients[0].answer().status == 201
    assert server.log.read_text().count("Traceback") == before


BROKEN = """
from api.connection import Connection

def pre_request(worker, request):
    if request.path == "/hook":
        raise RuntimeError("a mistake in the hook")

def breaking(name, path):
    real = getattr(Connection, name)

    def step(self):
        waiting = self.inbound.pending[0] if self.inbound.pending else self.current
        if waiting is not None and waiting.environ["PATH_INFO"] == path:
            raise RuntimeError(f"a mistake in {name}")
        real(self)

    setattr(Connection, name, step)

breaking("advance", "/advance")
breaking("finish", "/later/finish")
"""


def test_a_mistake_with_one_request_leaves_no_other_of_its_round_without_an_answer(
    tmp_path: Path,
) -> None:
    """Whether it is the hook's, or the worker's own before or after the application."""
    with serving(tmp_path, BROKEN, app=APP) as server:
        server.gate("gate")
        clients = [server.client() for _ in range(7)]
        for client in clients:
            client.get("/events")
        paths = ["/later/join", "/advance", "/later/finish", "/hook", "/read", "/later/join"]
        ask_together(server, clients, *paths, "/join")
        for place in (1, 2):
            assert clients[place].ended()
        found = [clients[place].answer().status for place in (0, 3, 4, 5, 6)]
        assert found == [201, 500, 200, 201, 201]
        assert server.get("/read").status == 200
