"""Actors: agents that use the service as agents do, over HTTP."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from werkzeug.test import Client, TestResponse

from models import database
from tests import contract


class Http:
    """A client of the service that holds every answer against the contract."""

    def __init__(self, service: Any) -> None:
        self.client = Client(service)

    def request(self, method: str, path: str, **options: Any) -> TestResponse:
        """One request; ``headers=``, ``query_string=`` and so on as Werkzeug has them."""
        response = self.client.open(path, method=method, **options)
        contract.check(method, path, response)
        return response

    def get(self, path: str, **options: Any) -> TestResponse:
        """A GET."""
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> TestResponse:
        """A POST of a JSON body, or of bytes as they are."""
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return self.request("POST", path, data=raw, **options)


def ok(response: TestResponse, status: int | tuple[int, ...] = (200, 201)) -> Any:
    """The answer's JSON; fails with the body when the status is another."""
    expected = status if isinstance(status, tuple) else (status,)
    assert response.status_code in expected, f"{response.status}: {response.text}"
    return response.json if response.data else None


def refused(response: TestResponse, status: int, code: str) -> Any:
    """The problem document of a request that is refused so."""
    problem = ok(response, status)
    assert problem["code"] == code, problem
    return problem


def pages(look: Callable[..., TestResponse], kind: str = "messages", **query: Any) -> list[Any]:
    """Every page of a list, from the first to the one that has no ``next``."""
    found = [ok(look(**query))]
    while "next" in found[-1]:
        found.append(ok(look(**query, after=found[-1]["next"])))
    return [page[kind] for page in found]


