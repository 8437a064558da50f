"""A connection by itself, where what is to be seen depends on what is not yet sent."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from api.connection import CLOSING, HEAD, IDLE, Connection
from api.heads import Familiar
from api.receiver import Receiver
from api.transport import MOST, Transports

DEADLINES = {"header_deadline": 9.0, "body_deadline": 9.0, "write_deadline": 5.0, "keepalive": 9.0}


class Side:
    """A connection of a worker that has no other, and its client's socket."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        log: Any = logging.getLogger("side")
        self.transports = Transports(self.loop, log, lambda: self.transports.stir())
        self.left: list[Connection] = []
        worker: Any = SimpleNamespace(
            loop=self.loop, log=log, transports=self.transports, left=self.left.append, ready=[],
            stopping=False, max_line=8190, max_head=32768, parked=0, **DEADLINES,
        )  # fmt: skip
        ours, self.client = socket.socketpair()
        self.connection = Connection(worker, Receiver(worker, Familiar({}), ("", ""), False), ours)

    def run(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0.02))

    def leave_unread(self) -> None:
        """Have some of an answer unsent, less than would have the writer pause."""
        transport = self.connection.transport
        assert transport is not None
        while not transport.get_write_buffer_size():
            transport.write(b"x" * 1000)
        assert transport.get_write_buffer_size() < MOST

    def close(self) -> None:
        self.client.close()
        self.run()
        self.transports.close()
        self.loop.close()


@pytest.fixture
def side() -> Iterator[Side]:
    made = Side()
    yield made
    made.close()


@pytest.mark.parametrize(("sent", "phase"), [(b"", IDLE), (b"GET /pa", HEAD)])
def test_who_leaves_in_the_middle_without_having_read_is_not_waited_for_for_ever(
    side: Side, sent: bytes, phase: int
) -> None:
    connection = side.connection
    side.leave_unread()
    side.client.sendall(sent)
    side.run()
    connection.advance()
    assert connection.phase == phase
    side.client.shutdown(socket.SHUT_WR)
    side.run()
    assert connection.phase == CLOSING
    assert connection.deadline < monotonic() + DEADLINES["write_deadline"] + 1
    assert side.left == []  # it may still read
    connection.expire()
    side.run()
    assert side.left == [connection]


def fail() -> None:
    raise ValueError("a mistake in tidying up")


def streaming(connection: Connection) -> None:
    connection.stream = SimpleNamespace(close=fail)  # type: ignore[assignment]


def waiting(connection: Connection) -> None:
    connection.current = SimpleNamespace(rise=lambda: None)  # type: ignore[assignment]
    connection.timer = SimpleNamespace(cancel=lambda: None)
    connection.wait = SimpleNamespace(cancel=fail)  # type: ignore[assignment]


@pytest.mark.parametrize("doing", [streaming, waiting])
def test_a_mistake_in_tidying_up_leaves_nothing_behind(
    side: Side, doing: Callable[[Connection], None], caplog: pytest.LogCaptureFixture
) -> None:
    side.run()
    doing(side.connection)
    side.client.close()
    side.run()
    assert side.left == [side.connection]
    assert side.connection.transport is None
    assert "a mistake in tidying up" in caplog.text
