"""The contract: ``openapi.yaml`` from the routes and the schemas.

    python -m api.openapi           writes the file
    python -m api.openapi --check   fails when the file is not what it would write

Rules that keep generators of clients working are in docs/protocol.md; the
tests hold the file to them.
"""

import re
import sys
from pathlib import Path
from typing import Any

import yaml
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema, fields

from api import fields as ours
from api import problems, schemas
from api.routes import ROUTES, Route
from api.version import VERSION
from inbox import names

FILE = Path(__file__).parents[1] / "openapi.yaml"
DESCRIPTION = """\
An email-style, task-threaded inbox for agents. Each agent has an inbox; messages carry a
`task_id`, which threads a conversation; agents poll what is unread and acknowledge it, and what
is not acknowledged comes again. `docs/protocol.md` is the normative text.
"""
TAGS = {
    "agents": "Who takes part.",
    "inbox": "Sending, polling, acknowledging.",
    "tasks": "Threads of messages and what they say.",
    "about": "The service itself.",
}
PATH_PARAMETERS = {
    "agent": "The name of an agent; on reads an alias does as well.",
    "message": "The id of a message.",
    "task_id": "The id of a task.",
}
EXAMPLES = {
    "registerAgent": {"id": "translator", "description": "German to English", "tags": ["text"]},
    "sendMessage": {"from": "orchestrator", "type": "request", "content": {"text": "translate"}},
    "sendMessages": {
        "from": "orchestrator",
        "messages": [{"to": "translator", "type": "request", "content": "one"}],
    },
    "ackMessages": {"ids": ["m0000000000000001"]},
}
HEADERS = {
    "sendMessage": ("Idempotency-Key",),
    "sendMessages": ("Idempotency-Key",),
    "pollInbox": ("If-None-Match", "Prefer"),
}
HEADER_TEXTS = {
    "Idempotency-Key": "Sends once, however often it is repeated; 1 to 255 characters.",
    "If-None-Match": "The ETag of an earlier look: 304 when nothing has changed.",
    "Prefer": "`wait=N` means the same as the parameter.",
}


def contract() -> dict[str, Any]:
    """The whole contract as plain data."""
    plugin = MarshmallowPlugin(schema_name_resolver=_name)
    spec = APISpec(
        title="Taskpost",
        version=VERSION,
        openapi_version="3.1.0",
        plugins=[plugin],
        info={"description": DESCRIPTION, "license": {"name": "MIT", "identifier": "MIT"}},
        servers=[{"url": "http://127.0.0.1:8080", "description": "make run"}],
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        security=[],
    )
    plugin.converter.add_attribute_function(_number)  # type: ignore[union-attr]
    plugin.converter.add_attribute_function(_list)  # type: ignore[union-attr]
    plugin.converter.add_attribute_function(_text)  # type: ignore[union-attr]
    plugin.map_to_openapi_type(ours.MessageId, "string", None)
    plugin.map_to_openapi_type(ours.Content, None, None)
    for route in ROUTES:
        spec.path(path=route.pattern, operations={route.method.lower(): _operation(route)})
    return _tidied(spec.to_dict())


def _name(schema: type[Schema] | Schema) -> str:
    kind = schema if isinstance(schema, type) else type(schema)
    return kind.__name__


def _number(converter: Any, field: fields.Field, **kwargs: Any) -> dict[str, Any]:
    if not isinstance(field, ours.Number):
        return {}
    kind = {"type": "integer", "format": "int32"} if field.whole else {"type": "number"}
    # A larger number is cut, so the contract does not forbid it.
    most = {} if field.cut else {"maximum": field.most}
    return {**kind, "minimum": field.least, **most}


def _list(converter: Any, field: fields.Field, **kwargs: Any) -> dict[str, Any]:
    if not isinstance(field, ours.Many):
        return {}
    return {"minItems": field.least, "maxItems": field.most}


def _text(converter: Any, field: fields.Field, **kwargs: Any) -> dict[str, Any]:
    if isinstance(field, ours.AgentName):
        return {"pattern": f"^{names.AGENT.pattern}$"}
    if isinstance(field, ours.TaskId):
        return {"minLength": 1, "maxLength": names.TASK_LENGTH}
    if isinstance(field, ours.Key):
        return {"minLength": 1, "maxLength": 255}
    return {}


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary,
        "description": (route.view.__doc__ or "").strip(),
        "tags": [route.tag],
        "parameters": _parameters(route),
        "responses": {
            **{str(status): _response(*answer) for status, answer in route.answers.items()},
            **{str(status): _problem(status) for status in _problems(route)},
        },
    }
    if route.body is not None:
        content = {"schema": route.body}
        if route.operation in EXAMPLES:
            content["example"] = EXAMPLES[route.operation]
        required = any(field.required for field in route.body().fields.values())
        made["requestBody"] = {"required": required, "content": {"application/json": content}}
    return made


def _problems(route: Route) -> list[int]:
    if route.about:
        return [503] if route.operation == "ready" else []
    body = (400, 413, 415) if route.body else ()
    return sorted({*route.problems, *body, 403, 422, 500, 503})


def _parameters(route: Route) -> list[Any]:
    found: list[Any] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_PARAMETERS[name],
            "schema": {"type": "string"},
        }
        for name in re.findall(r"{(\w+)}", route.pattern)
    ]
    if route.about:
        return found
    found.append({"in": "query", "schema": route.query})
    found += [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": HEADER_TEXTS[name],
            "schema": {"type": "string"},
        }
        for name in HEADERS.get(route.operation, ())
    ]
    return found


def _response(schema: type[Schema] | str | None, text: str) -> dict[str, Any]:
    if schema is None:
        return {"description": text}
    if isinstance(schema, str):
        kinds = ["text/plain", "text/html"] if "browser" in text else [schema]
        body = {} if schema == "application/json" else {"type": "string"}
        return {"description": text, "content": {kind: {"schema": body} for kind in kinds}}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _problem(status: int) -> dict[str, Any]:
    codes = sorted(kind.code for kind, given in problems.STATUS.items() if given == status)
    return {
        "description": f"A problem; `code` is one of: {', '.join(codes)}.",
        "content": {problems.TYPE: {"schema": schemas.Problem}},
    }


def _tidied(found: Any) -> Any:
    """Without what apispec adds and generators stumble over."""
    if isinstance(found, list):
        return [_tidied(item) for item in found]
    if not isinstance(found, dict):
        return found
    made = {key: _tidied(value) for key, value in found.items()}
    if made.get("type") == ["string", "null"] or not isinstance(made.get("type"), list):
        return made
    # A nullable list: null clears, an empty list does so as well, and needs no list of types.
    return {**made, "type": next(kind for kind in made["type"] if kind != "null")}


def rendered() -> str:
    """The contract as the file has it."""
    return yaml.safe_dump(contract(), sort_keys=False, allow_unicode=True, width=100)


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