def contents(response: TestResponse) -> list[bytes | None]:
    """The content of each message of a page, byte for byte; None where there is none."""
    page = msgspec.json.decode(response.data, type=dict[str, list[dict[str, msgspec.Raw]]])
    found = (message.get("content") for message in page["messages"])
    return [bytes(content) if content is not None else None for content in found]


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What ``count`` threads get that begin the same at once, each with its own connection."""
    ready = threading.Barrier(count, timeout=30)

    def run(index: int) -> Any:
        ready.wait()
        try:
            return work(index)
        finally:
            database.drop()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class Agent:
    """One agent, which names itself in everything it does."""

    def __init__(self, http: Http, name: str) -> None:
        self.http, self.name = http, name

    def register(self, **fields: Any) -> Any:
        """Register, or change what is given."""
        return ok(self.http.post("/agents", {"id": self.name, **fields}))

    def retire(self) -> Any:
        """Retire."""
        return ok(self.http.post(f"/agents/{self.name}/retire"))

    def try_send(
        self,
        to: "str | Agent",
        type: str = "request",
        options: Any = None,
        headers: Any = None,
        **fields: Any,
    ) -> TestResponse:
        """Send, and see what comes of it; ``options`` are those of a request."""
        recipient = to.name if isinstance(to, Agent) else to
        body = {"from": self.name, "type": type, **fields}
        path = f"/agents/{recipient}/inbox"
        return self.http.post(path, body, headers=headers, **(options or {}))

    def send(self, to: "str | Agent", type: str = "request", **fields: Any) -> Any:
        """Send a message; the message."""
        return ok(self.try_send(to, type, **fields))

    def try_poll(self, headers: Any = None, options: Any = None, **query: Any) -> TestResponse:
        """Look into the inbox, and see what comes of it; ``options`` are those of a request."""
        path = f"/agents/{self.name}/inbox"
        return self.http.get(path, query_string=query, headers=headers, **(options or {}))

    def poll(self, **query: Any) -> list[Any]:
        """The messages of a look into the inbox."""
        return ok(self.try_poll(**query))["messages"]

    def count(self) -> int:
        """How many messages are unread."""
        return ok(self.http.get(f"/agents/{self.name}/inbox/count"))["unread"]

    def try_ack(self, message: Any) -> TestResponse:
        """Acknowledge a message (or an id), and see what comes of it."""
        id = message if isinstance(message, str) else message["id"]
        return self.http.post(f"/inbox/messages/{id}/ack", {"from": self.name})

    def ack(self, message: Any) -> Any:
        """Acknowledge a message; the message."""
        return ok(self.try_ack(message))

    def ack_many(self, *messages: Any) -> list[Any]:
        """Acknowledge several; the results."""
        ids = [each if isinstance(each, str) else each["id"] for each in messages]
        return ok(self.http.post(f"/agents/{self.name}/inbox/ack", {"ids": ids}))["results"]

    def receipt(self, message: Any) -> Any:
        """What became of a message."""
        path = f"/inbox/messages/{message['id']}"
        return ok(self.http.get(path, query_string={"as": self.name}))

    def try_task(self, task_id: str) -> TestResponse:
        """Read a task's summary, and see what comes of it."""
        return self.http.get(f"/tasks/{task_id}", query_string={"as": self.name})

    def task(self, task_id: str) -> Any:
        """A task's summary."""
        return ok(self.try_task(task_id))

    def history(self, task_id: str, **query: Any) -> list[Any]:
        """A page of a task's messages."""
        asked = {"as": self.name, **query}
        return ok(self.http.get(f"/tasks/{task_id}/messages", query_string=asked))["messages"]

    def try_history(self, task_id: str, **query: Any) -> TestResponse:
        """Look into a task's messages, and see what comes of it."""
        return self.http.get(f"/tasks/{task_id}/messages", query_string={"as": self.name, **query})

    def try_send_many(self, *messages: Any, **options: Any) -> TestResponse:
        """Send a batch, and see what comes of it."""
        return self.http.post("/messages", {"from": self.name, "messages": messages}, **options)

    def send_many(self, *messages: Any, **options: Any) -> list[Any]:
        """Send a batch; its messages."""
        return ok(self.try_send_many(*messages, **options))["messages"]

    def try_tasks(self, **query: Any) -> TestResponse:
        """List tasks, and see what comes of it."""
        return self.http.get("/tasks", query_string={"as": self.name, **query})

    def tasks(self, **query: Any) -> list[str]:
        """The ids of a page of tasks."""
        return [task["task_id"] for task in ok(self.try_tasks(**query))["tasks"]]

    def try_close(self, task_id: str) -> TestResponse:
        """Close a task, and see what comes of it."""
        return self.http.post(f"/tasks/{task_id}/close", {"from": self.name})

    def try_history_of(self, task_id: str) -> Callable[..., TestResponse]:
        """A look into one task's messages, for ``pages``."""
        return lambda **query: self.try_history(task_id, **query)

    def try_claim(self, options: Any = None, **fields: Any) -> TestResponse:
        """Claim from the own inbox, and see what comes of it."""
        return self.http.post(f"/agents/{self.name}/inbox/claim", fields, **(options or {}))

    def claim(self, **fields: Any) -> list[Any]:
        """Claim from the own inbox; the messages."""
        return ok(self.try_claim(**fields))["messages"]

    def try_settle(self, message: Any, verb: str = "ack", **fields: Any) -> TestResponse:
        """Ack, extend or release a claimed message with its receipt, and see what comes of it."""
        body = {"from": self.name, "receipt": message["receipt"], **fields}
        return self.http.post(f"/inbox/messages/{message['id']}/{verb}", body)

    def settle(self, message: Any, verb: str = "ack", **fields: Any) -> Any:
        """Ack, extend or release a claimed message with its receipt; the message."""
        return ok(self.try_settle(message, verb, **fields))

    def do(self, message: Any, verb: str) -> TestResponse:
        """Redrive or discard a message, and see what comes of it."""
        return self.http.post(f"/inbox/messages/{message['id']}/{verb}", {"from": self.name})

    def counts(self) -> Any:
        """How much lies in the inbox."""
        return ok(self.http.get(f"/agents/{self.name}/inbox/count"))

    def try_ask(self, service: str, options: Any = None, **fields: Any) -> TestResponse:
        """Send a request to a service, and see what comes of it."""
        body = {"from": self.name, **fields}
        return self.http.post(f"/services/{service}/requests", body, **(options or {}))

    def ask(self, service: str, **fields: Any) -> Any:
        """Send a request to a service; the message."""
        return ok(self.try_ask(service, **fields))

    def try_take(self, service: str, options: Any = None, **fields: Any) -> TestResponse:
        """Claim from a service as its worker, and see what comes of it."""
        body = {"from": self.name, **fields}
        return self.http.post(f"/services/{service}/claim", body, **(options or {}))

    def take(self, service: str, **fields: Any) -> list[Any]:
        """Claim from a service as its worker; the messages."""
        return ok(self.try_take(service, **fields))["messages"]

    def work(self, service: str, **fields: Any) -> Any:
        """Register as a worker of a service."""
        return ok(self.http.post(f"/services/{service}/workers", {"from": self.name, **fields}))
