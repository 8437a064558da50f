"""Flask's part: the url map from the table of routes, and its own errors as problems."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import flask
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import PathConverter

from api import problems
from api.problems import Wire
from api.route import Route
from api.routes import ROUTES
from inbox import errors
from inbox.errors import Problem

Answering = Callable[[Route, dict[str, Any], dict[str, str]], Wire]

STATUS_LINES = {status.value: f"{status.value} {status.phrase.upper()}" for status in HTTPStatus}


def length(status: int, body: bytes) -> list[tuple[str, str]]:
    """The header that says how long a body is, where there is one."""
    return [] if status in (204, 304) else [("Content-Length", str(len(body)))]


class TaskId(PathConverter):
    """A task id in a path: it may hold slashes, but not end as the paths below a task do."""

    regex = r"[^/].*?(?<!/messages)(?<!/close)(?<!/purge)"


def flask_app(answer: Answering) -> flask.Flask:
    """A Flask application whose every view is a route's way through ``answer``."""
    app = flask.Flask(__name__, static_folder=None)
    app.url_map.merge_slashes = False
    app.url_map.converters["task_id"] = TaskId
    for route in ROUTES:
        pattern = route.pattern.replace("{task_id}", "<task_id:task_id>")
        app.add_url_rule(
            pattern.replace("{", "<").replace("}", ">"),
            endpoint=route.operation,
            view_func=_view(answer, route),
            methods=[route.method],
            provide_automatic_options=False,
        )
    app.register_error_handler(HTTPException, _http_error)
    return app


def _view(answer: Answering, route: Route) -> Callable[..., flask.Response]:
    def view(**path: str) -> flask.Response:
        return _response(answer(route, flask.request.environ, path))

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
    elif error.code is not None and error.code >= 500:
        problem = errors.InternalError("Something went wrong that nobody had foreseen.")
    else:
        phrase = HTTPStatus(error.code or 400).phrase
        problem = errors.InvalidRequest(f"The request cannot be read: {phrase}.", hint="Mend it.")
    return _response(problems.document(problem, request_id))
