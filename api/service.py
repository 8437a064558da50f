"""The WSGI application: every request's way in and out, whatever serves it.

``Service`` gives a request its id and its log line and finds its route: the
daily ones by a look-up, all others through Flask's url map. Either way
``answer`` takes it through the schemas to the view and back.
"""

import itertools
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from api import guard, log, problems, reading, web
from api.call import Answer, Call
from api.hot import Hot
from api.problems import Wire
from api.quick import Quick
from api.route import Route
from api.routes import ROUTES
from api.waiting import Parked
from inbox import errors, presence, turn
from inbox.bell import Wait
from inbox.errors import Problem

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PROCESS = secrets.token_hex(4)
_numbers = itertools.count(1)
PARKED: Wire = (200, [], b"")  # the loop worker has taken the request over; nobody sees this


class Service:
    """The WSGI application. ``most`` is the largest body it reads, in bytes.

    ``waiters`` is how many requests may wait in threads of their own at once.
    """

    def __init__(self, most: int, waiters: int = 1) -> None:
        self.most = most
        self.waiters = threading.BoundedSemaphore(waiters)
        self.schemas = {route.operation: _schemas(route) for route in ROUTES}
        self.hot = Hot()
        self.flask = web.flask_app(self.answer)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        began = time.perf_counter()
        environ["taskpost.request_id"] = request_id = _request_id(environ)
        path = environ.get("PATH_INFO", "")
        if path[-1:] == "/" or not path:
            environ["PATH_INFO"] = path = _without_slash(path)
        found = self.hot.find(environ["REQUEST_METHOD"], path)
        if found is not None:
            job = Job(self, found[0], found[1], environ, start_response, began)
            later = environ.get("taskpost.later")
            if later is not None and found[0].together is not None:
                later(job)
                return ()
            return job()

        def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            headers.append(("X-Request-Id", request_id))
            if "taskpost.parked" not in environ:
                log.request(environ, int(status[:3]), time.perf_counter() - began)
            return start_response(status, headers, *rest)

        return self.flask.wsgi_app(environ, started)

    def answer(self, route: Route, environ: dict[str, Any], path: dict[str, str]) -> Wire:
        """What the route has to say to a request; every problem as its document."""
        environ["taskpost.route"] = route
        return _documented(environ, lambda: self._answer(route, self.call(route, environ, path)))

    def together(self, turns: turn.Shared, jobs: list["Job"]) -> list["Job"]:
        """Do jobs of one kind at once, as a part of the turn; those of them that are done.

        The others, all when something goes wrong, are to be done one by one.
        """
        done: list[Job] = []
        jobs = [job for job in jobs if job.read()]
        # Those that write first: reads are cheaper where a transaction is open already.
        kinds = {(job.route.method, job.route.operation): None for job in jobs}
        for _, operation in sorted(kinds, reverse=True):
            alike = [job for job in jobs if job.route.operation == operation]
            if len(alike) > 1:
                _answer_together(turns, alike)
                done += [job for job in alike if job.answer is not None]
        return done

    def _answer(self, route: Route, call: Call) -> Wire:
        answer = self._viewed(route, call)
        extra: tuple[tuple[str, str], ...] = ()
        if isinstance(answer, Parked):
            environ = call.headers
            park = environ.get("taskpost.park")
            if park is not None and park(answer.wait):
                environ["taskpost.parked"] = True
                return PARKED
            if park is None and (answer.brief or environ.get("wsgi.multithread")):
                answer = self._block(route, call, answer)
            if isinstance(answer, Parked):  # no place to wait in
                extra = (("Retry-After", "1"),)
                answer.wait.cancel()
                call = call._replace(wait=answer.wait, final=True)
                answer = self._viewed(route, call)
        return _wire(call, answer, extra)

    def call(self, route: Route, environ: dict[str, Any], path: dict[str, str]) -> Call:
        """A request, read and checked; raises a ``Problem`` for what is wrong with it."""
        if not route.about:
            guard.local(environ)
        query_schema, quick = self.schemas[route.operation]
        if route.about:
            return Call(reading.NOBODY, path, {}, {}, environ)
        reading.checked_path(path)
        asked = reading.query(query_schema, environ.get("QUERY_STRING", ""))
        sent: dict[str, Any] = {}
        if quick is not None:
            sent = reading.document(quick, reading.body(environ, self.most))
        actor = reading.actor(environ, path, asked, sent, route.own)
        wait, final = environ.get("taskpost.waited"), environ.get("taskpost.final", False)
        return Call(actor, path, asked, sent, environ, wait, final)

    def _viewed(self, route: Route, call: Call) -> Answer | Parked:
        if route.about:
            return route.view(call)  # also while the database is away
        if call.wait is not None:
            return _looked_again(route, call, call.wait)
        if route.method == "GET":
            return turn.reading(lambda: route.view(call))
        run = call.headers.get("taskpost.run", turn.alone)
        return run(lambda: route.view(call))

    def _block(self, route: Route, call: Call, answer: Parked) -> Answer | Parked:
        """Wait in this thread, if there is still one to spare."""
        if not self.waiters.acquire(blocking=answer.brief):
            return answer
        try:
            found: Answer | Parked = answer
            while isinstance(found, Parked):
                found.wait.block()
                found = self._viewed(route, call._replace(wait=found.wait))
            return found
        finally:
            self.waiters.release()


