"""openapi.yaml taken apart, for the tests that look at it."""

from collections.abc import Iterator
from typing import Any

import yaml

from api import openapi

TEXT = openapi.FILE.read_text()
CONTRACT = yaml.safe_load(TEXT)
SCHEMAS = CONTRACT["components"]["schemas"]
RESPONSES = CONTRACT["components"]["responses"]
OPERATIONS = [
    (method, path, operation)
    for path, methods in CONTRACT["paths"].items()
    for method, operation in methods.items()
]


def walk(part: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the contract and where it is; not what examples hold."""
    if isinstance(part, list):
        for place, item in enumerate(part):
            yield from walk(item, f"{at}/{place}")
    if isinstance(part, dict):
        yield at, part
        for key, inner in part.items():
            if key not in ("example", "examples") or at.endswith("/properties"):
                yield from walk(inner, f"{at}/{key}")


def schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of the contract, inner ones too."""
    for at, part in walk(CONTRACT):
        parent = at.rpartition("/")[0]
        if parent.endswith(("/properties", "components/schemas")) or at.endswith(
            ("/schema", "/items", "/additionalProperties")
        ):
            yield at, part


def reached(part: Any) -> set[str]:
    """The names of the schemas that a part of the contract refers to, however indirectly."""
    found: set[str] = set()
    for _, inner in walk(part):
        name = inner.get("$ref", "").removeprefix("#/components/schemas/")
        if name in SCHEMAS and name not in found:
            found |= {name} | reached(SCHEMAS[name])
    return found


def resolved(part: dict[str, Any]) -> Any:
    """The part, or the one that it refers to."""
    found: Any = CONTRACT
    if "$ref" not in part:
        return part
    for key in part["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    return found


REQUESTED = reached([operation.get("requestBody", {}) for _, _, operation in OPERATIONS])
ANSWERED = reached([operation["responses"] for _, _, operation in OPERATIONS]) | reached(RESPONSES)
