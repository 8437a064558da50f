"""Pages: limits, cursors, filters, the size of a page, and what is the same as before."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from models import database
from tests.actors import Agent, Http, pages, refused

START = "m0000000000000000"


@pytest.fixture
def statements() -> Iterator[list[Any]]:
    """The statements that run."""
    seen: list[Any] = []

    def watch(statement: Any, values: Any) -> None:
        seen.append(statement)

    database.watchers.append(watch)
    yield seen
    database.watchers.remove(watch)


def fill(alice: Agent, count: int, **fields: Any) -> list[str]:
    """Send bob that many notes; their ids."""
    notes = [{"to": "bob", "type": "message", "content": n, **fields} for n in range(count)]
    return [sent["id"] for sent in alice.send_many(*notes)]


def test_pages_of_seven_show_each_message_once(alice: Agent, bob: Agent) -> None:
    """Case 43: a hundred messages of the same millisecond."""
    sent = fill(alice, 100, task_id="t")
    for look in (bob.try_poll, bob.try_history_of("t")):
        found = pages(look, limit=7)
        assert [seen["id"] for page in found for seen in page] == sent
        assert [len(page) for page in found] == [7] * 14 + [2]


def test_the_last_full_page_has_no_next(alice: Agent, bob: Agent) -> None:
    fill(alice, 14, task_id="t")
    assert [len(page) for page in pages(bob.try_poll, limit=7)] == [7, 7]
    assert [len(page) for page in pages(bob.try_history_of("t"), limit=7)] == [7, 7]


def test_acking_while_paging_hides_nothing(alice: Agent, bob: Agent) -> None:
    sent = fill(alice, 30)
    seen, after = [], START
    while page := bob.poll(limit=7, after=after):
        seen += [each["id"] for each in page]
        bob.ack_many(*page)
        after = page[-1]["id"]
    assert seen == sent


def test_a_cursor_that_is_no_id_is_refused(alice: Agent, bob: Agent) -> None:
    """Case 44."""
    alice.send(bob, task_id="t")
    for cursor in ("x", "7", "m1", "M0000000000000001", "mffffffffffffffff", "\0", "bob", "-1"):
        refused(bob.try_poll(after=cursor), 400, "invalid_cursor")
        refused(bob.try_history("t", after=cursor), 400, "invalid_cursor")
        refused(bob.try_tasks(after=cursor), 400, "invalid_cursor")


def test_a_cursor_of_another_inbox_is_just_a_place(alice: Agent, bob: Agent) -> None:
    """Case 44."""
    before, foreign, after = alice.send(bob), alice.send("carol"), alice.send(bob)
    assert [seen["id"] for seen in bob.poll(after=foreign["id"])] == [after["id"]]
    assert bob.poll(after="m7fffffffffffffff") == []
    assert [seen["id"] for seen in bob.poll(after=START)] == [before["id"], after["id"]]


def test_an_agents_cursor_is_a_name(http: Http, agent: Callable) -> None:
    for name in ("d", "a", "c", "b"):
        agent(name).register()
    found = pages(lambda **query: http.get("/agents", query_string=query), "agents", limit=2)
    assert [[each["id"] for each in page] for page in found] == [["a", "b"], ["c", "d"]]
    refused(http.get("/agents?after=a%00b"), 400, "invalid_cursor")
    refused(http.get("/agents?after=%7Bx%7D"), 400, "invalid_cursor")


def test_a_deep_inbox_costs_as_many_statements_a_page_as_a_shallow_one(
    alice: Agent, bob: Agent, statements: list[Any], store: str
) -> None:
    """Case 45: one on PostgreSQL, two on SQLite, where they cost less than one that does all.

    That each uses its index is tested with the models.
    """
    looks = 2 if store.startswith("sqlite") else 1
    for depth in (10, 500):
        fill(alice, depth)
        statements.clear()
        assert len(bob.poll(limit=10)) == 10
        assert bob.count() >= depth
        assert len(statements) == looks + 1


LIMITS = [("1", 1), ("007", 7), ("2.0", 2), ("1e1", 10), ("500", 60), ("501", 60), ("9" * 30, 60)]


def test_a_limit_above_500_is_cut_to_it(alice: Agent, bob: Agent) -> None:
    fill(alice, 60)
    for limit, shown in LIMITS:
        assert len(bob.poll(limit=limit)) == shown
    assert len(bob.poll()) == len(bob.poll(limit="")) == 50


def test_a_number_out_of_its_range_is_refused(bob: Agent, http: Http) -> None:
    no_numbers = ["-1", "x", "nan", "inf", "0x1", "1e999", "٣", "1_0", "5\0", "true"]
    for bad in ["0", "-0", "1.5", *no_numbers]:
        for path in ("/agents/bob/inbox", "/tasks", "/agents"):
            answer = http.get(path, query_string={"limit": bad})
            assert refused(answer, 422, "invalid_request")["errors"][0]["pointer"] == "?limit"
    for bad in no_numbers:
        for name in ("wait", "timeout"):
            refused(bob.try_poll(**{name: bad}), 422, "invalid_request")


def test_a_parameter_given_twice_is_refused_unless_it_may_repeat(bob: Agent, http: Http) -> None:
    for query in ("limit=1&limit=2", "status=all&status=dead", "from=a&from=b", "as=bob&as=bob2"):
        answer = http.get(f"/agents/bob/inbox?{query}")
        name = query.partition("=")[0]
        assert refused(answer, 422, "invalid_request")["errors"] == [
            {"pointer": f"?{name}", "detail": "is given twice"}
        ]
    assert bob.poll(type=["a", "b"], task_id=["a", "b"]) == []
    refused(http.get("/agents/bob/inbox?limit=2&limit=2"), 422, "invalid_request")


def test_a_page_ends_at_four_mebibytes(alice: Agent, bob: Agent) -> None:
    sent = [alice.send(bob, task_id="t", content="x" * 1_000_000)["id"] for _ in range(6)]
    for look in (bob.try_poll, bob.try_history_of("t")):
        found = pages(look)
        assert [len(page) for page in found] == [4, 2]
        assert [seen["id"] for page in found for seen in page] == sent


def test_filters_narrow_and_may_be_repeated(alice: Agent, bob: Agent, agent: Callable) -> None:
    carol = agent("carol")
    for sender in (alice, carol):
        for task_id in ("a", "b", "c"):
            sender.send(bob, "request", task_id=task_id)
            sender.send(bob, "message", task_id=task_id)

    def shown(**query: Any) -> list[str]:
        found = bob.poll(**query)
        return ["".join((seen["from"][0], seen["task_id"], seen["type"][0])) for seen in found]

    assert shown(task_id="b") == ["abr", "abm", "cbr", "cbm"]
    assert shown(task_id=["a", "c", "a"], type="request") == ["aar", "acr", "car", "ccr"]
    assert shown(type=["message", "request"], task_id="a") == ["aar", "aam", "car", "cam"]
    assert shown(**{"from": "carol", "type": "message"}) == ["cam", "cbm", "ccm"]
    assert shown(task_id="none") == shown(type="nothing") == shown(**{"from": "dave"}) == []
    found = pages(bob.try_poll, task_id=["b", "c"], limit=3)
    assert [len(page) for page in found] == [3, 3, 2]


def test_a_status_lists_what_has_it(alice: Agent, bob: Agent, travel: Callable) -> None:
    first, second, third = alice.send(bob), alice.send(bob), alice.send(bob, expires_in=1)
    bob.ack(first)
    travel(1)

    def shown(**query: Any) -> list[str]:
        return [seen["id"] for seen in bob.poll(**query)]

    assert shown() == shown(status="unread") == shown(status="") == [second["id"]]
    assert shown(status="acked") == [first["id"]]
    assert shown(status="dead") == []
    assert shown(status="all") == [first["id"], second["id"], third["id"]]
    refused(bob.try_poll(status="read"), 422, "invalid_request")


def test_an_inbox_that_has_not_changed_is_not_sent_again(alice: Agent, bob: Agent) -> None:
    sent = alice.send(bob)
    first = bob.try_poll()
    known = {"If-None-Match": first.headers["ETag"]}
    assert first.headers["ETag"].startswith('W/"')
    same = bob.try_poll(headers=known)
    assert (same.status_code, same.data) == (304, b"")
    assert same.headers["ETag"] == first.headers["ETag"]
    assert "Content-Type" not in same.headers
    for form in ("*", f'"x", {known["If-None-Match"]}', known["If-None-Match"].removeprefix("W/")):
        assert bob.try_poll(headers={"If-None-Match": form}).status_code == 304
    assert bob.try_poll(headers={"If-None-Match": '"x"'}).status_code == 200
    bob.ack(sent)
    assert bob.try_poll(headers=known).status_code == 200


Change = Callable[[Agent, Agent, list[str], Callable], Any]
CHANGES: dict[str, tuple[dict[str, Any], Change]] = {
    "mail beyond a full page": ({"limit": 2}, lambda a, b, ids, go: a.send(b)),
    "an ack on the page": ({"status": "all"}, lambda a, b, ids, go: b.ack(ids[0])),
    "an end of a delay": ({}, lambda a, b, ids, go: go(60)),
    "an expiry on the page": ({"status": "all"}, lambda a, b, ids, go: go(30)),
    "a next that was not there": (
        {"status": "all", "limit": 5},
        lambda a, b, ids, go: b.ack(a.send(b)),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_etag_tells_every_change(
    alice: Agent, bob: Agent, travel: Callable, change: str
) -> None:
    query, happens = CHANGES[change]
    ids = fill(alice, 3)
    alice.send(bob, deliver_in=60)
    alice.send(bob, expires_in=30)
    ids.append(alice.send(bob)["id"])
    known = {"If-None-Match": bob.try_poll(**query).headers["ETag"]}
    assert bob.try_poll(headers=known, **query).status_code == 304
    happens(alice, bob, ids, travel)
    assert bob.try_poll(headers=known, **query).status_code == 200
