"""Clients of the service that run as processes of their own: plain HTTP, one kept connection each.

They send, poll and ack as agents do, and hand back what they were told; the
tests judge it.
"""

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any


class Unanswered(Exception):
    """The connection broke: the request was done, or it was not."""


class Refused(Exception):
    """Nobody listens: the request was not done."""


class Client:
    """One agent with one connection, which is opened again when it broke."""

    def __init__(self, port: int, name: str, timeout: float = 60.0) -> None:
        self.port, self.name, self.timeout = port, name, timeout
        self.connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status of the answer, and its JSON. Raises ``Refused`` or ``Unanswered``."""
        raw = None if body is None else json.dumps(body)
        connection = self._connected()
        try:
            connection.request(method, path, raw, headers or {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unanswered(repr(error)) from error

    def _connected(self) -> http.client.HTTPConnection:
        if self.connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
            try:
                connection.connect()
            except OSError as error:
                raise Refused(repr(error)) from error
            self.connection = connection
        return self.connection

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one; the next call opens another."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def send(self, to: str, content: Any, key: str | None = None, **fields: Any) -> tuple[int, Any]:
        """Send a request to an agent."""
        body = {"from": self.name, "type": "request", "content": content, **fields}
        headers = {"Idempotency-Key": key} if key else {}
        return self.call("POST", f"/agents/{to}/inbox", body, headers)

    def tries(self, within: float = 60.0) -> Iterator[None]:
        """For a loop that tries something again and again, until it has been too long."""
        ends = time.monotonic() + within
        while time.monotonic() < ends:
            yield
            time.sleep(0.02)

    def pages(self, path: str, items: str = "messages") -> Iterator[Any]:
        """Everything that a list holds, page after page."""
        joint, place = "&" if "?" in path else "?", ""
        while True:
            status, page = self.call("GET", f"{path}{joint}limit=500{place}")
            assert status == 200, page
            yield from page[items]
            if "next" not in page:
                return
            place = f"&after={page['next']}"
