"""Several server processes on one database, under load: no 5xx, nothing lost, nothing twice."""

import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tests.acceptance.clients import Client
from tests.acceptance.server import running

SERVERS, CLIENTS = 4, 16


class Part:
    """What one agent does for a while, and what it is told; it raises at what cannot be right."""

    def __init__(self, port: int, number: int) -> None:
        self.number, self.client = number, Client(port, f"agent-{number}")
        self.inbox = f"/agents/{self.client.name}/inbox"
        self.sent: dict[str, list[str]] = {}  # ids, by recipient
        self.acked: list[str] = []
        self.statuses: Counter[int] = Counter()

    def play(self, seconds: float) -> None:
        """Send, poll and ack, again and again; the last messages are left to be read."""
        ends, turn = time.monotonic() + seconds, 0
        while time.monotonic() < ends:
            self.send(turn)
            self.ack(self.poll(), together=turn % 2 == 0)
            turn += 1
        for _ in range(5):
            self.send(turn)
            turn += 1
        self.client.close()

    def call(self, *request: Any) -> Any:
        """The answer's JSON; None for a 5xx, which the test counts."""
        status, answer = self.client.call(*request)
        self.statuses[status] += 1
        assert status < 400 or status >= 500, answer
        return answer if status < 400 else None

    def send(self, turn: int) -> None:
        """Send to the next of the others, or to itself."""
        to = f"agent-{(self.number + turn) % CLIENTS}"
        body = {"from": self.client.name, "type": "request", "content": turn}
        if message := self.call("POST", f"/agents/{to}/inbox", body):
            self.sent.setdefault(to, []).append(message["id"])

    def poll(self) -> list[str]:
        """The ids of some unread messages, of which none has been acked."""
        page = self.call("GET", f"{self.inbox}?limit=10")
        ids = [message["id"] for message in page["messages"]] if page else []
        assert ids == sorted(set(ids))
        assert not set(ids) & set(self.acked)
        return ids

    def ack(self, ids: list[str], together: bool) -> None:
        """Ack all of these, in one call or one by one."""
        if together and ids:
            answer = self.call("POST", f"{self.inbox}/ack", {"ids": ids})
            results = answer["results"] if answer else []
        else:
            paths = [f"/inbox/messages/{id}/ack" for id in ids]
            answers = [self.call("POST", path, {"from": self.client.name}) for path in paths]
            results = [answer for answer in answers if answer]
        assert {result["status"] for result in results} <= {"acked"}
        self.acked += [result["id"] for result in results]


def play(port: int, number: int, seconds: float) -> dict[str, Any]:
    """One agent's part in a process of its own."""
    part = Part(port, number)
    part.play(seconds)
    return {name: getattr(part, name) for name in ("sent", "acked", "statuses")}


def test_many_clients_of_many_server_processes_lose_nothing(
    database_url: str, pool: ProcessPoolExecutor, request: pytest.FixtureRequest
) -> None:
    kind = "sqlite" if database_url.startswith("sqlite") else "postgresql"
    seconds = float(request.config.getoption(f"--{kind}-seconds"))
    with running(database_url, workers=SERVERS) as server:
        playing = [pool.submit(play, server.port, number, seconds) for number in range(CLIENTS)]
        parts = [each.result(seconds + 300) for each in playing]
        statuses = sum((part["statuses"] for part in parts), Counter())
        assert not {status: times for status, times in statuses.items() if status >= 500}
        with Client(server.port, "reader") as reader:
            for number, part in enumerate(parts):
                name = f"agent-{number}"
                judge(
                    reader,
                    name,
                    [id for other in parts for id in other["sent"].get(name, [])],
                    part["acked"],
                )


def judge(reader: Client, name: str, sent: list[str], acked: list[str]) -> None:
    """Hold what lies in an inbox against what was sent to it, and what its owner acked."""
    inbox = f"/agents/{name}/inbox"
    unread = [message["id"] for message in reader.pages(inbox)]
    settled = [message["id"] for message in reader.pages(f"{inbox}?status=acked")]
    assert settled == sorted(acked)
    assert unread == sorted(set(sent) - set(acked))
    assert sorted(sent) == sorted(unread + settled)
    assert reader.call("GET", f"{inbox}/count")[1]["unread"] == len(unread)
