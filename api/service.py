"""The WSGI application: every request's way in and out, whatever serves it.

``answer`` takes a request that has found its route through the schemas to the
view and back. ``Service`` is around it all: the request's id, the check of
open mode, Flask's dispatch, the log line.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

import flask
import msgspec
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from api import guard, log, problems, reading
from api.call import Answer, Call
from api.routes import ROUTES, Route
from inbox import errors, presence, turn
from inbox.errors import Problem

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

Wire = tuple[int, list[tuple[str, str]], bytes]


class Service:
    """The WSGI application. ``most`` is the largest body it reads, in bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.loaded = {route.operation: _schemas(route) for route in ROUTES}
        self.flask = _flask(self)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        began = time.perf_counter()
        request_id = _request_id(environ)
        environ["taskpost.request_id"] = request_id
        environ["PATH_INFO"] = _without_slash(environ.get("PATH_INFO", ""))

        def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            headers.append(("X-Request-Id", request_id))
            log.request(environ, int(status[:3]), time.perf_counter() - began)
            return start_response(status, headers, *rest)

        return self.flask.wsgi_app(environ, started)

    def answer(self, route: Route, environ: dict[str, Any], path: dict[str, str]) -> Wire:
        """What the route has to say to a request; every problem as its document."""
        environ["taskpost.route"] = route
        try:
            if not route.about:
                guard.local(environ)
            return _wire(self._viewed(route, environ, path))
        except Problem as problem:
            return problems.document(problem, environ["taskpost.request_id"])
        except Exception as error:
            log.failure(environ, error)
            unforeseen = errors.InternalError("Something went wrong that nobody had foreseen.")
            return problems.document(unforeseen, environ["taskpost.request_id"])

    def _viewed(self, route: Route, environ: dict[str, Any], path: dict[str, str]) -> Answer:
        query_schema, body_schema = self.loaded[route.operation]
        if route.about:
            return route.view(Call(reading.NOBODY, path, {}, {}, environ))
        reading.checked_path(path)
        asked = reading.query(query_schema, environ.get("QUERY_STRING", ""))
        sent: dict[str, Any] = {}
        if body_schema is not None:
            sent = reading.document(body_schema, reading.body(environ, self.most))
        actor = reading.actor(environ, path, asked, sent, route.own)
        call = Call(actor, path, asked, sent, environ)
        work = turn.reading if route.method == "GET" else turn.alone
        answer = work(lambda: route.view(call))
        if actor.name is not None:
            presence.note(actor.realm, actor.name)
        return answer


def _schemas(route: Route) -> tuple[Any, Any]:
    return route.query(), route.body() if route.body else None


def _wire(answer: Answer) -> Wire:
    payload = answer.payload
    body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload) + b"\n"
    headers = list(answer.headers)
    if answer.status != 304:
        headers.append(("Content-Type", answer.content_type))
    return answer.status, headers, body


def _request_id(environ: dict[str, Any]) -> str:
    given = environ.get("HTTP_X_REQUEST_ID", "")
    return given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _without_slash(path: str) -> str:
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def _flask(service: Service) -> flask.Flask:
    app = flask.Flask(__name__, static_folder=None)
    app.url_map.merge_slashes = False
    for route in ROUTES:
        app.add_url_rule(
            route.pattern.replace("{task_id}", "<path:task_id>")
            .replace("{", "<")
            .replace("}", ">"),
            endpoint=route.operation,
            view_func=_view(service, route),
            methods=[route.method],
            provide_automatic_options=False,
        )
    app.register_error_handler(HTTPException, _http_error)
    return app


def _view(service: Service, route: Route) -> Callable[..., flask.Response]:
    def view(**path: str) -> flask.Response:
        return _response(service.answer(route, flask.request.environ, path))

    return view


def _response(wire: Wire) -> flask.Response:
    status, headers, body = wire
    response = flask.Response(body, status=status)
    del response.headers["Content-Type"]
    response.headers.extend(headers)
    return response


def _http_error(error: HTTPException) -> flask.Response:
    """What Flask and Werkzeug raise themselves: no such path, no such method, a bad line."""
    request_id = flask.request.environ["taskpost.request_id"]
    method, path = flask.request.method, flask.request.path
    if isinstance(error, MethodNotAllowed):
        allowed = sorted({*(error.valid_methods or ()), "OPTIONS"})
        header = ("Allow", ", ".join(allowed))
        if method == "OPTIONS":
            return _response((204, [header], b""))
        problem: Problem = errors.MethodNotAllowed(f"{method[:20]} does not go with this path.")
        status, headers, body = problems.document(problem, request_id)
        return _response((status, [*headers, header], body))
    if error.code == 404:
        problem = errors.NotFound(f"There is nothing at {path[:200]!r}.")
    else:
        phrase = HTTPStatus(error.code or 400).phrase
        problem = errors.InvalidRequest(f"The request cannot be read: {phrase}.")
    return _response(problems.document(problem, request_id))
