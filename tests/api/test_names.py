"""Names: who may be called what, aliases, and who says to be whom."""

from collections.abc import Callable
from typing import Any

import pytest

from inbox import presence, turn
from models import facts
from tests.actors import Agent, Http, ok, refused

NAMES = ["a", "7", "A.b_c-d", "a" * 64, "reviewer@work3", "a" * 64 + "@" + "b" * 64]
NO_NAMES = [
    "", " ", "a b", "-a", ".a", "_a", "@a", "a@", "a@b@c", "a@-b", "a" * 65, "a@" + "b" * 65,
    "ä", "\u0430", "a\0", "a\n", "a/b", "a:b", "room:x", "a%20b", "ﬁ",
]  # fmt: skip
PLACEHOLDERS = ["{agent_id}", "<agent>", "$AGENT}", "[name]", "{{name}}"]


def test_what_may_be_a_name(http: Http, agent: Callable) -> None:
    for name in NAMES:
        assert agent(name).register()["id"] == name
        assert ok(http.get(f"/agents/{name}"))["id"] == name
        agent(name).send(name, content=name)
        assert [seen["from"] for seen in agent(name).poll()] == [name]


def test_what_may_not_be_a_name_is_refused_everywhere(http: Http) -> None:
    for name in NO_NAMES:
        for path, body in (
            ("/agents", {"id": name}),
            ("/agents", {"id": "a", "aliases": [name]}),
            ("/agents/bob/inbox", {"from": name, "type": "request"}),
            ("/messages", {"from": "a", "messages": [{"to": name, "type": "request"}]}),
        ):
            refused(http.post(path, body), 422, "invalid_request")
        for query in ({"as": name}, {"agent": name}):
            if name or "as" in query:  # an empty filter is as none
                refused(http.get("/tasks", query_string=query), 422, "invalid_request")


def test_a_name_in_the_path_that_cannot_be_one_is_refused(http: Http) -> None:
    for name in ("-a", "a@", "a" * 65, "%C3%A4", "a%00", "%20", "%FF", "a%2525"):
        for rest in ("", "/inbox", "/inbox/count"):
            assert http.get(f"/agents/{name}{rest}").status_code == 422
        assert http.post(f"/agents/{name}/inbox", {"from": "a", "type": "request"}).json["errors"]


def test_an_unfilled_placeholder_is_named_as_such(http: Http, alice: Agent) -> None:
    """Case 63."""
    for name in PLACEHOLDERS:
        for answer in (
            http.post("/agents", {"id": name}),
            http.get(f"/agents/{name}/inbox"),
            alice.try_send(name),
            alice.try_send("bob", task_id=name),
            alice.try_send_many({"to": name, "type": "request"}),
        ):
            problem = refused(answer, 422, "invalid_request")
            assert problem["errors"][0]["detail"] == "looks like an unfilled placeholder"


def test_a_case_twin_is_refused_and_named(alice: Agent, bob: Agent, agent: Callable) -> None:
    """Case 48."""
    twin = agent("Bob")
    for answer in (
        twin.http.post("/agents", {"id": "Bob"}),
        twin.http.post("/agents", {"id": "carol", "aliases": ["BOB"]}),
        twin.try_poll(),
        twin.try_send(alice),
        twin.try_send(bob),
        alice.try_send(twin),
        twin.try_ack("m0000000000000001"),
        twin.http.get("/tasks?as=Bob"),
        twin.http.get("/agents/Bob"),
    ):
        assert "bob" in refused(answer, 409, "name_differs_in_case")["detail"]
    assert [each["id"] for each in ok(alice.http.get("/agents"))["agents"]] == ["bob"]


def test_a_case_twin_of_an_alias_is_refused(alice: Agent, bob: Agent, agent: Callable) -> None:
    bob.register(aliases=["Builder"])
    refused(alice.try_send("builder"), 409, "name_differs_in_case")
    refused(agent("builder").try_poll(), 409, "name_differs_in_case")
    twins = {"id": "carol", "aliases": ["x", "X"]}
    refused(alice.http.post("/agents", twins), 409, "name_differs_in_case")
    refused(alice.http.get("/agents/carol"), 404, "agent_not_found")


def test_a_sender_is_who_it_says_it_is(alice: Agent, http: Http) -> None:
    """Case 50: in open mode, that two ways of saying it agree."""
    body = {"from": "alice", "type": "request"}
    ok(http.post("/agents/bob/inbox?as=alice", body, headers={"Taskpost-Agent": "alice"}))
    refused(http.post("/agents/bob/inbox?as=mallory", body), 403, "sender_mismatch")
    header = {"Taskpost-Agent": "mallory"}
    refused(http.post("/agents/bob/inbox", body, headers=header), 403, "sender_mismatch")
    refused(http.get("/agents/bob/inbox", headers=header), 404, "inbox_not_found")
    refused(http.post("/agents/bob/inbox", {"type": "request"}), 422, "sender_required")
    assert ok(http.post("/agents/bob/inbox?as=alice", {"type": "request"}))["from"] == "alice"


def test_the_services_own_names_and_types_are_reserved(alice: Agent, bob: Agent) -> None:
    """Case 50."""
    for name in ("postmaster", "Postmaster", "POSTMASTER"):
        refused(Agent(bob.http, name).try_send(bob), 403, "reserved")
        refused(bob.http.post("/agents", {"id": name}), 403, "reserved")
        refused(bob.http.post("/agents", {"id": "x", "aliases": [name]}), 403, "reserved")
        refused(alice.try_send(name), 422, "delivers_to_nobody")
    for type in ("name", "agent", "member", "token", "closed", "seen", "retired"):
        refused(alice.try_send(bob, type), 403, "reserved")
    assert bob.count() == 0


