"""Tasks: what their messages say about them, who sees that, the list, and closing."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.actors import Agent, Http, ok, pages, refused


def debts(task: Any) -> list[tuple[str, str, str]]:
    """Who owes what to whom."""
    return [(owed["from"], owed["type"], owed["to"]) for owed in task["owes"]]


def test_a_task_goes_through_its_states(alice: Agent, bob: Agent, travel: Callable) -> None:
    asked = alice.send(bob, task_id="t")
    task = alice.task("t")
    assert (task["state"], debts(task)) == ("open", [("bob", "request", "alice")])
    assert (task["owes"][0]["id"], task["owes"][0]["since"]) == (asked["id"], asked["created_at"])
    travel(1)
    question = bob.send(alice, "question", reply_to=asked["id"])
    task = bob.task("t")
    assert (task["state"], task["open_questions"]) == ("waiting", [question["id"]])
    assert debts(task) == [("bob", "request", "alice"), ("alice", "question", "bob")]
    alice.send(bob, "answer", reply_to=question["id"])
    assert alice.task("t")["state"] == "open"
    bob.send(alice, "failed", reply_to=asked["id"])
    assert alice.task("t")["state"] == "failed"
    done = bob.send(alice, "done", reply_to=asked["id"])
    task = alice.task("t")
    assert (task["state"], task["owes"], task["open_questions"]) == ("done", [], [])
    assert task["by_type"] == {"request": 1, "question": 1, "answer": 1, "failed": 1, "done": 1}
    assert (task["messages"], task["unread"]) == (5, 5)
    assert (task["first_at"], task["last_at"]) == (asked["created_at"], done["created_at"])
    travel(5)
    assert alice.task("t")["last_at"] < bob.ack(asked)["acked_at"] == alice.task("t")["last_at"]
    assert alice.task("t")["unread"] == 4


def test_the_requester_may_cancel(alice: Agent, bob: Agent) -> None:
    asked = alice.send(bob, task_id="t")
    bob.send(alice, "cancel", reply_to=asked["id"])
    assert alice.task("t")["state"] == "open"
    alice.send(bob, "cancel", reply_to=asked["id"])
    assert (alice.task("t")["state"], alice.task("t")["owes"]) == ("cancelled", [])


def test_a_task_of_several_is_the_worst_of_its_requests(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    carol = agent("carol")
    alice.send(bob, task_id="t")
    alice.send(carol, task_id="t")
    carol.send(alice, "failed", task_id="t")
    bob.send(alice, "done", task_id="t")
    assert alice.task("t")["state"] == "failed"
    assert bob.task("t")["state"] == "done"  # as far as bob has a part in it
    assert carol.task("t")["participants"] == ["alice", "carol"]


def test_reading_on_shows_what_has_come_since(alice: Agent, bob: Agent) -> None:
    first = alice.send(bob, task_id="t")
    assert bob.history("t", after=first["id"]) == []
    second = bob.send(alice, "progress", task_id="t")
    alice.send(bob, task_id="other")
    assert [seen["id"] for seen in alice.history("t", after=first["id"])] == [second["id"]]
    refused(bob.try_history("nothing"), 404, "task_not_found")
    refused(bob.try_history("nothing", after=first["id"]), 404, "task_not_found")


def test_a_history_keeps_what_was_acked_and_what_has_expired(
    alice: Agent, bob: Agent, travel: Callable
) -> None:
    acked, _ = alice.send(bob, task_id="t"), alice.send(bob, task_id="t", expires_in=1)
    bob.ack(acked)
    travel(1)
    assert [seen["status"] for seen in alice.history("t")] == ["acked", "expired"]
    assert alice.task("t")["unread"] == 0


def test_a_reply_goes_to_the_task_of_what_it_answers(alice: Agent, bob: Agent) -> None:
    asked = alice.send(bob)
    assert bob.send(alice, "done", reply_to=asked["id"])["task_id"] == asked["task_id"]
    for recipient in (alice, bob):  # one that has not registered and one that has
        across = bob.try_send(recipient, "done", reply_to=asked["id"], task_id="other")
        refused(across, 422, "reply_across_tasks")


def test_a_reply_is_to_something_that_one_has_a_part_in(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    asked = alice.send(bob, task_id="t")
    carol = agent("carol")
    for id in (asked["id"], "m0000000000009999"):
        for task in ({}, {"task_id": "t"}, {"task_id": "other"}):
            for recipient in (alice, bob):
                answer = carol.try_send(recipient, "done", reply_to=id, **task)
                refused(answer, 422, "reply_not_found")
    for bad in ("x", "", 7, ["x"], "m1"):
        refused(bob.try_send(alice, "done", reply_to=bad), 422, "invalid_request")
    assert alice.send("carol", "message", reply_to=asked["id"])["task_id"] == "t"


@pytest.mark.parametrize("type", ["answer", "done", "failed", "progress", "cancel"])
def test_what_answers_something_needs_a_task(alice: Agent, bob: Agent, type: str) -> None:
    refused(alice.try_send(bob, type), 422, "task_required")
    assert alice.send(bob, type, task_id="t")["task_id"] == "t"


@pytest.mark.parametrize("type", ["request", "question", "message"])
def test_what_begins_something_gets_a_task_of_its_own(alice: Agent, bob: Agent, type: str) -> None:
    first, second = alice.send(bob, type), alice.send(bob, type)
    assert first["task_id"] != second["task_id"]
    assert alice.tasks() == [second["task_id"], first["task_id"]]


TASK_IDS = ["t", "x" * 200, "with spaces", "prüfung/1", "a:b", "😀", "?&=#%", "{", "..a", "Task-1"]
NO_TASK_IDS = ["", "x" * 201, "a\0", "a\n", "room:general", "dm:a:b", "\u202e", "{task_id}", "<id>",
               "/", "/a", "a/", "a//b", "a/messages", "a/close"]  # fmt: skip


def test_what_may_be_a_task_id(alice: Agent, bob: Agent) -> None:
    from urllib.parse import quote

    for task_id in TASK_IDS:
        alice.send(bob, task_id=task_id)
        assert [seen["task_id"] for seen in bob.poll(task_id=task_id)] == [task_id]
        assert bob.task(quote(task_id, safe=""))["task_id"] == task_id
        assert len(bob.history(quote(task_id, safe=""))) == 1
    for task_id in NO_TASK_IDS:
        refused(alice.try_send(bob, task_id=task_id), 422, "invalid_request")
    assert bob.count() == len(TASK_IDS)


def test_a_closed_task_takes_no_more_messages(alice: Agent, bob: Agent, travel: Callable) -> None:
    asked = alice.send(bob, task_id="t")
    refused(bob.try_close("t"), 403, "not_yours")
    closed = ok(alice.try_close("t"))
    assert (closed["state"], closed["closed_by"]) == ("closed", "alice")
    travel(9)
    assert ok(alice.try_close("t")) == closed
    for late in (
        bob.try_send(alice, "done", reply_to=asked["id"]),
        bob.try_send(alice, "done", task_id="t"),
        alice.try_send(bob, task_id="t"),
        alice.try_send_many({"to": "bob", "type": "request", "task_id": "t"}),
    ):
        refused(late, 409, "task_closed")
    assert [seen["id"] for seen in bob.poll()] == [asked["id"]]
    assert bob.ack(asked)["status"] == "acked"
    assert len(bob.history("t")) == 1


def test_an_outsider_and_nobody_close_nothing(alice: Agent, bob: Agent, agent: Callable) -> None:
    alice.send(bob, task_id="t")
    refused(agent("carol").try_close("t"), 404, "task_not_found")
    refused(alice.try_close("nothing"), 404, "task_not_found")
    assert alice.task("t")["state"] == "open"


def test_the_operator_sees_and_closes_everything(alice: Agent, bob: Agent, http: Http) -> None:
    sent = alice.send(bob, task_id="t")
    assert ok(http.get("/tasks"))["tasks"] == [ok(http.get("/tasks/t"))]
    assert len(ok(http.get("/tasks/t/messages"))["messages"]) == 1
    assert ok(http.get(f"/inbox/messages/{sent['id']}"))["id"] == sent["id"]
    assert ok(http.post(f"/inbox/messages/{sent['id']}/ack"))["status"] == "acked"
    assert ok(http.post("/tasks/t/close"))["closed_by"] == "postmaster"


def test_the_list_is_newest_first_and_only_of_ones_own(
    alice: Agent, bob: Agent, agent: Callable
) -> None:
    for name in ("one", "two", "three"):
        alice.send(bob, task_id=name)
    bob.send(agent("carol"), task_id="two")
    agent("carol").send("dave", task_id="four")
    assert alice.tasks() == ["three", "two", "one"]
    assert agent("carol").tasks() == ["four", "two"]
    assert agent("dave").tasks() == ["four"]
    assert agent("eve").tasks() == []
    found = pages(alice.try_tasks, "tasks", limit=2)
    assert [[task["task_id"] for task in page] for page in found] == [["three", "two"], ["one"]]
    assert found[0][0] == alice.task("three")


def test_the_list_narrows_by_state_and_agent(alice: Agent, bob: Agent, agent: Callable) -> None:
    alice.send(bob, task_id="open")
    alice.send(agent("carol"), task_id="carol")
    done = alice.send(bob, task_id="done")
    bob.send(alice, "done", reply_to=done["id"])
    alice.send(bob, "question", task_id="waiting")
    failed = alice.send(bob, task_id="failed")
    bob.send(alice, "failed", reply_to=failed["id"])
    alice.send(bob, task_id="cancelled")
    alice.send(bob, "cancel", task_id="cancelled")
    alice.send(bob, task_id="closed")
    ok(alice.try_close("closed"))
    for state in ("waiting", "done", "failed", "cancelled", "closed"):
        assert alice.tasks(state=state) == [state]
    assert alice.tasks(state="open") == ["carol", "open"]
    assert alice.tasks(state="open", agent="bob") == ["open"]
    assert alice.tasks(agent="carol") == ["carol"]
    assert alice.tasks(agent="nobody") == []
    bob.register(aliases=["robert"])
    assert alice.tasks(agent="robert", state="done") == ["done"]
    refused(alice.try_tasks(state="finished"), 422, "invalid_request")


def test_a_page_of_tasks_may_be_short_and_still_has_a_next(alice: Agent, bob: Agent) -> None:
    alice.send(bob, task_id="old")
    many = [{"to": "carol", "type": "request", "task_id": f"t{number}"} for number in range(450)]
    alice.send_many(*many)
    found = pages(bob.try_tasks, "tasks")
    assert [len(page) for page in found[:2]] == [0, 0]
    assert [task["task_id"] for page in found for task in page] == ["old"]
    everything = pages(alice.try_tasks, "tasks", limit=500)
    ids = [task["task_id"] for page in everything for task in page]
    assert ids == [f"t{number}" for number in reversed(range(450))] + ["old"]


def test_a_task_is_begun_once_whoever_writes_first(alice: Agent, bob: Agent) -> None:
    one = {"to": "bob", "type": "request", "task_id": "t"}
    alice.send_many(one, one, {**one, "task_id": "u"}, one)
    bob.send(alice, "progress", task_id="t")
    assert alice.tasks() == ["u", "t"]
    refused(bob.try_close("t"), 403, "not_yours")
