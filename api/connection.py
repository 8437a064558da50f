"""One client's connection: its requests are run in order, and their answers written.

When an answer may be written is the worker's business (``Turn.settle``).
"""

import socket
import threading
from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import chain
from math import inf
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from api import refusals, wire
from api.heads import Environ
from api.receiver import BODY, HEAD, NOTHING, Receiver, Request
from api.refusals import UNFORESEEN, Refusal
from api.stream import Stream
from api.transport import Transport

if TYPE_CHECKING:
    from api.worker import LoopWorker

SLICE = 4096  # bytes parsed at once
BACKLOG = 16384  # bytes of pipelined requests that wait before reading is paused
BURST = 16  # pipelined requests run before others have a turn
LINGER = 2.0  # seconds for a client to read its last answer, or to finish what it is sending

# What a connection is doing. Each but BUSY has a deadline.
IDLE = NOTHING  # and HEAD, BODY
BUSY, STALLED, CLOSING = range(3, 6)


Job = Callable[[], Iterable[bytes]]  # the rest of a request; it calls start_response


class Wait(Protocol):
    """What the application parks a request with."""

    deadline: float  # in time.monotonic()

    def listen(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called, once at most, when it is worth looking again."""

    def cancel(self) -> None:
        """Nobody listens any more."""


class Connection:
    """What its transport calls back, and WSGI's ``start_response``."""

    __slots__ = (
        "bursting", "current", "deadline", "eof", "headers", "inbound", "job", "keep", "listening",
        "payload", "phase", "ran", "rest", "sent", "start", "status", "stream", "timer",
        "transport", "wait", "worker", "written",
    )  # fmt: skip

    def __init__(self, worker: "LoopWorker", inbound: Receiver, client: socket.socket) -> None:
        self.worker = worker
        self.inbound = inbound
        self.transport: Transport | None = Transport(worker.transports, client, self)
        self.phase = IDLE
        self.deadline = monotonic() + (LINGER if worker.stopping else worker.header_deadline)
        self.rest = b""  # what is not parsed yet, while reading is paused
        self.eof = False
        self.bursting = False
        # The request that is being answered, and its answer.
        self.current: Request | None = None
        self.job: Job | None = None  # what is left of it
        self.ran: Environ = {}  # its environ as the application left it
        self.start = self.start_response
        self.status: str | None = None
        self.headers: wire.Headers = ()
        self.written: list[bytes] = []
        self.keep = True
        self.payload = b""  # held until the end of the turn
        self.stream: Stream | None = None  # what is left of it
        self.sent = 0
        # What it is parked with.
        self.wait: Wait | None = None
        self.timer: Any = None
        self.listening = False

    # --- what comes in

    def data_received(self, data: memoryview) -> None:
        inbound = self.inbound
        if len(data) <= SLICE and inbound.backlog <= BACKLOG and not inbound.last:
            inbound.feed(data)
            self.worker.ready.append(self)
        else:
            self.feed(data)

    def feed(self, data: memoryview) -> None:
        """Take in what has come, slice by slice, and answer what is whole."""
        inbound = self.inbound
        for at in range(0, len(data), SLICE):
            if inbound.last:
                return
            if inbound.backlog > BACKLOG:
                self.rest = bytes(data[at:])
                self.transport.pause_reading()
                return
            inbound.feed(data[at : at + SLICE])
            self.advance()

    def eof_received(self) -> bool:
        """The client sends no more. True, and the connection stays, while it is owed an answer."""
        self.eof = self.inbound.last = True
        if self.phase != CLOSING:
            if self.wait is None and self.owes():
                return True
            self.leave()
        return False

    def connection_lost(self) -> None:
        try:
            if self.wait is not None:
                self.rise(gone=True)
            if self.stream is not None:
                self.stream.close()
        finally:  # whatever the application does when it tidies up
            self.inbound.forget()
            self.transport = self.current = self.start = self.stream = None  # type: ignore[assignment]
            self.worker.left(self)

    # --- requests, one after the other

    def owes(self) -> bool:
        return self.current is not None or bool(self.inbound.pending)

    def advance(self) -> None:
        """Run the requests that wait, as far as that goes without waiting."""
        inbound = self.inbound
        for _ in range(BURST):
            if not inbound.pending or self.current is not None or self.phase >= STALLED:
                break
            self.run(inbound.next())
        else:
            if not self.bursting:
                self.bursting = True
                self.worker.loop.call_soon(self.safely, self.proceed)
        self.rearm()

    def safely(self, step: Callable[[], None]) -> None:
        """Do a step; a mistake of ours ends this connection, and disturbs no other."""
        try:
            step()
        except Exception:
            self.worker.log.exception("Error in a connection")
            if self.transport is not None:
                self.transport.abort()

    def proceed(self) -> None:
        """Go on after a wait, with what has had to wait behind it."""
        self.bursting = False
        if self.transport is None:
            return
        self.advance()
        if self.inbound.backlog <= BACKLOG and not self.inbound.last:
            rest, self.rest = self.rest, b""
            self.feed(memoryview(rest))
            if not self.rest:
                self.transport.resume_reading()
        if self.eof and not self.owes():
            self.leave()

    def rearm(self) -> None:
        """Set the deadline for what the connection has come to do."""
        inbound, worker = self.inbound, self.worker
        if self.phase >= STALLED or not (inbound.state or self.current or inbound.pending):
            return
        if self.owes():
            self.phase, self.deadline = BUSY, inf
        elif inbound.state == BODY:
            if self.phase != BODY:
                self.phase, self.deadline = BODY, monotonic() + worker.body_deadline
                if inbound.encourages():
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif inbound.state == HEAD and self.phase != HEAD:
            self.phase, self.deadline = HEAD, monotonic() + worker.header_deadline

    def expire(self) -> None:
        """The deadline has passed."""
        if self.phase < BUSY and self.inbound.pending:
            return  # about to run
        if self.phase in (HEAD, BODY):
            self.inbound.refuse(Refusal("request_timeout", "The request did not arrive in time."))
            self.advance()
        elif self.phase == IDLE:
            self.phase, self.deadline = CLOSING, monotonic() + self.worker.write_deadline
            self.transport.close()
        else:
            self.transport.abort()

    def stop(self) -> None:
        """The worker stops: answer what is parked, and do not stay open for nothing."""
        if self.wait is not None:
            self.wake()
        elif self.phase == IDLE:
            self.deadline = min(self.deadline, monotonic() + self.worker.stop_linger)

    # --- running one

    def run(self, request: Request) -> None:
        """Call the application; the worker decides what becomes of its answer."""
        worker = self.worker
        self.current = request
        environ = self.ran = request.environ_to_run()
        self.status = None
        self.keep = request.keep_alive
        if request.refusal is not None:
            self.deliver(self.problem(*request.refusal.args))
            return
        worker.nr += 1
        if worker.nr == worker.max_requests:
            worker.retire()
        self.written = []
        environ["wsgi.input"] = BytesIO(request.body)
        environ["taskpost.park"] = self.park
        if worker.together is not None and worker.turn.jobs is not None:
            environ["taskpost.later"] = self.later
        if request.extra is not None:
            environ.update(request.extra)
        if self.eof or worker.stopping:
            environ["taskpost.final"] = True
        self.respond(self.watched if worker.watching else worker.wsgi, environ, self.start)

    def watched(self, environ: Environ, start: Any) -> Iterable[bytes]:
        """What the application returns, once gunicorn's hook has been told of the request."""
        assert self.current is not None
        self.worker.note_start(self.current)
        return self.worker.wsgi(environ, start)

    def respond(self, ask: Callable[..., Iterable[bytes]], *given: Any) -> None:
        """Have the application answer, now or at the end of the round."""
        worker = self.worker
        try:
            result = ask(*given)
            if self.job is not None and worker.turn.jobs is not None:
                worker.turn.jobs.append(self)
                return
            payload = self.taken(result)
        except Exception:
            self.wait = None
            payload = self.problem("internal_error", UNFORESEEN)
            worker.log.exception("Error in request %s", self.ran["taskpost.request_id"])
        if self.stream is None:
            worker.turn.settle(self, payload)
        else:
            self.transport.write(payload)
            self.stream.pump()

    def later(self, job: Job) -> None:
        """What the application calls: it has read the request, and goes on with ``job``."""
        self.job = job

    def finish(self) -> None:
        """Do the job."""
        job, self.job = self.job, None
        if job is not None:
            self.respond(job)

    def start_response(
        self, status: str, headers: wire.Headers, exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """PEP 3333's."""
        if exc_info is not None:
            if self.stream is not None:
                raise exc_info[1].with_traceback(exc_info[2])
        elif self.status is not None:
            raise wire.BadAnswer("start_response was called twice.")
        self.status, self.headers = status, headers
        return self.written.append

    def taken(self, result: Iterable[bytes]) -> bytes:
        """The answer as bytes; of one that is now ``stream``, the head."""
        whole = type(result) is list or type(result) is tuple
        try:
            if self.wait is not None:
                return b""
            if whole or self.worker.turns is not None:
                # What an iterator read later, it would read outside its turn.
                body = b"".join(result)
                return self.written_out(b"".join(self.written) + body if self.written else body)
            return self.begun(result)
        finally:
            if self.stream is None and not whole and hasattr(result, "close"):
                result.close()

    def written_out(self, body: bytes) -> bytes:
        """The answer whose body is known, as bytes."""
        worker = self.worker
        assert self.current is not None
        if self.status is None:
            raise wire.BadAnswer("start_response was not called.")
        keep = self.keep = self.keep and worker.alive
        environ = self.current.environ
        self.sent = len(body)
        return wire.whole(environ, self.status, self.headers, body, worker.common, keep)

    def succeeded(self) -> bool:
        return self.status is not None and self.status < "4"

    def problem(self, code: str, detail: str) -> bytes:
        """A problem document as bytes, whatever else has been answered; it ends the connection."""
        request_id = self.ran.setdefault("taskpost.request_id", token_hex(8))
        self.keep = False
        self.status, self.headers, body = refusals.problem(code, detail, request_id)
        return self.written_out(body)

    def deliver(self, payload: bytes) -> None:
        """Write the answer to the current request."""
        if self.transport is not None:
            self.transport.write(payload)
            self.answered()

    def answered(self) -> None:
        """The answer to the current request has been written."""
        if self.worker.watching:
            self.worker.note_answer(self)
        self.current = None
        self.ran = {}
        self.headers = ()
        if not self.keep:
            self.leave()
        elif self.phase != STALLED:
            self.phase, self.deadline = IDLE, monotonic() + self.worker.keepalive

    def leave(self) -> None:
        """End the connection once the client has what was written.

        Closing while it still sends would reset the connection, and the answer might be lost.
        """
        transport = self.transport
        self.inbound.forget()
        self.phase = CLOSING
        waits = self.worker.write_deadline if transport.get_write_buffer_size() else LINGER
        self.deadline = monotonic() + waits
        if self.eof or transport.is_closing():
            transport.close()
            return
        transport.resume_reading()
        transport.write_eof()

    # --- answers that wait for the end of a turn

    def release(self, durable: bool) -> None:
        """The turn that held the answer has ended."""
        payload, self.payload = self.payload, b""
        if self.transport is None:
            return
        if not durable:
            detail = "The database broke while committing."
            payload = self.problem("outcome_unknown", detail)
        self.deliver(payload)
        inbound = self.inbound
        if inbound.pending or inbound.state or self.rest or self.eof:
            self.worker.loop.call_soon(self.safely, self.proceed)

    def rerun(self) -> None:
        """Run the current request once more, in a turn of its own."""
        if self.current is not None:
            self.worker.turn.end()
            self.run(self.current)
            self.proceed()

    # --- requests that wait for something to happen

    def park(self, wait: Wait) -> bool:
        """What the application calls: true if the request is to wait and run again."""
        if self.worker.parked >= self.worker.max_parked or "taskpost.final" in self.ran:
            return False
        self.wait = wait
        return True

    def lie_down(self) -> None:
        """Wait: the application has parked the request and returned."""
        assert self.wait is not None
        assert self.current is not None
        self.ran, self.headers = {}, ()
        self.current.rest()
        self.inbound.rest()
        self.worker.parked += 1
        self.timer = self.worker.loop.call_at(self.wait.deadline, self.safely, self.wake)
        self.listening = True
        self.wait.listen(self.bell)

    def bell(self) -> None:
        """What the wait calls: run again, though not inside of whoever rings."""
        self.listening = False
        loop = self.worker.loop
        if threading.get_ident() == self.worker.thread:
            loop.call_soon(self.safely, self.wake)
        else:
            loop.call_soon_threadsafe(self.safely, self.wake)

    def wake(self) -> None:
        """Run the parked request again; for the last time when the worker stops."""
        if self.wait is None or self.current is None:
            return
        wait = self.rise()
        self.current.extra = {"taskpost.waited": wait}
        if self.worker.stopping:
            self.current.extra["taskpost.final"] = True
        self.run(self.current)
        self.proceed()

    def rise(self, gone: bool = False) -> Wait:
        """Stop waiting; ``gone`` when nobody is going to look again."""
        wait, self.wait = self.wait, None
        assert wait is not None
        assert self.current is not None
        self.current.rise()
        self.worker.parked -= 1
        self.timer.cancel()
        self.timer = None
        if self.listening or gone:
            self.listening = False
            wait.cancel()
        return wait

    # --- answers that come by and by, and clients that read slowly

    def begun(self, source: Iterable[bytes]) -> bytes:
        """The answer of an application that yields: whole if one piece is all, else its head."""
        pieces = iter(source)
        first = next(filter(None, pieces), b"")
        if self.written:
            first = b"".join(self.written) + first
        if self.status is None or self.current is None:
            raise wire.BadAnswer("start_response was not called.")
        environ = self.current.environ
        if wire.bodiless(environ, self.status):
            return self.written_out(b"")
        keep, common = self.keep and self.worker.alive, self.worker.common
        head, length, chunked = wire.begun(environ, self.status, self.headers, common, keep)
        self.keep = keep and (chunked or length is not None)
        if length == len(first):
            self.sent = length
            return head + first
        self.sent = 0
        self.stream = Stream(self, source, wire.framed(chain((first,), pieces), length, chunked))
        return head

    def flow(self) -> None:
        """Go on with what is streamed, then with what waits behind it."""
        if self.stream is not None:
            self.stream.pump()
        if self.current is None:
            self.proceed()

    def stalled(self) -> bool:
        """Whether the client has to read before more is written."""
        return self.phase == STALLED

    def pause_writing(self) -> None:
        if self.phase != CLOSING:
            self.phase, self.deadline = STALLED, monotonic() + self.worker.write_deadline

    def resume_writing(self) -> None:
        if self.phase == STALLED:
            self.phase, self.deadline = IDLE, monotonic() + self.worker.keepalive
            self.rearm()
            self.flow()
