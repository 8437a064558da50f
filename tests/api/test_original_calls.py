"""The calls of the system that this one replaces: a client of that one runs unchanged.

``Original`` is such a client, written against that system's documentation and
nothing else: it names itself in ``from``, sends JSON with the headers that it
always sent, waits with ``timeout`` and does not know of any other route.
"""

import json
from typing import Any

import pytest

from tests.actors import Http, ok


class Original:
    """A client of the original interface."""

    headers = {"Content-Type": "application/json", "X-API-Key": "sk-of-old"}  # noqa: RUF012

    def __init__(self, http: Http) -> None:
        self.http = http

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        raw = json.dumps(body).encode() if body is not None else None
        return self.http.request(method, path, data=raw, headers=self.headers, query_string=query)

    def register(self, id: str, **aliases: list[str]) -> Any:
        return ok(self.call("POST", "/agents", {"id": id, **aliases}), (200, 201))

    def agents(self) -> list[Any]:
        return ok(self.call("GET", "/agents"))["agents"]

    def delete(self, id: str) -> Any:
        return ok(self.call("DELETE", f"/agents/{id}"))

    def send(self, to: str, task_id: str, sender: str, type: str, content: Any = None) -> Any:
        body = {"task_id": task_id, "from": sender, "type": type, "content": content}
        return ok(self.call("POST", f"/agents/{to}/inbox", body), 201)

    def receive(self, id: str, **query: Any) -> list[Any]:
        asked = {"status": "unread", **query}
        return ok(self.call("GET", f"/agents/{id}/inbox", **asked))["messages"]

    def ack(self, id: str) -> Any:
        return ok(self.call("POST", f"/inbox/messages/{id}/ack"))

    def history(self, task_id: str) -> list[Any]:
        return ok(self.call("GET", f"/tasks/{task_id}/messages"))["messages"]


@pytest.fixture
def client(http: Http) -> Original:
    return Original(http)


def test_the_review_of_the_original_documentation(client: Original) -> None:
    client.register("orchestrator")
    client.register("reviewer", aliases=["code-reviewer"])
    task = "review-pr-42"
    work = {"pr_url": "https://example.org/pull/42", "files": ["auth.rs"], "priority": "high"}
    client.send("code-reviewer", task, "orchestrator", "request", work)
    (asked,) = client.receive("reviewer", task_id=task)
    assert asked["content"] == work
    client.ack(asked["id"])
    client.send("orchestrator", task, "reviewer", "question", {"question": "bug?", "line": 42})
    (question,) = client.receive("orchestrator", task_id=task)
    client.ack(question["id"])
    client.send("reviewer", task, "orchestrator", "answer", {"answer": "no"})
    (answer,) = client.receive("code-reviewer", task_id=task, timeout=10)
    client.ack(answer["id"])
    client.send("orchestrator", task, "reviewer", "done", {"approved": True})
    assert [message["type"] for message in client.history(task)] == [
        "request", "question", "answer", "done",
    ]  # fmt: skip
    assert client.receive("reviewer") == []
    assert [message["content"] for message in client.receive("orchestrator")] == [
        {"approved": True}
    ]


def test_a_message_has_the_fields_that_it_had(client: Original) -> None:
    client.send("worker", "task-1", "main", "request", {"instruction": "do work"})
    (message,) = client.receive("worker")
    shown = {name: message[name] for name in ("task_id", "from", "to", "type", "content", "status")}
    assert shown == {
        "task_id": "task-1",
        "from": "main",
        "to": "worker",
        "type": "request",
        "content": {"instruction": "do work"},
        "status": "unread",
    }
    assert isinstance(message["id"], str)
    assert message["created_at"].endswith("Z")
    assert client.ack(message["id"])["status"] == "acked"


def test_registration_is_no_precondition(client: Original) -> None:
    assert client.receive("nobody") == []
    client.send("later", "t", "stranger", "request")
    assert len(client.receive("later")) == 1
    assert client.agents() == []


def test_agents_are_listed_and_deleted(client: Original) -> None:
    client.register("a", aliases=["b"])
    assert client.register("a")["id"] == "a"
    (listed,) = client.agents()
    assert (listed["id"], listed["aliases"]) == ("a", ["b"])
    client.receive("a")
    assert client.agents()[0]["last_seen"].endswith("Z")
    assert client.delete("a") == {"status": "deleted", "agent_id": "a"}
    assert client.agents() == []
    assert client.call("DELETE", "/agents/ghost").status_code == 404


def test_a_list_without_parameters_and_an_unknown_message(client: Original) -> None:
    client.send("worker", "t", "main", "message", "hi")
    assert len(ok(client.call("GET", "/agents/worker/inbox"))["messages"]) == 1
    assert client.call("POST", "/inbox/messages/imsg-ghost/ack").status_code == 404
    assert client.call("GET", "/tasks/ghost/messages").status_code == 404


def test_several_workers_report_on_one_task(client: Original) -> None:
    for worker in ("research", "writer", "charts"):
        client.send(worker, "report-1", "main", "request", worker)
    for worker in ("charts", "writer"):
        (work,) = client.receive(worker, timeout=0)
        client.send("main", work["task_id"], worker, "done", {worker: "..."})
        client.ack(work["id"])
    client.send("main", "report-1", "research", "failed", {"error": "no data"})
    results = client.receive("main", task_id="report-1")
    assert [result["from"] for result in results] == ["charts", "writer", "research"]
    for result in results:
        client.ack(result["id"])
    assert client.receive("main", task_id="report-1") == []


def test_health_says_what_it_said(client: Original) -> None:
    health = ok(client.call("GET", "/health"))
    assert set(health) == {"status", "version"}
    assert health["status"] == "healthy"