def test_for_an_outsider_what_exists_is_as_what_does_not(
    alice: Agent, bob: Agent, http: Http
) -> None:
    """Case 51."""
    sent = alice.send(bob, task_id="secret")

    def look(id: str, task_id: str, agent: str) -> list[Any]:
        carol = {"Taskpost-Agent": "carol"}
        answers = [
            http.get(f"/inbox/messages/{id}", headers=carol),
            http.post(f"/inbox/messages/{id}/ack", headers=carol),
            http.get(f"/tasks/{task_id}", headers=carol),
            http.get(f"/tasks/{task_id}/messages", headers=carol),
            http.post(f"/tasks/{task_id}/close", headers=carol),
            http.get(f"/agents/{agent}/inbox", headers=carol),
            http.get(f"/agents/{agent}/inbox/count", headers=carol),
            http.post("/agents/x/inbox", {"from": "carol", "type": "answer", "reply_to": id}),
        ]
        hidden = [(id, "ID"), (task_id, "TASK"), (f"inbox {agent}", "inbox AGENT")]
        problems = []
        for answer in answers:
            text = answer.text.replace(answer.json["request_id"], "")
            for given, shown in hidden:
                text = text.replace(given, shown)
            problems.append((answer.status_code, text))
        return problems

    there = look(sent["id"], "secret", "bob")
    assert there == look("m0000000000099999", "nothing", "nobody")
    assert [status for status, _ in there] == [404] * 7 + [422]
    assert Agent(http, "carol").tasks() == []
    assert bob.count() == 1


def test_an_alias_is_the_agent(alice: Agent, bob: Agent, agent: Callable, http: Http) -> None:
    bob.register(aliases=["builder", "bob@work"])
    builder = agent("builder")
    asked = alice.send(builder, task_id="t")
    assert (asked["to"], asked["recipient"]) == ("bob", {"known": True})
    assert builder.poll() == bob.poll()
    assert builder.count() == 1
    assert agent("bob@work").send(alice, "done", reply_to=asked["id"])["from"] == "bob"
    assert builder.task("t") == bob.task("t")
    assert builder.ack(asked)["status"] == "acked"
    assert ok(http.get("/agents/builder"))["id"] == "bob"


def test_mail_that_waits_under_a_name_comes_along_when_it_becomes_an_alias(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    asked = alice.send("builder", task_id="t")
    alice.send("builder", "message", task_id="t", deliver_in=60)
    bob.register(aliases=["builder"])
    assert [seen["id"] for seen in bob.poll()] == [asked["id"]]
    assert alice.task("t")["participants"] == ["alice", "bob"]
    bob.send(alice, "done", reply_to=asked["id"])
    assert alice.task("t")["state"] == "done"


def test_an_alias_that_is_given_up_is_free_and_its_mail_stays(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    bob.register(aliases=["builder", "fixer"])
    kept = alice.send("builder")
    assert bob.register(description="x")["aliases"] == ["builder", "fixer"]
    assert bob.register(aliases=["fixer"])["aliases"] == ["fixer"]
    assert alice.send("builder")["to"] == "builder"
    assert [seen["id"] for seen in bob.poll()] == [kept["id"]]
    agent("builder").register(aliases=[])
    assert agent("builder").count() == 1


def test_there_are_no_chains_and_no_borrowed_names(alice: Agent, bob: Agent, http: Http) -> None:
    alice.register(aliases=["x"])
    for id, aliases in (("bob", ["x"]), ("bob", ["alice"]), ("x", []), ("y", ["x", "z"])):
        refused(http.post("/agents", {"id": id, "aliases": aliases}), 409, "name_taken")
    assert alice.send("z")["recipient"]["known"] is False
    assert alice.register(aliases=["x", "alice", "x"])["aliases"] == ["x"]


def test_an_agent_that_was_heard_of_keeps_its_name(bob: Agent, agent: Callable) -> None:
    agent("carol").poll()
    presence.settled(turn.alone(presence.flush))
    refused(bob.http.post("/agents", {"id": "bob", "aliases": ["carol"]}), 409, "name_taken")
    refused(bob.http.post("/agents", {"id": "Carol"}), 409, "name_differs_in_case")


def test_a_retired_agents_names_are_kept_for_it(alice: Agent, bob: Agent, http: Http) -> None:
    bob.register(aliases=["builder"], description="works")
    bob.retire()
    for name in ("bob", "builder"):
        refused(alice.try_send(name), 409, "agent_retired")
    refused(http.post("/agents", {"id": "carol", "aliases": ["builder"]}), 409, "name_taken")
    assert ok(http.get("/agents"))["agents"] == []
    assert ok(http.get("/agents/builder"))["retired_at"]
    back = ok(http.post("/agents", {"id": "bob"}), 200)
    assert (back["aliases"], back["description"]) == (["builder"], "works")
    assert alice.send("builder")["to"] == "bob"
    refused(http.post("/agents/nobody/retire"), 404, "agent_not_found")


def test_a_name_that_is_given_up_at_this_moment_is_asked_for_again(
    bob: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [{}]  # what there is of the name when it is found taken: it has just gone
    names = facts.names
    monkeypatch.setattr(facts, "names", lambda *given: answers.pop() if answers else names(*given))
    assert bob.register(description="again")["description"] == "again"
    assert answers == []
