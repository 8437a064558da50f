"""One client's connection: its bytes become requests, and their answers bytes, in order.

The connection reads, waits and writes. When an answer may go out is the
worker's business (``LoopWorker.settle``).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain
from math import inf
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import httptools

from api import heads, refusals, wire
from api.heads import Environ
from api.refusals import Refusal

if TYPE_CHECKING:
    from api.worker import LoopWorker

SLICE = 4096  # bytes parsed at once
BACKLOG = 16384  # bytes of pipelined requests that wait before reading is paused
REQUEST_COST = 1024  # what a waiting request counts towards that, beside its body
BURST = 16  # pipelined requests answered, or pieces written, before others have their turn
LINGER = 2.0  # seconds for a client to read its last answer or to finish what it is sending

# What a connection is doing; each but BUSY has its deadline.
IDLE, HEAD, BODY, BUSY, STALLED, CLOSING = range(6)


class Wait(Protocol):
    """What the application parks a request with."""

    deadline: float  # in time.monotonic()

    def listen(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called, once at most, when it is worth looking again."""

    def cancel(self) -> None:
        """Nobody listens any more."""


class Request:
    """One request, kept as it came: it may have to run more than once."""

    __slots__ = ("began", "body", "environ", "extra", "keep_alive", "refusal", "reruns")

    def __init__(self, environ: Environ, keep_alive: bool) -> None:
        self.environ = environ
        self.keep_alive = keep_alive
        self.body = b""
        self.extra: Environ | None = None  # what its next run is told besides
        self.refusal: Refusal | None = None  # its answer, if the application is not to run
        self.reruns = 0
        self.began = 0.0


