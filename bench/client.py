"""The load generator: a closed loop over epoll, in one thread, for any number of connections.

Every connection does one *unit* of work after another. A unit is a generator:
it yields requests, is sent the reply to each, and returns how many things it
has got done. It may also yield a float, to pause for so many seconds. The next
request of a connection leaves when the last reply is in: a closed loop, which
shows what a server can do and no queue that only a pushing client would build.
"""

import gc
import heapq
import select
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from bench.wire import Malformed, Reader, Reply

Unit = Generator[bytes | float, Any, int]
Units = Callable[[int], Unit | None]  # the next unit of a connection, by its number; None: no more
Address = tuple[str, int]

CHUNK = 256 << 10
SETTLE = 20.0  # seconds that units which have begun may take to end, once the time is over
BREAKS = 100  # connections lost in one run before it is given up
now = time.perf_counter


class Gone(Exception):
    """The server does not answer any more."""


@dataclass
class Result:
    """What a run has done; times in seconds."""

    units: int = 0  # that ended within the time
    done: int = 0  # things done in them
    seconds: float = 0.0  # how long that was
    cpu: float = 0.0  # of this process, within the time
    total: int = 0  # things done, also while the last units ended
    elapsed: float = 0.0  # until the last one had
    latencies: list[float] = field(default_factory=list)  # of each unit
    failures: int = 0
    failure: str = ""  # the first of them

    def rate(self, clients: int) -> float:
        """Things done a second; where every client did few, with what ended late.

        A slow server with many clients has hardly begun to answer when a short
        time is over: what is done in it would say little.
        """
        if self.units >= 4 * clients:
            return self.done / self.seconds
        return self.total / self.elapsed if self.elapsed else 0.0


class _Connection:
    __slots__ = ("began", "buffer", "need", "number", "socket", "unit", "unsent")

    def __init__(self, number: int) -> None:
        self.number = number
        self.socket: Any = None
        self.unit: Any = None
        self.began = 0.0
        self.buffer = bytearray()
        self.need = 0
        self.unsent = b""


def run(address: Address, reader: Reader, units: Units, clients: int, seconds: float) -> Result:
    """Let ``clients`` connections work for ``seconds``, or until there are no more units."""
    loop = _Loop(address, reader, units)
    gc.collect()
    gc.disable()  # nothing here makes cycles, and a collection would be a pause of ours
    try:
        return loop.run(clients, seconds)
    finally:
        gc.enable()
        loop.close()


