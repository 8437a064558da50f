"""Every answer of every test is held against openapi.yaml."""

import re
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from werkzeug.test import TestResponse

from api.openapi import FILE


@cache
def _contract() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    def pattern(path: str) -> re.Pattern[str]:
        text = path.replace("{task_id}", "(.+)")
        return re.compile(re.sub(r"{\w+}", "([^/]+)", text))

    return [(pattern(path), path) for path in sorted(_contract()["paths"], key=len, reverse=True)]


def operation(method: str, path: str) -> dict[str, Any] | None:
    """The operation of the contract that a request means, if any."""
    plain = path.partition("?")[0]
    plain = plain[:-1] if len(plain) > 1 and plain.endswith("/") else plain
    for pattern, template in _paths():
        if pattern.fullmatch(plain):
            found = _contract()["paths"][template].get(
                "get" if method == "HEAD" else method.lower()
            )
            if found:
                return found
    return None


@cache
def _validator(reference: str) -> Draft202012Validator:
    schema = {"$ref": reference, "components": _contract()["components"]}
    return Draft202012Validator(schema, format_checker=FormatChecker())


def _resolved(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer itself where the contract refers to one that several operations share."""
    name = answer.get("$ref", "").removeprefix("#/components/responses/")
    return _contract()["components"]["responses"][name] if name else answer


def check(method: str, path: str, response: TestResponse) -> None:
    """Fail when the answer is not what the contract says."""
    status = response.status_code
    if status >= 400 and method != "HEAD":
        assert response.content_type == "application/problem+json", response.content_type
        _validator("#/components/schemas/Problem").validate(response.get_json(force=True))
    found = operation(method, path)
    if found is None:
        assert status in (204, 404, 405), f"{method} {path}: {response.status}"
        return
    assert str(status) in found["responses"], f"{method} {path}: {status} is not in the contract"
    content = _resolved(found["responses"][str(status)]).get("content", {})
    if not content or method == "HEAD":
        assert not response.data
        return
    kind = response.content_type.partition(";")[0]
    assert kind in content, f"{method} {path}: {kind} is not in the contract"
    schema = content[kind]["schema"]
    if "$ref" in schema:
        _validator(schema["$ref"]).validate(response.get_json(force=True))
