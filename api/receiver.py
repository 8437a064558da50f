"""What a client sends: llhttp (``httptools``) takes it apart, and the requests line up.

llhttp refuses bad line ends, folded headers, bad lengths and chunk sizes; what
it lets through and a server must not, and what is beyond the limits, is refused
here. Nothing is answered here.
"""

from typing import TYPE_CHECKING, Any

import httptools

from api import heads
from api.heads import Environ, Familiar
from api.refusals import UNFORESEEN, Refusal

if TYPE_CHECKING:
    from api.worker import LoopWorker

REQUEST_COST = 1024  # bytes that a waiting request is counted as, beside its body
NOTHING, HEAD, BODY = range(3)  # what is being received


class Request:
    """One request, kept as it came: it may have to run more than once."""

    body = b""
    extra: Environ | None = None  # what its next run is told besides
    refusal: Refusal | None = None  # its answer, if the application is not to run
    resting = False
    reruns = 0
    began = 0.0

    def __init__(
        self, environ: Environ, peer: tuple[str, str], keep_alive: bool, base: Environ | None = None
    ) -> None:
        self.environ = environ  # without REMOTE_ADDR and REMOTE_PORT: others may share it
        self.peer = peer  # which are these
        self.keep_alive = keep_alive
        self.base = base  # what the environ began with, unless others share it

    def rest(self) -> None:
        """Keep less, for the while that it waits to be run again."""
        base = self.base
        if base is not None:
            self.resting = True
            kept = self.environ.items()
            self.environ = {key: value for key, value in kept if base.get(key) is not value}

    def rise(self) -> None:
        """Be as before the rest."""
        if self.resting and self.base is not None:
            self.resting = False
            self.environ = {**self.base, **self.environ}

    def environ_to_run(self) -> Environ:
        """A copy for the application, which may do with it what it likes."""
        environ = self.environ.copy()
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = self.peer
        return environ