class Connection(asyncio.BufferedProtocol):
    """What asyncio and httptools call back."""

    __slots__ = (
        "backlog", "base", "body", "bursting", "current", "deadline", "deaf", "environ", "eof",
        "fields", "gap", "got", "headers", "keep", "listening", "parser", "payload", "peer",
        "pending", "phase", "proxied", "ran", "replay", "request", "rest", "sent", "source",
        "start", "status", "stream", "timer", "transport", "url", "wait", "worker", "written",
    )  # fmt: skip

    def __init__(
        self, worker: "LoopWorker", base: Environ, peer: tuple[str, str], proxied: bool
    ) -> None:
        self.worker = worker
        self.base = base
        self.peer = peer
        self.proxied = proxied  # what it says of its client is believed
        self.transport: Any = None
        self.phase = IDLE
        self.deadline = monotonic() + (LINGER if worker.stopping else worker.header_deadline)
        # Reading: the head, then the request, that is being received.
        self.parser: Any = httptools.HttpRequestParser(self)
        self.environ: Environ | None = None
        self.request: Request | None = None
        self.url = b""
        self.fields = 0
        self.body: bytes | bytearray = b""
        self.got = 0  # bytes of body
        self.gap = 0  # bytes since a head or a piece of body was last complete
        self.replay = b""
        self.rest = b""  # what is not parsed yet, while reading is paused
        self.deaf = False  # nothing more is taken in
        self.eof = False
        # Answering: the requests that wait, and the one that is being answered.
        self.pending: list[Request] = []
        self.backlog = 0
        self.bursting = False
        self.current: Request | None = None
        self.ran: Environ = base  # its environ as the application left it
        self.start = self.start_response
        self.status: str | None = None
        self.headers: wire.Headers = ()
        self.written: list[bytes] = []
        self.keep = True
        self.payload = b""  # held until the end of the turn
        self.stream: Iterator[bytes] | None = None
        self.source: Any = None  # what is streamed
        self.sent = 0
        # Parked.
        self.wait: Wait | None = None
        self.timer: Any = None
        self.listening = False

    # --- reading

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.worker.connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.worker.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self.deaf:
            self.feed(self.worker.buffer[:nbytes])

    def feed(self, data: memoryview) -> None:
        """Parse what has come, slice by slice, and answer what is whole."""
        size = len(data)
        for at in range(0, size, SLICE):
            if self.backlog > BACKLOG:
                self.rest = bytes(data[at:])
                self.transport.pause_reading()
                break
            self.parse(data if size <= SLICE else data[at : at + SLICE])
            self.advance()
            if self.deaf:
                break

    def parse(self, data: memoryview) -> None:
        self.gap += len(data)
        offered = None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            offered = offer.args[0]
        except httptools.HttpParserCallbackError as error:
            self.refuse(error.__context__ or error)
        except httptools.HttpParserError as error:
            self.refuse(error)
        if offered is not None:
            self.decline(data[offered:])
        elif self.gap > self.worker.max_head:
            self.refuse(Refusal("headers_too_large", f"The limit is {self.worker.max_head} bytes."))

    def decline(self, data: memoryview) -> None:
        """Go on in HTTP/1.1 after an offer to upgrade, as RFC 9110, 7.8 allows.

        The parser takes what follows for the other protocol. If it is the
        request's body, it has to be told so.
        """
        if self.replay:
            self.parser.feed_data(self.replay)
            self.replay = b""
        if data:
            self.parse(data)

    def on_message_begin(self) -> None:
        if self.replay:
            return
        self.environ = environ = self.base.copy()
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = self.peer
        self.url = b""
        self.fields = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self.worker.max_line:
            raise Refusal("uri_too_long", f"The limit is {self.worker.max_line} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        worker, environ = self.worker, self.environ
        self.fields += 1
        if self.fields > worker.max_fields or len(name) + len(value) > worker.max_field:
            limits = f"{worker.max_fields} headers of {worker.max_field} bytes each"
            raise Refusal("headers_too_large", f"The limit is {limits}.")
        if environ is None:
            return  # a trailer
        key = heads.KEYS.get(name) or heads.key(name)
        text = value.decode("latin-1").strip(" \t")
        environ[key] = heads.repeated(key, environ[key], text) if key in environ else text

    def on_headers_complete(self) -> None:
        self.gap = 0
        if self.replay:
            return
        parser, environ, worker = self.parser, self.environ, self.worker
        version = environ["SERVER_PROTOCOL"] = "HTTP/" + parser.get_http_version()
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            raise Refusal("http_version_not_supported", "The version is not 1.1 or 1.0.")
        method = environ["REQUEST_METHOD"] = parser.get_method().decode("ascii")
        if len(method) + len(self.url) + len("  HTTP/1.1") > worker.max_line:
            raise Refusal("uri_too_long", f"The limit is {worker.max_line} bytes.")
        heads.check_host(environ)
        heads.target(self.url, environ)
        length = heads.body_length(environ)
        if length is not None and length > worker.max_body:
            raise Refusal("body_too_large", f"The limit is {worker.max_body} bytes.")
        if "HTTP_EXPECT" in environ:
            heads.check_expectation(environ)
        if "HTTP_UPGRADE" in environ and length != 0 and parser.should_upgrade():
            self.replay = heads.replay(length)
        if self.proxied:
            heads.forwarded(environ, worker.proxies)
        self.request = Request(environ, parser.should_keep_alive())
        self.environ = None
        self.body = b""
        self.got = 0

    def on_body(self, data: bytes) -> None:
        self.gap = 0
        self.got += len(data)
        if self.got > self.worker.max_body:
            raise Refusal("body_too_large", f"The limit is {self.worker.max_body} bytes.")
        if not self.body:
            self.body = data
        elif type(self.body) is bytes:
            self.body = bytearray(self.body + data)
        else:
            self.body += data

    def on_message_complete(self) -> None:
        request = self.request
        if self.replay or request is None:
            return
        self.gap = 0
        self.request = None
        request.body = bytes(self.body)
        self.body = b""
        if request.environ.pop("HTTP_TRANSFER_ENCODING", None):
            request.environ["CONTENT_LENGTH"] = str(self.got)
        self.line_up(request)

    def line_up(self, request: Request) -> None:
        self.pending.append(request)
        self.backlog += REQUEST_COST + len(request.body)
        if not request.keep_alive:
            self.deaf = True

    def refuse(self, error: BaseException) -> None:
        """Make an error the last answer of this connection."""
        if self.deaf:
            return  # it stands in what follows a last request
        request = self.request or Request(self.environ or self.base.copy(), False)
        self.request = self.environ = None
        request.keep_alive = False
        request.refusal = error if isinstance(error, Refusal) else self.unreadable(error)
        self.line_up(request)

    def unreadable(self, error: BaseException) -> Refusal:
        """What to say of an error that the parser or a callback raised."""
        if not isinstance(error, httptools.HttpParserError):
            self.worker.log.error("Error reading a request", exc_info=error)
            return Refusal("internal_error", UNFORESEEN)
        if str(error) in ("Invalid HTTP version", "Pause on PRI/Upgrade"):
            return Refusal("http_version_not_supported", "The version is not 1.1 or 1.0.")
        return Refusal("bad_request", f"{error}.")

    # --- answering

    def advance(self) -> None:
        """Answer the requests that wait, as far as that goes without waiting."""
        for _ in range(BURST):
            if not self.pending or self.current is not None or self.phase >= STALLED:
                break
            request = self.pending.pop(0)
            self.backlog -= REQUEST_COST + len(request.body)
            self.run(request)
        else:
            if not self.bursting:
                self.bursting = True
                self.worker.loop.call_soon(self.proceed)
        self.rearm()

    def proceed(self) -> None:
        """Go on after a wait, with what has had to wait behind it."""
        self.bursting = False
        if self.transport is None:
            return
        self.advance()
        if self.backlog <= BACKLOG and not self.deaf:
            rest, self.rest = self.rest, b""
            self.feed(memoryview(rest))
            if not self.rest:
                self.transport.resume_reading()
        if self.eof and not self.owes():
            self.leave()

    def owes(self) -> bool:
        """Whether the client is still to get an answer."""
        return bool(self.pending) or self.current is not None

    def rearm(self) -> None:
        """Set the deadline of what the connection has come to do."""
        if self.phase >= STALLED:
            return
        if self.owes():
            self.phase, self.deadline = BUSY, inf
        elif self.request is not None:
            if self.phase != BODY:
                self.phase, self.deadline = BODY, monotonic() + self.worker.body_deadline
                if not self.got and "HTTP_EXPECT" in self.request.environ:
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif self.environ is not None and self.phase != HEAD:
            self.phase, self.deadline = HEAD, monotonic() + self.worker.header_deadline

    def run(self, request: Request) -> None:
        """Call the application; the worker decides what becomes of its answer."""
        worker = self.worker
        self.current = request
        environ = self.ran = request.environ.copy()
        if worker.watching:
            worker.note_start(request)
        if request.refusal is not None:
            self.deliver(self.problem(*request.refusal.args))
            return
        environ["wsgi.input"] = BytesIO(request.body)
        environ["taskpost.park"] = self.park
        if request.extra is not None:
            environ.update(request.extra)
        if worker.stopping or self.eof:
            environ["taskpost.final"] = True
        self.status = None
        self.written = []
        self.keep = worker.counted() and request.keep_alive
        try:
            if worker.before is not None:
                worker.before(worker, worker.seen(environ))
            payload = self.taken(worker.wsgi(environ, self.start))
        except Exception:
            self.wait = None
            payload = self.problem("internal_error", UNFORESEEN)
            worker.log.exception("Error in request %s", environ["taskpost.request_id"])
        if self.stream is None:
            worker.settle(self, payload)

    def start_response(
        self, status: str, headers: wire.Headers, exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """PEP 3333's start_response."""
        if exc_info is not None:
            if self.stream is not None:
                raise exc_info[1].with_traceback(exc_info[2])
        elif self.status is not None:
            raise wire.BadAnswer("start_response was called twice.")
        self.status, self.headers = status, headers
        return self.written.append

    def taken(self, result: Iterable[bytes]) -> bytes:
        """The whole answer as bytes, unless it has become ``stream``."""
        if type(result) is list or type(result) is tuple:
            if self.wait is not None:
                return b""
            return self.whole(b"".join(self.written) + b"".join(result))
        try:
            if self.wait is not None:
                return b""
            if self.worker.turns is not None:
                # What an iterator read later, it would read outside its turn.
                return self.whole(b"".join(chain(result, self.written)))
            return self.begun(iter(result))
        finally:
            if self.stream is None:
                close(result)
            else:
                self.source = result