class _Loop:
    def __init__(self, address: Address, reader: Reader, units: Units) -> None:
        self.address, self.reader, self.units = address, reader, units
        self.epoll = select.epoll()
        self.connections: dict[int, _Connection] = {}  # by file descriptor
        self.timers: list[tuple[float, int, _Connection, Any]] = []
        self.result = Result()
        self.working = self.breaks = self.paused = 0
        self.over = False

    def run(self, clients: int, seconds: float) -> Result:
        ready = [_Connection(number) for number in range(clients)]
        for connection in ready:
            self._open(connection)
        self.working = clients
        self.started, self.cpu_before = now(), time.process_time()
        for connection in ready:
            if self._begin(connection):
                self._advance(connection, None)
        self._serve(self.started + seconds)
        return self.result

    def close(self) -> None:
        for connection in self.connections.values():
            connection.socket.close()
        self.epoll.close()

    def _serve(self, limit: float) -> None:
        while self.working:
            left = limit - now()
            if left <= 0:
                if self.over:
                    self._failed(f"{self.working} units did not end")
                    break
                self._end()
                limit += SETTLE
                continue
            due = self.timers[0][0] - now() if self.timers else left
            for descriptor, event in self.epoll.poll(max(0.0, min(left, due))):
                connection = self.connections[descriptor]
                if event & select.EPOLLOUT:
                    self._flush(connection)
                if event & ~select.EPOLLOUT:
                    self._read(connection)
            self._resume()
        if not self.over:
            self._end()
        self.result.elapsed = now() - self.started

    def _end(self) -> None:
        """The time is over: what is counted from here on was done while the last units ended."""
        self.over = True
        self.result.seconds = now() - self.started
        self.result.cpu = time.process_time() - self.cpu_before

    def _resume(self) -> None:
        while self.timers and self.timers[0][0] <= now():
            _, _, connection, unit = heapq.heappop(self.timers)
            if connection.unit is unit:  # not dropped meanwhile
                self._advance(connection, None)

    def _begin(self, connection: _Connection) -> bool:
        """Start the connection's next unit; false when there is none."""
        unit = None if self.over else self.units(connection.number)
        connection.unit, connection.began = unit, now()
        if unit is None:
            self.working -= 1
        return unit is not None

    def _advance(self, connection: _Connection, reply: Reply | None) -> None:
        """Go on with the unit, and the ones after it, until something has to be sent."""
        while True:
            try:
                wanted = connection.unit.send(reply)
                break
            except StopIteration as end:
                self._count(connection, end.value)
                if not self._begin(connection):
                    return
                reply = None
        if type(wanted) is float:
            self.paused += 1  # so that no two timers are equal
            timer = (now() + wanted, self.paused, connection, connection.unit)
            heapq.heappush(self.timers, timer)
        else:
            self._send(connection, wanted)

    def _count(self, connection: _Connection, done: int) -> None:
        self.result.total += done
        self.result.latencies.append(now() - connection.began)
        if not self.over:
            self.result.units += 1
            self.result.done += done

    def _failed(self, what: str) -> None:
        self.result.failures += 1
        self.result.failure = self.result.failure or what

    # The socket's side.

    def _open(self, connection: _Connection) -> None:
        try:
            made = socket.create_connection(self.address, timeout=10)
        except OSError as error:
            raise Gone(f"{self.address[0]}:{self.address[1]}: {error}") from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        connection.socket, connection.unsent = made, b""
        connection.buffer.clear()
        self.connections[made.fileno()] = connection
        self.epoll.register(made, select.EPOLLIN)

    def _shut(self, connection: _Connection) -> None:
        self.epoll.unregister(connection.socket)
        del self.connections[connection.socket.fileno()]
        connection.socket.close()

    def _broken(self, connection: _Connection, why: str) -> None:
        """The connection is lost, and its unit with it; go on with new ones of both."""
        if connection.unit is None:  # it had nothing more to do
            self._shut(connection)
            return
        self._failed(why)
        self.breaks += 1
        if self.breaks > BREAKS:
            raise Gone(f"{self.breaks} connections were lost: {self.result.failure}")
        self._shut(connection)
        self._open(connection)
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        """Give up the connection's unit and go on with the next."""
        connection.unit.close()
        if self._begin(connection):
            self._advance(connection, None)

    def _send(self, connection: _Connection, data: bytes) -> None:
        try:
            sent = connection.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._broken(connection, repr(error))
            return
        if sent < len(data):
            connection.unsent = data[sent:]
            self.epoll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    def _flush(self, connection: _Connection) -> None:
        rest, connection.unsent = connection.unsent, b""
        self.epoll.modify(connection.socket, select.EPOLLIN)
        self._send(connection, rest)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(connection, repr(error))
            return
        if not data:
            self._broken(connection, "closed by the server")
            return
        if connection.buffer:
            connection.buffer += data
            if len(connection.buffer) < connection.need:
                return
            data = bytes(connection.buffer)
        self._parse(connection, data)

    def _parse(self, connection: _Connection, data: bytes) -> None:
        """Read the reply from all that has come; what is not whole yet is kept."""
        try:
            reply = self.reader(data)
            if type(reply) is not int and reply.end != len(data):
                raise Malformed("more than was asked for")
        except ValueError as error:
            self._broken(connection, f"{type(error).__name__}: {error}")
            return
        if type(reply) is int:
            connection.need = reply
            if not connection.buffer:
                connection.buffer += data
            return
        if connection.buffer:
            connection.buffer.clear()
        self._take(connection, reply)

    def _take(self, connection: _Connection, reply: Reply) -> None:
        if reply.close:
            self._shut(connection)
            self._open(connection)
        if reply.status >= 300:
            self._failed(f"{reply.status} {reply.body[:200]!r}")
            self._drop(connection)
        else:
            self._advance(connection, reply)
