"""Agents: what they say of themselves, who is there, and when each was last heard of."""

from collections.abc import Callable
from typing import Any

from inbox import agents, presence, turn
from tests.actors import Agent, Http, ok, pages, refused

FULL = {
    "description": "German to English",
    "tags": ["text", "law"],
    "aliases": ["interpreter"],
    "status": "working",
    "activity": "reading clause 3",
}


def listed(http: Http, **query: Any) -> list[str]:
    """The names of a list."""
    return [each["id"] for each in ok(http.get("/agents", query_string=query))["agents"]]


def test_a_registration_is_new_once_and_says_where_it_is(http: Http, travel: Callable) -> None:
    first = http.post("/agents", {"id": "translator", **FULL})
    travel(60)
    again = http.post("/agents", {"id": "translator"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.headers["Location"] == again.headers["Location"] == "/agents/translator"
    assert first.json == again.json == ok(http.get("/agents/translator"))
    assert {name: first.json[name] for name in FULL} == FULL


def test_a_registration_keeps_what_it_leaves_out(agent: Callable) -> None:
    translator = agent("translator")
    translator.register(**FULL)
    for name, value in {"status": "idle", "tags": ["law"], "description": ""}.items():
        shown = translator.register(**{name: value})
        assert shown[name] == value
    assert (shown["activity"], shown["aliases"]) == (FULL["activity"], FULL["aliases"])
    assert "tags" not in translator.register(tags=[])


def test_what_an_agent_says_of_itself_comes_back_as_it_was(agent: Callable) -> None:
    odd = {"description": "a\0b\n😀\u202e", "tags": ["", "Ä", "ä"], "status": " ", "activity": "\\"}
    shown = agent("odd").register(**odd)
    assert {name: shown[name] for name in odd} == odd


def test_a_registration_has_its_limits(http: Http) -> None:
    most = {"description": "x" * 2000, "tags": ["x" * 64] * 50, "status": "x" * 64,
            "activity": "x" * 500, "aliases": [f"a{number}" for number in range(20)]}  # fmt: skip
    ok(http.post("/agents", {"id": "full", **most}), 201)
    for name, value in most.items():
        over = [*value, "z"] if isinstance(value, list) else value + "x"
        refused(http.post("/agents", {"id": "over", name: over}), 422, "invalid_request")
    refused(http.get("/agents/over"), 404, "agent_not_found")


def test_the_list_narrows_by_tag_and_by_text(http: Http, agent: Callable) -> None:
    agent("translator").register(**FULL)
    agent("lawyer").register(tags=["law"], description="reads what others do not")
    agent("Cook").register(aliases=["chef"])
    assert listed(http) == ["Cook", "lawyer", "translator"]
    assert listed(http, tag="law") == ["lawyer", "translator"]
    assert listed(http, tag="LAW") == listed(http, tag="la") == []
    assert listed(http, q="TRANS") == ["translator"]
    assert listed(http, q="inter") == listed(http, q="clause 3") == ["translator"]
    assert listed(http, q="CHEF") == listed(http, q="cook") == ["Cook"]
    assert listed(http, q="german", tag="law") == ["translator"]
    assert listed(http, q="working") == []  # a status is no text to search for
    agent("lawyer").retire()
    assert listed(http, tag="law") == ["translator"]


def test_a_narrowed_list_has_every_agent_once(
    http: Http, agent: Callable, monkeypatch: Any
) -> None:
    monkeypatch.setattr(agents, "SCAN", 4)
    monkeypatch.setattr(agents, "BATCH", 3)
    for number in range(12):
        agent(f"a{number:02}").register(tags=["odd"] if number in (1, 9, 11) else [])

    def look(**query: Any) -> Any:
        return http.get("/agents", query_string=query)

    found = pages(look, "agents", tag="odd", limit=2)
    assert [each["id"] for page in found for each in page] == ["a01", "a09", "a11"]
    assert [] in found  # nothing on the way, and still a next
    assert len([each for page in pages(look, "agents", limit=5) for each in page]) == 12


def test_an_agent_is_heard_of_when_it_does_something(
    alice: Agent, bob: Agent, travel: Callable
) -> None:
    def seen() -> str | None:
        return ok(bob.http.get("/agents/bob")).get("last_seen")

    assert seen() is None  # whoever registered it has not said to be bob
    bob.poll()
    first = seen()
    travel(5)
    alice.send(bob)
    assert seen() == first
    for happens in (bob.count, bob.tasks, lambda: bob.send(alice), lambda: bob.ack_many("x")):
        before = seen()
        travel(5)
        happens()
        assert (before or "") < (seen() or "")


def test_being_heard_of_is_written_down_and_kept(
    alice: Agent, bob: Agent, travel: Callable
) -> None:
    bob.poll()
    heard = ok(bob.http.get("/agents/bob"))["last_seen"]
    presence.settled(turn.alone(presence.flush))
    assert ok(bob.http.get("/agents/bob"))["last_seen"] == heard
    travel(60)
    presence.settled(turn.alone(presence.flush))
    assert ok(bob.http.get("/agents/bob"))["last_seen"] == heard
    assert alice.send("bob")["recipient"]["known"] is True


def test_being_heard_of_is_not_lost_when_it_could_not_be_written(bob: Agent) -> None:
    bob.poll()
    written = turn.alone(presence.flush)
    bob.poll()
    turn.alone(presence.flush)  # as when the commit has failed: nothing was settled
    assert presence.heard("default", "bob")
    presence.settled({heard: at - 1 for heard, at in written.items()})
    assert presence.heard("default", "bob")  # and not when bob did something since
    presence.settled(turn.alone(presence.flush))
    assert not presence.heard("default", "bob")


def test_a_read_writes_nothing_down(alice: Agent, bob: Agent, http: Http) -> None:
    alice.send(bob)
    before = ok(http.get("/agents/bob"))
    for path in ("/agents", "/agents/bob", "/tasks", "/health"):
        ok(http.get(path))
    assert ok(http.get("/agents/bob")) == before