def _looked_again(route: Route, call: Call, wait: Wait) -> Answer | Parked:
    run = call.headers.get("taskpost.run", turn.alone) if route.takes else turn.reading
    try:
        return run(lambda: route.view(call))
    except BaseException:  # the view may not even have been called
        wait.cancel()
        raise


def _schemas(route: Route) -> tuple[Any, Any]:
    return route.query(), Quick(route.body()) if route.body else None


def _wire(call: Call, answer: Answer, extra: tuple[tuple[str, str], ...] = ()) -> Wire:
    if call.actor.name is not None:
        presence.note(call.actor.realm, call.actor.name)
    status, headers = answer.status, [*answer.headers, *extra]
    if status != 304:
        headers.append(("Content-Type", answer.content_type))
    return status, headers, problems.encoded(answer.payload)


def _documented(environ: dict[str, Any], work: Callable[[], Wire]) -> Wire:
    """What ``work`` says, or the document of its problem."""
    try:
        return work()
    except Problem as problem:
        return problems.document(problem, environ["taskpost.request_id"])
    except Exception as error:
        log.failure(error, request_id=environ["taskpost.request_id"])
        unforeseen = errors.InternalError("Something went wrong that nobody had foreseen.")
        return problems.document(unforeseen, environ["taskpost.request_id"])


class Job:
    """One request of a hot route: it is read, viewed, perhaps with others, and answered."""

    __slots__ = ("answer", "began", "call", "environ", "path", "route", "service", "start")

    def __init__(
        self,
        service: Service,
        route: Route,
        path: dict[str, str],
        environ: dict[str, Any],
        start: Callable[..., Any],
        began: float,
    ) -> None:
        environ["taskpost.route"] = route
        self.service, self.route, self.path = service, route, path
        self.environ, self.start, self.began = environ, start, began
        self.call: Call | Exception | None = None  # None until it has been read
        self.answer: Answer | None = None  # if it has been viewed together with others

    def read(self) -> bool:
        """Read the request; whether it is worth going on with."""
        try:
            self.call = self.service.call(self.route, self.environ, self.path)
        except Exception as error:
            self.call = error  # raised again where it is answered
            return False
        return True

    def __call__(self) -> Iterable[bytes]:
        environ = self.environ
        status, headers, body = _documented(environ, self._wire)
        if "taskpost.parked" not in environ:  # else it is answered when it has been looked at again
            log.request(environ, status, time.perf_counter() - self.began)
        request_id = ("X-Request-Id", environ["taskpost.request_id"])
        self.start(web.STATUS_LINES[status], [*web.length(status, body), *headers, request_id])
        return (body,)

    def _wire(self) -> Wire:
        if self.call is None:
            self.call = self.service.call(self.route, self.environ, self.path)
        if isinstance(self.call, Exception):
            raise self.call
        if self.answer is not None:
            return _wire(self.call, self.answer)
        return self.service._answer(self.route, self.call)


def _answer_together(turns: turn.Shared, jobs: list[Job]) -> None:
    """Give as many of these jobs as possible their answers."""
    view = jobs[0].route.together
    calls = [job.call for job in jobs if isinstance(job.call, Call)]
    if view is None or len(calls) < len(jobs):
        return
    run = turn.reading if jobs[0].route.method == "GET" else turns.attempt
    try:
        answers = run(lambda: view(calls))
    except Problem:
        return  # the database is away, most likely: each hears of it by itself
    except Exception as error:
        log.failure(error, request_id=jobs[0].environ["taskpost.request_id"])
        return
    for job, answer in zip(jobs, answers or (), strict=False):
        job.answer = answer


def _request_id(environ: dict[str, Any]) -> str:
    given = environ.get("HTTP_X_REQUEST_ID")
    if given and REQUEST_ID.fullmatch(given):
        return str(given)
    return f"{_PROCESS}{next(_numbers):08x}"


def _without_slash(path: str) -> str:
    return path[:-1] if len(path) > 1 else "/"
