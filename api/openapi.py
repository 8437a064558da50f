"""The contract: ``openapi.yaml`` from the routes and the schemas.

    python -m api.openapi           writes the file
    python -m api.openapi --check   fails when the file is not what it would write

Rules that keep generators of clients working, such as that no schema is one
of several, are tests: tests/api/test_generators.py.
"""

import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema, fields

from api import (
    descriptions,
    examples,
    headers,
    problems,
    refusals,
    schemas,
    shapes,
    tidying,
    work_schemas,
    work_shapes,
)
from api import fields as ours
from api.route import Route
from api.routes import ROUTES
from api.version import VERSION
from inbox import errors, ids, names
from inbox.errors import Problem

FILE = Path(__file__).parents[1] / "openapi.yaml"
SCHEMAS = (schemas, shapes, work_schemas, work_shapes)
ALWAYS = ("X-Request-Id", "ETag", "Allow")  # where they are named, they are there
WHOLE = ("Retry-After",)
# What many operations have in common is written once.
SHARED: dict[str, tuple[type[Problem], ...]] = {
    "InvalidJson": (errors.InvalidJson,),
    "InvalidCursor": (errors.InvalidCursor,),
    "Forbidden": (errors.SenderMismatch, errors.ForeignRequest),
    "NotFound": (errors.NotFound,),
    "AgentNotFound": (errors.NotFound, errors.AgentNotFound),
    "InboxNotFound": (errors.NotFound, errors.InboxNotFound),
    "MessageNotFound": (errors.NotFound, errors.MessageNotFound),
    "TaskNotFound": (errors.NotFound, errors.TaskNotFound),
    "MethodNotAllowed": (errors.MethodNotAllowed,),
    "NameDiffersInCase": (errors.NameDiffersInCase,),
    "BodyTooLarge": (errors.BodyTooLarge,),
    "UnsupportedEncoding": (errors.UnsupportedEncoding,),
    "InvalidRequest": (errors.InvalidRequest,),
    "InternalError": (errors.InternalError,),
    "ReadUnavailable": (errors.StoreUnavailable, errors.StoreBusy),
    "WriteUnavailable": (errors.StoreUnavailable, errors.StoreBusy, errors.OutcomeUnknown),
}
EVERY = (errors.MethodNotAllowed, errors.InternalError)
CALLS = (
    errors.SenderMismatch,
    errors.ForeignRequest,
    errors.InvalidRequest,
    errors.StoreUnavailable,
    errors.StoreBusy,
)
BODIES = (errors.InvalidJson, errors.BodyTooLarge, errors.UnsupportedEncoding)


def contract() -> dict[str, Any]:
    """The whole contract as plain data."""
    plugin = MarshmallowPlugin(schema_name_resolver=_name)
    spec = APISpec(
        title="Taskpost",
        version=VERSION,
        openapi_version="3.1.0",
        plugins=[plugin],
        info={
            "summary": "An inbox for agents, over plain HTTP",
            "description": _service(),
            "contact": {"name": "The maintainers of Taskpost"},
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        servers=[{"url": "http://127.0.0.1:8080", "description": "`make run`, on this machine"}],
        tags=[{"name": tag, "description": text} for tag, text in descriptions.TAGS.items()],
        security=[],
    )
    for function in (_number, _list, _text):
        plugin.converter.add_attribute_function(function)  # type: ignore[union-attr]
    plugin.map_to_openapi_type(ours.Content, None, None)
    for name in descriptions.ANSWER_HEADERS:
        spec.components.header(name, _header(name))
    for name, kinds in SHARED.items():
        spec.components.response(name, _problem(kinds))
    for route in ROUTES:
        spec.path(path=route.pattern, operations={route.method.lower(): _operation(route)})
    return tidying.tidied(_described(spec.to_dict()))


def problems_of(route: Route) -> dict[int, tuple[type[Problem], ...]]:
    """Every problem that an operation can answer, by status."""
    found = {*EVERY, *route.problems}
    if "{" in route.pattern:
        found.add(errors.NotFound)  # an empty name
    if not route.about:
        found.update(CALLS)
    if route.body is not None:
        found.update(BODIES)
    if route.own:
        found.add(errors.InboxNotFound)
    if route.method != "GET":
        found.add(errors.OutcomeUnknown)
    statuses = sorted({problems.STATUS[kind] for kind in found})
    return {
        status: tuple(
            kind for kind in errors.ALL if kind in found and problems.STATUS[kind] == status
        )
        for status in statuses
    }


def _service() -> str:
    ours = {kind.code for kind in errors.ALL}
    refused = [code for code in refusals.PROBLEMS if code not in ours]
    told = textwrap.fill(", ".join(f"`{code}`" for code in refused), 96)
    return descriptions.SERVICE.replace("{refusals}", told)


def _name(schema: type[Schema] | Schema) -> str:
    kind = schema if isinstance(schema, type) else type(schema)
    return kind.__name__


def _number(converter: Any, field: fields.Field, **kwargs: Any) -> dict[str, Any]:
    if not isinstance(field, ours.Number):
        return {}
    kind = ("integer", "int32") if field.whole else ("number", "double")
    # A larger number is cut, so the contract does not forbid it.
    most = {} if field.cut else {"maximum": field.most}
    default = {"default": field.load_default} if isinstance(field.load_default, int) else {}
    return {"type": kind[0], "format": kind[1], "minimum": field.least, **most, **default}


def _list(converter: Any, field: fields.Field, **kwargs: Any) -> dict[str, Any]:
    if not isinstance(field, ours.Many):
        return {}
    least = {"minItems": field.least} if field.least else {}
    # Null clears, an empty list does so as well, and needs no list of types.
    return {"type": "array", **least, "maxItems": field.most}


def _text(converter: Any, field: fields.Field, **kwargs: Any) -> dict[str, Any]:
    if isinstance(field, ours.AgentName):
        return {"pattern": f"^{names.AGENT.pattern}$"}
    if isinstance(field, ours.ServiceName):
        return {"pattern": f"^{names.SERVICE_NAME.pattern}$"}
    if isinstance(field, ours.TaskId):
        return {"minLength": 1, "maxLength": names.TASK_LENGTH}
    if isinstance(field, ours.MessageId):
        return {"pattern": f"^{ids.PATTERN.pattern}$"}
    if isinstance(field, ours.Key):
        return {"minLength": 1, "maxLength": ours.KEY_LENGTH}
    return {}


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary,
        "description": descriptions.OPERATIONS[route.operation],
        "tags": [route.tag],
        "parameters": list(_parameters(route)),
        "responses": {
            **{str(status): _answer(route, status) for status in sorted(route.answers)},
            **{str(status): _shared(kinds) for status, kinds in problems_of(route).items()},
        },
    }
    if route.body is not None:
        required = any(field.required for field in route.body().fields.values())
        content = {"schema": route.body, "example": examples.REQUESTS[route.operation]}
        made["requestBody"] = {"required": required, "content": {"application/json": content}}
    return made


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", route.pattern):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": descriptions.PATH_PARAMETERS[name],
            "schema": _path_schema(name),
            "example": examples.PATH[name],
        }
    if not route.about:
        yield {"in": "query", "schema": route.query}
    for name in headers.REQUEST.get(route.operation, ()):
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "description": descriptions.REQUEST_HEADERS[name],
            "schema": {"type": "string"},
        }


