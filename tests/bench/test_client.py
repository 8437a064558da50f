"""The load generator counts what was done, and only that, whatever the server does to it."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from bench import client, wire
from bench.client import Gone, Result, Unit
from tests.postgres import free_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REQUEST = b"GET / HTTP/1.1\r\n\r\n"
LONG = 30.0
Answer = Callable[[int, socket.socket], bool]  # the number of the request; false: hang up


class Server:
    """A server of one thread a connection, which answers what the test wants."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.requests = answer, itertools.count()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = self.listener.getsockname()
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self.listener.accept()
            except OSError:  # the end
                return
            self.threads.append(threading.Thread(target=self._serve, args=(made,)))
            self.threads[-1].start()

    def _serve(self, made: socket.socket) -> None:
        with made, contextlib.suppress(OSError):
            while self._whole(made) and self.answer(next(self.requests), made):
                pass

    def _whole(self, made: socket.socket) -> bool:
        data = made.recv(65536)
        while data and not data.endswith(b"\r\n\r\n"):
            data += made.recv(65536)
        return bool(data)

    def close(self) -> None:
        """Stop listening and wait for all threads."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(LONG)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Server]]:
    """Starts servers, which end with the test."""
    with contextlib.ExitStack() as stack:

        def start(answer: Answer) -> Server:
            server = Server(answer)
            stack.callback(server.close)
            return server

        yield start


def whole(number: int, made: socket.socket) -> bool:
    """Answer at once."""
    made.sendall(OK)
    return True


def one() -> Unit:
    """A unit of one request."""
    reply = yield REQUEST
    assert reply.body == b"ok"
    return 1


def run(server: Server, units: list[Unit], clients: int = 1, seconds: float = LONG) -> Result:
    """Do these units."""
    waiting = iter(units)
    return client.run(
        server.address, wire.http, lambda number: next(waiting, None), clients, seconds
    )


def test_every_unit_is_counted_once(serve: Callable[[Answer], Server]) -> None:
    server = serve(whole)
    result = run(server, [one() for _ in range(100)], clients=7)
    assert (result.units, result.done, result.total) == (100, 100, 100)
    assert len(result.latencies) == 100
    assert next(server.requests) == 100
    assert not result.failures


def test_a_reply_in_pieces_is_one_reply(serve: Callable[[Answer], Server]) -> None:
    def in_pieces(number: int, made: socket.socket) -> bool:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in OK:
            made.send(bytes([byte]))
        return True

    result = run(serve(in_pieces), [one() for _ in range(20)], clients=2)
    assert (result.done, result.failures) == (20, 0)


def test_a_reply_bigger_than_a_read_is_whole(serve: Callable[[Answer], Server]) -> None:
    body = bytes(3 * client.CHUNK + 17)

    def big(number: int, made: socket.socket) -> bool:
        made.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True

    def unit() -> Unit:
        reply = yield REQUEST
        return len(reply.body)

    assert run(serve(big), [unit(), unit()]).done == 2 * len(body)


def test_a_request_bigger_than_a_buffer_is_sent_whole(serve: Callable[[Answer], Server]) -> None:
    def unit() -> Unit:
        yield b"POST / HTTP/1.1\r\nX: " + b"x" * (16 << 20) + b"\r\n\r\n"
        return 1

    result = run(serve(whole), [unit(), one()])
    assert (result.done, result.failures) == (2, 0)


def test_a_unit_of_several_requests_counts_as_it_says(serve: Callable[[Answer], Server]) -> None:
    server = serve(whole)

    def three() -> Unit:
        for _ in range(3):
            yield REQUEST
        yield 0.001  # a pause
        return 50

    result = run(server, [three(), three()], clients=2)
    assert (result.units, result.done, next(server.requests)) == (2, 100, 6)


def test_a_refusal_is_a_failure_and_ends_its_unit(serve: Callable[[Answer], Server]) -> None:
    def refuses(number: int, made: socket.socket) -> bool:
        made.sendall(OK.replace(b"200 OK", b"503 No") if number == 3 else OK)
        return True

    result = run(serve(refuses), [one() for _ in range(10)])
    assert (result.done, result.failures) == (9, 1)
    assert result.failure.startswith("503")


def test_a_lost_connection_is_a_failure_and_replaced(serve: Callable[[Answer], Server]) -> None:
    def hangs_up(number: int, made: socket.socket) -> bool:
        made.sendall(OK[:20] if number == 3 else OK)
        return number != 3

    result = run(serve(hangs_up), [one() for _ in range(10)])
    assert (result.done, result.failures) == (9, 1)


def test_a_server_that_closes_after_each_reply_is_no_failure(
    serve: Callable[[Answer], Server],
) -> None:
    def closes(number: int, made: socket.socket) -> bool:
        made.sendall(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        return False

    result = run(serve(closes), [one() for _ in range(30)], clients=3)
    assert (result.done, result.failures) == (30, 0)


def test_more_than_was_asked_for_is_a_failure(serve: Callable[[Answer], Server]) -> None:
    def talks(number: int, made: socket.socket) -> bool:
        made.sendall(OK + OK)
        return True

    assert run(serve(talks), [one()]).failures == 1


def test_units_that_end_late_are_in_the_total_alone(serve: Callable[[Answer], Server]) -> None:
    over = threading.Event()

    def late(number: int, made: socket.socket) -> bool:
        assert over.wait(LONG)
        made.sendall(OK)
        return True

    def first() -> Unit:
        yield REQUEST
        return 1

    def second() -> Unit:
        yield 0.05
        over.set()
        yield REQUEST
        return 1

    result = run(serve(late), [first(), second()], clients=2, seconds=0.01)
    assert (result.done, result.total) == (0, 2)
    assert result.elapsed > result.seconds
    assert result.rate(2) == result.total / result.elapsed


def test_the_rate_is_that_of_the_time_when_clients_did_enough() -> None:
    enough = Result(units=8, done=80, seconds=2.0, total=90, elapsed=4.0)
    assert enough.rate(2) == 40
    assert enough.rate(3) == 22.5
    assert Result().rate(1) == 0


def test_a_server_that_is_gone_ends_the_run() -> None:
    with pytest.raises(Gone):
        client.run(("127.0.0.1", free_port()), wire.http, lambda number: one(), 1, LONG)
