"""What generators of clients need of openapi.yaml: each of these was seen to break one.

Or to make the client that came out hard to use.
"""

import re
from collections import Counter

import pytest

from inbox import names
from inbox.summary import RANK
from tests.anatomy import (
    ANSWERED,
    CONTRACT,
    OPERATIONS,
    REQUESTED,
    SCHEMAS,
    schemas,
    walk,
)


def test_no_schema_is_one_of_several() -> None:
    forbidden = {"oneOf", "anyOf", "allOf", "not", "if", "nullable", "discriminator"}
    assert [at for at, part in walk(CONTRACT) if forbidden & set(part)] == []


def test_a_type_is_one_type_or_a_string_that_a_request_may_clear() -> None:
    for at, schema in schemas():
        kind = schema.get("type", "")
        assert isinstance(kind, str) or (
            kind == ["string", "null"] and ("Register" in at or "Declare" in at)
        ), at


def test_content_is_any_json_and_may_be_left_out() -> None:
    holders = [name for name in SCHEMAS if "content" in SCHEMAS[name]["properties"]]
    assert sorted(holders) == ["BatchMessage", "Message", "SendMessage", "ServiceRequest"]
    for name in holders:
        assert list(SCHEMAS[name]["properties"]["content"]) == ["description"]
        assert "content" not in SCHEMAS[name].get("required", [])


def test_no_two_schemas_differ_by_a_word_before_or_after() -> None:
    words = ("New", "Create", "Update", "Input", "Output", "Base")
    variants = {made for name in SCHEMAS for word in words for made in (word + name, name + word)}
    assert variants & set(SCHEMAS) == set()


def test_no_schema_is_called_as_a_generator_calls_its_own() -> None:
    words = ("Request", "Response", "Responses", "Params", "Data", "Error", "Errors", "Body")
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    derived = {id[0].upper() + id[1:] + word for id in ids for word in words}
    assert derived & set(SCHEMAS) == set()


def test_no_two_components_share_a_name() -> None:
    found = [name.lower() for part in CONTRACT["components"].values() for name in part]
    assert [name for name, times in Counter(found).items() if times > 1] == []


def test_an_answer_may_have_more_fields_and_a_request_may_not() -> None:
    assert not REQUESTED & ANSWERED
    for name, schema in SCHEMAS.items():
        assert schema.get("additionalProperties", True) is (name in ANSWERED), name


def test_an_answer_has_no_enumeration() -> None:
    assert [name for name in ANSWERED for _, each in walk(SCHEMAS[name]) if "enum" in each] == []


@pytest.mark.parametrize(
    ("schema", "field", "values"),
    [
        ("Message", "type", names.MESSAGE_TYPES),
        ("Message", "status", ("unread", "acked", "dead", "expired")),
        ("Task", "state", (*RANK, "closed")),
        ("Debt", "type", ("request", "question")),
        ("AckResult", "status", ("acked", "refused")),
    ],
)
def test_the_values_of_an_answer_are_documented(
    schema: str, field: str, values: tuple[str, ...]
) -> None:
    text = SCHEMAS[schema]["properties"][field]["description"]
    assert sorted(re.findall(r"^- `(\w+)`: ", text, re.MULTILINE)) == sorted(values)


def test_a_request_enumerates_the_types_of_messages() -> None:
    for name in ("SendMessage", "BatchMessage"):
        assert SCHEMAS[name]["properties"]["type"]["enum"] == list(names.MESSAGE_TYPES)


def test_numbers_say_how_large_they_are() -> None:
    formats = {"integer": ("int32", "int64"), "number": ("double",)}
    for at, schema in schemas():
        kind = schema.get("type")
        if isinstance(kind, str) and kind in formats:
            assert schema["format"] in formats[kind], at
        if kind == "integer" and "default" in schema:
            assert type(schema["default"]) is int, at


def test_times_are_date_times() -> None:
    for at, schema in schemas():
        if at.endswith(("_at", "/since", "/last_seen")):
            assert (schema["type"], schema["format"]) == ("string", "date-time"), at


def test_operation_ids_are_unique_and_in_camel_case() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(ids) == len({each.lower() for each in ids})
    assert [each for each in ids if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", each)] == []


def test_bodies_of_json_are_named_schemas() -> None:
    for at, part in walk(CONTRACT):
        if "schema" in part and at.endswith("json") and "openapi.json" not in at:
            assert list(part["schema"]) == ["$ref"], at


def test_required_fields_are_fields() -> None:
    for name, schema in SCHEMAS.items():
        required = schema.get("required", [])
        assert required == [key for key in schema["properties"] if key in required], name
