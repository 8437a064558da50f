"""The documents are held against the code: settings, errors, routes, commands, links, examples."""

import json
import re
from pathlib import Path

import pytest

from api import guide, problems, refusals
from api.openapi import problems_of
from api.routes import ROUTES, Route
from inbox import errors, settings
from inbox.names import MESSAGE_TYPES

PROJECT = Path(__file__).parents[1]
PROTOCOL = PROJECT / "docs" / "protocol.md"
OPERATIONS = PROJECT / "docs" / "operations.md"
README = PROJECT / "README.md"
DOCUMENTS = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("*.md")])

ROW = re.compile(r"^\|(.*)\|$", re.MULTILINE)
VERB = re.compile(r"^### `([A-Z]+) (/\S*)`$", re.MULTILINE)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"`([a-z_]+)`")
# Folders of whoever wrote it, and places that only one machine has.
PRIVATE = re.compile(r"(?<![\w.:])/(home|root|tmp|work|Users|mnt|private)/")
GUIDED = re.compile(r"^  (GET|POST) +(/\S*)|\{base\}(/[^\s']*)", re.MULTILINE)


def _named(documents: list[Path]) -> dict[str, object]:
    return {"argvalues": documents, "ids": [path.name for path in documents]}


def _rows(text: str) -> list[list[str]]:
    """The cells of every row of every table."""
    return [[cell.strip() for cell in row.split("|")] for row in ROW.findall(text)]


def _sections() -> dict[tuple[str, str], str]:
    """The text on each verb of the protocol document, by method and pattern."""
    text = PROTOCOL.read_text()
    found = list(VERB.finditer(text))
    ends = [verb.start() for verb in found[1:]] + [len(text)]
    return {
        (verb[1], verb[2]): text[verb.end() : end].partition("\n## ")[0]
        for verb, end in zip(found, ends, strict=True)
    }


SECTIONS = _sections()


def test_every_setting_is_in_the_operations_document_as_the_code_has_it() -> None:
    written = [row for row in _rows(OPERATIONS.read_text()) if row[0].startswith("`TASKPOST_")]
    known = [
        [f"`{each.variable}`", each.type, f"`{each.default}`", each.help]
        for each in settings.SETTINGS
    ]
    assert written == known


def test_no_document_names_a_setting_that_is_not_there() -> None:
    known = {each.variable for each in settings.SETTINGS}
    for path in DOCUMENTS:
        assert set(re.findall(r"TASKPOST_[A-Z_]*[A-Z]", path.read_text())) <= known, path.name


def test_every_error_is_in_the_protocol_document_with_its_status() -> None:
    written = {
        (row[0].strip("`"), int(row[1]))
        for row in _rows(PROTOCOL.read_text())
        if len(row) == 4 and row[1].isdigit()
    }
    known = {(kind.code, problems.STATUS[kind]) for kind in errors.ALL}
    known |= {(code, int(each[0][:3])) for code, each in refusals.PROBLEMS.items()}
    assert written == known


def test_every_route_is_in_the_protocol_document_once_and_in_the_code() -> None:
    written = VERB.findall(PROTOCOL.read_text())
    assert sorted(written) == sorted((route.method, route.pattern) for route in ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=[route.operation for route in ROUTES])
def test_a_verb_has_every_answer_of_its_route_and_no_other(route: Route) -> None:
    answers = [row for row in _rows(SECTIONS[route.method, route.pattern]) if row[0][:1].isdigit()]
    assert {int(number) for row in answers for number in re.findall(r"\b\d{3}\b", row[0])} == {
        *route.answers,
        *(problems.STATUS[kind] for kind in route.problems),
        *([404] if route.own else []),
    }
    codes = {kind.code for kind in errors.ALL}
    written = {code for row in answers for code in CODE.findall("".join(row)) if code in codes}
    assert written == {
        *(kind.code for kind in route.problems),
        *([errors.InboxNotFound.code] if route.own else []),
    }


@pytest.mark.parametrize("route", ROUTES, ids=[route.operation for route in ROUTES])
def test_a_verb_names_every_field_and_parameter(route: Route) -> None:
    text = SECTIONS[route.method, route.pattern] + PROTOCOL.read_text().partition("## Agents\n")[0]
    fields = dict(route.query().fields)
    if route.body is not None:
        fields |= route.body().fields
    for name, field in fields.items():
        named = field.data_key or name
        assert re.search(rf"[`?&]{named}[`=]", text), f"{route.operation}: {named}"


def test_what_every_call_may_answer_is_told_once_for_all() -> None:
    told = PROTOCOL.read_text().partition("Every request may be answered with")[2]
    shared = set(CODE.findall(told.partition("\n\n")[0]))
    for route in ROUTES:
        own = {kind.code for kind in route.problems} | {errors.InboxNotFound.code}
        answered = {kind.code for kinds in problems_of(route).values() for kind in kinds}
        assert answered - own <= shared, route.operation


def test_every_type_of_message_is_in_the_protocol_document() -> None:
    rows = _rows(PROTOCOL.read_text().partition("Types:")[2].partition("###")[0])
    assert [row[0].strip("`") for row in rows[2:]] == list(MESSAGE_TYPES)


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\b", README.read_text()))
    assert {"run", "test"} <= named <= targets


@pytest.mark.parametrize("path", **_named(DOCUMENTS))
def test_the_links_of_a_document_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text()):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.is_relative_to(PROJECT), link
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target), link


def _anchors(path: Path) -> list[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    made: list[str] = []
    for heading in HEADING.findall(FENCE.sub("", path.read_text())):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        again = sum(each == anchor or each.startswith(f"{anchor}-") for each in made)
        made.append(f"{anchor}-{again}" if anchor in made else anchor)
    return made


@pytest.mark.parametrize("path", **_named(DOCUMENTS))
def test_the_examples_of_a_document_are_json(path: Path) -> None:
    for _, language, text in FENCE.findall(path.read_text()):
        if language == "json":
            json.loads(text)


@pytest.mark.parametrize("path", **_named(DOCUMENTS))
def test_a_document_names_no_place_of_one_machine(path: Path) -> None:
    assert not PRIVATE.findall(path.read_text())


def test_the_guide_is_short_and_names_only_routes_that_exist() -> None:
    assert len(guide.GUIDE.splitlines()) < 40
    patterns = [re.sub(r"{\w+}", "[A-Za-z]+", route.pattern) for route in ROUTES]
    named = [listed or path for _, listed, path in GUIDED.findall(guide.GUIDE)]
    assert len(named) > 10
    for path in named:
        plain = path.partition("?")[0]
        assert any(re.fullmatch(pattern, plain) for pattern in patterns), path


def test_the_guide_has_what_a_first_conversation_needs() -> None:
    for verb in ("/agents'", "/inbox'", "/inbox?wait", "/ack", "reply_to", "task_id"):
        assert verb.rstrip("'") in guide.GUIDE


def test_the_page_shows_the_guide_with_the_address_it_was_asked_at() -> None:
    page = guide.page("http://localhost:1<b>").decode()
    assert "http://localhost:1&lt;b&gt;/agents/bob/inbox" in page
    assert "{base}" not in page + guide.text("http://localhost").decode()
