"""The transport by itself: what it tells its owner, and when, whatever the client does."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.transport import FEW, MOST, Transport, Transports

BIG = b"x" * (4 << 20)  # more than the kernel takes at once


class Owner:
    """Notes what it is told; ``stays`` when the client sends no more, if so asked."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.stays = False
        self.failing = False

    def data_received(self, data: memoryview) -> None:
        if self.failing:
            raise ValueError("a mistake")
        self.told.append(bytes(data))

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.stays

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self) -> None:
        self.told.append("lost")


class Side:
    """A loop with one transport, and the client's end of its socket."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.stirs = 0
        self.transports = Transports(self.loop, logging.getLogger("side"), self.stirred)  # type: ignore[arg-type]
        ours, self.client = socket.socketpair()
        self.client.settimeout(5)
        self.ours = ours
        self.owner = Owner()
        self.transport = Transport(self.transports, ours, self.owner)

    def stirred(self) -> None:
        self.stirs += 1
        self.transports.stir()

    def run(self, seconds: float = 0.05) -> list[Any]:
        """Let the loop run; what the owner has been told in all."""
        self.loop.run_until_complete(asyncio.sleep(seconds))
        return self.owner.told

    def taken(self, size: int) -> bytes:
        """What the client gets, up to a size, while the loop runs."""
        found = bytearray()
        self.client.setblocking(False)
        while len(found) < size:
            self.run(0)
            with contextlib.suppress(BlockingIOError):
                found += self.client.recv(1 << 16)
        return bytes(found)

    def close(self) -> None:
        self.client.close()
        self.ours.close()
        self.transports.close()
        self.loop.close()


@pytest.fixture
def side() -> Iterator[Side]:
    made = Side()
    yield made
    made.close()


def test_what_comes_is_told_and_what_is_written_arrives(side: Side) -> None:
    side.client.sendall(b"hello")
    assert side.run() == [b"hello"]
    side.transport.write(b"good day")
    assert side.client.recv(100) == b"good day"
    assert side.transport.get_write_buffer_size() == 0


def test_who_does_not_read_pauses_the_writer_and_gets_all_in_the_end(side: Side) -> None:
    side.transport.write(BIG)
    side.transport.write(b"end")
    assert side.owner.told == ["pause"]
    assert side.transport.get_write_buffer_size() > MOST
    assert side.taken(len(BIG) + 3) == BIG + b"end"
    assert side.owner.told == ["pause", "resume"]
    assert side.transport.get_write_buffer_size() == 0


def test_the_writer_goes_on_before_all_has_gone(side: Side) -> None:
    left: list[int] = []
    side.owner.resume_writing = lambda: left.append(side.transport.get_write_buffer_size())  # type: ignore[method-assign]
    side.transport.write(BIG)
    side.taken(len(BIG))
    assert left[0] <= FEW


def test_nothing_is_read_while_reading_is_paused(side: Side) -> None:
    side.transport.pause_reading()
    side.transport.pause_reading()
    side.client.sendall(b"hello")
    before = side.stirs
    assert side.run() == []
    assert side.stirs == before
    side.transport.resume_reading()
    assert side.run() == [b"hello"]


def test_a_client_that_has_sent_all_may_still_be_answered(side: Side) -> None:
    side.owner.stays = True
    side.client.sendall(b"last")
    side.client.shutdown(socket.SHUT_WR)
    assert side.run() == [b"last", "eof"]
    side.transport.resume_reading()
    side.transport.write(b"answer")
    before = side.stirs
    side.run()
    assert side.stirs == before  # nothing spins
    assert side.client.recv(100) == b"answer"
    side.transport.close()
    assert side.run() == [b"last", "eof", "lost"]


def test_a_client_that_leaves_is_let_go(side: Side) -> None:
    side.client.close()
    assert side.run() == ["eof", "lost"]
    assert side.ours.fileno() == -1


@pytest.mark.parametrize("act", [lambda each: each.close(), lambda each: each.abort()])
def test_the_end_is_told_once_and_not_at_once(side: Side, act: Callable[[Any], None]) -> None:
    act(side.transport)
    act(side.transport)
    assert side.transport.is_closing()
    assert side.owner.told == []
    side.transport.write(b"too late")
    side.transport.write_eof()
    side.client.sendall(b"too late")
    assert side.run() == ["lost"]
    assert side.ours.fileno() == -1


def test_to_close_is_to_write_all_first_and_to_abort_is_not(side: Side) -> None:
    side.transport.write(BIG)
    side.transport.close()
    side.client.sendall(b"not read")
    assert side.run() == ["pause"]
    assert side.taken(len(BIG)) == BIG
    assert side.run() == ["pause", "resume", "lost"]


def test_what_is_unsent_is_dropped_when_aborted(side: Side) -> None:
    side.transport.write(BIG)
    side.transport.close()
    side.transport.abort()
    assert side.run() == ["pause", "lost"]
    assert side.transport.get_write_buffer_size() == 0


def test_our_end_of_writing_comes_after_what_is_unsent(side: Side) -> None:
    side.transport.write(BIG)
    side.transport.write_eof()
    assert side.taken(len(BIG)) == BIG
    side.run()
    side.client.setblocking(True)
    assert side.client.recv(100) == b""
    side.client.sendall(b"still heard")
    assert side.run()[-1] == b"still heard"


def test_an_owner_that_writes_or_ends_when_it_may_go_on(side: Side) -> None:
    def more() -> None:
        side.transport.write(b"more")
        side.transport.abort()

    side.owner.resume_writing = more  # type: ignore[method-assign]
    side.transport.write(BIG)
    side.client.setblocking(False)
    while "lost" not in side.run(0):
        with contextlib.suppress(BlockingIOError):
            side.client.recv(1 << 16)
    assert side.owner.told == ["pause", "lost"]


def test_a_mistake_of_the_owner_ends_this_one_alone(
    side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    ours, client = socket.socketpair()
    other = Owner()
    Transport(side.transports, ours, other)
    side.owner.failing = True
    side.client.sendall(b"a")
    client.sendall(b"b")
    assert side.run() == ["lost"]
    assert other.told == [b"b"]
    assert "a mistake" in caplog.text
    client.close()
    side.run()


def test_a_client_that_resets_is_gone_whoever_notices_first(side: Side) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    for write in (False, True):
        client = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
        owner = Owner()
        transport = Transport(side.transports, ours, owner)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if write:
            transport.write(BIG * 4)
            transport.pause_reading()
        client.close()
        side.run()
        assert owner.told[-1] == "lost"
    server.close()
