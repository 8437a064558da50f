"""Taskpost's gunicorn worker: one thread, one asyncio loop, and the WSGI application in it.

    gunicorn -k api.worker.LoopWorker module:app

A request goes to the application once it is whole, and the application answers
inline. It is plain WSGI; three keys of its environ lead to what only this worker
can do: ``taskpost.run`` (join the turn), ``taskpost.park`` (wait without a thread),
``taskpost.later`` (go on at the end of the round, together with others).
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from email.utils import formatdate
from time import monotonic
from types import SimpleNamespace
from typing import Any, ClassVar

from gunicorn.config import ForwardedAllowIPS, PostRequest, PreRequest
from gunicorn.glogging import Logger
from gunicorn.http.wsgi import base_environ
from gunicorn.workers.base import Worker

from api import heads
from api.connection import Connection, Job
from api.heads import Familiar
from api.receiver import Receiver, Request
from api.transport import Transports
from api.turn import Turn, Turns

COLLECTS = 10_000, 20, 20  # requests make few cycles; each collection is a pause for all of them
ACCEPTS = 64  # connections accepted before others have their turn


class LoopWorker(Worker):
    """The worker. Whoever starts it sets the class's attributes before it runs."""

    turns: ClassVar[Turns | None] = None
    together: Callable[[list[Job]], list[Job]] | None = None  # does some jobs; those that it did
    turn_requests = 64  # a turn ends early after so many requests
    turn_seconds = 0.005  # or after so long
    together_requests = 32  # no more are done together: they take about that time
    max_body = 1 << 20  # bytes
    max_head = 32768  # bytes of a whole head; of one line and one header gunicorn's settings say
    max_parked = 1000
    max_connections = 10_000  # and no more than the files that the process may open
    header_deadline = 10.0  # seconds from the first byte of a head, or from connecting
    body_deadline = 30.0
    write_deadline = 60.0  # for a client to take what has been written
    stop_linger = 1.0  # an idle connection outlives SIGTERM so long: a request may be on its way

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Called by gunicorn before it starts workers; raises for what would be ignored."""
        if cfg.is_ssl or cfg.proxy_protocol != "off":
            raise RuntimeError("LoopWorker speaks no TLS and no PROXY protocol: a proxy can")

    # --- life

    def run(self) -> None:
        """Serve until told to stop. gunicorn calls it once the application is loaded."""
        self.loop = asyncio.new_event_loop()
        self.thread = threading.get_ident()
        self.loop.set_exception_handler(self.unforeseen)
        self.transports = Transports(self.loop, self.log, self.take_turn)
        for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
            signal.signal(number, self.told)
        self.loop.add_reader(self.PIPE[0], self.prodded)
        self.configure()
        self.listeners = [(sock, Familiar(self.base(sock))) for sock in self.sockets]
        self.connections: set[Connection] = set()
        self.parked = 0
        self.ready: list[Connection] = []  # of a round: those that have received something
        self.turn = Turn(self, self.turns)
        self.stopping = self.listening = False
        self.sweeping = self.loop.call_soon(self.sweep)
        # What is loaded by now stays: the collector need not look at all of it time and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTS)
        try:
            self.loop.run_forever()
            self.turn.end()
        finally:
            self.transports.close()
            self.loop.close()

    def configure(self) -> None:
        """Read gunicorn's settings once: looking one up costs more than a request can afford."""
        cfg = self.cfg
        self.max_line = cfg.limit_request_line or 8190
        self.max_fields = cfg.limit_request_fields or self.max_head
        self.max_field = cfg.limit_request_field_size or self.max_head
        self.keepalive = cfg.keepalive
        # gunicorn's own default trusts the local machine. Here nobody is trusted unasked.
        trusted = cfg.forwarded_allow_ips
        if trusted == ForwardedAllowIPS.default.split(",") and not os.getenv("FORWARDED_ALLOW_IPS"):
            trusted = []
        self.trusts_all = "*" in trusted
        self.proxies = cfg.forwarded_allow_networks() if trusted else []
        # gunicorn's own hooks do nothing, or write a line at level debug.
        debugs = self.log.error_log.isEnabledFor(logging.DEBUG)
        hooked = debugs or cfg.pre_request is not PreRequest.default
        self.before = cfg.pre_request if hooked else None
        self.after = cfg.post_request if cfg.post_request is not PostRequest.default else None
        logs = self.log.access_log_enabled or type(self.log).access is not Logger.access
        self.log_access = self.log.access if logs else None
        self.watching = bool(logs or self.before or self.after)
        # Files of the application's own must remain.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64
        self.room = max(1, min(self.max_connections, files))

    def base(self, sock: Any) -> heads.Environ:
        """What the environ of every request that comes through a socket begins with."""
        name = sock.getsockname()
        host, port = (name[0], name[1]) if isinstance(name, tuple) else ("localhost", 80)
        made = {
            **base_environ(self.cfg),
            "SERVER_SOFTWARE": "taskpost",
            "SERVER_NAME": host,
            "SERVER_PORT": str(port),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SCRIPT_NAME": "",
            "REQUEST_METHOD": "-",
            "RAW_URI": "-",
            "PATH_INFO": "",
            "QUERY_STRING": "",
            "REMOTE_ADDR": "",
            "REMOTE_PORT": "",
            "wsgi.url_scheme": "http",
        }
        if self.turns is not None:
            made["taskpost.run"] = self.turns.join
        return made

    def sweep(self) -> None:
        """Once a second: the heartbeat, the date, the deadlines of connections, the end."""
        self.notify()
        now = monotonic()
        self.common = f"Server: taskpost\r\nDate: {formatdate(usegmt=True)}\r\n".encode()
        for connection in list(self.connections):
            if connection.deadline <= now:
                connection.expire()
        if self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            self.alive = False
        if not self.alive:
            self.stop()
        if not self.stopping:
            self.listen()
        elif now >= self.grace:
            self.loop.stop()
        else:
            self.end_if_empty()
        # gunicorn kills a worker that shows no life for twice ``timeout`` seconds.
        pause = 0.1 if self.stopping else min(1.0, self.timeout / 2 or 1.0)
        self.sweeping = self.loop.call_later(pause, self.sweep)

    def stop(self) -> None:
        """Accept no more, have what is parked answered, and end with the last connection."""
        if self.stopping:
            return
        self.alive, self.stopping = False, True
        self.keepalive = min(self.keepalive, self.stop_linger)
        # A little before gunicorn loses patience and kills.
        self.grace = monotonic() + 0.9 * self.cfg.graceful_timeout
        for sock, familiar in self.listeners:
            while self.accept(sock, familiar):  # those have connected before the end
                continue
        self.pause_listening()
        for sock in self.sockets:
            sock.close()
        for connection in list(self.connections):
            connection.safely(connection.stop)
        self.sweeping.cancel()
        self.sweeping = self.loop.call_soon(self.sweep)
        self.end_if_empty()

    def told(self, number: int, frame: object) -> None:
        """A signal to end. gunicorn and a terminal may both send one, also after the loop's end."""
        self.alive = False  # what is being answered now is a last answer
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.stop)

    def prodded(self) -> None:
        """gunicorn's reloader, in a thread of its own, has written to the pipe."""
        os.read(self.PIPE[0], 4096)
        if not self.alive:
            self.stop()

    def unforeseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.log.error(context["message"], exc_info=context.get("exception"))

    def retire(self) -> None:
        """gunicorn's max_requests have run."""
        self.log.info("Autorestarting worker after current request.")
        self.loop.call_soon(self.stop)

    # --- connections

    def listen(self) -> None:
        if not self.listening and self.has_room():
            self.listening = True
            for sock, familiar in self.listeners:
                self.loop.add_reader(sock.fileno(), self.accept, sock, familiar)

    def pause_listening(self) -> None:
        if self.listening:
            self.listening = False
            for sock, _ in self.listeners:
                self.loop.remove_reader(sock.fileno())

    def has_room(self) -> bool:
        return len(self.connections) < self.room

    def accept(self, sock: Any, familiar: Familiar) -> bool:
        """Accept some of those that have connected; whether there may be more."""
        for _ in range(ACCEPTS):
            if not self.has_room():
                self.pause_listening()  # until one leaves
                return False
            try:
                client, address = sock.accept()
            except ConnectionAbortedError:
                return True  # that one has left again
            except BlockingIOError:
                return False
            except OSError as error:
                # No file left, most likely: trying at once would spin. The sweep tries again.
                self.log.error("Error accepting a connection: %s", error)
                self.pause_listening()
                return False
            if client.family != socket.AF_UNIX:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = (address[0], str(address[1])) if isinstance(address, tuple) else ("", "")
            inbound = Receiver(self, familiar, peer, self.trusts(peer[0]))
            self.connections.add(Connection(self, inbound, client))
        return True

    def trusts(self, peer: str) -> bool:
        """Whether a peer is a proxy of ours; over a Unix socket it is, once there are any."""
        if self.trusts_all or not peer:
            return self.trusts_all or bool(self.proxies)
        address = heads.address(peer)
        return address is not None and any(address in network for network in self.proxies)

    def take_turn(self) -> None:
        """Read what has come and run it, as long as more comes meanwhile and the turn has room.

        Clients that are answered together ask again together. Without a second
        look they would fall into two halves, one of which always waits for the other.
        """
        ends = monotonic() + self.turn_seconds
        try:
            while self.transports.stir() and self.run_ready() and monotonic() < ends:
                continue
        finally:
            self.turn.end()

    def run_ready(self) -> bool:
        """Run what is ready, once everything that has come has been read; whether a turn is open.

        To do the same for all, one after the other, costs a fifth less than to do all for each.
        """
        ready, self.ready = self.ready, []
        if ready:
            with self.turn.gathering():
                for connection in ready:
                    connection.safely(connection.proceed if connection.eof else connection.advance)
        return self.turn.requests > 0

    def left(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if not self.stopping:
            self.listen()
        else:
            self.end_if_empty()

    def end_if_empty(self) -> None:
        if not self.connections:
            self.loop.stop()

    # --- gunicorn's hooks and its access log

    def note_start(self, request: Request) -> None:
        """A request is about to run for the first time."""
        if not request.began:
            request.began = monotonic()
            if self.before is not None:
                self.before(self, seen(request.environ))

    def note_answer(self, connection: Connection) -> None:
        """A request has been answered."""
        request = connection.current
        assert request is not None
        took = timedelta(seconds=monotonic() - request.began if request.began else 0)
        answer = SimpleNamespace(
            status=connection.status,
            headers=list(connection.headers),
            sent=connection.sent,
            response_length=connection.sent,
        )
        asked = seen(request.environ)
        try:
            if self.log_access is not None:
                self.log_access(answer, asked, connection.ran, took)
            if self.after is not None:
                self.after(self, asked, connection.ran, answer)
        except Exception:
            self.log.exception("Exception in post_request hook")


def seen(environ: heads.Environ) -> SimpleNamespace:
    """A request as gunicorn's hooks and its log know one."""
    return SimpleNamespace(
        method=environ["REQUEST_METHOD"],
        uri=environ["RAW_URI"],
        path=environ["PATH_INFO"],
        query=environ["QUERY_STRING"],
        version=(1, int(environ["SERVER_PROTOCOL"][-1])),
        headers=[
            (key.removeprefix("HTTP_").replace("_", "-"), value)
            for key, value in environ.items()
            if key.startswith(("HTTP_", "CONTENT_"))
        ],
    )
