"""A client's socket: bytes in as they come, bytes out as fast as the client takes them.

The sockets of a worker lie under one selector, which its loop watches as if it
were one file. So all that has come is read in one go before anything is done
about it, and a client that waits costs little more than its socket.
"""

import selectors
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol

from gunicorn.glogging import Logger

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
BUFFER = bytearray(65536)  # one for all: what is read is parsed at once
VIEW = memoryview(BUFFER)
MOST, FEW = 65536, 16384  # unsent bytes above which the owner is to pause, and at which to go on


class Owner(Protocol):
    """Whom a transport calls back; as a protocol of asyncio."""

    def data_received(self, data: memoryview) -> None:
        """Take in ``data``, which is overwritten afterwards."""

    def eof_received(self) -> bool:
        """The client sends no more; whether to stay open for it all the same."""

    def pause_writing(self) -> None:
        """The client does not read: write no more for now."""

    def resume_writing(self) -> None:
        """It has caught up."""

    def connection_lost(self) -> None:
        """The end, whoever wanted it; called once."""


class Transports:
    """The transports of a worker; ``stirred`` is called when some have something to do."""

    def __init__(self, loop: AbstractEventLoop, log: Logger, stirred: Callable[[], None]) -> None:
        self.loop, self.log = loop, log
        self.selector = selectors.DefaultSelector()
        loop.add_reader(self.selector, stirred)

    def stir(self) -> bool:
        """Read what has come, and write what did not go out before; whether there was any."""
        found = self.selector.select(0)
        for key, events in found:
            transport = key.data
            try:
                if events & WRITE:
                    transport.flush()
                if events & READ:
                    transport.read()
            except Exception:  # a mistake of ours ends this connection, and no other
                self.log.exception("Error in a connection")
                transport.abort()
        return bool(found)

    def close(self) -> None:
        """Do nothing more."""
        self.loop.remove_reader(self.selector)
        self.selector.close()


class Transport:
    """One socket. Its methods are those of asyncio's transports and mean the same."""

    __slots__ = (
        "closing", "ended", "finished", "full", "lost", "owner", "sock", "transports", "unsent",
        "watched",
    )  # fmt: skip

    def __init__(self, transports: Transports, sock: socket.socket, owner: Owner) -> None:
        sock.setblocking(False)
        self.transports, self.sock, self.owner = transports, sock, owner
        self.unsent: bytearray | None = None
        self.full = False  # the owner has been told to pause
        self.ended = False  # the client sends no more
        self.finished = False  # we write no more
        self.closing = False
        self.lost = False
        self.watched = 0
        self._watch(READ)

    # --- reading

    def read(self) -> None:
        """Read once; the selector tells if there is more."""
        if not self.watched & READ:
            return  # paused while others were read
        try:
            count = self.sock.recv_into(BUFFER)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the client has reset it
            self.abort()
            return
        if count:
            self.owner.data_received(VIEW[:count])
            return
        self.ended = True
        self.pause_reading()
        if not self.owner.eof_received():
            self.close()

    def pause_reading(self) -> None:
        self._watch(self.watched & ~READ)

    def resume_reading(self) -> None:
        if not (self.closing or self.ended):
            self._watch(self.watched | READ)

    # --- writing

    def write(self, data: bytes) -> None:
        if self.lost:
            return
        if self.unsent is None:
            try:
                sent = self.sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                self.abort()
                return
            if sent == len(data):
                return
            self.unsent = bytearray(memoryview(data)[sent:])
            self._watch(self.watched | WRITE)
        else:
            self.unsent += data
        if len(self.unsent) > MOST and not self.full:
            self.full = True
            self.owner.pause_writing()

    def flush(self) -> None:
        """Write what the client takes now of what is unsent."""
        if self.unsent is None:
            return  # lost while others were read
        try:
            del self.unsent[: self.sock.send(self.unsent)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        if len(self.unsent) <= FEW and self.full:
            self.full = False
            self.owner.resume_writing()  # it may write, or abort
        if self.unsent is not None and not self.unsent:
            self._sent()

    def _sent(self) -> None:
        self.unsent = None
        self._watch(self.watched & ~WRITE)
        if self.closing:
            self._lose()
        elif self.finished:
            self._shut()

    def get_write_buffer_size(self) -> int:
        return 0 if self.unsent is None else len(self.unsent)

    def write_eof(self) -> None:
        if not self.finished:
            self.finished = True
            if self.unsent is None:
                self._shut()

    def _shut(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:  # the client has reset it
            self.abort()

    # --- the end

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        """Read no more, and end when all has been written."""
        if not self.closing:
            self.closing = True
            self.pause_reading()
            if self.unsent is None:
                self._lose()

    def abort(self) -> None:
        """End now."""
        self.closing = True
        self._lose()

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            self.unsent = None
            self._watch(0)
            self.transports.loop.call_soon(self._gone)  # not inside of what the owner is doing

    def _gone(self) -> None:
        try:
            self.owner.connection_lost()
        finally:
            self.sock.close()

    def _watch(self, events: int) -> None:
        if events == self.watched:
            return
        selector = self.transports.selector
        if not self.watched:
            selector.register(self.sock, events, self)
        elif events:
            selector.modify(self.sock, events, self)
        else:
            selector.unregister(self.sock)
        self.watched = events