class Receiver:
    """The requests of one connection; ``feed`` it. ``peer`` is the client's address and port."""

    __slots__ = (
        "backlog", "body", "familiar", "gap", "got", "last", "limits", "parser", "peer", "pending",
        "proxied", "raw", "replay", "request", "state", "url",
    )  # fmt: skip

    def __init__(
        self, limits: "LoopWorker", familiar: Familiar, peer: tuple[str, str], proxied: bool
    ) -> None:
        self.limits = limits
        self.familiar = familiar
        self.peer = peer
        self.proxied = proxied  # what it says of its client is believed
        self.parser: Any = None  # while nothing is being received there need not be one
        self.pending: list[Request] = []  # whole, and to be answered in this order
        self.backlog = 0  # bytes that those take, roughly
        self.last = False  # nothing after them is taken in
        # The one that is being received.
        self.state = NOTHING
        self.request: Request | None = None  # once its head is complete
        self.url = b""
        self.raw: list[bytes] = []  # names and values of headers, in turns
        self.body: bytes | bytearray = b""
        self.got = 0  # bytes of body
        self.gap = 0  # bytes since a head or a piece of body was last complete
        self.replay = b""

    def next(self) -> Request:
        """Take the first of the requests that wait."""
        request = self.pending.pop(0)
        self.backlog -= REQUEST_COST + len(request.body)
        return request

    def encourages(self) -> bool:
        """Whether the client holds a body back until it is asked for it."""
        return not self.got and self.request is not None and "HTTP_EXPECT" in self.request.environ

    def forget(self) -> None:
        """Take in nothing more, and drop what waits. Also unties the parser from this object."""
        self.last = True
        self.state = NOTHING
        self.parser = self.request = None
        self.pending.clear()

    def rest(self) -> None:
        """Keep less, for the while that nothing is expected."""
        if self.state == NOTHING:
            self.parser = None

    def feed(self, data: memoryview) -> None:
        """Take in what has come: a familiar request as it is, all else through the parser."""
        if self.state != NOTHING or self.gap or self.proxied:
            self._parse(data)
            return
        sent = bytes(data)
        end = sent.find(b"\r\n\r\n") + 4
        head = sent[:end]
        known = self.familiar.heads.get(head)
        if known is not None and known[1] == len(sent) - end:
            request = Request(known[0], self.peer, True)
            request.body = sent[end:]
            self.pending.append(request)
            self.backlog += REQUEST_COST + known[1]
            return
        waiting = len(self.pending)
        self._parse(data)
        if self.state == NOTHING and not self.gap and len(self.pending) == waiting + 1:
            request = self.pending[-1]
            if request.keep_alive and len(request.body) == len(sent) - end:
                self.familiar.meet(head, request.environ, len(request.body))

    def _parse(self, data: memoryview) -> None:
        if self.parser is None:
            self.parser = httptools.HttpRequestParser(self)
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
            self._decline(data[offered:])
        elif self.gap > self.limits.max_line:
            self._check_gap()

    def _check_gap(self) -> None:
        limits = self.limits
        if len(self.url) > limits.max_line:
            self.refuse(Refusal("uri_too_long", f"The limit is {limits.max_line} bytes."))
        elif self.gap > limits.max_head:
            self.refuse(Refusal("headers_too_large", f"The limit is {limits.max_head} bytes."))

    def _decline(self, data: memoryview) -> None:
        """Go on in HTTP/1.1 after an offer to upgrade, as RFC 9110, 7.8 allows.

        The parser takes what follows for the other protocol. If it is the
        request's body, it has to be told so.
        """
        if self.replay:
            self.parser.feed_data(self.replay)
            self.replay = b""
        if data:
            self._parse(data)

    def refuse(self, error: BaseException) -> None:
        """Make an error the answer of the request that is being received, and that the last."""
        if self.last:
            return  # it stands in what follows a last request
        request = self.request or self._begun(False)
        request.keep_alive = False
        request.refusal = error if isinstance(error, Refusal) else self._unreadable(error)
        self._line_up(request)

    def _unreadable(self, error: BaseException) -> Refusal:
        if not isinstance(error, httptools.HttpParserError):
            self.limits.log.error("Error reading a request", exc_info=error)
            return Refusal("internal_error", UNFORESEEN)
        if str(error) in ("Invalid HTTP version", "Pause on PRI/Upgrade"):
            return Refusal("http_version_not_supported", heads.VERSIONS_KNOWN)
        return Refusal("bad_request", f"{error}.")

    def _begun(self, keep_alive: bool) -> Request:
        base = self.familiar.base
        return Request(base.copy(), self.peer, keep_alive, base)

    def _line_up(self, request: Request) -> None:
        self.state = NOTHING
        self.request = None
        self.raw = []
        self.url = self.body = b""
        self.pending.append(request)
        self.backlog += REQUEST_COST + len(request.body)
        self.last = not request.keep_alive

    # --- what the parser calls; while ``replay`` is set it reads a head that is not the client's

    def on_message_begin(self) -> None:
        if not self.replay:
            self.state = HEAD

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.raw += (name, value)  # or a trailer, which nobody looks at

    def on_headers_complete(self) -> None:
        self.gap = 0
        if self.replay:
            return
        limits, parser = self.limits, self.parser
        self.request = request = self._begun(parser.should_keep_alive())
        environ = request.environ
        line = parser.get_method(), self.url, parser.get_http_version()
        heads.request_line(environ, *line, limits.max_line)
        heads.fields(environ, self.raw, limits.max_fields, limits.max_field)
        heads.target(environ, self.url)
        length = heads.body_length(environ)
        if length is not None and length > limits.max_body:
            raise Refusal("body_too_large", f"The limit is {limits.max_body} bytes.")
        if "HTTP_UPGRADE" in environ and length != 0 and parser.should_upgrade():
            self.replay = heads.replay(length)
        if self.proxied:
            request.peer = heads.forwarded(environ, self.peer, limits.proxies)
        self.state = BODY
        self.got = 0

    def on_body(self, data: bytes) -> None:
        self.gap = 0
        self.got += len(data)
        if self.got > self.limits.max_body:
            raise Refusal("body_too_large", f"The limit is {self.limits.max_body} bytes.")
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
        request.body = bytes(self.body)
        if "HTTP_TRANSFER_ENCODING" in request.environ:
            del request.environ["HTTP_TRANSFER_ENCODING"]
            request.environ["CONTENT_LENGTH"] = str(self.got)
        self._line_up(request)
