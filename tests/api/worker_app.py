"""What the worker's tests serve: a plain WSGI application that does as its path says.

``/gate/NAME`` waits until the test opens the FIFO of that name.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

from api.worker import LoopWorker

Environ = dict[str, Any]
Start = Callable[..., Any]
GATES = Path(os.environ["GATES"])
PLAIN = ("Content-Type", "text/plain")

events: list[str] = []


def wait_at(gate: str) -> None:
    """Block, with the whole loop, until the test opens the gate."""
    (GATES / f"{gate}.reached").touch()
    (GATES / gate).open().close()


class Pieces:
    """A body that is iterated, and says when it was closed."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = iter(pieces)

    def __iter__(self) -> Iterator[bytes]:
        return self.pieces

    def close(self) -> None:
        events.append("closed")


def forever() -> Iterator[bytes]:
    while True:
        yield b"x" * 65536


def faulty() -> Iterator[bytes]:
    yield b"so far"
    raise RuntimeError("in the middle")


def echo(environ: Environ) -> bytes:
    """The request as WSGI has it, as JSON."""
    shown = {key: value for key, value in environ.items() if isinstance(value, str | bool)}
    shown["body"] = environ["wsgi.input"].read().decode("latin-1")
    return json.dumps(shown).encode()


def answered(environ: Environ, start: Start) -> Iterable[bytes]:
    path, query = environ["PATH_INFO"], parse_qs(environ["QUERY_STRING"])

    def given(name: str, default: str = "") -> str:
        return query.get(name, [default])[0]

    match path.split("/")[1:]:
        case ["gate", name]:
            wait_at(name)
        case ["crash"]:
            raise RuntimeError("a secret")
        case ["named", name]:
            environ["taskpost.request_id"] = name
            raise RuntimeError
        case ["events"]:
            start("200 OK", [])
            taken = json.dumps(events).encode()
            events.clear()
            return [taken]
        case ["answer"]:
            # The status, headers, length declared and pieces that the test asks for.
            headers = [tuple(header.split(":", 1)) for header in query.get("header", [])]
            start(given("status", "200 OK"), headers)
            return [piece.encode() for piece in query.get("piece", [])]
        case ["pieces"]:
            headers = [("Content-Length", given("length"))] if given("length") else []
            start(given("status", "200 OK"), headers)
            return Pieces(piece.encode() for piece in query.get("piece", []))
        case ["large"]:
            start("200 OK", [])
            return [b"x" * int(given("size"))]
        case ["forever"]:
            start("200 OK", [])
            return Pieces(forever())
        case ["faulty"]:
            start("200 OK", [])
            return Pieces(faulty())
        case ["lazy"]:
            return lazy(start)
        case ["write"]:
            write = start("200 OK", [PLAIN])
            write(b"written, ")
            return [b"returned"]
        case ["twice"]:
            start("200 OK", [PLAIN])
            start("200 OK", [PLAIN])
        case ["again", "error"]:
            start("200 OK", [PLAIN])
            start("418 I'm a teapot", [PLAIN], (ValueError, ValueError(), None))
            return [b"instead"]
        case ["silent"]:
            return [b"no start"]
        case ["polluting"]:
            start("200 OK", [PLAIN])
            host = environ["HTTP_HOST"]
            environ["HTTP_HOST"] = environ["REQUEST_METHOD"] = "polluted"
            return [host.encode()]
        case _:
            start("200 OK", [("Content-Type", "application/json")])
            return [echo(environ)]
    start("200 OK", [PLAIN])
    return [path.encode()]


def lazy(start: Start) -> Iterator[bytes]:
    start("200 OK", [PLAIN])
    yield b""
    yield b"lazy"


def app(environ: Environ, start: Start) -> Iterable[bytes]:
    return answered(environ, start)


# --- an application that shares transactions


class Turns:
    """A transaction that is only counted. ``/fail`` makes the next commit fail."""

    def __init__(self) -> None:
        self.open = False
        self.again = False
        self.number = 0  # of the transaction
        self.gate = ""
        self.ending = "True"

    def join(self, work: Callable[[], Any]) -> Any:
        if not self.open:
            self.open = True
            self.number += 1
        return work()

    def end(self) -> bool:
        gate, self.gate = self.gate, ""
        if gate:
            wait_at(gate)
        events.append(f"end {self.number}")
        ending, self.ending = self.ending, "True"
        self.open = False
        if ending == "raise":
            raise OSError("the disk is full")
        return ending == "True"


turns = Turns()
runs = 0


