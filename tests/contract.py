"""Every answer of every test is held against openapi.yaml.

It is stricter than a client may be: an answer has no field and no header that
the contract does not know, its times are of the one form, its numbers fit
their formats, and a problem has a code that the contract lists for it.
"""

import re
from functools import cache
from typing import Any, NamedTuple

import yaml
from jsonschema_rs import Draft202012Validator
from werkzeug.test import TestResponse

from api.openapi import FILE

PROBLEM = "application/problem+json"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CODE = re.compile(r"^- `(\w+)`:", re.MULTILINE)
RANGES = {"int32": 2**31, "int64": 2**63}
PLAIN_HEADERS = {"content-type", "content-length"}


class Expected(NamedTuple):
    """What the contract says of one answer."""

    kinds: dict[str, Draft202012Validator | None]  # by content type; none: no body
    required: tuple[str, ...]  # headers
    allowed: frozenset[str]  # headers, in lower case
    codes: frozenset[str]  # of a problem


class Operation(NamedTuple):
    """One operation and its answers by status."""

    path: re.Pattern[str]
    answers: dict[int, Expected]


def check(method: str, path: str, response: TestResponse) -> None:
    """Fail when the answer is not what the contract says."""
    operation = find(method, path)
    answers = operation.answers if operation else _outside()
    status = response.status_code
    assert status in answers, f"{method} {path}: {status} is not in the contract: {response.text}"
    try:
        _check_headers(response, answers[status])
        if method == "HEAD" or not answers[status].kinds:
            assert not response.data, "it has a body"
        else:
            _check_body(response, answers[status])
    except Exception as error:
        error.add_note(f"{method} {path}: {response.status}\n{response.headers}{response.text}")
        raise


def find(method: str, path: str) -> Operation | None:
    """The operation of the contract that a request means, if any."""
    plain = path.partition("?")[0]
    plain = plain[:-1] if len(plain) > 1 and plain.endswith("/") else plain
    for operation in operations().get("GET" if method == "HEAD" else method, ()):
        if operation.path.fullmatch(plain):
            return operation
    return None


def _check_headers(response: TestResponse, expected: Expected) -> None:
    given = [name.lower() for name, _ in response.headers]
    assert len(given) == len(set(given)), "a header comes twice"
    for name in expected.required:
        assert name.lower() in given, f"it lacks the header {name}"
    strange = set(given) - expected.allowed - PLAIN_HEADERS
    assert not strange, f"the contract does not know the headers {strange}"
    if response.status_code == 201 and "location" in expected.allowed:
        assert response.headers["Location"].startswith("/")
    if not expected.kinds:
        assert not PLAIN_HEADERS & set(given), "its headers speak of a body"


def _check_body(response: TestResponse, expected: Expected) -> None:
    kind = response.content_type.partition(";")[0]
    assert kind in expected.kinds, f"{kind} is not in the contract"
    validator = expected.kinds[kind]
    if validator is None:
        assert response.content_type == f"{kind}; charset=utf-8" or not kind.startswith("text/")
        return
    assert response.content_type == kind
    found = _loaded(response.text) if kind == "application/yaml" else response.get_json(force=True)
    validator.validate(found)
    if kind == PROBLEM:
        _check_problem(found, response, expected)


def _check_problem(found: Any, response: TestResponse, expected: Expected) -> None:
    assert found["status"] == response.status_code >= 400
    assert found["code"] in expected.codes, f"the contract does not list {found['code']} here"
    assert found["type"] == f"urn:taskpost:problem:{found['code']}"
    assert found["request_id"] == response.headers["X-Request-Id"]
    assert found["retryable"] == ("Retry-After" in response.headers)
    assert found.get("errors") != []


@cache
def _contract() -> dict[str, Any]:
    return _loaded(FILE.read_text())


def _loaded(text: str) -> dict[str, Any]:
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def operations() -> dict[str, list[Operation]]:
    """The operations by method, those with the longest paths first."""
    found: dict[str, list[Operation]] = {}
    paths = _contract()["paths"]
    for path in sorted(paths, key=len, reverse=True):
        pattern = re.sub(r"{\w+}", "([^/]+)", path.replace("{task_id}", "(.+)"))
        for method, operation in paths[path].items():
            responses = operation["responses"].items()
            answers = {int(status): _expected(answer) for status, answer in responses}
            found.setdefault(method.upper(), []).append(Operation(re.compile(pattern), answers))
    return found


@cache
def _outside() -> dict[int, Expected]:
    """What is answered where there is no operation: OPTIONS, no such method, no such path."""
    shared = _contract()["components"]["responses"]
    refused = _expected(shared["MethodNotAllowed"])
    return {
        204: refused._replace(kinds={}),
        404: _expected(shared["NotFound"]),
        405: refused,
    }


def _expected(answer: dict[str, Any]) -> Expected:
    answer = _resolved(answer)
    headers = {name: _resolved(header) for name, header in answer["headers"].items()}
    return Expected(
        {kind: _validator(each["schema"]) for kind, each in answer.get("content", {}).items()},
        tuple(name for name, header in headers.items() if header["required"]),
        frozenset(name.lower() for name in headers),
        frozenset(CODE.findall(answer["description"])),
    )


def _resolved(part: dict[str, Any]) -> dict[str, Any]:
    """The part itself, where the contract refers to one that several answers share."""
    if "$ref" not in part:
        return part
    _, _, section, name = part["$ref"].split("/")
    return _contract()["components"][section][name]


def _validator(schema: dict[str, Any]) -> Draft202012Validator | None:
    if "$ref" in schema:
        return _named(schema["$ref"])
    return Draft202012Validator(schema) if schema["type"] == "object" else None


@cache
def _named(reference: str) -> Draft202012Validator:
    schema = {"$ref": reference, "components": {"schemas": _closed_schemas()}}
    formats = {"date-time": lambda text: bool(TIME.fullmatch(text))}
    return Draft202012Validator(schema, validate_formats=True, formats=formats)


@cache
def _closed_schemas() -> dict[str, Any]:
    return {name: _closed(each) for name, each in _contract()["components"]["schemas"].items()}


def _closed(schema: Any) -> Any:
    """The schema without room for fields it does not know, and with the ranges of its numbers."""
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    if made.get("format") in RANGES:
        most = RANGES[made["format"]]
        made.update(minimum=made.get("minimum", -most), maximum=made.get("maximum", most - 1))
    return made
