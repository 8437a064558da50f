"""openapi.yaml says what the code says, and reads well: what linters ask for, and people."""

import re

from jsonschema_rs import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from api import openapi, problems
from api.routes import ROUTES
from inbox import errors
from tests import contract
from tests.actors import Http, ok
from tests.anatomy import CONTRACT, OPERATIONS, SCHEMAS, TEXT, resolved, schemas, walk

PROBLEM = {problems.TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}


def test_it_is_what_the_routes_and_schemas_say() -> None:
    assert openapi.rendered() == TEXT, "run python -m api.openapi"


def test_the_validator_of_the_specification_finds_nothing() -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(CONTRACT).iter_errors()] == []


def test_it_is_served_as_it_is(http: Http) -> None:
    assert http.get("/openapi.yaml").text == TEXT
    assert ok(http.get("/openapi.json")) == CONTRACT


def test_it_begins_with_what_it_is() -> None:
    expected = ["openapi", "info", "servers", "tags", "security", "paths", "components"]
    assert list(CONTRACT) == expected
    assert CONTRACT["openapi"] == "3.1.0"
    assert set(CONTRACT["info"]) >= {"title", "version", "description", "contact", "license"}


def test_its_prose_can_be_read_as_it_stands() -> None:
    assert not re.search(r': "', TEXT), "a text is escaped"
    assert not re.search(r"[*&]id\d", TEXT), "YAML's aliases"
    assert "\n\n'" not in TEXT
    assert not re.search(r"[ \t]\n", TEXT)


def test_every_operation_of_the_routes_is_in_it_and_no_other() -> None:
    routes = {(route.method.lower(), route.pattern, route.operation) for route in ROUTES}
    assert {(method, path, each["operationId"]) for method, path, each in OPERATIONS} == routes


def test_every_operation_says_what_it_is() -> None:
    tags = {tag["name"]: tag["description"] for tag in CONTRACT["tags"]}
    for _, _, operation in OPERATIONS:
        (tag,) = operation["tags"]
        assert tags[tag]
        assert 5 < len(operation["summary"]) < 80
        assert not operation["summary"].endswith(".")
        assert len(operation["description"]) > 20
    assert {operation["tags"][0] for _, _, operation in OPERATIONS} == set(tags)


def test_everything_is_described() -> None:
    for at, schema in schemas():
        shown = at.rpartition("/")[0].endswith(("/properties", "components/schemas"))
        if shown and "$ref" not in schema:
            assert schema["description"], at
    parts = CONTRACT["components"]
    for part in [*parts["parameters"].values(), *parts["headers"].values()]:
        assert part["description"]
    for _, _, operation in OPERATIONS:
        for part in (*operation["parameters"], *operation["responses"].values()):
            assert resolved(part)["description"], operation["operationId"]


def test_every_operation_has_an_answer_and_problems() -> None:
    for _, _, operation in OPERATIONS:
        kinds = {status[0] for status in operation["responses"]}
        assert kinds >= {"2", "4", "5"}, operation["operationId"]
        for status, answer in operation["responses"].items():
            content = resolved(answer).get("content", {})
            if status >= "4":
                assert content == PROBLEM
            else:
                assert content or status == "304"


def test_every_problem_of_the_rules_is_an_answer_of_some_operation() -> None:
    told = {
        (code, status)
        for _, _, operation in OPERATIONS
        for status, answer in operation["responses"].items()
        for code in contract.CODE.findall(resolved(answer)["description"])
    }
    expected = {(kind.code, str(problems.STATUS[kind])) for kind in errors.ALL}
    assert told == expected


def test_every_answer_has_a_request_id() -> None:
    for _, _, operation in OPERATIONS:
        for answer in operation["responses"].values():
            assert "X-Request-Id" in resolved(answer)["headers"]


def test_headers_are_documented_where_they_come() -> None:
    found = {
        (operation["operationId"], status, name)
        for _, _, operation in OPERATIONS
        for status, answer in operation["responses"].items()
        for name in resolved(answer)["headers"]
        if name != "X-Request-Id"
    }
    assert {
        ("registerAgent", "201", "Location"),
        ("sendMessage", "201", "Location"),
        ("sendMessage", "200", "Idempotency-Replayed"),
        ("sendMessages", "200", "Idempotency-Replayed"),
        ("pollInbox", "200", "ETag"),
        ("pollInbox", "304", "ETag"),
        ("ready", "503", "Retry-After"),
        ("health", "405", "Allow"),
    } <= found


def test_path_parameters_are_those_of_the_path() -> None:
    for _, path, operation in OPERATIONS:
        given = [resolved(part) for part in operation["parameters"]]
        in_path = [part for part in given if part["in"] == "path"]
        assert [part["name"] for part in in_path] == re.findall(r"{(\w+)}", path)
        assert all(part["required"] and "example" in part for part in in_path)
        named = [(part["in"], part["name"]) for part in given]
        assert len(named) == len(set(named))
        assert not path.endswith("/") or path == "/"


def test_every_reference_leads_somewhere_and_every_component_is_used() -> None:
    used = {part["$ref"] for _, part in walk(CONTRACT) if isinstance(part.get("$ref"), str)}
    there = {
        f"#/components/{section}/{name}"
        for section, parts in CONTRACT["components"].items()
        for name in parts
    }
    assert used == there


def test_examples_are_what_they_are_examples_of() -> None:
    examples = [
        (part["schema"], part["example"])
        for _, part in walk(CONTRACT)
        if "schema" in part and "example" in part
    ]
    examples += [(SCHEMAS["Problem"], each) for each in SCHEMAS["Problem"]["examples"]]
    assert len(examples) > 25
    for schema, example in examples:
        whole = {**schema, "components": {"schemas": SCHEMAS}}
        Draft202012Validator(whole, validate_formats=True).validate(example)


def test_every_body_of_json_has_an_example() -> None:
    for _, _, operation in OPERATIONS:
        answers = [answer for status, answer in operation["responses"].items() if status < "3"]
        shown = [media for answer in answers for media in answer["content"].items()]
        assert any("example" in media for _, media in shown) or operation["tags"] == ["about"]
        for media in operation.get("requestBody", {}).get("content", {}).values():
            assert "example" in media