def sharing(environ: Environ, start: Start) -> Iterable[bytes]:
    """``/join`` joins the turn, ``/read`` does not; both answer with the turn's number."""
    global runs
    query = parse_qs(environ["QUERY_STRING"])
    match environ["PATH_INFO"].split("/")[1:]:
        case ["join"]:
            turns.gate = query.get("gate", [turns.gate])[0]
            turns.ending = query.get("end", [turns.ending])[0]
            number = environ["taskpost.run"](lambda: turns.number)
            if "stands" in query:
                wait_at(query["stands"][0])
            start("201 Created", [])
            return [str(number).encode()]
        case ["read"]:
            start("200 OK", [])
            return [f"{turns.number} {turns.open}".encode()]
        case ["lost"]:
            turns.open = False  # as SQLite does when the disk is full
            turns.ending = "False"
            start("500 Internal Server Error", [])
            return [b"lost"]
        case ["reset"]:
            runs = 0
        case ["again", times]:
            runs += 1
            events.append(f"run {runs} in {turns.number} {environ['wsgi.input'].read().decode()}")
            environ["HTTP_HOST"] = "polluted"
            if runs <= int(times):
                turns.again = True
                if "park" in query:
                    environ["taskpost.park"](Wait("again", 30))
                start(query.get("status", ["200 OK"])[0], [])
                return [b"not this one"]
            number = environ["taskpost.run"](lambda: turns.number)
            start("201 Created", [])
            return Pieces([f"{runs} {number}".encode()])
    return answered(environ, start)


def create_sharing() -> Callable[[Environ, Start], Iterable[bytes]]:
    LoopWorker.turns = turns
    return sharing


# --- and does together what comes in one round


class Job:
    """The rest of a request; ``number`` is the turn in which it has been done with others."""

    def __init__(self, environ: Environ, start: Start) -> None:
        self.environ, self.start = environ, start
        self.number: int | None = None

    def __call__(self) -> Iterable[bytes]:
        path, query = self.environ["PATH_INFO"], self.environ["QUERY_STRING"]
        if path == "/later/crash":
            raise RuntimeError
        if self.number is not None:
            self.start("201 Created", [])
            return [f"{self.number} together".encode()]
        return sharing({**self.environ, "PATH_INFO": path[6:], "QUERY_STRING": query}, self.start)


def together(jobs: list[Job]) -> list[Job]:
    """Does ``/later/join``, but for what is to be done alone; fails where one is to fail."""
    events.append(f"{len(jobs)} together")
    if any("fail" in job.environ["QUERY_STRING"] for job in jobs):
        raise RuntimeError
    done = [job for job in jobs if not job.environ["QUERY_STRING"]]
    for job in done:
        job.number = turns.join(lambda: turns.number)
    return done


def gathering(environ: Environ, start: Start) -> Iterable[bytes]:
    """``/later/...`` is done at the end of the round, if there are several; else as ``/...``."""
    if not environ["PATH_INFO"].startswith("/later/"):
        return sharing(environ, start)
    later = environ.get("taskpost.later")
    job = Job(environ, start)
    if later is None:
        return job()
    later(job)
    return ()


def create_gathering() -> Callable[[Environ, Start], Iterable[bytes]]:
    LoopWorker.turns = turns
    LoopWorker.together = staticmethod(together)
    return gathering


# --- an application that waits


class Wait:
    """A wait on a name; ``/ring/NAME`` ends all of that name."""

    listening: ClassVar[dict[str, list["Wait"]]] = {}

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.deadline = time.monotonic() + seconds
        self.callback: Callable[[], None] | None = None

    def listen(self, callback: Callable[[], None]) -> None:
        assert self.callback is None
        self.callback = callback
        self.listening.setdefault(self.name, []).append(self)

    def cancel(self) -> None:
        self.listening[self.name].remove(self)
        events.append(f"cancelled {self.name}")

    @classmethod
    def ring(cls, name: str) -> int:
        rung = cls.listening.pop(name, [])
        for wait in rung:
            callback, wait.callback = wait.callback, None
            assert callback is not None
            callback()
        return len(rung)


mail: dict[str, list[str]] = {}


def waiting(environ: Environ, start: Start) -> Iterable[bytes]:
    """``/wait/NAME?seconds=`` waits for ``/post/NAME`` (or looks again at ``/ring/NAME``)."""
    query = parse_qs(environ["QUERY_STRING"])
    match environ["PATH_INFO"].split("/")[1:]:
        case ["wait", name]:
            events.append(f"look {environ['wsgi.input'].read().decode()}".strip())
            found = mail.get(name, [])
            again = environ.get("taskpost.waited")
            wait = again or Wait(name, float(query.get("seconds", ["30"])[0]))
            over = time.monotonic() >= wait.deadline
            if not found and not over and environ["taskpost.park"](wait):
                return [b"dropped"]
            told = {
                "found": found,
                "final": environ.get("taskpost.final", False),
                "waited": bool(again),
            }
            start("200 OK", [])
            return [json.dumps(told).encode()]
        case ["parks", "and", "crashes"]:
            environ["taskpost.park"](Wait("crash", 30))
            raise RuntimeError
        case ["post", name]:
            mail.setdefault(name, []).append("mail")
            start("200 OK", [])
            return [str(Wait.ring(name)).encode()]
        case ["ring", name]:
            start("200 OK", [])
            return [str(Wait.ring(name)).encode()]
        case ["waits"]:
            start("200 OK", [])
            return [str(sum(map(len, Wait.listening.values()))).encode()]
    return answered(environ, start)