def _path_schema(name: str) -> dict[str, Any]:
    kinds = {"agent": ours.AgentName, "service": ours.ServiceName, "task_id": ours.TaskId}
    field = kinds.get(name)
    return {"type": "string", **(_text(None, field()) if field else {"minLength": 1})}


def _answer(route: Route, status: int) -> dict[str, Any]:
    schema, text = route.answers[status]
    named = ("X-Request-Id", *headers.ANSWER.get(route.operation, {}).get(status, ()))
    made: dict[str, Any] = {"description": text, "headers": _headers(named)}
    if isinstance(schema, str):
        kinds = ["text/plain", "text/html"] if "browser" in text else [schema]
        # What YAML and JSON hold is read by those who check answers.
        body = {"type": "string" if schema.startswith("text/") else "object"}
        made["content"] = {kind: {"schema": body} for kind in kinds}
    elif schema is not None:
        made["content"] = {"application/json": {"schema": schema}}
        if status == next(iter(route.answers)):
            made["content"]["application/json"]["example"] = examples.ANSWERS[route.operation]
    return made


def _headers(given: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in given}


def _header(name: str) -> dict[str, Any]:
    return {
        "description": descriptions.ANSWER_HEADERS[name],
        "required": name in ALWAYS,
        "schema": {"type": "integer", "format": "int32"} if name in WHOLE else {"type": "string"},
    }


def _shared(kinds: tuple[type[Problem], ...]) -> Any:
    known = [name for name, shared in SHARED.items() if set(shared) == set(kinds)]
    return known[0] if known else _problem(kinds)


def _problem(kinds: tuple[type[Problem], ...]) -> dict[str, Any]:
    lines = [f"- `{kind.code}`: {' '.join((kind.__doc__ or '').split())}" for kind in kinds]
    named = ["X-Request-Id"]
    named += ["Allow"] if errors.MethodNotAllowed in kinds else []
    named += ["Retry-After"] if any(kind.retryable for kind in kinds) else []
    return {
        "description": "\n".join(lines).replace("``", "`") + "\n",
        "headers": _headers(named),
        "content": {problems.TYPE: {"schema": shapes.Problem}},
    }


def _described(made: dict[str, Any]) -> dict[str, Any]:
    """With the docstrings of the schemas, and the required fields in the order of all."""
    for name, schema in made["components"]["schemas"].items():
        kind = next(getattr(each, name) for each in SCHEMAS if hasattr(each, name))
        schema["description"] = " ".join((kind.__doc__ or "").split())
        if "required" in schema:
            schema["required"] = [key for key in schema["properties"] if key in schema["required"]]
    made["components"]["schemas"]["Problem"]["examples"] = [examples.PROBLEM]
    return made


def rendered() -> str:
    """The contract as the file has it."""
    return tidying.text(contract())


def main() -> int:
    """Write the file, or with ``--check`` compare it; the exit status."""
    if "--check" not in sys.argv:
        FILE.write_text(rendered())
        return 0
    if FILE.read_text() == rendered():
        return 0
    print("openapi.yaml is not what the routes and schemas say: run python -m api.openapi")
    return 1


if __name__ == "__main__":
    sys.exit(main())
